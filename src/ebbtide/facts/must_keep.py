"""What must not be lost: a summary contains it, or the fold shows it beside the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ebbtide.facts.lines import one_line
from ebbtide.facts.model import Ledger
from ebbtide.facts.paths import base_name

_TROUBLES = 5
"""Open errors that count: the work stands on the newest, older ones were mostly given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing, and the ways it may be put."""

    kind: str
    """`changed`, `deleted`, `todo`, `error` or `running`."""
    text: str
    """As a person would read it."""
    names: tuple[str, ...]
    """It is present where any of these is, case aside."""


def must_survive(ledger: Ledger) -> tuple[Fact, ...]:
    """Files the session touched, open to-dos, the newest open errors, what is running."""
    touched = [fact for fact in ledger.files.values() if fact.touched]
    bases = [base_name(fact.path) for fact in touched]
    found, alike = [], Counter(bases)
    for fact, base in zip(touched, bases, strict=True):
        kind = "deleted" if fact.deleted == fact.newest else "changed"
        names = (fact.path,) if alike[base] > 1 else (fact.path, base)
        found.append(Fact(kind=kind, text=fact.path, names=names))
    found += [_fact("todo", todo.text, todo.text) for todo in ledger.todos.values() if todo.open]
    opened = [trouble for trouble in ledger.troubles if trouble.ended < 0][-_TROUBLES:]
    found += [_fact("error", f"{trouble.about}: {trouble.line}", trouble.line, trouble.about) for trouble in opened]
    found += [_fact("running", one.what, one.handle, one.what) for one in ledger.running]
    return tuple(found)


def missing(facts: Iterable[Fact], text: str) -> tuple[Fact, ...]:
    """Those that the text does not name."""
    folded = text.casefold()
    return tuple(fact for fact in facts if not any(name.casefold() in folded for name in fact.names))


def _fact(kind: str, text: str, *names: str) -> Fact:
    # As `render` would show it, and as it stands.
    ways = dict.fromkeys(way for name in names if name.strip() for way in (name, one_line(name, 120)))
    return Fact(kind=kind, text=one_line(text, 240), names=tuple(ways) or (text,))
