"""Old results go until the rest meets a target, if that is worth it: Claude Code's microcompact (R135-R144).

The target is of results alone, not of the request. With one that a person named, the guards do not apply (R136).
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.offload import Form, Offloader, as_received, can_offload
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, claude_code_cleared
from ebbtide.core.tool_calls import tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

BY = "clear_to_target"
COMPACTABLE = frozenset(("Read", "Bash", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"))
"""R135."""


def clear_to_target(
    view: View,
    plan_input: PlanInput,
    *,
    target: int = 40_000,  # tokens (R135)
    min_saved: int = 20_000,  # tokens (R135)
    keep_results: int = 3,
    level: str = "warning",
    only: frozenset[str] = COMPACTABLE,
    stub: Template = claude_code_cleared,
    form: Form = as_received,
) -> Iterator[Edit]:
    """Clear the oldest until the target is met. The newest count towards it and stay (R138).

    Belongs among the passes that run always: it has its own trigger and its own measure.
    """
    named = plan_input.target is not None
    goal = plan_input.target if plan_input.target is not None else target
    if not named and not plan_input.budget.levels.is_reached(plan_input.tokens, level):
        return
    chosen = _choose(view, _standing(view, only), goal, keep_results)
    if not named and sum(entry.tokens for entry in chosen) < min_saved:
        return
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)
    for entry in chosen:
        if can_offload(view, entry):
            yield offloader.stub_result(entry, stub, f"old results over {goal} tokens", form=form)
    if chosen:
        yield from _memories(view, offloader)


def _standing(view: View, only: frozenset[str]) -> list[Item]:
    """Results of these tools that are not cleared."""
    return [entry for entry in view.results if tool_name(view, entry) in only and not _cleared(view, entry)]


def _cleared(view: View, entry: Item) -> bool:
    owner = view.edit_by_entry.get(entry.id)
    return owner is not None and owner.by == BY


def _choose(view: View, results: list[Item], goal: int, keep_results: int) -> list[Item]:
    """Oldest first, while more than the goal is left (R139)."""
    left = sum(entry.tokens for entry in results)
    chosen: list[Item] = []
    for entry in results[: max(0, len(results) - keep_results)]:
        if left <= goal:
            break
        if entry.id in view.unseen_ids or entry.pinned or entry.locked:
            continue
        chosen.append(entry)
        left -= entry.tokens
    return chosen


def _memories(view: View, offloader: Offloader) -> Iterator[Edit]:
    """Attached memories that the model has read go with the results (R141). They have no stub: they come anew."""
    spoken = max((i for i, entry in enumerate(view.entries) if entry.role == "assistant"), default=0)
    for entry in view.entries[:spoken]:
        if entry.source == "memory" and can_offload(view, entry):
            _, blobs = offloader.save_blob("memory", entry.text)
            yield Edit(
                by=BY, first=entry.id, last=entry.id, reason="old memory", saved=max(1, entry.tokens), blobs=blobs
            )
