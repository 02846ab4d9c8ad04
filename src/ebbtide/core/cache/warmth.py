"""What the provider should still have cached, from the requests that were sent.

Providers cache prefixes. A request is a sequence of rolling hashes here, so bisection finds the common prefix and no
function loops over messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.core.cache.breakpoints import min_prefix_tokens, needs_breakpoints
from ebbtide.core.cache.prefix_hashes import common_prefix_length
from ebbtide.core.types import SentRequest, Usage

RECENT_REQUESTS = 128
"""How many of the newest requests are compared. An older branch is no longer cached in practice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrefix:
    """How much of a request the provider still has cached."""

    messages: int
    """Leading messages. 0 also if only tools and system prompt are cached."""
    tokens: int
    """System prompt and tools included."""
    reason: str
    """Why no more."""


def find_cached_prefix(
    sent: Sequence[SentRequest], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]
) -> CachedPrefix:
    """Find the longest prefix that any request within its TTL left in the cache.

    A read refreshes the cache: the request that read is one of `sent`, with its own time. Claude caches only up to a
    breakpoint.
    """
    key = (model, system, tools)
    reach, source = _find_longest(sent, now, key, prefix)
    if source is None:
        return CachedPrefix(messages=0, tokens=0, reason=_cold(sent, now, key, prefix))
    tokens = _tokens(sent, source, prefix[:reach])
    return CachedPrefix(messages=reach, tokens=tokens, reason=_limit(source, prefix, reach))


def count_cached_messages(
    sent: Sequence[SentRequest], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]
) -> int:
    """Count the leading messages that are cached. The planner needs only this."""
    return _find_longest(sent, now, (model, system, tools), prefix)[0]


def _find_longest(
    sent: Sequence[SentRequest], now: float, key: tuple[str, str, str], prefix: Sequence[str]
) -> tuple[int, SentRequest | None]:
    reach, source = 0, None
    for call in reversed(sent[-RECENT_REQUESTS:]):
        # The newest is nearly always the longest, so the others are skipped by their length.
        if len(call.prefix) > reach and (length := _keeps(call, now, key, prefix, reach)) > reach:
            reach, source = length, call
    return reach, source


def _keeps(call: SentRequest, now: float, key: tuple[str, str, str], prefix: Sequence[str], beyond: int) -> int:
    """Count the leading messages cached by this call; 0 if they cannot be more than `beyond`."""
    if (call.model, call.system, call.tools) != key or now - call.at >= call.ttl:
        return 0
    longer = min(len(call.prefix), len(prefix)) > beyond
    return _count_cached(call, prefix) if longer and call.prefix[beyond] == prefix[beyond] else 0


def find_usage_anchor(
    sent: Sequence[SentRequest], *, model: str, system: str, tools: str, prefix: Sequence[str]
) -> tuple[int, Usage | None]:
    """Find the longest billed request that this one extends. Return its number of messages and its usage.

    After an edit it is an older one, so a size based on it never counts what was removed (R043).
    """
    key, reach, limit = (model, system, tools), 0, len(prefix)
    usage: Usage | None = None
    for call in reversed(sent[-RECENT_REQUESTS:]):
        # A bill of 0 for a prompt says nothing about its size.
        if call.usage is None or not call.usage.prompt or not reach < (length := len(call.prefix)) <= limit:
            continue
        if (call.model, call.system, call.tools) == key and call.prefix[length - 1] == prefix[length - 1]:
            reach, usage = length, call.usage
    return reach, usage


def _count_cached(call: SentRequest, prefix: Sequence[str]) -> int:
    """Count the common messages that the provider wrote to its cache for this call."""
    if not needs_breakpoints(call.model):
        return common_prefix_length(call.prefix, prefix)
    if call.breakpoints:
        end = min(len(call.prefix), len(prefix))
        return max(
            (mark + 1 for mark in call.breakpoints if mark < end and call.prefix[mark] == prefix[mark]), default=0
        )
    # No message has a breakpoint: either only tools and system have one, or it was set automatically at the very end,
    # which leaves almost nothing uncached.
    usage = call.usage
    only_front = usage is not None and _tells_of_cache(usage) and usage.input >= min_prefix_tokens(call.model)
    return 0 if only_front else common_prefix_length(call.prefix, prefix)


def _tells_of_cache(usage: Usage) -> bool:
    """Whether the bill says anything about the cache. Gateways and local servers omit these fields or always send 0: if
    that counted as a cold cache, edits on every call would keep a working cache cold."""
    return usage.cache_read + usage.cache_write > 0


def _tokens(sent: Sequence[SentRequest], source: SentRequest, cached: Sequence[str]) -> int:
    """Tokens of the cached messages: billed if a request ended there, else interpolated between two that did."""
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
    if not _count_cached(last, last.prefix):
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
