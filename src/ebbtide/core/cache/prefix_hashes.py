"""Rolling prefix hashes: equal at n means equal up to n. Extending them costs only what is new."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import overload


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

    def shares_list(self, other: PrefixHashes) -> bool:
        """Whether both use one list, so that one is a prefix of the other."""
        return self._hashes is other._hashes

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
    limit = min(len(old), len(new))
    if isinstance(old, PrefixHashes) and isinstance(new, PrefixHashes) and old.shares_list(new):
        return limit
    if limit == 0 or old[limit - 1] == new[limit - 1]:
        return limit
    return bisect_left(range(limit), True, key=lambda n: old[n] != new[n])


def leading_matches(old: Sequence[object], new: Sequence[object]) -> int:
    """Count the leading elements that are equal in both. For sequences that are not hashes, so all are compared."""
    matches = list(map(eq, old, new))
    return matches.index(False) if False in matches else len(matches)
