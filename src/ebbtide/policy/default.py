"""Our own policy. Its numbers are provisional until they are searched for by replay."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ebbtide.core.engine import Situation
from ebbtide.core.preview import essence
from ebbtide.core.types import Ask, Edit
from ebbtide.core.view import View
from ebbtide.passes import (
    clear_media,
    clear_results,
    drop_calls,
    offload_input,
    offload_results,
    shorten_text,
    snip_results,
    strip_thinking,
    summarize,
)
from ebbtide.policy.fallback import oldest_leave
from ebbtide.policy.levels import beside_reply, shares
from ebbtide.policy.model import Policy

_LARGE = 12_500
"""Tokens of a result that goes to disk at once: 50,000 characters, the seeds' most cited limit (D5)."""


def _would_be_lost(situation: Situation) -> bool:
    """With no shelf what leaves is gone: then only pressure may take it, and a request that fits stays as it is."""
    return situation.shelf is None and not situation.budget.levels.reached(situation.tokens, "auto")


def offload_large(view: View, situation: Situation, *, limit: int = _LARGE) -> Iterable[Edit | Ask]:
    """Large results go to disk on arrival; how large is large follows from the window, so that 4K windows work too."""
    if _would_be_lost(situation):
        return
    window = situation.budget.window
    limit = min(limit, window // 8)
    preview = essence(max(60, min(600, window // 40)))
    yield from offload_results(view, situation, limit=limit, unit="tokens", preview=preview)


def offload_paste(view: View, situation: Situation) -> Iterable[Edit | Ask]:
    """What a user pastes may fill a quarter of the window before it goes to disk: it is what they want read."""
    if _would_be_lost(situation):
        return
    window = situation.budget.window
    yield from offload_input(view, situation, limit=window, preview=essence(max(100, min(2_000, window // 20))))


default = Policy(
    name="default",
    # Act at 80 %: a reply and a large result must still fit. Down to 50 %: acting is rare, and the prefix stays cached.
    levels=shares(warning=0.60, soft=0.65, auto=0.80, hard=0.95, low=0.50),
    usable=beside_reply,
    arrival=(offload_large, offload_paste),
    pressure=(
        snip_results,
        clear_results,
        clear_media,
        partial(drop_calls, min_tokens=500),
        strip_thinking,
        shorten_text,
    ),
    folds=(summarize,),
    overflow="auto-compact",
    last_resort=oldest_leave(),
)
