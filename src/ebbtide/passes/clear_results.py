"""Replaces old tool results by stubs, oldest first. The call stays, so the model can run it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ebbtide.core.offload import Offloader, can_offload, newest_turns, no_preview
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.tool_calls import PROTECTED, tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.facts.names import SalientLines


def clear_results(
    view: View,
    plan_input: PlanInput,
    *,
    keep_results: int = 3,  # newest results of these tools
    keep_turns: int = 0,  # newest user turns
    keep_tokens: int = 0,  # newest tokens of results of these tools
    min_tokens: int = 100,  # a stub takes about 30: clearing less saves little and costs a look-up
    only: frozenset[str] | None = None,  # tools to clear; all by default
    never: frozenset[str] = PROTECTED,  # tools to leave alone
    telling: float = 0.0,  # share of a result that may stay, as its most salient lines
    telling_tokens: int = 1_200,  # the same in tokens, at most; less in a window below 192k
    stub: Template = render,
) -> Iterator[Edit]:
    """Clear old results. A result stays if any of the rules keeps it, or if it has `min_tokens` or fewer."""

    def is_selected(result: Item) -> bool:
        tool = tool_name(view, result)
        return tool not in never and (only is None or tool in only)

    first_kept = newest_turns(view, keep_turns)
    results = _old_results(view, keep_results, keep_tokens, first_kept, is_selected, min_tokens)
    cleared_ids = {result.id for result in results}
    # Names in thinking do not count: a batch of edits drops the thinking too.
    stays = (entry for entry in view.entries if entry.kind != "thinking" and entry.id not in cleared_ids)
    salient = SalientLines.beside_entries(stays) if telling and results else SalientLines()
    offloader = Offloader(by="clear_results", view=view, plan_input=plan_input)
    for result in results:
        max_tokens = min(telling_tokens, plan_input.budget.window // 160, int(telling * result.tokens))
        preview = partial(salient.select, max_tokens=max_tokens) if telling else no_preview
        yield offloader.stub_result(result, stub, "old tool result", preview=preview)


def _old_results(
    view: View,
    keep_results: int,
    keep_tokens: int,
    first_kept: int,
    is_selected: Callable[[Item], bool],
    min_tokens: int,
) -> list[Item]:
    """Large results that no rule keeps, oldest first. Cleared ones count among the newest, too."""
    # A policy may run this on every request: go back no further than the oldest result that is large enough.
    large = [n for n, entry in enumerate(view.entries) if entry.tokens > min_tokens and entry.kind == "result"]
    old = list[Item]()
    newer_results = newer_tokens = 0
    for n in range(len(view.entries) - 1, large[0] - 1, -1) if large else ():
        entry = view.entries[n]
        if entry.kind != "result" or not is_selected(entry):
            continue
        newer_results += 1
        newer_tokens += entry.tokens
        is_kept = newer_results <= keep_results or newer_tokens <= keep_tokens or n >= first_kept
        if not is_kept and entry.tokens > min_tokens and can_offload(view, entry):
            old.append(entry)
    return old[::-1]
