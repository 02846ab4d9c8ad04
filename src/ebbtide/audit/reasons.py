"""Why an edit removed what it removed, in words for people: how long ago it came, and whether it was used since.

Passes record the rule that they followed, such as "old tool result". That does not say how old, and whether anybody
missed it. The history does.
"""

from __future__ import annotations

from ebbtide.audit.history import History, Step
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tool_calls import file_path
from ebbtide.core.types import Edit, Item

_BY_AGE = frozenset({"clear_results", "prune_results", "clear_to_target", "drop_calls", "evict"})
"""Passes that choose by age alone. The others record a reason of their own."""


def explain_reason(history: History, step: Step, edit: Edit) -> str:
    """Return the recorded reason; for what was removed because of its age, say how old it was and if it was used."""
    items = step.covered_items(edit)
    if edit.by not in _BY_AGE or not items:
        return edit.reason
    newest = items[-1]
    calls = _calls_with(history, step, newest)
    if not calls:
        return edit.reason
    age = pluralize(calls, "call")
    call = newest if newest.kind == "call" else step.find_call(newest) if newest.kind == "result" else None
    path = file_path(call) if call is not None else ""
    if path and not step.is_file_used_after(path, newest):
        return f"not used for {age}"
    return f"{age} old"


def _calls_with(history: History, step: Step, item: Item) -> int:
    """Count the calls before this one that had the item, without a break."""
    calls = 0
    for turn in reversed(history.turns[: step.turn.number - 1]):
        if len(turn.path) <= item.message:
            break
        calls += 1
    return calls
