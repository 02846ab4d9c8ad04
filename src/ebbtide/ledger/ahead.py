"""A ledger that reads along with its conversation, so that no fold has to read all of it at once.

It is a memo and no more: what it gives is `ledger_of`, sooner. Where the conversation is another one than it has read,
because a person went back or a client rewrote it, it begins again. What it found in single texts, for the passes that
clear them, is in `texts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ebbtide.core.types import Item
from ebbtide.ledger.build import Book, ledger_of
from ebbtide.ledger.facts import Ledger
from ebbtide.ledger.telling import Texts

_BEHIND = 16_000
"""Tokens of the newest items that are not read ahead: a fold leaves a tail, and what is read cannot be unread. In
nineteen of twenty folds of recorded sessions the tail took less."""
_APART = 16_000
"""Tokens between two copies of the book. A fold that leaves a longer tail goes on from one: the older of the two is as
far back as the longest tails of recorded sessions reach."""
_LEAST, _MOST = 3_000, 16_000
"""Tokens that a turn reads: two milliseconds, where there is time, and ten where there is none."""


@dataclass(slots=True)
class ReadAhead:
    """What was read of a conversation before anybody asked."""

    texts: Texts = field(default_factory=Texts)
    _book: Book = field(default_factory=Book)
    _read: list[Item] = field(default_factory=list)
    _copies: list[Book] = field(default_factory=list)
    """Two of what the book was: the older one is far enough back, the newer one will be."""
    _known: int = 0
    """How many items there were the last time."""

    def read(self, items: Sequence[Item], *, left: int) -> int:
        """Read on, a little, and say how many tokens that was to be.

        `items` is the whole conversation; the operator's words at its head are in no fold. As much is read that little
        is left to read when the conversation has grown by the tokens that are `left`.
        """
        first = next((n for n, item in enumerate(items) if item.role != "system"), len(items))
        if not self._goes_on(items, first):
            self._book, self._read, self._copies, self._known = Book(), [], [], 0
        start = stop = first + len(self._read)
        end = _before_tail(items)
        new = sum([item.tokens for item in items[self._known :]]) if self._known else 0
        self._known = len(items)
        pace = room = _pace(sum([item.tokens for item in items[stop:end]]), new, left)
        while stop < end and room > 0:
            self._book.take(items[stop])
            room -= items[stop].tokens
            stop += 1
        if stop > start:
            self._read += items[start:stop]
            self._copy()
        return pace

    def ledger(self, items: Sequence[Item]) -> Ledger:
        """`ledger_of(items)`. What was read of them costs nothing more; the rest is read now, once."""
        if self._has(self._book, items):
            book, self._read = self._book, list(items)
        else:
            earlier = next((copy for copy in reversed(self._copies) if self._has(copy, items)), None)
            if earlier is None:
                return ledger_of(items)
            book = Book(earlier.close())
        for item in items[book.read :]:
            book.take(item)
        return book.close()

    def _has(self, book: Book, items: Sequence[Item]) -> bool:
        """Whether these items begin with what the book holds."""
        return book.read <= len(items) and self._read[: book.read] == list(items[: book.read])

    def _copy(self) -> None:
        if not self._copies or self._book.tokens - self._copies[-1].tokens >= _APART:
            self._copies = [*self._copies[-1:], Book(self._book.close())]

    def _goes_on(self, items: Sequence[Item], first: int) -> bool:
        """A reader makes an item once, in its place: where the last one read is the same, all before it are."""
        end = first + len(self._read)
        return not self._read or (end <= len(items) and items[end - 1] is self._read[-1])


def _pace(behind: int, new: int, left: int) -> int:
    """Tokens to read on this turn: twice what it takes to be done in time, if all turns are like this one."""
    return max(_LEAST, min(_MOST, 2 * behind * new // max(1, left)))


def _before_tail(items: Sequence[Item]) -> int:
    """Where the newest items begin that take so many tokens."""
    end, tokens = len(items), 0
    while end > 0 and tokens < _BEHIND:
        end -= 1
        tokens += items[end].tokens
    return end
