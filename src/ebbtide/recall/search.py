"""Recall: search everything that a session recorded, and read its exact text by handle.

Before each search the index adds what is new in the log. If the index file cannot be used, the search runs in memory
and finds the same. Nothing here writes to a session or reads a clock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.stub import digest
from ebbtide.core.text.redact import redact
from ebbtide.core.tool_calls import HITS, MOST_HITS, PAGE, RECALL_TOOLS
from ebbtide.core.types import Item
from ebbtide.recall.handles import SHORT_HANDLE_DIGITS, Scope, SessionRecords, read_messages, read_since
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
    """A place that matches a query, with a snippet to judge it by."""

    handle: str
    """For `read`: a stored result's name, or the beginning of an item's content hash."""
    session: str
    message: int
    """The message's number in the conversation, from 0; -1 for a stored result that is not an item."""
    role: str
    kind: str
    """`text`, `call`, `result`, `thinking`, ... as in items; `blob` for a stored result that is not an item."""
    name: str
    """The name of the tool."""
    path: str
    """The file that the call named."""
    file: str
    """Path of the same text on disk, if it was offloaded."""
    line: int
    """The line of the text where the snippet begins, from 1."""
    start: int
    """The character of the text where the snippet begins, as `read` takes it."""
    snippet: str
    spans: tuple[tuple[int, int], ...]
    """Start and end of each match in the snippet."""
    total: int
    """Characters of the whole text."""
    copies: int
    """How often this exact text was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of an exact text."""

    handle: str
    session: str
    text: str
    start: int
    end: int
    total: int
    """Characters of the whole text."""
    next: int | None
    """Where the next page starts; None if this is the last."""
    message: int
    role: str
    kind: str
    name: str
    path: str


@dataclass(slots=True)
class RecallSearch:
    """Search and read one session. `store` has the project's other sessions, and a place for the index file."""

    log: LogReader
    store: Store | None = None
    project: str = ""
    embeddings: Embeddings | None = None
    """Adds search by meaning; see `recall.embeddings`."""
    _index: SearchIndex = field(init=False)
    _memory_index: SearchIndex | None = None
    """Used while the file cannot be used."""
    _records: dict[str, SessionRecords] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        path = os.path.join(self.store.root.path, INDEX_NAME) if isinstance(self.store, DirectoryStore) else ""
        self._index = SearchIndex(path, self.embeddings)

    def search(
        self, query: str, *, limit: int = HITS, across: bool = False, scope: Scope | None = None
    ) -> tuple[Hit, ...]:
        """Return the best hits first: of this session, of its whole project (`across`), or of one `scope`."""
        if not 1 <= limit <= MOST_HITS:
            raise BadRequest(f"limit must be from 1 to {MOST_HITS}, not {limit}")
        if not isinstance(query, str):
            raise BadRequest(f"a query must be a string, not {type(query).__name__}")
        parsed_query = parse_query(query)
        if not parsed_query.terms:
            raise BadRequest("a query must contain a letter or a digit")
        if across and scope is not None:
            raise BadRequest("several conversations share this session, so only this conversation can be searched")
        logs = self._open_logs(across)
        scoped_items, handles = dict[str, IndexEntry](), None
        if scope is not None:
            with self._lock:
                scoped_items = self._records_for(self.log.session).items_in(scope)
            handles = {*scoped_items, *scope.blobs}

        def search_in(index: SearchIndex) -> list[Hit]:
            if across and index.indexed_sessions(self.project) - set(logs):
                index.delete()  # deleted sessions must not stay in the index
            for log in logs.values():
                _update_index(index, self.project, log)
            session = "" if across else self.log.session
            hits = index.search(parsed_query, project=self.project, session=session, limit=limit, handles=handles)
            if scope is not None:
                hits = [_describe_in_scope(scoped_items, scope, hit) for hit in hits]
            return [self._build_hit(index, logs[hit.session], hit, parsed_query) for hit in hits]

        return tuple(self._with_index(search_in))

    def read(
        self, handle: str, start: int = 0, end: int | None = None, *, session: str = "",
        scope: Scope | None = None,
    ) -> Page:  # fmt: skip
        """Return the exact text from character `start` to `end`, or one page if no end is given.

        Pass `session` to read a hit of another session of the project. A `scope` limits what can be read.
        """
        if start < 0 or (end is not None and end < start):
            raise BadRequest(f"there is no text from {start} to {end}")
        session_id = session or self.log.session
        with self._lock:
            # Facts write a handle as `#1a2b3c4d`.
            entry = self._records_for(session_id).get(handle.strip().removeprefix("#"), scope)
        total = len(entry.text)
        page_end = min(total, start + PAGE if end is None else end)
        return Page(
            handle=handle.strip(),
            session=session_id,
            text=entry.text[start:page_end],
            start=min(start, total),
            end=max(page_end, min(start, total)),
            total=total,
            next=page_end if page_end < total else None,
            message=entry.message,
            role=entry.role,
            kind=entry.kind,
            name=entry.name,
            path=entry.path,
        )

    def close(self) -> None:
        self._index.close()
        self._memory_index = None

    def _records_for(self, name: str) -> SessionRecords:
        if name not in self._records:
            log = self._open_logs(across=name != self.log.session).get(name)
            if log is None:
                raise BadRequest(f"{name[:80]!r} is not a session of this project")
            self._records[name] = SessionRecords(log)
        return self._records[name]

    def _open_logs(self, across: bool) -> dict[str, LogReader]:
        logs: dict[str, LogReader] = {}
        if across and self.store is not None:
            sessions = [info.session for info in self.store.list_sessions() if info.project == self.project]
            logs = {session: self.store.peek(session, project=self.project) for session in sessions}
        return {**logs, self.log.session: self.log}

    def _with_index(self, action: Callable[[SearchIndex], T]) -> T:
        """Run `action` on the index file, on a new file if that was damaged, or in memory if neither works."""
        for _ in range(2 if self._index.path else 0):
            try:
                result = action(self._index)
            except IndexUnavailable:
                continue
            self._memory_index = None
            return result
        if not self._index.path:
            self._memory_index = self._index
        self._memory_index = self._memory_index or SearchIndex(embeddings=self.embeddings)
        try:
            return action(self._memory_index)
        except IndexUnavailable as error:
            raise StoreError(f"cannot search: {error}") from error

    def _build_hit(self, index: SearchIndex, log: LogReader, index_hit: IndexHit, query: Query) -> Hit:
        entry = index_hit.entry
        excerpt = build_excerpt(entry.text, query, index_hit.terms)
        return Hit(
            handle=entry.handle if entry.kind == "blob" else self._shorten_handle(index, log.session, entry.handle),
            session=index_hit.session,
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
            copies=index_hit.copies,
        )

    def _shorten_handle(self, index: SearchIndex, session: str, handle: str) -> str:
        """Return as few digits as identify the item."""
        digits = handle.partition("-")[2]
        for length in range(SHORT_HANDLE_DIGITS, len(digits), 4):
            if index.handles_starting_with(self.project, session, f"{SCHEME}-{digits[:length]}") == [handle]:
                return digits[:length]
        return digits


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedRecall:
    """Search and read for one of the conversations that share a session."""

    recall: RecallSearch
    scope: Scope

    def search(self, query: str) -> tuple[Hit, ...]:
        return self.recall.search(query, scope=self.scope)

    def read(self, handle: str, start: int = 0, end: int | None = None) -> Page:
        return self.recall.read(handle, start, end, scope=self.scope)


def _describe_in_scope(scoped_items: Mapping[str, IndexEntry], scope: Scope, hit: IndexHit) -> IndexHit:
    """Describe a hit as its own conversation has it. The index knows only the newest of all conversations."""
    entry = scoped_items.get(hit.entry.handle)
    blob = hit.entry.blob if hit.entry.blob in scope.blobs else ""
    return replace(hit, entry=replace(entry, blob=blob)) if entry is not None else hit


def _update_index(index: SearchIndex, project: str, log: LogReader) -> None:
    """Index what is new in a log. If the log was replaced, index it from the beginning."""
    position = index.indexed_position(project, log.session)
    reading = read_since(log, position)
    if reading is None:
        index.delete()
    elif reading.position == position:
        return

    def build_batch(start: Position, earlier: IndexedSession) -> IndexBatch:
        new_records = reading if reading is not None and start == position else read_since(log, start)
        if new_records is None:
            raise StoreError(f"the log of {log.session!r} is being replaced")
        messages = list(read_messages(new_records.records, earlier))
        entries = [entry for _, _, blocks in messages for entry, _ in blocks if _is_searchable(entry)]
        return IndexBatch(
            entries=[*entries, *filter(_is_searchable, (_blob_entry(log, name) for name in new_records.blob_sums))],
            position=new_records.position,
            messages=[(uuid, number) for uuid, number, _ in messages],
        )

    index.add(project, log.session, build_batch)


def _is_searchable(entry: IndexEntry) -> bool:
    """Skip recall results, which quote text that is indexed already, and items without text."""
    return bool(entry.text.strip()) and entry.name not in RECALL_TOOLS


def _blob_entry(log: LogReader, name: str) -> IndexEntry:
    try:
        text = log.read_blob(name)
    except StoreError:
        text = ""  # damaged or deleted: `ebb verify` reports it, and the search can go on
    return IndexEntry(handle=name, text=text, digest=digest(text), role="tool", kind="blob", blob=name)


def find_item_id(items: Sequence[Item], handle: str) -> str:
    """Find an item by its id or the beginning of its hash. Raises BadRequest unless exactly one matches."""
    wanted = handle.strip().removeprefix("#")
    matches = [item.id for item in items if item.id == wanted or item.id.partition("-")[2].startswith(wanted)]
    if len(matches) != 1 or not wanted:
        problem = "is not in the last request" if not matches else f"matches {len(matches)} items"
        raise BadRequest(f"{handle[:80]!r} {problem}")
    return matches[0]


# --- with secrets masked ----------------------------------------------------------------------------------------------
# The whole text is masked before it is cut: a cut could split a secret so that the mask misses it.


def search_masked(search: RecallSearch, words: str, *, limit: int, across: bool) -> list[Hit]:
    return [_mask(hit, search, words) for hit in search.search(words, limit=limit, across=across)]


def _mask(hit: Hit, search: RecallSearch, words: str) -> Hit:
    text, masked = redact(search.read(hit.handle, 0, hit.total, session=hit.session).text)
    if not masked:
        return hit
    query = parse_query(words)
    excerpt = build_excerpt(text, query, query.terms)
    return replace(
        hit, line=excerpt.line, start=excerpt.start, snippet=excerpt.snippet, spans=excerpt.spans, total=len(text)
    )


def mask_page(page: Page, search: RecallSearch, *, start: int, end: int) -> tuple[Page, int]:
    """The characters from `start` to `end` of the page's text, masked, and how many secrets the text has."""
    text, masked = redact(search.read(page.handle, 0, page.total, session=page.session).text)
    end = min(len(text), end)
    next_start = end if end < len(text) else None
    masked_page = replace(page, text=text[start:end], start=start, end=end, total=len(text), next=next_start)
    return masked_page, masked.total()
