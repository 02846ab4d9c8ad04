"""What a session recorded, under the ids the engine uses. A handle means something only here.

Where several conversations may share a session, as branches of one log, a `Scope` says what one of them may open.

An item's handle is the beginning of its content hash; a stored result's is its name, or the path that our own stub
gave. Whatever else looks like a handle, in a tool's output or elsewhere, is refused: nothing is opened by its name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ebbtide.core.blob_names import MEMORY, digest
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.tool_calls import file_path
from ebbtide.core.types import Item
from ebbtide.store import LogReader, Position, ReadResult, Record
from ebbtide.store.search.tables import IndexEntry
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import SCHEME, Block, fingerprint
from ebbtide.wire.protocol import Wire

SHORT = 8
"""Hexadecimal digits of a short handle: in a session of 10,000 items two share them once in 80 sessions."""
_HANDLE = re.compile(rf"(?:{SCHEME}-)?(?P<hash>[0-9a-f]{{{SHORT},20}})(?:-(?P<nth>[0-9]{{1,6}}))?")
_MESSAGES = ("user", "assistant", "system")
_ABOUT = 400  # characters of a call's arguments that help to find its result: a command, a pattern, a path
_NAMED = 5  # candidates that a refusal lists


class EarlierRecords(Protocol):
    """What was recorded before."""

    def find_call(self, call_id: str) -> IndexEntry | None: ...
    def message_number(self, uuid: str) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One conversation's part of its session's record: the messages of its newest request, and what left it."""

    messages: Sequence[str]
    """Uuids of message records, in the order of the request."""
    blobs: Collection[str]
    """Names of stored results that the edits which hold in it put aside."""


def read_messages(
    records: Sequence[Record], earlier: EarlierRecords
) -> Iterator[tuple[str, int, list[tuple[IndexEntry, Any]]]]:
    """Every message's uuid, its number in the conversation, and its blocks as they came with their entries."""
    calls: dict[str, IndexEntry] = {}
    numbers: dict[str, int] = {}
    for record in records:
        if record.get("type") not in _MESSAGES:
            continue
        uuid, parent = str(record.get("uuid") or ""), str(record.get("parentUuid") or "")
        before = numbers[parent] if parent in numbers else earlier.message_number(parent) if parent else None
        number = numbers[uuid] = 0 if before is None else before + 1
        blocks = []
        for mark, block in _blocks(record):
            call = calls.get(block.call_id) or earlier.find_call(block.call_id) if block.kind == "result" else None
            entry = _entry(mark, block, number, call)
            if block.kind == "call":
                calls[block.call_id] = entry
            blocks.append((entry, block.raw))
        yield uuid, number, blocks


def _blocks(record: Record) -> list[tuple[str, Block]]:
    """The blocks of a message and the content part of their ids; none where another program's row is no message."""
    wire = WIRES.get(str(record.get("ebbwire", "anthropic")))
    if wire is None:
        return []
    try:
        blocks = wire.messages.split(record.get("wire") or record.get("message"), wire.list_key)
    except BadRequest:
        return []
    ids = record.get("ebbids")
    marks = [str(id).rpartition("-")[0] for id in ids] if isinstance(ids, list) else []
    if len(marks) != len(blocks):
        marks = [fingerprint(block.role, block.kind, block.canonical) for block in blocks]
    return list(zip(marks, blocks, strict=True))


def _entry(mark: str, block: Block, number: int, call: IndexEntry | None) -> IndexEntry:
    path = call.path if call else ""
    if block.kind == "call":
        path = file_path(Item(id=mark, message=number, role=block.role, kind="call", text=block.text, tokens=0))
    return IndexEntry(
        handle=mark,
        text=block.text,
        digest=digest(block.text),
        message=number,
        role=block.role,
        kind=block.kind,
        name=block.name or (call.name if call else ""),
        path=path,
        call_id=block.call_id,
        about=call.text[:_ABOUT] if call else "",
    )


def _describe_by_call(entry: IndexEntry, call: IndexEntry | None) -> IndexEntry:
    """Describe a result by the call that it answers."""
    if call is None:
        return replace(entry, name="", path="", about="")
    return replace(entry, name=call.name, path=call.path, about=call.text[:_ABOUT])


@dataclass(slots=True)
class SessionRecords:
    """All that one session recorded, read once and then only what is new."""

    log: LogReader
    _position: Position = field(default_factory=Position)
    _items: dict[str, IndexEntry] = field(default_factory=dict)
    """By the content part of the id."""
    _ids: set[str] = field(default_factory=set)
    _calls: dict[str, IndexEntry] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _blobs: set[str] = field(default_factory=set)
    _messages: dict[str, list[IndexEntry]] = field(default_factory=dict)
    """The entries of each message, by its uuid."""
    _shelves: set[str] = field(default_factory=set)
    """Directories that stubs of this session name: a fork's are those of the session it came from."""

    def find_call(self, call_id: str) -> IndexEntry | None:
        return self._calls.get(call_id)

    def message_number(self, uuid: str) -> int | None:
        return self._numbers.get(uuid)

    def within(self, scope: Scope) -> dict[str, IndexEntry]:
        """The items of one conversation, by the content part of their ids; its calls alone say what results are of."""
        self._refresh()
        return self._within(scope)

    def _within(self, scope: Scope) -> dict[str, IndexEntry]:
        items, calls = dict[str, IndexEntry](), dict[str, IndexEntry]()
        for uuid in scope.messages:
            for entry in self._messages.get(uuid, ()):
                if entry.kind == "call":
                    calls[entry.call_id] = entry
                items[entry.handle] = (
                    _describe_by_call(entry, calls.get(entry.call_id)) if entry.kind == "result" else entry
                )
        return items

    def get(self, handle: str, scope: Scope | None = None) -> IndexEntry:
        """The whole text that a handle means. BadRequest where this session, or the scope, does not have it."""
        self._refresh()
        wanted = handle.strip()
        name = self._blob(wanted)
        if name and (scope is None or name in scope.blobs):
            text = self.log.read_blob(name)
            return IndexEntry(handle=name, text=text, digest=digest(text), role="tool", kind="blob", blob=name)
        match = _HANDLE.fullmatch(wanted)
        items = self._items if scope is None else self._within(scope)
        matches = [mark for mark in items if match and mark.startswith(f"{SCHEME}-{match['hash']}")]
        nth = match and match["nth"]
        if nth is not None and len(matches) == 1 and f"{matches[0]}-{nth}" not in self._ids:
            matches = []
        if not matches:
            whose = "session" if scope is None else "conversation"
            raise BadRequest(f"{_shown(wanted)} is not a handle that this {whose} recorded")
        if len(matches) > 1:
            candidates = ", ".join(mark.partition("-")[2] for mark in matches[:_NAMED])
            raise BadRequest(f"{_shown(wanted)} may mean {len(matches)} items: {candidates}. Give more digits")
        return items[matches[0]]

    def _blob(self, handle: str) -> str:
        """The name of a stored result of ours; empty for anything else, whatever stands on the disk."""
        folder, name = os.path.split(handle.removeprefix(MEMORY))
        if name not in self._blobs or (folder and folder not in self._shelves):
            return ""
        return name

    def _refresh(self) -> None:
        reading = read_since(self.log, self._position)
        if reading is None:
            for table in (self._items, self._ids, self._calls, self._numbers, self._messages):
                table.clear()
            self._blobs.clear()
            self._shelves.clear()
            reading = self.log.read()
        for uuid, number, blocks in read_messages(reading.records, self):
            self._numbers[uuid] = number
            entries = [entry if entry.text else replace(entry, text=_raw_as_json(raw)) for entry, raw in blocks]
            self._messages[uuid] = entries
            self._items |= {entry.handle: entry for entry in entries}
            self._calls |= {entry.call_id: entry for entry, _ in blocks if entry.kind == "call"}
        self._ids |= {str(id) for record in reading.records for id in _list(record.get("ebbids"))}
        self._learn_shelf(reading)
        self._position = reading.position

    def _learn_shelf(self, reading: ReadResult) -> None:
        self._blobs |= set(reading.blob_sums)
        for record in reading.records:
            situation = record.get("situation")
            if record.get("type") == "ebb" and isinstance(situation, Mapping) and situation.get("directory"):
                self._shelves.add(str(situation["directory"]))
        for name in reading.blob_sums:
            with_path = self.log.blob_path(name)
            if with_path:
                self._shelves.add(os.path.dirname(with_path))


def continues_conversation(records: Sequence[Record], body: Mapping[str, Any], wire: Wire) -> bool:
    """Whether a request has the beginning of a recorded conversation: the first answer of the model, word for word.

    What clients move or drop in what they send is not compared: reminders, thinking, cache marks.
    """
    first_answers = _first_answers(records)
    messages = body.get(wire.list_key)
    try:
        sent = (
            [wire.messages.split(message, wire.list_key) for message in messages] if isinstance(messages, list) else []
        )
    except BadRequest:
        return False
    sent_answers = _answer_fingerprints(block for blocks in sent for block in blocks)
    return any(answer <= sent_answers for answer in first_answers)


def _first_answers(records: Sequence[Record]) -> list[frozenset[str]]:
    """What the model said first; several where it was asked again."""
    first, later = list[frozenset[str]](), set[object]()
    for record in records:
        if record.get("type") not in _MESSAGES:
            continue
        answer = (
            _answer_fingerprints(block for _, block in _blocks(record))
            if record["type"] == "assistant"
            else frozenset()
        )
        follows = record.get("parentUuid") in later
        if answer and not follows:
            first.append(answer)
        if answer or follows:
            later.add(record.get("uuid"))
    return first


def _answer_fingerprints(blocks: Iterable[Block]) -> frozenset[str]:
    answer_blocks = (block for block in blocks if block.role == "assistant" and block.kind in ("text", "call"))
    return frozenset(fingerprint(block.role, block.kind, block.canonical) for block in answer_blocks)


def read_since(log: LogReader, position: Position) -> ReadResult | None:
    """What was added; None where the log is not the one that was read up to there."""
    begun = position != Position()
    try:
        reading = log.read_since(position)
    except StoreError:
        if not begun:
            raise
        return None
    # A write that was cut short is no sign of it; a line that does not go on from here is.
    damage_here = [damage for damage in reading.damage if damage.offset == position.offset and damage.kind != "torn"]
    return None if begun and damage_here else reading


def _raw_as_json(raw: object) -> str:
    """A block that has no words, as the provider's JSON."""
    return json.dumps(raw, ensure_ascii=False, default=str) if raw not in (None, "") else ""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(handle: str) -> str:
    return repr(handle[:80])
