"""The user's own messages in a fold, and old notes of the operator: verbatim while together they fit, then a line and a
handle, then a range.

None is ever dropped: what is not shown whole stands in a file, under the number and the handle that its line has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ebbtide.core.offload import describe
from ebbtide.core.stub import render
from ebbtide.core.text.preview import essence
from ebbtide.core.types import HARNESS, OURS, USER, Blob, Item
from ebbtide.facts import item_handle
from ebbtide.facts.text import to_one_line

Keep = Callable[[str, str], tuple[str, tuple[Blob, ...]]]
"""From a name and a text to the path that a stub may name, and what must be durable first."""

_LISTED = 0.2
"""Share of the space that lines of older messages may take: most of it is for words as they were said."""
_LISTED_NOTES = 0.4
"""The same of notes: the newest of them stay in any case, and what an older one asks for must be seen."""
_LINE = 100
"""Characters of a message that its line shows."""
_NOTE_LINE = 160
"""The same of a note: a sentence that asks for something is seldom longer."""
_TAGS = re.compile(r"</?[A-Za-z][\w-]*>")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_ASKS = re.compile(
    r"\b(?:must|never|always|do not|don['’]t|only|should|shall|may not|cannot|please|make sure|ensure|avoid|instead"
    r"|from now on|remember|required|forbidden|stop|keep|use|ask)\b|必须|不要|请|务必|禁止|不得|始终|只能",
    re.IGNORECASE,
)
"""How a sentence sounds that asks for something. One that is missed still has its line, and stands in the file."""


class _Line(NamedTuple):
    text: str
    urgent: bool = False
    """Comes before others where there is no room for all."""


class _Kind(NamedTuple):
    """What a list is of."""

    name: str
    """Of its file."""
    told: str
    tier: int
    line: Callable[[str], _Line]
    """From one of them to what is shown of it."""
    hint: str = ""


def _beginning(text: str) -> _Line:
    return _Line(" ".join(text.split())[:_LINE])


def _asked(text: str) -> _Line:
    """The note, where it is short; else the sentence that asks for something, or the first."""
    bare = _TAGS.sub(" ", text)
    asks = _ASKS.search(bare) is not None
    if len(bare) <= _NOTE_LINE:
        return _Line(" ".join(bare.split()), asks)
    sentences = [one for one in _SENTENCES.split(bare) if one.strip()]
    chosen = next((one for one in sentences if _ASKS.search(one)), sentences[0] if sentences else "")
    return _Line(f"… {to_one_line(chosen, _NOTE_LINE)} …", asks)


_MESSAGES = _Kind("user-messages", "messages", USER, _beginning)
_NOTES = _Kind(
    "operator-notes", "notes of the operator", HARNESS, _asked,
    "Each may hold yet. They are kept whole there, under their numbers; of these something is shown:",
)  # fmt: skip


def carry_user_messages(
    said: Sequence[Item],
    shown: Sequence[Item],
    *,
    limit: int,
    count: Callable[[str], int],
    keep: Keep,
    live: int = 0,
    shorten: bool = True,
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    """`said` are originals, oldest first; `shown` the same as the request has them, perhaps shortened on arrival.

    The newest `live` of them stay as they are, however long. Where not even the newest fits it is shortened, or with
    `shorten` off listed like the others.
    """
    if sum(one.tokens for one in shown) <= limit:
        return tuple(shown), ()
    room, n = round(limit * (1 - _LISTED)), len(shown)
    while n > 0 and shown[n - 1].tokens <= room:
        n -= 1
        room -= shown[n].tokens
    if n == len(shown) and not live and shorten:
        listed, blobs = _listing(said[:-1], round(limit * _LISTED), count, keep, _MESSAGES)
        short, more = _shortened(said[-1], room, count, keep)
        return (*listed, short), (*blobs, *more)
    n = min(n, len(shown) - live)
    listed, blobs = _listing(said[:n], round(limit * _LISTED), count, keep, _MESSAGES)
    return (*listed, *shown[n:]), blobs


def carry_operator_notes(
    notes: Sequence[Item], *, limit: int, count: Callable[[str], int], keep: Keep
) -> tuple[tuple[Item, ...], tuple[Item, ...], tuple[Blob, ...]]:
    """The newest of the operator's notes that fit, which stay; and a list of the older ones."""
    if sum(one.tokens for one in notes) <= limit:
        return tuple(notes), (), ()
    room, n = round(limit * (1 - _LISTED_NOTES)), len(notes)
    while n > 0 and notes[n - 1].tokens <= room:
        n -= 1
        room -= notes[n].tokens
    listed, blobs = _listing(notes[:n], round(limit * _LISTED_NOTES), count, keep, _NOTES)
    return tuple(notes[n:]), listed, blobs


def _listing(
    said: Sequence[Item], room: int, count: Callable[[str], int], keep: Keep, kind: _Kind
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    if not said:
        return (), ()
    whole = "\n\n".join(f"## {n} {item_handle(one)}\n{one.text}" for n, one in enumerate(said, 1))
    path, blobs = keep(kind.name, whole)
    tokens = sum(one.tokens for one in said)
    stub = describe(whole, kind="input", about=f"{kind.told} 1 to {len(said)}", tokens=tokens, path=path)
    head = "\n".join([render(stub), *([kind.hint] if kind.hint and path else [])])
    lines = _shown(said, room - count(head), count, kind, named=bool(path))
    text = "\n".join([head, *lines])
    item = Item(
        id="", message=-1, role="user", kind="text", text=text, tokens=count(text), trust=kind.tier, source=OURS
    )
    return (item,), blobs


def _shown(said: Sequence[Item], room: int, count: Callable[[str], int], kind: _Kind, *, named: bool) -> list[str]:
    """A line each, in order, while there is room: for the newest, and before them for what cannot wait."""
    told = [(n, one, kind.line(one.text)) for n, one in enumerate(said, 1)]
    lines: dict[int, str] = {}
    for n, one, line in sorted(told, key=lambda row: (not row[2].urgent, -row[0])):
        # A handle that nobody can follow would only mislead.
        place = f"{n} {item_handle(one)}" if named else str(n)
        room -= count(f"{place}: {line.text}") + 1
        if room < 0:
            break
        lines[n] = f"{place}: {line.text}"
    return [lines[n] for n in sorted(lines)]


def _shortened(one: Item, room: int, count: Callable[[str], int], keep: Keep) -> tuple[Item, tuple[Blob, ...]]:
    path, blobs = keep("user-message", one.text)
    stub = describe(one.text, kind="input", tokens=one.tokens, path=path)
    text = render(replace(stub, preview=essence(max(60, room - 100))(one.text, count)))
    return replace(one, id="", message=-1, text=text, tokens=count(text), source=OURS, raw=None), blobs
