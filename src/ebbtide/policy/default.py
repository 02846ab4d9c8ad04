"""Our own policy. Its numbers were found by replaying recorded sessions (`benchmarks/search.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ebbtide.core.planner import PlanInput, Thresholds
from ebbtide.core.text.preview import essence
from ebbtide.core.types import Edit, Question
from ebbtide.core.view import View
from ebbtide.facts.names import SalientLines
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
from ebbtide.policy.combine import evict_oldest
from ebbtide.policy.levels import LevelRule
from ebbtide.policy.model import Policy

# How these were found, and what each buys: docs/explanation/default.md.

_LARGE_RESULT = 12_500
"""Tokens of a result that goes to disk at once: 50,000 characters, the usual limit (D5)."""
_SALIENT_SHARE = 0.4
"""Share of an old result that may stay as its most salient lines."""
_CALL_SHARE = 0.5
"""The same of an old call, of its own strings."""
_QUIET_CALL = 120
"""Tokens of an old call that leaves if its result says little: more than a note takes."""
_OFFLOADED_TOKENS = 2_000
"""Of the salient lines of a result that goes to disk at once, at most, and a hundredth of the window."""
_MIN_BATCH_SHARE = 0.3
"""Of the way from `auto` down to `low`: what a batch must free, or else the size of a large result if that is less."""


def _would_be_lost(plan_input: PlanInput) -> bool:
    """If nothing is saved, what leaves is gone: then a request that fits stays as it is."""
    return plan_input.blob_names is None and not plan_input.budget.levels.is_reached(plan_input.tokens, "auto")


def offload_large(view: View, plan_input: PlanInput, *, limit: int = _LARGE_RESULT) -> Iterable[Edit | Question]:
    """Save large new results to disk. How large depends on the window, so that 4K windows work too."""
    if _would_be_lost(plan_input):
        return
    window, room = plan_input.budget.window, plan_input.budget.message_budget
    # No result may take more than a quarter of the messages' budget, but a few lines are never large.
    limit = min(limit, window // 8, max(window // 32, room // 4))
    new = [entry.tokens for entry in view.entries[plan_input.first_unsent :]]
    if max(new, default=0) <= limit and sum(new) <= room // 2:
        return
    limit = _limit_together(view, limit, room // 2)
    head = max(60, min(600, window // 40))
    # Names elsewhere in the request are not looked at, so that the work depends only on what is new.
    preview = SalientLines().extend_preview(essence(head), min(_OFFLOADED_TOKENS, window // 100))
    yield from offload_results(view, plan_input, limit=limit, unit="tokens", preview=preview)


def _limit_together(view: View, limit: int, max_total: int) -> int:
    """The limit, or a lower one if all unseen results together exceed `max_total`; the smallest stay whole.

    Ten results of parallel calls, none of them large, can be more than a small window holds.
    """
    total = 0
    for tokens in sorted([entry.tokens for entry in view.results if entry.id in view.unseen_ids]):
        total += tokens
        if total > max_total:
            # Results nearly as large go too: of ten equal ones, none should be treated differently.
            return min(limit, tokens * 9 // 10)
    return limit


def offload_paste(view: View, plan_input: PlanInput) -> Iterable[Edit | Question]:
    """Save a pasted user message to disk only if it fills a quarter of the window: users want it read."""
    if _would_be_lost(plan_input):
        return
    window = plan_input.budget.window
    if all(len(entry.text) <= window for entry in view.entries[plan_input.first_unsent :]):
        return
    yield from offload_input(view, plan_input, limit=window, preview=essence(max(100, min(2_000, window // 20))))


def usable(window: int, output: int, overhead: int = 0) -> int:
    """The window without the reply if that is at least half of it; else three quarters.

    Clients reserve 32K for replies of a few hundred tokens, whatever the window. If prompt and tools would then leave
    next to nothing for the messages, they get a quarter of the window. If a provider counts the reservation against the
    window, its overflow error says so once. One of a whole window or more says only that its client does not know it.
    """
    beside = window - output if window - output >= window // 2 else window * 3 // 4
    if output >= window:
        beside = int(window * 0.95)
    if beside - overhead >= window // 8:
        return beside
    return max(beside, min(int(window * 0.95), overhead + window // 4))


def watermarks(*, low: float, soft: float, auto: float, max_low: int, patience: float = 0.0) -> LevelRule:
    """Free much at once, because each batch costs the cached prefix; when, `patience` and prices decide.

    `auto` is the latest. If prompt and tools take much of the window, thresholds are shares of the messages' room above
    these: a `low` that no pass can reach would mean a batch on every request.
    """

    def rule(window: int, output: int, overhead: int = 0) -> Thresholds:
        total = usable(window, output, overhead)
        room = max(0, total - overhead)

        def level(share: float) -> int:
            return overhead + int(room * share)

        lowest = max(min(int(total * low), max_low), overhead + min(int(room * 0.20), max_low // 4))
        high = level(auto)
        return Thresholds(
            warning=lowest,
            soft=level(soft),
            auto=high,
            hard=level(0.95),
            blocking=total,
            low=lowest,
            least=min(int(_MIN_BATCH_SHARE * (high - lowest)), _LARGE_RESULT),
            patience=patience,
        )

    return rule


def point(name: str, *, patience: float, low: float, max_low: int, calls: int) -> Policy:
    """Return one point of the measured frontier.

    It says how long to wait for a batch, how far down a batch goes, and from how many tokens on an old call leaves even
    if its result says much.
    """
    return Policy(
        name=name,
        levels=watermarks(low=low, soft=0.76, auto=0.80, max_low=max_low, patience=patience),
        usable=usable,
        arrival=(offload_large, offload_paste),
        pressure=(
            snip_results,
            # Before results: a name that only a large call has must be in a salient line, or it is lost with both.
            partial(drop_calls, min_tokens=calls, min_quiet=_QUIET_CALL, telling=_CALL_SHARE),
            partial(clear_results, telling=_SALIENT_SHARE),
            clear_media,
            strip_thinking,
            shorten_text,
        ),
        telling=True,
        folds=(summarize,),
        overflow="auto-compact",
        last_resort=(*evict_oldest(), fold_to_fit),
    )


default = point("default", patience=1.5, low=0.35, max_low=60_000, calls=500)
keep_more = point("keep-more", patience=3.0, low=0.40, max_low=100_000, calls=500)
spend_less = point("spend-less", patience=1.0, low=0.30, max_low=50_000, calls=120)

levels = default.levels
