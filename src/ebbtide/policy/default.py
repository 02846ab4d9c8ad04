"""Our own policy. Its numbers were searched for by replay of recorded sessions (`benchmarks/search.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ebbtide.core.planner import PlanInput, Thresholds
from ebbtide.core.text.preview import essence
from ebbtide.core.types import Edit, Question
from ebbtide.core.view import View
from ebbtide.facts.salient_lines import SalientLines
from ebbtide.passes import (
    clear_media,
    clear_results,
    drop_calls,
    fold_to_fit,
    offload_input,
    offload_results,
    shorten_text,
    snip_results,
    strip_thinking,
    summarize,
)
from ebbtide.policy.fallback import evict_oldest
from ebbtide.policy.levels import LevelRule
from ebbtide.policy.model import Policy

# How these were found, and what each buys: docs/explanation/default.md.

_LARGE = 12_500
"""Tokens of a result that goes to disk at once: 50,000 characters, the seeds' most cited limit (D5)."""
_TELLING = 0.4
"""Share of an old result that may stay as its most telling lines."""
_AGAIN = 0.3
"""Of the way from high water down to low: a batch makes so much room, or that of the largest result, if it is less."""
_TIDY = 100_000
"""Tokens to go down to at the most, however large the window: what is not needed costs its price on every call."""


def _would_be_lost(plan_input: PlanInput) -> bool:
    """With no shelf what leaves is gone: then only pressure may take it, and a request that fits stays as it is."""
    return plan_input.blob_names is None and not plan_input.budget.levels.is_reached(plan_input.tokens, "auto")


def offload_large(view: View, plan_input: PlanInput, *, limit: int = _LARGE) -> Iterable[Edit | Question]:
    """Large results go to disk on arrival; how large is large follows from the window, so that 4K windows work too."""
    if _would_be_lost(plan_input):
        return
    window, room = plan_input.budget.window, plan_input.budget.message_budget
    # No result takes more than a quarter of the conversation's own room; nor is one of a few lines ever large.
    limit = min(limit, window // 8, max(window // 32, room // 4))
    new = [entry.tokens for entry in view.entries[plan_input.first_unsent :]]
    if max(new, default=0) <= limit and sum(new) <= room // 2:
        return
    limit = _together(view, limit, room // 2)
    head = max(60, min(600, window // 40))
    # What else the request says is not looked at: the work of a turn is bounded by what is new.
    preview = SalientLines().extend_preview(essence(head), min(600, window // 100))
    yield from offload_results(view, plan_input, limit=limit, unit="tokens", preview=preview)


def _together(view: View, limit: int, most: int) -> int:
    """The limit, or a lower one: what the model waits for may take so many tokens in all, and the smallest stay whole.

    Ten results of calls made at once, none of them large, can be more than a small window holds.
    """
    taken = 0
    for tokens in sorted([entry.tokens for entry in view.results if entry.id in view.unseen_ids]):
        taken += tokens
        if taken > most:
            # Those nearly as large go too: of ten alike none can be told from the others.
            return min(limit, tokens * 9 // 10)
    return limit


def offload_paste(view: View, plan_input: PlanInput) -> Iterable[Edit | Question]:
    """What a user pastes may fill a quarter of the window before it goes to disk: it is what they want read."""
    if _would_be_lost(plan_input):
        return
    window = plan_input.budget.window
    yield from offload_input(view, plan_input, limit=window, preview=essence(max(100, min(2_000, window // 20))))


def usable(window: int, output: int, overhead: int = 0) -> int:
    """What the reply leaves of the window, while that is half of it at least; else three quarters.

    Clients reserve 32K for replies of a few hundred tokens, whatever the window. And where prompt and tools would then
    leave the conversation next to nothing, it gets a quarter of the window. A provider that holds the reservation
    against the window says so once, and is believed.
    """
    beside = window - output if window - output >= window // 2 else window * 3 // 4
    if beside - overhead >= window // 8:
        return beside
    return max(beside, min(int(window * 0.95), overhead + window // 4))


def watermarks(*, low: float, soft: float, auto: float, tidy: int) -> LevelRule:
    """Act late and go far down: each batch costs the cached prefix. Where that is lost anyway, go down at once.

    Shares of all that is usable; and of the conversation's own room, where prompt and tools take much of it: low water
    below what no pass can take out would mean a batch on every turn.
    """

    def rule(window: int, output: int, overhead: int = 0) -> Thresholds:
        most = usable(window, output, overhead)
        room = max(0, most - overhead)

        def level(share: float, of_room: float) -> int:
            return max(int(most * share), overhead + int(room * of_room))

        down_to = max(min(int(most * low), tidy), overhead + min(int(room * 0.20), tidy // 4))
        high = level(auto, 0.80)
        return Thresholds(
            warning=down_to,
            soft=level(soft, 0.75),
            auto=high,
            hard=level(0.95, 0.95),
            blocking=most,
            low=down_to,
            least=min(int(_AGAIN * (high - down_to)), _LARGE),
        )

    return rule


levels = watermarks(low=0.35, soft=0.76, auto=0.80, tidy=_TIDY)


default = Policy(
    name="default",
    levels=levels,
    usable=usable,
    arrival=(offload_large, offload_paste),
    pressure=(
        snip_results,
        # Before results: a name that only a large call says must stand in a line that is kept, or it is gone with both.
        partial(drop_calls, min_tokens=500),
        partial(clear_results, telling=_TELLING),
        clear_media,
        strip_thinking,
        shorten_text,
    ),
    telling=True,
    folds=(summarize,),
    overflow="auto-compact",
    last_resort=(*evict_oldest(), fold_to_fit),
)
