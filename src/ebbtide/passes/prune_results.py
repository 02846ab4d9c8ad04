"""Results beyond the newest turns and the newest 40,000 tokens are marked as gone: OpenCode's prune (R153-R155)."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.offload import Offloader, can_offload, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, opencode_cleared
from ebbtide.core.tool_calls import tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

BY = "prune_results"


def prune_results(
    view: View,
    plan_input: PlanInput,
    *,
    keep_turns: int = 2,
    keep_tokens: int = 40_000,
    min_saved: int = 20_000,  # tokens; it must free more than this (R153)
    never: frozenset[str] = frozenset(("skill",)),
    stub: Template = opencode_cleared,
) -> Iterator[Edit]:
    """Prune, if it frees enough. Walks back to the last summary or to what it pruned before, and no further."""
    if view.tokens <= max(keep_tokens, min_saved):
        return  # too little in all: do not walk through it on every turn
    old = _old(view, keep_turns, keep_tokens, never)
    if sum(entry.tokens for entry in old) <= min_saved:
        return
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)
    for entry in old:
        yield offloader.stub_result(entry, stub, f"older than {keep_turns} turns and {keep_tokens} tokens")


def _old(view: View, keep_turns: int, keep_tokens: int, never: frozenset[str]) -> list[Item]:
    """Results to prune, oldest first. Calls without a result have nothing here to prune (R155)."""
    old = list[Item]()
    newest_tokens = 0
    for entry in reversed(view.entries[: newest_turns(view, keep_turns)]):
        if _stops(view, entry):
            break
        if entry.kind != "result" or tool_name(view, entry) in never:
            continue
        newest_tokens += entry.tokens
        if newest_tokens > keep_tokens and can_offload(view, entry):
            old.append(entry)
    return old[::-1]


def _stops(view: View, entry: Item) -> bool:
    owner = view.edit_by_entry.get(entry.id)
    pruned = entry.kind == "result" and owner is not None and owner.by == BY
    # A stand-in for several items is a summary.
    summary = entry.kind == "text" and owner is not None and owner.first != owner.last
    return pruned or summary
