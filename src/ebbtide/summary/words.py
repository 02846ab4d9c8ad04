"""The user's own messages in a fold, and old notes of the operator: verbatim while together they fit, then a line and a
handle, then a range.

None is ever dropped: what is not shown whole stands in a file, under the number and the handle that its line has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ebbtide.core.leaving import describe
from ebbtide.core.preview import essence
from ebbtide.core.stub import render
from ebbtide.core.types import HARNESS, OURS, USER, Blob, Item
from ebbtide.ledger import handle_of

Keep = Callable[[str, str], tuple[str, tuple[Blob, ...]]]
"""From a name and a text to the path that a stub may name, and what must be durable first."""

_LISTED = 0.2
"""Share of the space that lines of older messages may take: most of it is for words as they were said."""
_LINE = 100
"""Characters of a message that its line shows."""


class _Kind(NamedTuple):
    """What a list is of."""

    name: str
    """Of its file."""
    told: str
    tier: int


_MESSAGES = _Kind("user-messages", "messages", USER)
_NOTES = _Kind("operator-notes", "notes of the operator", HARNESS)


def carried(
    said: Sequence[Item], shown: Sequence[Item], *, limit: int, count: Callable[[str], int], keep: Keep
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    """`said` are originals, oldest first; `shown` the same as the request has them, perhaps shortened on arrival."""
    if sum(one.tokens for one in shown) <= limit:
        return tuple(shown), ()
    room, n = round(limit * (1 - _LISTED)), len(shown)
    while n > 0 and sum(one.tokens for one in shown[n - 1 :]) <= room:
        n -= 1
    listed, blobs = _listing(said[: min(n, len(said) - 1)], round(limit * _LISTED), count, keep, _MESSAGES)
    if n < len(shown):
        return (*listed, *shown[n:]), blobs
    # The live request alone is too long: its head, its tail and a handle.
    short, more = _shortened(said[-1], room, count, keep)
    return (*listed, short), (*blobs, *more)


def noted(
    notes: Sequence[Item], *, limit: int, count: Callable[[str], int], keep: Keep
) -> tuple[tuple[Item, ...], tuple[Item, ...], tuple[Blob, ...]]:
    """The newest of the operator's notes that fit, which stay; and a list of the older ones."""
    if sum(one.tokens for one in notes) <= limit:
        return tuple(notes), (), ()
    room, n = round(limit * (1 - _LISTED)), len(notes)
    while n > 0 and notes[n - 1].tokens <= room:
        n -= 1
        room -= notes[n].tokens
    listed, blobs = _listing(notes[:n], round(limit * _LISTED), count, keep, _NOTES)
    return tuple(notes[n:]), listed, blobs


def _listing(
    said: Sequence[Item], room: int, count: Callable[[str], int], keep: Keep, kind: _Kind
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    if not said:
        return (), ()
    whole = "\n\n".join(f"## {n} {handle_of(one)}\n{one.text}" for n, one in enumerate(said, 1))
    path, blobs = keep(kind.name, whole)
    tokens = sum(one.tokens for one in said)
    stub = describe(whole, kind="input", about=f"{kind.told} 1 to {len(said)}", tokens=tokens, path=path)
    lines: list[str] = []
    left = room - count(render(stub))
    for n, one in reversed(list(enumerate(said, 1))):
        # A handle that nobody can follow would only mislead.
        place = f"{n} {handle_of(one)}" if path else str(n)
        line = f"{place}: {' '.join(one.text.split())[:_LINE]}"
        left -= count(line) + 1
        if left < 0:
            break
        lines.insert(0, line)
    text = "\n".join([render(stub), *lines])
    item = Item(id="", message=-1, role="user", kind="text", text=text, tokens=count(text), tier=kind.tier, source=OURS)
    return (item,), blobs


def _shortened(one: Item, room: int, count: Callable[[str], int], keep: Keep) -> tuple[Item, tuple[Blob, ...]]:
    path, blobs = keep("user-message", one.text)
    stub = describe(one.text, kind="input", tokens=one.tokens, path=path)
    text = render(replace(stub, preview=essence(max(60, room - 100))(one.text, count)))
    return replace(one, id="", message=-1, text=text, tokens=count(text), source=OURS, raw=None), blobs
