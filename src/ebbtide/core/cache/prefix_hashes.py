"""Links of a chained hash: each says all before it. A chain that grows shares what it had, and costs what is new."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import overload


class PrefixHashes(Sequence[str]):
    """A value, though two chains may share a list: neither looks beyond its own end."""

    __slots__ = ("_end", "_links")

    def __init__(self, links: Iterable[str] = ()) -> None:
        self._links: list[str] = list(links)
        self._end = len(self._links)

    @classmethod
    def _over(cls, links: list[str], end: int) -> PrefixHashes:
        made = cls.__new__(cls)
        made._links, made._end = links, end
        return made

    def extend_from(self, kept: int, links: Sequence[str]) -> PrefixHashes:
        """The first `kept` links and then these."""
        if not self._end or kept < self._end or self._end < len(self._links):
            # This one is empty or cut short, or another has grown beyond it: the list cannot be shared.
            return PrefixHashes([*self._links[:kept], *links])
        self._links.extend(links)
        return PrefixHashes._over(self._links, len(self._links))

    def after(self, kept: int) -> list[str]:
        """The links behind the first so many."""
        return self._links[kept : self._end]

    def shares_list(self, other: PrefixHashes) -> bool:
        """Whether both are of one list: one then begins with the other."""
        return self._links is other._links

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
            whole = start == 0 and step == 1
            return PrefixHashes._over(self._links, stop) if whole else tuple(self._links[start:stop:step])
        if not -end <= place < end:
            raise IndexError(place)
        return self._links[place if place >= 0 else end + place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._links[: self._end])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrefixHashes | tuple | list):
            return NotImplemented
        return len(self) == len(other) and common_prefix_length(self, other) == len(self)

    __hash__ = None  # type: ignore[assignment]


def common_prefix_length(before: Sequence[str], now: Sequence[str]) -> int:
    """How many leading links two chains share. A link says all before it, so one comparison decides, or a bisection."""
    most = min(len(before), len(now))
    if isinstance(before, PrefixHashes) and isinstance(now, PrefixHashes) and before.shares_list(now):
        return most
    if most == 0 or before[most - 1] == now[most - 1]:
        return most
    return bisect_left(range(most), True, key=lambda n: before[n] != now[n])


def leading_matches(old: Sequence[object], new: Sequence[object]) -> int:
    """Count the leading elements that are equal in both. For sequences that are not hashes, so all are compared."""
    matches = list(map(eq, old, new))
    return matches.index(False) if False in matches else len(matches)
