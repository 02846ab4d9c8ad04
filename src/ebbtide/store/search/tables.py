"""The tables of the search index: what is written to them, and how rows become values.

The full-text tables hold no text of their own, so a single entry cannot be removed from them. If a log was replaced,
the index is deleted and built again.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ebbtide.store.log_lines import Position
from ebbtide.store.search.words import Term, split_words

INDEX_VERSION = 4
"""Of the tables and of how text is split into words. An index of another version is built again."""
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{400,}")
"""Pictures, signatures and archives as text. They are not indexed: they would fill the index."""

_TABLES = """
CREATE TABLE project (id INTEGER PRIMARY KEY, path TEXT UNIQUE);
CREATE TABLE session (id INTEGER PRIMARY KEY, project INTEGER, name TEXT, position TEXT, size INTEGER,
    UNIQUE (project, name));
CREATE TABLE message (session INTEGER, uuid TEXT, number INTEGER, PRIMARY KEY (session, uuid)) WITHOUT ROWID;
CREATE TABLE entry (id INTEGER PRIMARY KEY, session INTEGER, handle TEXT, place INTEGER, message INTEGER, role TEXT,
    kind TEXT, name TEXT, path TEXT, call_id TEXT, blob TEXT, digest TEXT, size INTEGER, text BLOB,
    UNIQUE (session, handle));
CREATE INDEX by_call ON entry (session, call_id) WHERE kind = 'call';
CREATE INDEX by_digest ON entry (session, digest);
CREATE INDEX by_place ON entry (session, place, kind, path, size);
CREATE TABLE vector (id INTEGER PRIMARY KEY, model TEXT, data BLOB);
CREATE VIRTUAL TABLE words USING fts5(scope, head, about, body, content='', tokenize='ascii');
CREATE VIRTUAL TABLE prose USING fts5(body, content='', detail=none, tokenize='porter ascii');
CREATE VIRTUAL TABLE grams USING fts5(body, content='', detail=none, tokenize='trigram');
"""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One block or blob of a session, to be found again. Up to `blob` in the order of `_SELECT_ENTRY`."""

    handle: str
    """The content part of an item's id, or a blob's name: unique in its session."""
    text: str
    digest: str
    """Of the text: equal texts are shown once."""
    message: int = -1
    role: str = ""
    kind: str = ""
    name: str = ""
    path: str = ""
    """The file that the tool call names; for a result, the file that its call names."""
    call_id: str = ""
    blob: str = ""
    """The name of the blob with the same text."""
    about: str = ""
    """More text to find it by, which is not stored: the arguments of the call that it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBatch:
    """New entries of a log, and where reading ended."""

    entries: Sequence[IndexEntry]
    position: Position
    messages: Sequence[tuple[str, int]] = ()
    """Uuids of message records, each with its number in the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHit:
    session: str
    entry: IndexEntry
    stage: int
    """How it was found. 0: it has the query's words; 1: the call that it answers has them; 2: within longer words;
    3: it has some of the words; 4: it has a similar meaning."""
    terms: tuple[Term, ...]
    """What was looked for in this stage, the most specific first."""
    copies: int
    """How many entries have this text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of the index to search: one session, or one project."""

    word: str
    """A word in the `scope` column of all its entries."""
    session: int = 0
    project: int = 0
    entry_ids: frozenset[int] | None = None
    """Only these entries; None for all."""

    def __contains__(self, entry_id: int) -> bool:
        return self.entry_ids is None or entry_id in self.entry_ids


class IndexedSession:
    """What the index holds of a session already, for the reader of the next batch."""

    def __init__(self, db: sqlite3.Connection, session: int) -> None:
        self._db, self._session = db, session

    def find_call(self, call_id: str) -> IndexEntry | None:
        condition = "e.session = ? AND call_id = ? AND kind = 'call' ORDER BY e.id DESC"
        row = read_entry(self._db, condition, (self._session, storable(call_id)))
        return row.entry if row else None

    def message_number(self, uuid: str) -> int | None:
        row = self._db.execute(
            "SELECT number FROM message WHERE session = ? AND uuid = ?", (self._session, storable(uuid))
        ).fetchone()
        return int(row[0]) if row else None


_SELECT_ENTRY = (
    "SELECT place, s.name, handle, text, digest, message, role, kind, e.name, path, call_id, blob "
    "FROM entry e JOIN session s ON s.id = e.session"
)
ReadBatch = Callable[[Position, IndexedSession], IndexBatch]
"""Reads a log from a position to its end."""


def create_tables(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for statement in _TABLES.split(";") if not version else ():  # another process may have been first
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {INDEX_VERSION}")
    db.execute("COMMIT")


def find_session(db: sqlite3.Connection, project: str, session: str) -> tuple[int, Position]:
    """Return the session's id and how far it is indexed; 0 if it is not."""
    row = db.execute(
        "SELECT s.id, position, size FROM session s JOIN project p ON p.id = s.project WHERE path = ? AND name = ?",
        (project, session),
    ).fetchone()
    return (int(row[0]), Position(row[1], row[2])) if row else (0, Position())


def add_session(db: sqlite3.Connection, project: str, session: str) -> tuple[int, Position, str]:
    """Return the session's id, position and `scope` column; a new session begins at zero."""
    db.execute("INSERT OR IGNORE INTO project (path) VALUES (?)", (project,))
    (project_id,) = db.execute("SELECT id FROM project WHERE path = ?", (project,)).fetchone()
    start = Position()
    db.execute(
        "INSERT OR IGNORE INTO session (project, name, position, size) VALUES (?, ?, ?, ?)",
        (project_id, session, start.token, start.size),
    )
    session_id, position = find_session(db, project, session)
    return session_id, position, f"p{project_id} s{session_id}"


def find_scope(db: sqlite3.Connection, project: str, session: str, handles: Container[str] | None) -> Scope | None:
    """Return the scope of a session, or of a project if `session` is empty; None if nothing of it is indexed."""
    if not session:
        row = db.execute("SELECT id FROM project WHERE path = ?", (project,)).fetchone()
        scope = Scope(word=f"p{row[0]}", project=int(row[0])) if row else None
    else:
        session_id, _ = find_session(db, project, session)
        scope = Scope(word=f"s{session_id}", session=session_id) if session_id else None
    if scope is None or handles is None:
        return scope
    rows = db.execute("SELECT id, handle FROM entry WHERE session = ?", (scope.session,))
    return replace(scope, entry_ids=frozenset(int(entry_id) for entry_id, handle in rows if handle in handles))


def insert_batch(db: sqlite3.Connection, session: int, scope: str, batch: IndexBatch) -> None:
    for entry in batch.entries:
        _insert_entry(db, session, scope, entry)
    db.executemany(
        "INSERT OR IGNORE INTO message (session, uuid, number) VALUES (?, ?, ?)",
        [(session, storable(uuid), number) for uuid, number in batch.messages],
    )
    end = batch.position
    db.execute("UPDATE session SET position = ?, size = ? WHERE id = ?", (end.token, end.size, session))


def _insert_entry(db: sqlite3.Connection, session: int, scope: str, entry: IndexEntry) -> None:
    """Insert an entry, or move it to its newest place if it is there. A blob only adds its name to an equal text."""
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    if entry.kind == "blob":
        same_text = db.execute(
            "UPDATE entry SET blob = ? WHERE session = ? AND digest = ?", (entry.blob, session, entry.digest)
        )
        if same_text.rowcount:
            return
    same_handle = db.execute(
        "UPDATE entry SET place = ?, message = ? WHERE session = ? AND handle = ?",
        (last, entry.message, session, entry.handle),
    )
    if same_handle.rowcount:
        return
    names = map(storable, (entry.role, entry.kind, entry.name, entry.path, entry.call_id, entry.blob))
    text = entry.text.encode("utf-8", "surrogatepass")
    row_id = db.execute(
        "INSERT INTO entry (session, place, handle, size, text, digest, message, role, kind, name, path, call_id, blob)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session, last + 1, entry.handle, len(text), text, entry.digest, entry.message, *names),
    ).lastrowid
    body = _ENCODED.sub(" ", entry.text)
    columns = [split_words(text) for text in (f"{entry.name} {entry.path}", entry.about, body)]
    db.execute("INSERT INTO words (rowid, scope, head, about, body) VALUES (?, ?, ?, ?, ?)", (row_id, scope, *columns))
    db.execute("INSERT INTO prose (rowid, body) VALUES (?, ?)", (row_id, columns[-1]))
    db.execute("INSERT INTO grams (rowid, body) VALUES (?, ?)", (row_id, storable(body)))


class EntryRow(NamedTuple):
    place: int
    """Higher for what was recorded later."""
    session: str
    """The name of its session."""
    entry: IndexEntry


def read_entry(db: sqlite3.Connection, condition: str, parameters: Sequence[object]) -> EntryRow | None:
    """Return the first entry that meets the condition."""
    row = db.execute(f"{_SELECT_ENTRY} WHERE {condition}", parameters).fetchone()
    if row is None:
        return None
    place, session, handle, text, *rest = row
    return EntryRow(place, session, IndexEntry(handle, text.decode("utf-8", "surrogatepass"), *rest))


def storable(text: str) -> str:
    """Replace lone surrogates, which SQLite's UTF-8 cannot hold, and NUL, which ends a text."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
