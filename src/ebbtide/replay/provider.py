"""Simulates a provider's prompt cache: what a request reads, writes and pays in full.

Claude caches up to each breakpoint of a request, for as long as that breakpoint asks, and looks twenty blocks back from
it. OpenAI caches everything, in steps of 128 tokens. Neither caches a prefix below a minimum, and each read extends its
life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.core.cache.breakpoints import LOOK_BACK
from ebbtide.core.cache.prefix import min_prefix_tokens, needs_breakpoints
from ebbtide.core.types import FIVE_MINUTES, HOUR, Usage

STEP = 128
"""OpenAI counts cached tokens in steps of this size."""


class Prefix(NamedTuple):
    """A request as a provider sees it, block by block. Position 0 is the system prompt with the tools."""

    hashes: Sequence[int]
    """A hash of everything up to each position."""
    tokens: Sequence[int]
    """The sum up to each position."""
    breakpoints: Sequence[tuple[int, float]]
    """Positions with a breakpoint, in order, and for how many seconds each asks."""
    thinks: bool = False
    """Whether the request thinks. Claude caches the messages of such requests apart from those of others."""

    def key(self, place: int) -> int:
        """What the prefix up to this position is cached under."""
        return ~self.hashes[place] if self.thinks and place else self.hashes[place]


class _Entry(NamedTuple):
    expires_at: float
    lifetime: float


@dataclass(slots=True)
class Provider:
    """The cache of one conversation."""

    model: str
    ttl: float = FIVE_MINUTES
    """How long a prefix is kept where requests have no breakpoints that say so."""
    is_explicit: bool = True
    """Whether requests have breakpoints in this API format."""
    _entries: dict[int, _Entry] = field(default_factory=dict)
    """By the hash of a prefix."""

    def send(self, prefix: Prefix, now: float) -> Usage:
        """Return the usage of the input, and update the cache."""
        if not prefix.tokens or prefix.tokens[-1] < min_prefix_tokens(self.model):
            return Usage(input=prefix.tokens[-1] if prefix.tokens else 0)
        if self.is_explicit and needs_breakpoints(self.model):
            return self._send_with_breakpoints(prefix, now)
        return self._send_without_breakpoints(prefix, now)

    def _send_with_breakpoints(self, prefix: Prefix, now: float) -> Usage:
        """Bill as Anthropic documents it for mixed lifetimes.

        Everything up to the longest cached prefix is read. From there to the last one-hour breakpoint is written for an
        hour, and from there to the last breakpoint for five minutes.
        """
        least = min_prefix_tokens(self.model)
        breakpoints = [mark for mark in prefix.breakpoints if prefix.tokens[mark[0]] >= least]
        hit = max((self._longest_hit(prefix, place, now) for place, _ in breakpoints), default=-1)
        read = prefix.tokens[hit] if hit >= 0 else 0
        self._keep(prefix, breakpoints, hit, now)
        end = max(read, prefix.tokens[breakpoints[-1][0]]) if breakpoints else read
        hour_ends = [prefix.tokens[place] for place, ttl in breakpoints if ttl >= HOUR and place > hit]
        return Usage(
            cache_read=read,
            cache_write=end - read,
            cache_write_1h=max(hour_ends, default=read) - read,
            input=prefix.tokens[-1] - end,
        )

    def _keep(self, prefix: Prefix, breakpoints: Sequence[tuple[int, float]], hit: int, now: float) -> None:
        """Keep the prefixes at breakpoints, and the one that was read.

        No provider documents that a longer lifetime upgrades tokens cached for a shorter one, so none does here.
        """
        source = self._entries[prefix.key(hit)] if hit >= 0 else None
        for place, ttl in breakpoints:
            known = self._alive(prefix.key(place), now)
            lifetime = known.lifetime if known else min(ttl, source.lifetime) if source else ttl
            self._entries[prefix.key(place)] = _Entry(now + lifetime, lifetime)
        if source is not None:
            self._entries[prefix.key(hit)] = _Entry(now + source.lifetime, source.lifetime)

    def _alive(self, prefix_hash: int, now: float) -> _Entry | None:
        entry = self._entries.get(prefix_hash)
        return entry if entry is not None and entry.expires_at > now else None

    def _longest_hit(self, prefix: Prefix, mark: int, now: float) -> int:
        """The longest cached prefix within the look-back of a breakpoint; -1 if there is none."""
        for place in range(mark, max(-1, mark - LOOK_BACK - 1), -1):
            if self._alive(prefix.key(place), now):
                return place
        return -1

    def _send_without_breakpoints(self, prefix: Prefix, now: float) -> Usage:
        cached = next(
            (place for place in reversed(range(len(prefix.hashes))) if self._alive(prefix.hashes[place], now)), -1
        )
        read = prefix.tokens[cached] // STEP * STEP if cached >= 0 else 0
        if read < min_prefix_tokens(self.model):
            read = 0
        entry = _Entry(now + self.ttl, self.ttl)
        for prefix_hash in prefix.hashes:
            self._entries[prefix_hash] = entry
        return Usage(cache_read=read, input=prefix.tokens[-1] - read)
