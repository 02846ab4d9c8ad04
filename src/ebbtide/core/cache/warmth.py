"""What the provider still keeps, from the record of what was sent.

Providers keep prefixes. Messages are chained hashes here, equal up to a point and never after it: the point is found by
bisection, and no function on the way of a request loops over messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.core.cache.breakpoints import min_prefix_tokens, needs_breakpoints
from ebbtide.core.cache.prefix_hashes import common_prefix_length
from ebbtide.core.types import SentRequest, Usage

RECENT_REQUESTS = 128
"""Newest records looked at, one comparison each. A branch left longer ago than that is cold in practice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrefix:
    """How much of a request the provider still keeps."""

    messages: int
    """Leading messages. Not warm means 0, also where tools and system prompt alone would be read."""
    tokens: int
    """System prompt and tools included."""
    reason: str
    """Why no more."""


def find_cached_prefix(
    sent: Sequence[SentRequest], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]
) -> CachedPrefix:
    """The longest prefix that any request within its TTL left behind.

    A read refreshes: the request that read is itself a record, with its own time. On Claude only what lies before a
    mark is kept.
    """
    key = (model, system, tools)
    reach, source = _reached(sent, now, key, prefix)
    if source is None:
        return CachedPrefix(messages=0, tokens=0, reason=_cold(sent, now, key, prefix))
    tokens = _tokens(sent, source, prefix[:reach])
    return CachedPrefix(messages=reach, tokens=tokens, reason=_limit(source, prefix, reach))


def count_cached_messages(
    sent: Sequence[SentRequest], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]
) -> int:
    """How many leading messages are warm: all that a plan asks, every turn."""
    return _reached(sent, now, (model, system, tools), prefix)[0]


def _reached(
    sent: Sequence[SentRequest], now: float, key: tuple[str, str, str], prefix: Sequence[str]
) -> tuple[int, SentRequest | None]:
    reach, source = 0, None
    for call in reversed(sent[-RECENT_REQUESTS:]):
        # The newest is nearly always the longest, and nothing more need be asked about the others.
        if len(call.prefix) > reach and (length := _keeps(call, now, key, prefix, reach)) > reach:
            reach, source = length, call
    return reach, source


def _keeps(call: SentRequest, now: float, key: tuple[str, str, str], prefix: Sequence[str], beyond: int) -> int:
    """How many leading messages are kept for this call; 0 where they are surely no more than `beyond`."""
    if (call.model, call.system, call.tools) != key or now - call.at >= call.ttl:
        return 0
    longer = min(len(call.prefix), len(prefix)) > beyond
    return _kept(call, prefix) if longer and call.prefix[beyond] == prefix[beyond] else 0


def find_usage_anchor(
    sent: Sequence[SentRequest], *, model: str, system: str, tools: str, prefix: Sequence[str]
) -> tuple[int, Usage | None]:
    """The longest request that this one extends and whose usage is known: its messages, and what they really took.

    After an edit it is an older one, so that a gauge built on it never counts what has left (R043).
    """
    key, reach, limit = (model, system, tools), 0, len(prefix)
    usage: Usage | None = None
    for call in reversed(sent[-RECENT_REQUESTS:]):
        # A bill of nothing for a prompt tells nothing of its size.
        if call.usage is None or not call.usage.prompt or not reach < (length := len(call.prefix)) <= limit:
            continue
        if (call.model, call.system, call.tools) == key and call.prefix[length - 1] == prefix[length - 1]:
            reach, usage = length, call.usage
    return reach, usage


def _kept(call: SentRequest, prefix: Sequence[str]) -> int:
    """How many of the messages shared with a call its provider wrote to the cache."""
    if not needs_breakpoints(call.model):
        return common_prefix_length(call.prefix, prefix)
    if call.breakpoints:
        end = min(len(call.prefix), len(prefix))
        return max(
            (mark + 1 for mark in call.breakpoints if mark < end and call.prefix[mark] == prefix[mark]), default=0
        )
    # No message was marked: tools or system alone, or the automatic mark, which stands at the very end and leaves
    # next to nothing uncached.
    usage = call.usage
    only_front = usage is not None and _tells_of_cache(usage) and usage.input >= min_prefix_tokens(call.model)
    return 0 if only_front else common_prefix_length(call.prefix, prefix)


def _tells_of_cache(usage: Usage) -> bool:
    """Gateways and local servers leave the cache fields out, or say zero on every call: then nothing is known, and an
    edit per call, as on a cold cache, would keep the cache cold that there may be."""
    return usage.cache_read + usage.cache_write > 0


def _tokens(sent: Sequence[SentRequest], source: SentRequest, cached: Sequence[str]) -> int:
    """What the kept messages take, measured where a request ended there, else between the nearest two that did."""
    total = source.usage.prompt if source.usage else source.tokens
    below, usage = find_usage_anchor(sent, model=source.model, system=source.system, tools=source.tools, prefix=cached)
    lower = usage.prompt if usage else 0
    if below == len(cached) and usage:
        return lower
    return lower + (total - lower) * (len(cached) - below) // (len(source.prefix) - below)


def _cold(sent: Sequence[SentRequest], now: float, key: tuple[str, str, str], prefix: Sequence[str]) -> str:
    if not sent:
        return "nothing was sent yet"
    last = sent[-1]
    names = ("model", "system prompt", "tool list")
    other = [
        name for name, was, is_ in zip(names, (last.model, last.system, last.tools), key, strict=True) if was != is_
    ]
    if other:
        return f"another {' and '.join(other)}"
    if now - last.at >= last.ttl:
        return f"expired: the last call was {now - last.at:.0f} s ago, and is kept for {last.ttl:.0f} s"
    if not _kept(last, last.prefix):
        return "the last call left no message in the cache"
    alike = common_prefix_length(last.prefix, prefix)
    return f"message {alike} changed" + (", and no mark stood before it" if alike else "")


def _limit(source: SentRequest, prefix: Sequence[str], reach: int) -> str:
    alike = common_prefix_length(source.prefix, prefix)
    if reach < alike:
        return f"no mark after message {reach - 1}"
    if reach == len(prefix):
        return "all of it is warm"
    return f"message {reach} is new" if reach == len(source.prefix) else f"message {reach} changed"
