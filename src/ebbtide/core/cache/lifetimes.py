"""How long our breakpoints ask the provider to keep a prefix, where the client sets none.

Writing a token for an hour costs 0.75 more than writing it for five minutes, and saves writing it again after a pause
of more than five minutes and less than an hour. So it pays if the chance of such a pause, times the chance that the
token is still in the request then, is high enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.core.cache.prefix import min_prefix_tokens
from ebbtide.core.types import FIVE_MINUTES, FRONT, HOUR, SentRequest, Usage

_WORTH = 0.395
"""The lowest product of the two chances at which an hour pays: 0.75 / 1.9, what it costs and what it saves."""
_PRIOR_SHORT, _PRIOR_LONG = 13, 20
"""Of 20 pauses over five minutes, 13 end within the hour; what a session shows is added to that."""
_STAYS_FRONT, _STAYS_STANDING = 1.0, 0.85
"""Chance that it is still there after such a pause: system prompt and tools; what the last batch left alone."""


class Pauses(NamedTuple):
    """What a session has seen so far."""

    long: int = 0
    """Pauses between requests of five minutes or more."""
    under_an_hour: int = 0
    ignored: int = 0
    """How often the provider refused an hour, or wrote nothing for an hour although a request asked for it."""

    @property
    def chance_under_an_hour(self) -> float:
        """The chance that the next long pause ends within the hour. Pauses look memoryless."""
        return (_PRIOR_SHORT + self.under_an_hour) / (_PRIOR_LONG + self.long)


def plan_hour(
    sent: Sequence[SentRequest],
    pauses: Pauses,
    *,
    now: float,
    key: tuple[str, str, str],
    prefix: Sequence[str],
    standing: int = FRONT,
    is_front_marked: bool = False,
) -> tuple[int, ...]:
    """Return what to keep for an hour: indexes of messages, and `FRONT` for what comes before them.

    `key` is model, system prompt and tools. `standing` is the last message that the newest batch of edits left as it
    was, `is_front_marked` whether the client marks what comes before the messages. What is kept for an hour stays so on
    every request. New places are added only if nothing of them is cached: no provider documents that a longer lifetime
    upgrades what is cached for a shorter one.
    """
    if pauses.ignored:
        return ()
    last = next((call for call in reversed(sent) if (call.model, call.system, call.tools) == key), None)
    age = now - last.at if last is not None else HOUR
    hours = [mark for mark in last.hour if _is_same(last, prefix, mark)] if last is not None and age < HOUR else []
    longest = max(hours, default=FRONT)
    if last is not None and age < FIVE_MINUTES and (last.breakpoints or is_front_marked):
        return tuple(dict.fromkeys((*hours[:1], longest))) if hours else ()
    chance = pauses.chance_under_an_hour
    places = [*hours[:1], longest] if hours else [FRONT] if chance * _STAYS_FRONT > _WORTH else []
    if places and standing > longest and chance * _STAYS_STANDING > _WORTH:
        places.append(standing)
    return tuple(dict.fromkeys(places))


def _is_same(call: SentRequest, prefix: Sequence[str], mark: int) -> bool:
    return mark == FRONT or (mark < min(len(prefix), len(call.prefix)) and call.prefix[mark] == prefix[mark])


def is_hour_ignored(before: SentRequest | None, call: SentRequest, usage: Usage) -> bool:
    """Whether a bill shows that nothing was written for an hour although the request asked for more than before."""
    is_new = bool(set(call.hour).difference(before.hour if before is not None else ()))
    return is_new and usage.cache_write >= min_prefix_tokens(call.model) and not usage.cache_write_1h
