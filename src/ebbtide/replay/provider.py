"""What a provider would have charged: it keeps prefixes, for a while, and reads what it kept at a lower price.

Claude keeps what stands before a mark, and looks twenty blocks back from each; others keep all, in steps of 128 tokens.
Both keep nothing shorter than a minimum, and each read makes what was read last longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.core.cache.breakpoints import LIMIT, LOOK_BACK, minimum
from ebbtide.core.types import FIVE_MINUTES, Usage

STEP = 128
"""OpenAI counts cached tokens in these."""


class Prefix(NamedTuple):
    """A request as a provider sees it. The first place is the system prompt with the tools."""

    chain: Sequence[int]
    """At each place a hash of all up to it."""
    tokens: Sequence[int]
    """Up to and with each place."""
    blocks: Sequence[int]
    marks: Sequence[int]
    """Places with a breakpoint besides the first and the last, which clients always mark."""


@dataclass(slots=True)
class Provider:
    """One conversation's cache."""

    model: str
    ttl: float = FIVE_MINUTES
    _until: dict[int, float] = field(default_factory=dict)
    """Until when a prefix is kept, by its hash."""

    def send(self, prefix: Prefix, now: float) -> Usage:
        """The bill for the input, and the cache as the request leaves it."""
        if not prefix.tokens or prefix.tokens[-1] < minimum(self.model):
            return Usage(input=prefix.tokens[-1] if prefix.tokens else 0)
        if "claude" in self.model:
            return self._marked(prefix, now)
        return self._unmarked(prefix, now)

    def _marked(self, prefix: Prefix, now: float) -> Usage:
        last = len(prefix.chain) - 1
        least = minimum(self.model)
        wanted = sorted({0, *prefix.marks[-(LIMIT - 2) :], last})
        marks = [place for place in wanted if prefix.tokens[place] >= least]
        hit = max((self._found(prefix, mark, now) for mark in marks), default=-1)
        read = prefix.tokens[hit] if hit >= 0 else 0
        for place in [*marks, *([hit] if hit >= 0 else [])]:
            self._until[prefix.chain[place]] = now + self.ttl
        written = prefix.tokens[marks[-1]] - read if marks else 0
        return Usage(cache_read=read, cache_write=written, input=prefix.tokens[-1] - read - written)

    def _found(self, prefix: Prefix, mark: int, now: float) -> int:
        """The longest kept prefix within the look-back of a mark; -1 if there is none."""
        place = mark
        while place >= 0 and prefix.blocks[mark] - prefix.blocks[place] <= LOOK_BACK:
            if self._until.get(prefix.chain[place], -1.0) > now:
                return place
            place -= 1
        return -1

    def _unmarked(self, prefix: Prefix, now: float) -> Usage:
        kept = [place for place, link in enumerate(prefix.chain) if self._until.get(link, -1.0) > now]
        read = prefix.tokens[kept[-1]] // STEP * STEP if kept else 0
        if read < minimum(self.model):
            read = 0
        for link in prefix.chain:
            self._until[link] = now + self.ttl
        return Usage(cache_read=read, input=prefix.tokens[-1] - read)
