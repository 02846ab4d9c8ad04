"""Clears results before the newest turns and the newest 40,000 tokens of results: OpenCode's prune (R153-R155)."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.offload import Offloader, can_offload, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.preset_stubs import opencode_cleared
from ebbtide.core.stub import Template
from ebbtide.core.tool_calls import tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

BY = "prune_results"


def prune_results(
    view: View,
    plan_input: PlanInput,
    *,
    keep_turns: int = 2,  # newest user turns
    keep_tokens: int = 40_000,  # newest tokens of results before these turns
    min_saved: int = 20_000,  # tokens; it must free more than this (R153)
    never: frozenset[str] = frozenset(("skill",)),
    stub: Template = opencode_cleared,
) -> Iterator[Edit]:
    """Clear old results if that frees enough, back to the last summary or the last result pruned before."""
    if view.tokens <= max(keep_tokens, min_saved):
        return  # too little to look at it on every request
    old = _old_results(view, keep_turns, keep_tokens, never)
    if sum(entry.tokens for entry in old) <= min_saved:
        return
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)
    for entry in old:
        yield offloader.stub_result(entry, stub, f"older than {keep_turns} turns and {keep_tokens} tokens")


def _old_results(view: View, keep_turns: int, keep_tokens: int, never: frozenset[str]) -> list[Item]:
    """Results to prune, oldest first. Calls without a result have nothing to prune (R155)."""
    old = list[Item]()
    newest_tokens = 0
    for entry in reversed(view.entries[: newest_turns(view, keep_turns)]):
        if _is_end(view, entry):
            break
        if entry.kind != "result" or tool_name(view, entry) in never:
            continue
        newest_tokens += entry.tokens
        if newest_tokens > keep_tokens and can_offload(view, entry):
            old.append(entry)
    return old[::-1]


def _is_end(view: View, entry: Item) -> bool:
    edit = view.edit_by_entry.get(entry.id)
    is_pruned = entry.kind == "result" and edit is not None and edit.by == BY
    # A text that replaces several items is a summary.
    is_summary = entry.kind == "text" and edit is not None and edit.first != edit.last
    return is_pruned or is_summary
