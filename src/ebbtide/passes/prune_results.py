"""Results beyond the newest turns and the newest 40,000 tokens are marked as gone: OpenCode's prune (R153-R155)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from ebbtide.core.content import tool_of
from ebbtide.core.engine import Situation
from ebbtide.core.leaving import Leaving, may_leave, newest
from ebbtide.core.stub import Template, opencode_cleared
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View

BY = "prune_results"


def prune_results(
    view: View,
    situation: Situation,
    *,
    keep_turns: int = 2,
    keep_tokens: int = 40_000,
    min_saved: int = 20_000,  # tokens; it must free more than this (R153)
    never: frozenset[str] = frozenset(("skill",)),
    stub: Template = opencode_cleared,
) -> Iterator[Edit]:
    """Prune, if it frees enough. Walks back to the last summary or to what it pruned before, and no further."""
    found, tokens = _old(view, keep_turns, keep_tokens, never)
    if tokens <= min_saved:
        return
    old = [entry for entry in found if may_leave(view, entry)]
    if sum(entry.tokens for entry in old) <= min_saved:
        return
    leaving = Leaving(by=BY, view=view, situation=situation)
    for entry in old:
        yield leaving.result(entry, stub, f"older than {keep_turns} turns and {keep_tokens} tokens")


def _old(view: View, keep_turns: int, keep_tokens: int, never: frozenset[str]) -> tuple[list[Item], int]:
    """Oldest first, and their tokens. Calls without a result have nothing here to prune (R155)."""

    def counts(entry: Item) -> bool:
        return entry.kind == "result" and not _stops(view, entry) and tool_of(view, entry) not in never

    results = view.picked((BY, never), counts)
    before = newest(view, keep_turns)
    stops = view.picked((BY, "stops"), lambda entry: _stops(view, entry))
    stop = stops.before(before)
    first = results.before(stops.places[stop - 1]) if stop else 0
    end = results.before(before)
    # Those whose own tokens and all newer ones are more than what is kept.
    over = results.tokens[end - 1] - keep_tokens if end else 0
    last = min(end, bisect_left(results.tokens, over, 0, end) + 1) if over > 0 else 0
    if first >= last:
        return [], 0
    return results.entries[first:last], results.tokens[last - 1] - (results.tokens[first - 1] if first else 0)


def _stops(view: View, entry: Item) -> bool:
    owner = view.owner.get(entry.id)
    pruned = entry.kind == "result" and owner is not None and owner.by == BY
    # A stand-in for several items is a summary.
    summary = entry.kind == "text" and owner is not None and owner.first != owner.last
    return pruned or summary
