"""A ledger that reads along with its conversation, so that no fold has to read all of it at once.

It is a memo and no more: what it gives is `ledger_of`, sooner. Where the conversation is another one than it has read,
because a person went back or a client rewrote it, it begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ebbtide.core.types import Item
from ebbtide.ledger.build import Book, ledger_of
from ebbtide.ledger.facts import Ledger

_BEHIND = 24_000
"""Tokens of the newest items that are not read ahead: a fold leaves a tail, and what is read cannot be unread. In
nine of ten folds of recorded sessions the tail took less."""
_AT_ONCE = 12_000
"""Tokens that one turn reads at the most, but for an item that is larger by itself: some ten milliseconds."""


@dataclass(slots=True)
class ReadAhead:
    """What was read of a conversation before anybody asked."""

    _book: Book = field(default_factory=Book)
    _read: tuple[Item, ...] = ()

    def read(self, items: Sequence[Item]) -> None:
        """Read on, a little. `items` is the whole conversation; the operator's words at its head are in no fold."""
        first = next((n for n, item in enumerate(items) if item.role != "system"), len(items))
        if not self._goes_on(items, first):
            self._book, self._read = Book(), ()
        start = stop = first + len(self._read)
        end, room = _before_tail(items), _AT_ONCE
        while stop < end and room > 0:
            self._book.take(items[stop])
            room -= items[stop].tokens
            stop += 1
        if stop > start:
            self._read += tuple(items[start:stop])

    def ledger(self, items: Sequence[Item]) -> Ledger:
        """`ledger_of(items)`. What was read of them costs nothing more; the rest is read now, once."""
        known = len(self._read)
        if self._read != tuple(items[:known]):
            return ledger_of(items)
        for item in items[known:]:
            self._book.take(item)
        self._read = tuple(items)
        return self._book.close()

    def _goes_on(self, items: Sequence[Item], first: int) -> bool:
        """A reader makes an item once, in its place: where the last one read is the same, all before it are."""
        end = first + len(self._read)
        return not self._read or (end <= len(items) and items[end - 1] is self._read[-1])


def _before_tail(items: Sequence[Item]) -> int:
    """Where the newest items begin that take so many tokens."""
    end, tokens = len(items), 0
    while end > 0 and tokens < _BEHIND:
        end -= 1
        tokens += items[end].tokens
    return end
