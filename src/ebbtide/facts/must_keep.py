"""What must not be lost: a summary contains it, or the fold shows it beside the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ebbtide.facts.lines import to_one_line
from ebbtide.facts.model import SessionFacts
from ebbtide.facts.paths import base_name

_TROUBLES = 5
"""Open errors that count: the work stands on the newest, older ones were mostly given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredFact:
    """One thing, and the ways it may be put."""

    kind: str
    """`changed`, `deleted`, `todo`, `error` or `running`."""
    text: str
    """As a person would read it."""
    names: tuple[str, ...]
    """It is present where any of these is, case aside."""


def required_facts(ledger: SessionFacts) -> tuple[RequiredFact, ...]:
    """Files the session touched, open to-dos, the newest open errors, what is running."""
    touched = [fact for fact in ledger.files.values() if fact.is_modified]
    bases = [base_name(fact.path) for fact in touched]
    found, alike = [], Counter(bases)
    for fact, base in zip(touched, bases, strict=True):
        kind = "deleted" if fact.deleted_at == fact.last_touched else "changed"
        names = (fact.path,) if alike[base] > 1 else (fact.path, base)
        found.append(RequiredFact(kind=kind, text=fact.path, names=names))
    found += [_fact("todo", todo.text, todo.text) for todo in ledger.todos.values() if todo.is_open]
    opened = [trouble for trouble in ledger.failures if trouble.resolved_at < 0][-_TROUBLES:]
    found += [_fact("error", f"{trouble.about}: {trouble.line}", trouble.line, trouble.about) for trouble in opened]
    found += [_fact("running", one.description, one.handle, one.description) for one in ledger.running_tasks]
    return tuple(found)


def find_missing(facts: Iterable[RequiredFact], text: str) -> tuple[RequiredFact, ...]:
    """Those that the text does not name."""
    folded = text.casefold()
    return tuple(fact for fact in facts if not any(name.casefold() in folded for name in fact.names))


def _fact(kind: str, text: str, *names: str) -> RequiredFact:
    # As `render` would show it, and as it stands.
    ways = dict.fromkeys(way for name in names if name.strip() for way in (name, to_one_line(name, 120)))
    return RequiredFact(kind=kind, text=to_one_line(text, 240), names=tuple(ways) or (text,))
