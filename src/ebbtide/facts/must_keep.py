"""Facts that a compaction must not lose: the summary names them, or they are listed beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ebbtide.facts.model import SessionFacts
from ebbtide.facts.text import base_name, to_one_line

_MAX_FAILURES = 5
"""Newest open errors. Older ones were mostly given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredFact:
    """A fact, and the names by which a text may mention it."""

    kind: str
    """`changed`, `deleted`, `todo`, `error` or `running`."""
    text: str
    names: tuple[str, ...]
    """The fact is present where any of these is, ignoring case."""


def required_facts(facts: SessionFacts) -> tuple[RequiredFact, ...]:
    """Modified files, open to-dos, the newest open errors, running tasks."""
    modified = [fact for fact in facts.files.values() if fact.is_modified]
    bases = [base_name(fact.path) for fact in modified]
    base_counts = Counter(bases)
    required: list[RequiredFact] = []
    for fact, base in zip(modified, bases, strict=True):
        kind = "deleted" if fact.deleted_at == fact.last_touched else "changed"
        names = (fact.path,) if base_counts[base] > 1 else (fact.path, base)
        required.append(RequiredFact(kind=kind, text=fact.path, names=names))
    required += [_required("todo", todo.text, todo.text) for todo in facts.todos.values() if todo.is_open]
    for failure in [failure for failure in facts.failures if failure.resolved_at < 0][-_MAX_FAILURES:]:
        required.append(_required("error", f"{failure.about}: {failure.line}", failure.line, failure.about))
    for task in facts.running_tasks:
        required.append(_required("running", task.description, task.handle, task.description))
    return tuple(required)


def find_missing(required: Iterable[RequiredFact], text: str) -> tuple[RequiredFact, ...]:
    """The facts that the text does not mention."""
    lowered = text.casefold()
    return tuple(fact for fact in required if not any(name.casefold() in lowered for name in fact.names))


def _required(kind: str, text: str, *names: str) -> RequiredFact:
    # In full, and shortened as `render_facts` shows it.
    spellings = dict.fromkeys(form for name in names if name.strip() for form in (name, to_one_line(name, 120)))
    return RequiredFact(kind=kind, text=to_one_line(text, 240), names=tuple(spellings) or (text,))
