"""Why an edit removed what it removed, in words for people: how long ago it came, and whether it was used since.

Passes record the rule that they followed, such as "old tool result". That does not say how old, and whether anybody
missed it. The history does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.audit.history import History, Step
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tool_calls import file_path
from ebbtide.core.types import Edit, Item

_BY_AGE = frozenset({"clear_results", "prune_results", "clear_to_target", "drop_calls", "evict"})
"""Passes that choose by age alone. The others record a reason of their own."""


class _Age(NamedTuple):
    calls: int
    is_unused: bool
    """No later call names the file."""


def explain_reason(history: History, step: Step, edit: Edit) -> str:
    """Return the recorded reason; for what was removed because of its age, say how old it was and if it was used."""
    return explain_reasons(history, step, [edit])


def explain_reasons(history: History, step: Step, edits: Sequence[Edit]) -> str:
    """Return the reason that several edits have in common, with the range of their ages."""
    ages = [age for edit in edits if (age := _age_of(history, step, edit))]
    if len(ages) < len(edits):
        return edits[0].reason
    least, most = min(age.calls for age in ages), max(age.calls for age in ages)
    calls = pluralize(most, "call") if least == most else f"{least:,} to {pluralize(most, 'call')}"
    return f"not used for {calls}" if all(age.is_unused for age in ages) else f"{calls} old"


def _age_of(history: History, step: Step, edit: Edit) -> _Age | None:
    """None if the edit has its own reason, or the history does not say how old its items were."""
    items = step.covered_items(edit)
    if edit.by not in _BY_AGE or not items:
        return None
    newest = items[-1]
    calls = _calls_with(history, step, newest)
    call = newest if newest.kind == "call" else step.find_call(newest) if newest.kind == "result" else None
    path = file_path(call) if call is not None else ""
    return _Age(calls, bool(path) and not step.is_file_used_after(path, newest)) if calls else None


def _calls_with(history: History, step: Step, item: Item) -> int:
    """Count the calls before this one that had the item, without a break."""
    calls = 0
    for turn in reversed(history.turns[: step.turn.number - 1]):
        if len(turn.path) <= item.message:
            break
        calls += 1
    return calls
