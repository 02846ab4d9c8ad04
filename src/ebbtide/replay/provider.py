"""Simulates a provider's prompt cache: what a request reads, writes and pays in full.

Claude caches up to each breakpoint and looks twenty blocks back from it. OpenAI caches everything, in steps of 128
tokens. Neither caches a prefix below a minimum, and each read extends its life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.core.cache.breakpoints import LIMIT, LOOK_BACK
from ebbtide.core.cache.prefix import min_prefix_tokens
from ebbtide.core.types import FIVE_MINUTES, Usage

STEP = 128
"""OpenAI counts cached tokens in steps of this size."""


class Prefix(NamedTuple):
    """A request as a provider sees it. Position 0 is the system prompt with the tools."""

    hashes: Sequence[int]
    """A hash of everything up to each position."""
    tokens: Sequence[int]
    """The sum up to each position."""
    blocks: Sequence[int]
    breakpoints: Sequence[int]
    """Positions with a breakpoint, besides the first and the last, which clients always mark."""


@dataclass(slots=True)
class Provider:
    """The cache of one conversation."""

    model: str
    ttl: float = FIVE_MINUTES
    _expires_at: dict[int, float] = field(default_factory=dict)
    """By the hash of a prefix."""

    def send(self, prefix: Prefix, now: float) -> Usage:
        """Return the usage of the input, and update the cache."""
        if not prefix.tokens or prefix.tokens[-1] < min_prefix_tokens(self.model):
            return Usage(input=prefix.tokens[-1] if prefix.tokens else 0)
        if "claude" in self.model:
            return self._send_with_breakpoints(prefix, now)
        return self._send_without_breakpoints(prefix, now)

    def _send_with_breakpoints(self, prefix: Prefix, now: float) -> Usage:
        last = len(prefix.hashes) - 1
        least = min_prefix_tokens(self.model)
        positions = sorted({0, *prefix.breakpoints[-(LIMIT - 2) :], last})
        breakpoints = [place for place in positions if prefix.tokens[place] >= least]
        hit = max((self._longest_hit(prefix, mark, now) for mark in breakpoints), default=-1)
        read = prefix.tokens[hit] if hit >= 0 else 0
        for place in [*breakpoints, *([hit] if hit >= 0 else [])]:
            self._expires_at[prefix.hashes[place]] = now + self.ttl
        written = prefix.tokens[breakpoints[-1]] - read if breakpoints else 0
        return Usage(cache_read=read, cache_write=written, input=prefix.tokens[-1] - read - written)

    def _longest_hit(self, prefix: Prefix, mark: int, now: float) -> int:
        """The longest cached prefix within the look-back of a breakpoint; -1 if there is none."""
        place = mark
        while place >= 0 and prefix.blocks[mark] - prefix.blocks[place] <= LOOK_BACK:
            if self._expires_at.get(prefix.hashes[place], -1.0) > now:
                return place
            place -= 1
        return -1

    def _send_without_breakpoints(self, prefix: Prefix, now: float) -> Usage:
        cached = [
            place for place, prefix_hash in enumerate(prefix.hashes) if self._expires_at.get(prefix_hash, -1.0) > now
        ]
        read = prefix.tokens[cached[-1]] // STEP * STEP if cached else 0
        if read < min_prefix_tokens(self.model):
            read = 0
        for prefix_hash in prefix.hashes:
            self._expires_at[prefix_hash] = now + self.ttl
        return Usage(cache_read=read, input=prefix.tokens[-1] - read)
