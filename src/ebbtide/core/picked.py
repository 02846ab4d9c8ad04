"""Entries that a rule picks, found once while a conversation only grows: no pass looks through it all every turn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from ebbtide.core.types import Item

_NEAR = 24
"""Entries at the end that may be other objects than the last time: clients move cache marks there."""


@dataclass(slots=True)
class Picked:
    """In order, one place in each list for an entry. The lists grow in place: good until another view asks."""

    places: list[int] = field(default_factory=list)
    entries: list[Item] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Up to and with each."""
    _seen: tuple[Item, ...] = ()

    @property
    def total(self) -> int:
        return self.tokens[-1] if self.tokens else 0

    def before(self, place: int) -> int:
        """How many stand before this place."""
        return bisect_left(self.places, place)

    def up_to(self, entries: tuple[Item, ...], rule: Callable[[Item], bool]) -> Picked:
        """Those among these entries, which go on from the ones that were looked through before."""
        if entries is self._seen:
            return self
        kept = _alike(self._seen, entries)
        known = self.before(kept)
        for run in (self.places, self.entries, self.tokens):
            del run[known:]
        tokens = self.total
        for place in range(kept, len(entries)):
            entry = entries[place]
            if rule(entry):
                tokens += entry.tokens
                self.places.append(place)
                self.entries.append(entry)
                self.tokens.append(tokens)
        self._seen = entries
        return self


def _alike(seen: tuple[Item, ...], entries: tuple[Item, ...]) -> int:
    """A view that grew has what it had up to some place, and other objects behind it: one look tells of all before."""
    most = min(len(seen), len(entries))
    return next((n for n in (most, most - _NEAR) if n > 0 and seen[n - 1] is entries[n - 1]), 0)
