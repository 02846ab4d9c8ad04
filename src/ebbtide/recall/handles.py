"""Looks up what a session recorded by its handle.

An item's handle is the beginning of its content hash. A stored result's handle is its file name, or the path that our
stub gave. Anything else is refused, even if a file of that name exists: no file is opened because a text names it.

Several conversations can share a session, as branches of one log. A `Scope` limits what one of them can open.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.records import strings_in
from ebbtide.core.stub import digest, without_prefix
from ebbtide.core.tool_calls import file_path
from ebbtide.core.types import Item
from ebbtide.store import LogReader, Position, ReadResult, Record
from ebbtide.store.search.tables import IndexEntry
from ebbtide.wire import wire_of_record
from ebbtide.wire.blocks import BY_ORDER, SCHEME, Block, answer_in_order
from ebbtide.wire.protocol import Wire

SHORT_HANDLE_DIGITS = 8
"""Hexadecimal digits of a short handle: in a session of 10,000 items two items share them in one session of 80."""
_HANDLE = re.compile(rf"(?:{SCHEME}-)?(?P<hash>[0-9a-f]{{{SHORT_HANDLE_DIGITS},20}})(?:-(?P<nth>[0-9]{{1,6}}))?")
_MESSAGE_TYPES = ("user", "assistant", "system")
_MAX_ABOUT_CHARS = 400  # of a call's arguments, which help to find its result: a command, a pattern, a path
_MAX_CANDIDATES = 5  # that an error message lists


class EarlierRecords(Protocol):
    """Looks up calls and messages of earlier records."""

    def find_call(self, call_id: str) -> IndexEntry | None: ...
    def message_number(self, uuid: str) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one conversation can read of its session: the messages of its newest request, and what was removed."""

    messages: Sequence[str]
    """Uuids of message records, in the order of the request."""
    blobs: Collection[str]
    """Names of the stored results that its edits offloaded."""


def read_messages(
    records: Sequence[Record], earlier: EarlierRecords
) -> Iterator[tuple[str, int, list[tuple[IndexEntry, Any]]]]:
    """Yield each message's uuid, its number in the conversation, and its index entries with the raw blocks."""
    calls: dict[str, IndexEntry] = {}
    numbers: dict[str, int] = {}
    nameless_calls: dict[str, list[tuple[str, str]]] = {}
    """Of each message: names and item ids of its calls that have no id of their own."""
    for record in records:
        if record.get("type") not in _MESSAGE_TYPES:
            continue
        uuid, parent = str(record.get("uuid") or ""), str(record.get("parentUuid") or "")
        parent_number = numbers[parent] if parent in numbers else earlier.message_number(parent) if parent else None
        number = numbers[uuid] = 0 if parent_number is None else parent_number + 1
        blocks = []
        for handle, block in _with_call_ids(record, _split_blocks(record), nameless_calls):
            call = calls.get(block.call_id) or earlier.find_call(block.call_id) if block.kind == "result" else None
            entry = _build_entry(handle, block, number, call)
            if block.kind == "call":
                calls[block.call_id] = entry
            blocks.append((entry, block.raw))
        yield uuid, number, blocks


def _split_blocks(record: Record) -> list[tuple[str, Block]]:
    """Split a message into blocks with the content part of their ids. Returns [] if the record holds no message."""
    wire = wire_of_record(record)
    if wire is None:
        return []
    try:
        blocks = wire.messages.split(record.get("wire") or record.get("message"), wire.list_key)
    except BadRequest:
        return []
    id_prefixes = [id.rpartition("-")[0] for id in strings_in(record, "ebbids")]
    if len(id_prefixes) != len(blocks):
        id_prefixes = [block.fingerprint for block in blocks]
    return list(zip(id_prefixes, blocks, strict=True))


def _with_call_ids(
    record: Record, blocks: list[tuple[str, Block]], nameless_calls: dict[str, list[tuple[str, str]]]
) -> list[tuple[str, Block]]:
    """Pair calls and results that have no ids in order, as the reader of requests does."""
    if not any(block.call_id == BY_ORDER for _, block in blocks):
        return blocks
    ids = [*strings_in(record, "ebbids"), *(handle for handle, _ in blocks)]
    open_calls = nameless_calls.get(str(record.get("parentUuid")), [])
    results = [(block.name, "") for _, block in blocks if block.call_id == BY_ORDER and block.kind == "result"]
    answered = iter(answer_in_order([(name, "") for name, _ in open_calls], results))
    calls = nameless_calls.setdefault(str(record.get("uuid")), [])
    paired = list[tuple[str, Block]]()
    for id, (handle, block) in zip(ids, blocks, strict=False):
        call_id = block.call_id
        if call_id == BY_ORDER and block.kind == "call":
            call_id = id
            calls.append((block.name, id))
        elif call_id == BY_ORDER:
            call = next(answered)
            call_id = "" if call is None else open_calls[call][1]
        paired.append((handle, block._replace(call_id=call_id)))
    return paired


def _build_entry(handle: str, block: Block, number: int, call: IndexEntry | None) -> IndexEntry:
    path = call.path if call else ""
    if block.kind == "call":
        path = file_path(Item(id=handle, message=number, role=block.role, kind="call", text=block.text, tokens=0))
    return IndexEntry(
        handle=handle,
        text=block.text,
        digest=digest(block.text),
        message=number,
        role=block.role,
        kind=block.kind,
        name=block.name or (call.name if call else ""),
        path=path,
        call_id=block.call_id,
        about=call.text[:_MAX_ABOUT_CHARS] if call else "",
    )


def _describe_by_call(entry: IndexEntry, call: IndexEntry | None) -> IndexEntry:
    """Give a result the tool name, path and arguments of its call."""
    if call is None:
        return replace(entry, name="", path="", about="")
    return replace(entry, name=call.name, path=call.path, about=call.text[:_MAX_ABOUT_CHARS])


@dataclass(slots=True)
class SessionRecords:
    """Everything that one session recorded. The log is read once; later lookups read only what was added."""

    log: LogReader
    _position: Position = field(default_factory=Position)
    _items: dict[str, IndexEntry] = field(default_factory=dict)
    """Entries by the content part of their ids."""
    _ids: set[str] = field(default_factory=set)
    _calls: dict[str, IndexEntry] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _blobs: set[str] = field(default_factory=set)
    _messages: dict[str, list[IndexEntry]] = field(default_factory=dict)
    """The entries of each message, by its uuid."""
    _blob_folders: set[str] = field(default_factory=set)
    """Directories that stubs of this session name. In a fork, they belong to the session it was forked from."""

    def find_call(self, call_id: str) -> IndexEntry | None:
        return self._calls.get(call_id)

    def message_number(self, uuid: str) -> int | None:
        return self._numbers.get(uuid)

    def items_in(self, scope: Scope) -> dict[str, IndexEntry]:
        """Return a conversation's items by the content part of their ids. Only its own calls describe its results."""
        self._refresh()
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
        """Return the entry of a handle, with its full text. Raises BadRequest if the session or the scope lacks it."""
        self._refresh()
        wanted = handle.strip()
        name = self._blob_name(wanted)
        if name and (scope is None or name in scope.blobs):
            text = self.log.read_blob(name)
            return IndexEntry(handle=name, text=text, digest=digest(text), role="tool", kind="blob", blob=name)
        match = _HANDLE.fullmatch(wanted)
        items = self._items if scope is None else self.items_in(scope)
        matches = [mark for mark in items if match and mark.startswith(f"{SCHEME}-{match['hash']}")]
        nth = match and match["nth"]
        if nth is not None and len(matches) == 1 and f"{matches[0]}-{nth}" not in self._ids:
            matches = []
        if not matches:
            owner = "session" if scope is None else "conversation"
            raise BadRequest(f"{wanted[:80]!r} is not a handle of this {owner}")
        if len(matches) > 1:
            candidates = ", ".join(mark.partition("-")[2] for mark in matches[:_MAX_CANDIDATES])
            raise BadRequest(f"{wanted[:80]!r} matches {len(matches)} items: {candidates}. Give more digits")
        return items[matches[0]]

    def _blob_name(self, handle: str) -> str:
        """Return the name of one of our stored results, or an empty string, even if such a file exists on disk."""
        folder, name = os.path.split(without_prefix(handle))
        if name not in self._blobs or (folder and folder not in self._blob_folders):
            return ""
        return name

    def _refresh(self) -> None:
        reading = read_since(self.log, self._position)
        if reading is None:
            by_id = (self._items, self._calls, self._numbers, self._messages)
            for table in (*by_id, self._ids, self._blobs, self._blob_folders):
                table.clear()
            reading = self.log.read()
        for uuid, number, blocks in read_messages(reading.records, self):
            self._numbers[uuid] = number
            entries = [entry if entry.text else replace(entry, text=_raw_as_json(raw)) for entry, raw in blocks]
            self._messages[uuid] = entries
            self._items |= {entry.handle: entry for entry in entries}
            self._calls |= {entry.call_id: entry for entry, _ in blocks if entry.kind == "call"}
        self._ids |= {id for record in reading.records for id in strings_in(record, "ebbids")}
        self._learn_blobs(reading)
        self._position = reading.position

    def _learn_blobs(self, reading: ReadResult) -> None:
        self._blobs |= set(reading.blob_sums)
        for record in reading.records:
            situation = record.get("situation")
            if record.get("type") == "ebb" and isinstance(situation, Mapping) and situation.get("directory"):
                self._blob_folders.add(str(situation["directory"]))
        for name in reading.blob_sums:
            path = self.log.blob_path(name)
            if path:
                self._blob_folders.add(os.path.dirname(path))


def continues_conversation(records: Sequence[Record], body: Mapping[str, Any], wire: Wire) -> bool:
    """Whether a request continues a recorded conversation: it contains the model's first answer, word for word.

    Clients move or drop reminders, thinking and cache breakpoints, so those are not compared.
    """
    first_answers = _first_answers(records)
    messages = body.get(wire.list_key)
    try:
        sent_blocks = (
            [wire.messages.split(message, wire.list_key) for message in messages] if isinstance(messages, list) else []
        )
    except BadRequest:
        return False
    sent_fingerprints = _answer_fingerprints(block for blocks in sent_blocks for block in blocks)
    return any(answer <= sent_fingerprints for answer in first_answers)


def _first_answers(records: Sequence[Record]) -> list[frozenset[str]]:
    """Return the model's first answer, or several if the first request was repeated."""
    first, later_ids = list[frozenset[str]](), set[object]()
    for record in records:
        if record.get("type") not in _MESSAGE_TYPES:
            continue
        answer = (
            _answer_fingerprints(block for _, block in _split_blocks(record))
            if record["type"] == "assistant"
            else frozenset()
        )
        is_later = record.get("parentUuid") in later_ids
        if answer and not is_later:
            first.append(answer)
        if answer or is_later:
            later_ids.add(record.get("uuid"))
    return first


def _answer_fingerprints(blocks: Iterable[Block]) -> frozenset[str]:
    answer_blocks = (block for block in blocks if block.role == "assistant" and block.kind in ("text", "call"))
    return frozenset(block.fingerprint for block in answer_blocks)


def read_since(log: LogReader, position: Position) -> ReadResult | None:
    """Read what was added to a log since `position`. Returns None if the log was replaced meanwhile."""
    has_started = position != Position()
    try:
        reading = log.read_since(position)
    except StoreError:
        if not has_started:
            raise
        return None
    # An unfinished write does not mean that the log was replaced; a line that does not continue from here does.
    damage_at_start = [damage for damage in reading.damage if damage.offset == position.size and damage.kind != "torn"]
    return None if has_started and damage_at_start else reading


def _raw_as_json(raw: object) -> str:
    """Return a block without text as the provider's JSON."""
    return json.dumps(raw, ensure_ascii=False, default=str) if raw not in (None, "") else ""
