"""Clears old results until the rest meets a target, if that saves enough: Claude Code's microcompact (R135-R144).

The target counts results alone, not the request. If a person names one, the guards do not apply (R136).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.core.edit_rules import drop_item
from ebbtide.core.offload import Form, Offloader, as_received, can_offload
from ebbtide.core.planner import PlanInput
from ebbtide.core.preset_stubs import claude_code_cleared
from ebbtide.core.stub import Template
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
    target: int = 40_000,  # tokens of results that stay (R135)
    min_saved: int = 20_000,  # tokens; with less nothing is cleared (R135)
    keep_results: int = 3,  # newest
    level: str = "warning",
    only: frozenset[str] = COMPACTABLE,
    stub: Template = claude_code_cleared,
    form: Form = as_received,
) -> Iterator[Edit]:
    """Clear the oldest results until the rest meets the target. The newest count towards it and stay (R138).

    Belongs among the passes that run on every request, because it has its own trigger.
    """
    is_requested = plan_input.target is not None
    goal = plan_input.target if plan_input.target is not None else target
    if not is_requested and not plan_input.budget.levels.is_reached(plan_input.tokens, level):
        return
    chosen = _choose(view, _uncleared(view, only), goal, keep_results)
    if not is_requested and sum(entry.tokens for entry in chosen) < min_saved:
        return
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)
    for entry in chosen:
        if can_offload(view, entry):
            yield offloader.stub_result(entry, stub, f"old results over {goal} tokens", form=form)
    if chosen:
        yield from _drop_memories(view, offloader)


def _uncleared(view: View, only: frozenset[str]) -> list[Item]:
    """Results of these tools that are not cleared."""
    return [entry for entry in view.results if tool_name(view, entry) in only and not _is_cleared(view, entry)]


def _is_cleared(view: View, entry: Item) -> bool:
    edit = view.edit_by_entry.get(entry.id)
    return edit is not None and edit.by == BY


def _choose(view: View, results: list[Item], goal: int, keep_results: int) -> list[Item]:
    """The oldest results, until the rest is within the goal (R139)."""
    remaining = sum(entry.tokens for entry in results)
    chosen: list[Item] = []
    for entry in results[: max(0, len(results) - keep_results)]:
        if remaining <= goal:
            break
        if entry.id in view.unseen_ids or entry.pinned or entry.locked:
            continue
        chosen.append(entry)
        remaining -= entry.tokens
    return chosen


def _drop_memories(view: View, offloader: Offloader) -> Iterator[Edit]:
    """Drop attached memories that the model has read (R141), without a stub: the harness attaches them again."""
    last_assistant = max((n for n, entry in enumerate(view.entries) if entry.role == "assistant"), default=0)
    for entry in view.entries[:last_assistant]:
        if entry.source == "memory" and can_offload(view, entry):
            _, blobs = offloader.save_blob("memory", entry.text)
            yield replace(drop_item(entry, by=BY, reason="old memory"), blobs=blobs)
