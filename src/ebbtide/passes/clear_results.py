"""Old results become stubs, oldest first. The call stays, so the model knows what it did and can do it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ebbtide.core.offload import Offloader, can_offload, newest_turns
from ebbtide.core.planner import PlanInput
from ebbtide.core.stub import Template, render
from ebbtide.core.text.preview import Count
from ebbtide.core.tool_calls import PROTECTED, tool_name
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.facts.salient_lines import SalientLines

BY = "clear_results"


def clear_results(
    view: View,
    plan_input: PlanInput,
    *,
    keep_results: int = 3,  # newest of the tools below
    keep_turns: int = 0,
    keep_tokens: int = 0,
    min_tokens: int = 100,  # a stub takes about 30: clearing less saves little and costs a look-up
    only: frozenset[str] | None = None,
    never: frozenset[str] = PROTECTED,
    telling: float = 0.0,  # share of a result that may stay, as its most telling lines
    telling_tokens: int = 1_200,  # the same in tokens, at most; in a window below 192k less
    stub: Template = render,
) -> Iterator[Edit]:
    """Clear what no rule keeps: a result stays if any of the rules says so, or if it has `min_tokens` or fewer."""
    offloader = Offloader(by=BY, view=view, plan_input=plan_input)

    def selected(result: Item) -> bool:
        tool = tool_name(view, result)
        return tool not in never and (only is None or tool in only)

    old = _old_results(view, keep_results, keep_tokens, newest_turns(view, keep_turns), selected, min_tokens)
    told = _told(view, old) if telling and old else None
    for entry in old:
        if told is None:
            yield offloader.stub_result(entry, stub, "old result")
            continue
        most = min(telling_tokens, plan_input.budget.window // 160, int(telling * entry.tokens))
        yield offloader.stub_result(entry, stub, "old result", preview=partial(_shown, told, most))


def _told(view: View, leaves: list[Item]) -> SalientLines:
    """What the request says besides the results that leave. Thinking does not count: it goes with a batch."""
    gone = {entry.id for entry in leaves}
    return SalientLines.beside_entries(
        entry for entry in view.entries if entry.kind != "thinking" and entry.id not in gone
    )


def _shown(told: SalientLines, most: int, text: str, count: Count) -> str:
    return told.select(text, count, most)


def _old_results(
    view: View, keep_results: int, keep_tokens: int, first_kept: int, selected: Callable[[Item], bool], min_tokens: int
) -> list[Item]:
    """Large results that no rule keeps, oldest first. Cleared ones count among the newest, too."""
    # A policy may run this on every turn: go back no further than the oldest result that is large enough.
    large = [n for n, entry in enumerate(view.entries) if entry.tokens > min_tokens and entry.kind == "result"]
    old = list[Item]()
    newest_results = newest_tokens = 0
    for place in range(len(view.entries) - 1, large[0] - 1, -1) if large else ():
        entry = view.entries[place]
        if entry.kind != "result" or not selected(entry):
            continue
        newest_results += 1
        newest_tokens += entry.tokens
        is_kept = newest_results <= keep_results or newest_tokens <= keep_tokens or place >= first_kept
        if not is_kept and entry.tokens > min_tokens and can_offload(view, entry):
            old.append(entry)
    return old[::-1]
