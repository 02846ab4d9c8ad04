"""Prefixes of requests: rolling hashes of their messages, what the provider should still have cached of them, and what
changing a cached prefix costs.

Providers cache prefixes. A hash after each message covers everything before it, so extending the hashes costs only
what is new, bisection finds the common prefix of two requests, and no function loops over messages.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq, is_
from typing import overload

from ebbtide.core.edit_rules import covered_range
from ebbtide.core.text.preview import format_duration
from ebbtide.core.types import HOUR, Edit, SentRequest, Usage
from ebbtide.core.view import View

RECENT_REQUESTS = 128
"""How many of the newest requests are compared. An older branch is no longer cached in practice."""

MINIMUM: tuple[tuple[str, int], ...] = (
    (r"opus-4-[5-8](?!\d)|haiku-4-5(?!\d)", 4096),
    (r"fable-5|sonnet-4-6(?!\d)|haiku-3|3-haiku|3-5-haiku", 2048),
    # Not in the provider's table when this was written; as its predecessor.
    (r"sonnet-5(?!\d)", 2048),
    (r"claude-3|sonnet-[34](?!\d)|opus-[34](?!\d)|claude-2", 1024),
    # A Claude we do not know: the largest known, because a mark below the minimum is spent for nothing, silently.
    (r"claude", 4096),
    # ai.google.dev/gemini-api/docs/caching in July 2026. Earlier versions of the page had 1,024 for some.
    (r"gemini-2-5", 2048),
    (r"gemini", 4096),
    (r"", 1024),
)
"""Shortest prefix that is cached, by pattern of the model's name, first match wins (A50)."""


class PrefixHashes(Sequence[str]):
    """A frozen sequence of hashes. Two may share one list, and neither reads beyond its own end."""

    __slots__ = ("_end", "_hashes")

    def __init__(self, hashes: Iterable[str] = ()) -> None:
        self._hashes: list[str] = list(hashes)
        self._end = len(self._hashes)

    @classmethod
    def _over(cls, hashes: list[str], end: int) -> PrefixHashes:
        prefix = cls.__new__(cls)
        prefix._hashes, prefix._end = hashes, end
        return prefix

    def extend_from(self, kept: int, hashes: Sequence[str]) -> PrefixHashes:
        """Return the first `kept` hashes followed by `hashes`."""
        if not self._end or kept < self._end or self._end < len(self._hashes):
            # This one is empty or cut short, or another has grown beyond it: the list cannot be shared.
            return PrefixHashes([*self._hashes[:kept], *hashes])
        self._hashes.extend(hashes)
        return PrefixHashes._over(self._hashes, len(self._hashes))

    def after(self, kept: int) -> list[str]:
        """Return the hashes after the first `kept`."""
        return self._hashes[kept : self._end]

    def common_length(self, other: PrefixHashes) -> int:
        """Count the leading hashes both have. Where both use one list, one is a prefix of the other."""
        mine, theirs = self._hashes, other._hashes
        limit = min(self._end, other._end)
        return limit if mine is theirs else _count_equal_hashes(mine, theirs, limit)

    def __len__(self) -> int:
        return self._end

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        end = self._end
        if isinstance(place, slice):
            start, stop, step = place.indices(end)
            is_prefix = start == 0 and step == 1
            return PrefixHashes._over(self._hashes, stop) if is_prefix else tuple(self._hashes[start:stop:step])
        if not -end <= place < end:
            raise IndexError(place)
        return self._hashes[place if place >= 0 else end + place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hashes[: self._end])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixHashes | tuple | list):
            return NotImplemented
        return len(self) == len(other) and common_prefix_length(self, other) == len(self)

    __hash__ = None  # type: ignore[assignment]


def common_prefix_length(old: Sequence[str], new: Sequence[str]) -> int:
    """Count the leading hashes both have. Each covers everything before it, so bisection finds the end."""
    if isinstance(old, PrefixHashes) and isinstance(new, PrefixHashes):
        return old.common_length(new)
    return _count_equal_hashes(old, new, min(len(old), len(new)))


def _count_equal_hashes(old: Sequence[str], new: Sequence[str], limit: int) -> int:
    if limit == 0 or old[limit - 1] == new[limit - 1]:
        return limit
    return bisect_left(range(limit), True, key=lambda n: old[n] != new[n])


def leading_matches(old: Sequence[object], new: Sequence[object]) -> int:
    """Count the leading elements that are equal in both. For sequences that are not hashes, so all are compared."""
    matches = list(map(eq, old, new))
    return matches.index(False) if False in matches else len(matches)


def count_same_objects(old: Sequence[object], new: Sequence[object]) -> int:
    """Count the leading elements that are the same objects in both."""
    same = list(map(is_, old, new))
    return same.index(False) if False in same else len(same)


def are_same_objects(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) == len(right) and all(map(is_, left, right))


def needs_breakpoints(model: str) -> bool:
    """Whether the provider keeps only what is marked."""
    return "claude" in model.lower()


@lru_cache(maxsize=64)
def min_prefix_tokens(model: str) -> int:
    """Tokens below which the provider caches nothing, and does not say so."""
    name = model.lower().replace(".", "-")
    return next(tokens for pattern, tokens in MINIMUM if re.search(pattern, name))


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
    is_expired = now - source.at >= source.ttl
    reason = f"message {reach} and what follows has expired" if is_expired else _limit(source, prefix, reach)
    return CachedPrefix(messages=reach, tokens=tokens, reason=reason)


def count_cached_messages(
    sent: Sequence[SentRequest], *, now: float, model: str, system: str, tools: str, prefix: Sequence[str]
) -> tuple[int, bool]:
    """Count the leading messages that are cached. The planner needs only this.

    Return also whether only those kept for an hour are: then everything after them has expired.
    """
    reach, source = _find_longest(sent, now, (model, system, tools), prefix)
    return reach, source is not None and now - source.at >= source.ttl


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
    age = now - call.at
    if (call.model, call.system, call.tools) != key or (age >= call.ttl and not (call.hour and age < HOUR)):
        return 0
    longer = min(len(call.prefix), len(prefix)) > beyond
    if not longer or call.prefix[beyond] != prefix[beyond]:
        return 0
    return _count_cached(call, prefix) if age < call.ttl else _count_marked(call.hour, call, prefix)


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
        return _count_marked(call.breakpoints, call, prefix)
    # No message has a breakpoint: either only tools and system have one, or it was set automatically at the very end,
    # which leaves almost nothing uncached.
    usage = call.usage
    only_front = usage is not None and _tells_of_cache(usage) and usage.input >= min_prefix_tokens(call.model)
    return 0 if only_front else common_prefix_length(call.prefix, prefix)


def _count_marked(marks: Sequence[int], call: SentRequest, prefix: Sequence[str]) -> int:
    """Count the messages up to the last of these breakpoints before which both are the same."""
    end = min(len(call.prefix), len(prefix))
    return max((mark + 1 for mark in marks if mark < end and call.prefix[mark] == prefix[mark]), default=0)


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
        paused, kept = format_duration(now - last.at), format_duration(last.ttl)
        return f"expired: the last call was {paused} ago, and is kept for {kept}"
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


# --- what a change costs: a token of input costs 1 --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Of a token, where an uncached one of input costs 1."""

    read: float
    write: float


_READ: tuple[tuple[str, float], ...] = (
    (r"fable-5[-.]1(?!\d)", 0.025),
    (r"(opus|sonnet)-5[-.]5|gpt-6[-.]1(?!\d)", 0.05),
    (r"gpt-4o|gpt-4-turbo|gpt-4\.5|\bo1|o3-mini", 0.5),
    (r"gpt-4\.1|\bo3|\bo4", 0.25),
    # The newest of every vendor. For a model we do not know it is also the careful guess: where reading is cheap, an
    # edit has to save more before it is worth breaking the cache.
    (r"", 0.1),
)
_CHARGED = re.compile(r"gpt-5[-.]6|gpt-6")
"""OpenAI's that charge for writing, as Claude does. A test holds all of these against the price table."""


@lru_cache(maxsize=64)
def prices_for(model: str, ttl: float) -> Prices:
    """Claude charges for writing, more for an hour than for five minutes; most others write at the price of input."""
    name = model.lower()
    read = next(read for pattern, read in _READ if re.search(pattern, name))
    if needs_breakpoints(model):
        return Prices(read=read, write=1.25 if ttl <= 300 else 2.0)
    return Prices(read=read, write=1.25 if _CHARGED.search(name) else 1.0)


def calls_to_break_even(
    *, removed: int, put: int, after: int, prices: Prices, ask_cost: float = 0.0, unsent: int = 0
) -> float:
    """After how many calls, the first counted, an edit has paid for itself; infinite when it saves nothing.

    `after` are kept warm tokens behind the first changed one: they are written again. `unsent` of the removed tokens
    were not warm, so the first call saves writing them. `ask_cost` in uncached input tokens.
    """
    if removed <= put:
        return float("inf")
    paid = (prices.write - prices.read) * (after + put - unsent) + ask_cost
    saved = prices.read * (removed - put)
    if paid <= 0:
        return 0.0
    return paid / saved if saved else float("inf")


def cheapest_spread(*, rewritten: int, growth: float, prices: Prices) -> float:
    """Return how far a request should grow between two batches that bring it down to the same size.

    An inventory problem: each batch writes `rewritten` tokens again instead of reading them, and what was added since
    the last one is read on every call. Both together cost least at this spread.
    """
    paid = max(0.0, prices.write - prices.read) * rewritten * growth
    return math.sqrt(2 * paid / prices.read) if prices.read else math.inf


def count_added_tokens(sent: Sequence[SentRequest], request: SentRequest) -> int:
    """Return by how much a request is larger than the one before it; 0 after a batch of edits or in another task."""
    if not sent:
        return 0
    last = sent[-1]
    is_same_task = (last.model, last.system, last.tools) == (request.model, request.system, request.tools)
    return max(0, request.tokens - last.tokens) if is_same_task else 0


def mean_growth(counters: Mapping[str, int]) -> int:
    """Return how many tokens a call adds, on average so far. `count_added_tokens` counts them."""
    return counters.get("added_tokens", 0) // max(1, counters.get("added_calls", 0))


def calls_ahead(*, tokens: int, high: int, growth: float) -> float:
    """Return how many calls will profit from an edit: those until high water forces a rewrite anyway.

    `growth` is in tokens per call.
    """
    return max(0.0, (high - tokens) / growth) if growth > 0 else float("inf")


def rewrite_cost(
    before: View, after: View, edits: Sequence[Edit], cached_entries: int, *, safety: float = 1.0
) -> dict[str, object]:
    """Return what a batch of edits changes in the cached prefix, in estimated tokens, as the plan record has it.

    `out`: tokens that the view lost. `after`: cached tokens behind the first change that stay, so are written again.
    `put`: replacements of cached items. `fresh`: indexes of the edits that changed nothing cached. `safety` is the
    policy's factor on each token.
    """
    covered = covered_range(before, 0, cached_entries)
    first_uncached = before.index[covered[1]] + 1 if covered else 0
    fresh = [n for n, edit in enumerate(edits) if before.index[edit.insert_after or edit.first] >= first_uncached]
    cost = {"out": round((before.tokens - after.tokens) * safety), "after": 0, "put": 0, "fresh": fresh}
    cached_edits = {edit.id for n, edit in enumerate(edits) if n not in set(fresh)}
    if not cached_edits:
        return cost
    old_ids, new_ids = [entry.id for entry in before.entries], [entry.id for entry in after.entries]
    first_change, kept_ids, known_ids = leading_matches(old_ids, new_ids), set(new_ids), set(old_ids)
    rewritten = sum(entry.tokens for entry in before.entries[first_change:cached_entries] if entry.id in kept_ids)
    added = sum(
        entry.tokens
        for entry in after.entries
        if entry.id not in known_ids
        and entry.id in after.edit_by_entry
        and after.edit_by_entry[entry.id].id in cached_edits
    )
    return {**cost, "after": round(rewritten * safety), "put": round(added * safety)}
