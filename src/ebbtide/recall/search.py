"""The way back: search over all that a session recorded, and its exact text by handle.

The index is brought up to the log before each search, by what is new. Where its file cannot be used, the search runs
in memory and finds the same. Nothing here writes to a session or reads a clock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ebbtide.core.blob_names import digest
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.tool_calls import HITS, MOST_HITS, PAGE, RECALL_TOOLS
from ebbtide.core.types import Item
from ebbtide.recall.handles import SHORT, Scope, SessionRecords, read_messages, read_since
from ebbtide.store import DirectoryStore, LogReader, Position, Store
from ebbtide.store.directory.file_names import INDEX_NAME
from ebbtide.store.search.hits import build_excerpt
from ebbtide.store.search.index import IndexUnavailable, SearchIndex
from ebbtide.store.search.query import Embeddings
from ebbtide.store.search.tables import IndexBatch, IndexedSession, IndexEntry, IndexHit
from ebbtide.store.search.words import Query, parse_query
from ebbtide.wire.blocks import SCHEME

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Where a query was found, and enough of it to tell whether it is the right place."""

    handle: str
    """For `read`: a stored result's name, or the beginning of an item's content hash."""
    session: str
    message: int
    """Its number in the conversation, from 0; -1 for a stored result that is no item."""
    role: str
    kind: str
    """`text`, `call`, `result`, `thinking`, ... as items have it; `blob` for a stored result that is no item."""
    name: str
    """The tool's."""
    path: str
    """The file that the call named."""
    file: str
    """Where the same text stands on disk, if it was taken out."""
    line: int
    """Of the text, from 1: where the snippet begins."""
    start: int
    """The same as a character's place: what `read` takes."""
    snippet: str
    spans: tuple[tuple[int, int], ...]
    """What matched, as places in the snippet."""
    total: int
    """Characters of the whole text."""
    copies: int
    """How often this very text was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of an exact text."""

    handle: str
    session: str
    text: str
    start: int
    end: int
    total: int
    """Characters of the whole."""
    next: int | None
    """Where the next page starts; None where this is the last."""
    message: int
    role: str
    kind: str
    name: str
    path: str


@dataclass(slots=True)
class RecallSearch:
    """One session's way back. `store` is asked for other sessions of its project, and for where its index may stand."""

    log: LogReader
    store: Store | None = None
    project: str = ""
    embeddings: Embeddings | None = None
    """Finds what words do not; see `drive.embedding`."""
    _index: SearchIndex = field(init=False)
    _memory_index: SearchIndex | None = None
    """In memory, for as long as the file cannot be used."""
    _recorded: dict[str, SessionRecords] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        at = os.path.join(self.store.root.path, INDEX_NAME) if isinstance(self.store, DirectoryStore) else ""
        self._index = SearchIndex(at, self.embeddings)

    def search(
        self, query: str, *, limit: int = HITS, across: bool = False, scope: Scope | None = None
    ) -> tuple[Hit, ...]:
        """The best places first, in this session or in all of its project; with a `scope`, in that alone."""
        if not 1 <= limit <= MOST_HITS:
            raise BadRequest(f"limit must be from 1 to {MOST_HITS}, not {limit}")
        if not isinstance(query, str):
            raise BadRequest(f"a query must be a text, not {type(query).__name__}")
        parsed = parse_query(query)
        if not parsed.terms:
            raise BadRequest("a query must have a letter or a digit")
        if across and scope is not None:
            raise BadRequest("this session tells conversations apart by how they begin: only this one can be searched")
        logs = self._logs(across)
        own = self._items_in(scope) if scope is not None else {}
        handles = None if scope is None else {*own, *scope.blobs}

        def look(index: SearchIndex) -> list[Hit]:
            if across and index.indexed_sessions(self.project) - set(logs):
                index.delete()  # sessions that were collected must not be found, nor kept
            for log in logs.values():
                _catch_up(index, self.project, log)
            session = "" if across else self.log.session
            hits = index.search(parsed, project=self.project, session=session, limit=limit, handles=handles)
            if scope is not None:
                hits = [_describe_in_scope(own, scope, hit) for hit in hits]
            return [self._hit(index, logs[hit.session], hit, parsed) for hit in hits]

        return tuple(self._with_index(look))

    def read(
        self, handle: str, start: int = 0, end: int | None = None, *, session: str = "",
        scope: Scope | None = None,
    ) -> Page:  # fmt: skip
        """The exact text from `start` to `end`, in characters; a page of it where no end is given.

        `session` is for a hit of another session of the project. Without it only what this one recorded is read; with
        a `scope`, what that part of it holds.
        """
        if start < 0 or (end is not None and end < start):
            raise BadRequest(f"there is no text from {start} to {end}")
        name = session or self.log.session
        with self._lock:
            # The ledger writes a handle as `#1a2b3c4d`.
            entry = self._record_of(name).get(handle.strip().removeprefix("#"), scope)
        total = len(entry.text)
        until = min(total, start + PAGE if end is None else end)
        return Page(
            handle=handle.strip(),
            session=name,
            text=entry.text[start:until],
            start=min(start, total),
            end=max(until, min(start, total)),
            total=total,
            next=until if until < total else None,
            message=entry.message,
            role=entry.role,
            kind=entry.kind,
            name=entry.name,
            path=entry.path,
        )

    def close(self) -> None:
        self._index.close()
        self._memory_index = None

    def _record_of(self, name: str) -> SessionRecords:
        if name not in self._recorded:
            log = self._logs(across=name != self.log.session).get(name) or self._missing(name)
            self._recorded[name] = SessionRecords(log)
        return self._recorded[name]

    def _items_in(self, scope: Scope) -> dict[str, IndexEntry]:
        with self._lock:
            return self._record_of(self.log.session).within(scope)

    def _missing(self, name: str) -> LogReader:
        raise BadRequest(f"{name[:80]!r} is no session of this project")

    def _logs(self, across: bool) -> dict[str, LogReader]:
        logs: dict[str, LogReader] = {}
        for info in self.store.list_sessions() if across and self.store else ():
            if info.project == self.project and info.session != self.log.session:
                logs[info.session] = self.store.peek(info.session, project=self.project) if self.store else self.log
        return {**logs, self.log.session: self.log}

    def _with_index(self, look: Callable[[SearchIndex], T]) -> T:
        """On the file; on a new one where it was damaged; in memory where it cannot be used."""
        for _ in range(2 if self._index.path else 0):
            try:
                result = look(self._index)
            except IndexUnavailable:
                continue
            self._memory_index = None
            return result
        if not self._index.path:
            self._memory_index = self._index
        self._memory_index = self._memory_index or SearchIndex(embeddings=self.embeddings)
        try:
            return look(self._memory_index)
        except IndexUnavailable as failed:
            raise StoreError(f"cannot search: {failed}") from failed

    def _hit(self, index: SearchIndex, log: LogReader, hit: IndexHit, query: Query) -> Hit:
        entry = hit.entry
        excerpt = build_excerpt(entry.text, query, hit.terms)
        return Hit(
            handle=entry.handle if entry.kind == "blob" else self._short(index, log.session, entry.handle),
            session=hit.session,
            message=entry.message,
            role=entry.role,
            kind=entry.kind,
            name=entry.name,
            path=entry.path,
            file=log.blob_path(entry.blob) if entry.blob else "",
            line=excerpt.line,
            start=excerpt.start,
            snippet=excerpt.snippet,
            spans=excerpt.spans,
            total=len(entry.text),
            copies=hit.copies,
        )

    def _short(self, index: SearchIndex, session: str, mark: str) -> str:
        """As few digits as mean this item alone."""
        digits = mark.partition("-")[2]
        for length in range(SHORT, len(digits), 4):
            if index.handles_starting_with(self.project, session, f"{SCHEME}-{digits[:length]}") == [mark]:
                return digits[:length]
        return digits


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRecall:
    """A session's way back for one of the conversations that share it."""

    recall: RecallSearch
    scope: Scope

    def search(self, query: str) -> tuple[Hit, ...]:
        return self.recall.search(query, scope=self.scope)

    def read(self, handle: str, start: int = 0, end: int | None = None) -> Page:
        return self.recall.read(handle, start, end, scope=self.scope)


def _describe_in_scope(own: Mapping[str, IndexEntry], scope: Scope, hit: IndexHit) -> IndexHit:
    """What a hit is of, and where it stands, as its own conversation has it: the index knows the newest of all."""
    entry = own.get(hit.entry.handle)
    blob = hit.entry.blob if hit.entry.blob in scope.blobs else ""
    return replace(hit, entry=replace(entry, blob=blob)) if entry is not None else hit


def _catch_up(index: SearchIndex, project: str, log: LogReader) -> None:
    """Index what is new in a log; from its beginning if it is not the log it was."""
    position = index.indexed_position(project, log.session)
    reading = read_since(log, position)
    if reading is None:
        index.delete()
    elif reading.position == position:
        return

    def fill(start: Position, indexed: IndexedSession) -> IndexBatch:
        new_records = reading if reading is not None and start == position else read_since(log, start)
        if new_records is None:
            raise StoreError(f"the log of {log.session!r} is being replaced")
        messages = list(read_messages(new_records.records, indexed))
        entries = [entry for _, _, blocks in messages for entry, _ in blocks if _is_findable(entry)]
        return IndexBatch(
            entries=[*entries, *filter(_is_findable, (_blob_entry(log, name) for name in new_records.blob_sums))],
            position=new_records.position,
            messages=[(uuid, number) for uuid, number, _ in messages],
        )

    index.add(project, log.session, fill)


def _is_findable(entry: IndexEntry) -> bool:
    """What was recalled quotes what is here already; a picture has no words."""
    return bool(entry.text.strip()) and entry.name not in RECALL_TOOLS


def _blob_entry(log: LogReader, name: str) -> IndexEntry:
    try:
        text = log.read_blob(name)
    except StoreError:
        text = ""  # damaged or gone: `verify` tells of it, a search need not end
    return IndexEntry(handle=name, text=text, digest=digest(text), role="tool", kind="blob", blob=name)


def find_item_id(items: Sequence[Item], handle: str) -> str:
    """The id of the item that a person means, by its id or the beginning of its hash. BadRequest for none."""
    prefix = handle.strip().removeprefix("#")
    matches = [item.id for item in items if item.id == prefix or item.id.partition("-")[2].startswith(prefix)]
    if len(matches) != 1 or not prefix:
        why = "is not in the last request" if not matches else f"may be any of {len(matches)} items"
        raise BadRequest(f"{handle[:80]!r} {why}")
    return matches[0]
