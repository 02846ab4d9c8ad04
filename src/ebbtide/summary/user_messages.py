"""The user's messages and the operator's old notes beside a summary: whole while they fit, then one line each.

None is ever dropped. What is not shown whole is saved to a file, under the number and the handle that its line has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ebbtide.core import texts
from ebbtide.core.offload import describe
from ebbtide.core.stub import render
from ebbtide.core.text.preview import essence
from ebbtide.core.types import HARNESS, OURS, USER, Blob, Item
from ebbtide.facts import item_handle
from ebbtide.facts.model import to_one_line

SaveBlob = Callable[[str, str], tuple[str, tuple[Blob, ...]]]
"""From a key and a text to the path that a stub may name and the blobs to save first."""
Count = Callable[[str], int]

_LIST_SHARE = 0.2
"""Share of the room for lines of older messages: most of it is for whole messages."""
_NOTE_LIST_SHARE = 0.4
"""The same for notes: what an older one asks for must be seen."""
_LINE_CHARS = 100
_NOTE_LINE_CHARS = 160
"""A sentence that asks for something is seldom longer."""
_TAGS = re.compile(r"</?[A-Za-z][\w-]*>")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_REQUESTS = re.compile(
    r"\b(?:must|never|always|do not|don['’]t|only|should|shall|may not|cannot|please|make sure|ensure|avoid|instead"
    r"|from now on|remember|required|forbidden|stop|keep|use|ask)\b|必须|不要|请|务必|禁止|不得|始终|只能",
    re.IGNORECASE,
)
"""How a request sounds. A note without one is still listed, and saved in the file."""


class _Line(NamedTuple):
    text: str
    is_urgent: bool = False
    """Comes first if there is no room for all."""


class _ListKind(NamedTuple):
    key: str
    """Of its file."""
    subject: str
    trust: int
    shorten: Callable[[str], _Line]
    hint: str = ""


def _message_line(text: str) -> _Line:
    return _Line(" ".join(text.split())[:_LINE_CHARS])


def _note_line(text: str) -> _Line:
    """A short note whole; of a longer one the first sentence that asks for something, or else the first."""
    plain = _TAGS.sub(" ", text)
    is_request = _REQUESTS.search(plain) is not None
    if len(plain) <= _NOTE_LINE_CHARS:
        return _Line(" ".join(plain.split()), is_request)
    sentences = [sentence for sentence in _SENTENCES.split(plain) if sentence.strip()]
    requests = (sentence for sentence in sentences if _REQUESTS.search(sentence))
    chosen = next(requests, sentences[0] if sentences else "")
    return _Line(f"… {to_one_line(chosen, _NOTE_LINE_CHARS)} …", is_request)


_MESSAGES = _ListKind("user-messages", texts.MESSAGES_LISTED, USER, _message_line)
_NOTES = _ListKind("operator-notes", texts.NOTES_LISTED, HARNESS, _note_line, texts.NOTES_HINT)


def carry_user_messages(
    originals: Sequence[Item],
    current: Sequence[Item],
    *,
    limit: int,
    count: Count,
    save_blob: SaveBlob,
    whole_count: int = 0,
    may_shorten: bool = True,
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    """The user's messages within `limit` tokens: the newest whole, the older ones as a list.

    `current` are the messages as the request has them, perhaps shortened on arrival. The newest `whole_count` stay as
    they are, however long. If not even the newest fits, it is shortened, or without `may_shorten` listed.
    """
    if sum(item.tokens for item in current) <= limit:
        return tuple(current), ()
    list_limit = round(limit * _LIST_SHARE)
    first_whole, room = _newest_that_fit(current, round(limit * (1 - _LIST_SHARE)))
    if first_whole == len(current) and not whole_count and may_shorten:
        listed, blobs = _list_items(originals[:-1], list_limit, count, save_blob, _MESSAGES)
        short, short_blobs = _shorten(originals[-1], room, count, save_blob)
        return (*listed, short), (*blobs, *short_blobs)
    first_whole = min(first_whole, len(current) - whole_count)
    listed, blobs = _list_items(originals[:first_whole], list_limit, count, save_blob, _MESSAGES)
    return (*listed, *current[first_whole:]), blobs


def carry_operator_notes(
    notes: Sequence[Item], *, limit: int, count: Count, save_blob: SaveBlob
) -> tuple[tuple[Item, ...], tuple[Item, ...], tuple[Blob, ...]]:
    """The newest of the operator's notes that fit, a list of the older ones, and the blobs of the list."""
    if sum(note.tokens for note in notes) <= limit:
        return tuple(notes), (), ()
    first_whole, _ = _newest_that_fit(notes, round(limit * (1 - _NOTE_LIST_SHARE)))
    listed, blobs = _list_items(notes[:first_whole], round(limit * _NOTE_LIST_SHARE), count, save_blob, _NOTES)
    return tuple(notes[first_whole:]), listed, blobs


def _newest_that_fit(items: Sequence[Item], room: int) -> tuple[int, int]:
    """Index of the first of the newest items that fit together, and the room that is left."""
    first = len(items)
    while first > 0 and items[first - 1].tokens <= room:
        first -= 1
        room -= items[first].tokens
    return first, room


def _list_items(
    items: Sequence[Item], room: int, count: Count, save_blob: SaveBlob, kind: _ListKind
) -> tuple[tuple[Item, ...], tuple[Blob, ...]]:
    """One item that lists these, and the blob with their full text."""
    if not items:
        return (), ()
    full_text = "\n\n".join(f"## {n} {item_handle(item)}\n{item.text}" for n, item in enumerate(items, 1))
    path, blobs = save_blob(kind.key, full_text)
    about = texts.listed_range(kind.subject, len(items))
    stub = describe(full_text, kind="input", about=about, tokens=sum(item.tokens for item in items), path=path)
    head = "\n".join([render(stub), *([kind.hint] if kind.hint and path else [])])
    lines = _lines_that_fit(items, room - count(head), count, kind, has_handles=bool(path))
    text = "\n".join([head, *lines])
    tokens = count(text)
    item = Item(id="", message=-1, role="user", kind="text", text=text, tokens=tokens, trust=kind.trust, source=OURS)
    return (item,), blobs


def _lines_that_fit(items: Sequence[Item], room: int, count: Count, kind: _ListKind, *, has_handles: bool) -> list[str]:
    """A line for each item, in order, while there is room: urgent ones first, then the newest."""
    rows = [(n, item, kind.shorten(item.text)) for n, item in enumerate(items, 1)]
    lines: dict[int, str] = {}
    for n, item, line in sorted(rows, key=lambda row: (not row[2].is_urgent, -row[0])):
        # Without a file nothing can be opened by its handle.
        label = f"{n} {item_handle(item)}" if has_handles else str(n)
        room -= count(f"{label}: {line.text}") + 1
        if room < 0:
            break
        lines[n] = f"{label}: {line.text}"
    return [lines[n] for n in sorted(lines)]


def _shorten(item: Item, room: int, count: Count, save_blob: SaveBlob) -> tuple[Item, tuple[Blob, ...]]:
    path, blobs = save_blob("user-message", item.text)
    stub = describe(item.text, kind="input", tokens=item.tokens, path=path)
    text = render(replace(stub, preview=essence(max(60, room - 100))(item.text, count)))
    return replace(item, id="", message=-1, text=text, tokens=count(text), source=OURS, raw=None), blobs
