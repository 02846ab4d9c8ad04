"""The tables of the index, and what goes into them.

Both full-text tables hold no text of their own, so they cannot forget a part: where a log was exchanged under us, all
is built anew.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

from ebbtide.store.log_lines import Position
from ebbtide.store.search.words import Term, split_words

INDEX_VERSION = 2
"""Of tables and words. An index of another one is built anew."""
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{400,}")
"""Pictures, signatures and packed files: nobody looks for a part of one, and they would fill the index."""

_TABLES = """
CREATE TABLE project (id INTEGER PRIMARY KEY, path TEXT UNIQUE);
CREATE TABLE session (id INTEGER PRIMARY KEY, project INTEGER, name TEXT, offset INTEGER, lines INTEGER, sum TEXT,
    UNIQUE (project, name));
CREATE TABLE message (session INTEGER, uuid TEXT, number INTEGER, PRIMARY KEY (session, uuid)) WITHOUT ROWID;
CREATE TABLE entry (id INTEGER PRIMARY KEY, session INTEGER, handle TEXT, place INTEGER, message INTEGER, role TEXT,
    kind TEXT, name TEXT, path TEXT, call_id TEXT, blob TEXT, digest TEXT, text BLOB, UNIQUE (session, handle));
CREATE INDEX by_call ON entry (session, call_id) WHERE kind = 'call';
CREATE INDEX by_digest ON entry (session, digest);
CREATE TABLE vector (id INTEGER PRIMARY KEY, model TEXT, data BLOB);
CREATE VIRTUAL TABLE words USING fts5(scope, head, about, body, content='', tokenize='ascii');
CREATE VIRTUAL TABLE grams USING fts5(body, content='', detail=none, tokenize='trigram');
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One thing that a session recorded, to be found again."""

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
    """The file that a call names, or that the call of a result did."""
    call_id: str = ""
    about: str = ""
    """What else finds it: the arguments of the call that it answers."""
    blob: str = ""
    """The name under which the same text is kept as a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBatch:
    """What was read of a log, and where the reading ended."""

    entries: Sequence[IndexEntry]
    position: Position
    messages: Sequence[tuple[str, int]] = ()
    """Message records by uuid, with their number in the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHit:
    session: str
    entry: IndexEntry
    stage: int
    """0: as the query has it; 1: the call that it answers does; 2: within longer words; 3: some of its words;
    4: something that means the same."""
    terms: tuple[Term, ...]
    """What was looked for in this stage, the most telling first."""
    copies: int
    """How many entries have this very text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look."""

    word: str
    """That all its entries have."""
    session: int = 0
    project: int = 0
    only: frozenset[int] | None = None
    """Ids of the entries that count; None where all of them do."""

    def has(self, id: int) -> bool:
        return self.only is None or id in self.only


class IndexedSession:
    """What earlier batches of a session hold, for one that follows."""

    def __init__(self, db: sqlite3.Connection, session: int) -> None:
        self._db, self._session = db, session

    def find_call(self, call_id: str) -> IndexEntry | None:
        row = self._db.execute(
            SELECT + "WHERE e.session = ? AND call_id = ? AND kind = 'call' ORDER BY e.id DESC",
            (self._session, plain(call_id)),
        ).fetchone()
        return entry_of(row[1:]) if row else None

    def message_number(self, uuid: str) -> int | None:
        """Of a message."""
        row = self._db.execute(
            "SELECT number FROM message WHERE session = ? AND uuid = ?", (self._session, plain(uuid))
        ).fetchone()
        return int(row[0]) if row else None


SELECT = (
    "SELECT s.name, handle, text, digest, message, role, kind, e.name, path, call_id, blob "
    "FROM entry e JOIN session s ON s.id = e.session "
)
ReadBatch = Callable[[Position, IndexedSession], IndexBatch]
"""Reads on from a position."""


def make_tables(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for statement in _TABLES.split(";") if not version else ():  # another process may have been first
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {INDEX_VERSION}")
    db.execute("COMMIT")


# --- rows --------------------------------------------------------------------------------------------------------


def session_at(db: sqlite3.Connection, project: str, session: str) -> tuple[int, Position]:
    row = db.execute(
        "SELECT s.id, offset, lines, sum FROM session s JOIN project p ON p.id = s.project WHERE path = ? AND name = ?",
        (project, session),
    ).fetchone()
    return (int(row[0]), Position(offset=row[1], lines=row[2], sum=row[3])) if row else (0, Position())


def made(db: sqlite3.Connection, project: str, session: str) -> tuple[int, Position, str]:
    """The session's id, position and scope; a new one begins at zero."""
    db.execute("INSERT OR IGNORE INTO project (path) VALUES (?)", (project,))
    (owner,) = db.execute("SELECT id FROM project WHERE path = ?", (project,)).fetchone()
    start = Position()
    db.execute(
        "INSERT OR IGNORE INTO session (project, name, offset, lines, sum) VALUES (?, ?, ?, ?, ?)",
        (owner, session, start.offset, start.lines, start.sum),
    )
    id, position = session_at(db, project, session)
    return id, position, f"p{owner} s{id}"


def scope_of(db: sqlite3.Connection, project: str, session: str) -> Scope | None:
    """One session's entries, or all of a project's; None where there are none."""
    if session:
        id, _ = session_at(db, project, session)
        return Scope(word=f"s{id}", session=id) if id else None
    row = db.execute("SELECT id FROM project WHERE path = ?", (project,)).fetchone()
    return Scope(word=f"p{row[0]}", project=int(row[0])) if row else None


def narrowed(db: sqlite3.Connection, scope: Scope, handles: Container[str]) -> Scope:
    """The entries of one session that have these handles."""
    rows = db.execute("SELECT id, handle FROM entry WHERE session = ?", (scope.session,))
    return replace(scope, only=frozenset(int(id) for id, handle in rows if handle in handles))


def insert(db: sqlite3.Connection, session: int, scope: str, batch: IndexBatch) -> None:
    for entry in batch.entries:
        _insert_one(db, session, scope, entry)
    db.executemany(
        "INSERT OR IGNORE INTO message (session, uuid, number) VALUES (?, ?, ?)",
        [(session, plain(uuid), number) for uuid, number in batch.messages],
    )
    end = batch.position
    db.execute(
        "UPDATE session SET offset = ?, lines = ?, sum = ? WHERE id = ?", (end.offset, end.lines, end.sum, session)
    )


def _insert_one(db: sqlite3.Connection, session: int, scope: str, entry: IndexEntry) -> None:
    """Recorded again, it only moves to its newest place. A blob of a text that is there gives it its name."""
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM entry").fetchone()
    if entry.kind == "blob":
        named = db.execute(
            "UPDATE entry SET blob = ? WHERE session = ? AND digest = ?", (entry.blob, session, entry.digest)
        )
        if named.rowcount:
            return
    moved = db.execute(
        "UPDATE entry SET place = ?, message = ? WHERE session = ? AND handle = ?",
        (last, entry.message, session, entry.handle),
    )
    if moved.rowcount:
        return
    made = db.execute(
        "INSERT INTO entry (session, place, handle, text, digest, message, role, kind, name, path, call_id, blob) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session, last + 1, *_values(entry)),
    )
    body = _ENCODED.sub(" ", entry.text)
    columns = (scope, *map(split_words, (f"{entry.name} {entry.path}", entry.about, body)))
    db.execute("INSERT INTO words (rowid, scope, head, about, body) VALUES (?, ?, ?, ?, ?)", (made.lastrowid, *columns))
    db.execute("INSERT INTO grams (rowid, body) VALUES (?, ?)", (made.lastrowid, plain(body)))


def _values(entry: IndexEntry) -> tuple[object, ...]:
    texts = (entry.role, entry.kind, entry.name, entry.path, entry.call_id, entry.blob)
    text = entry.text.encode("utf-8", "surrogatepass")
    return entry.handle, text, entry.digest, entry.message, *map(plain, texts)


def entry_of(row: Sequence[object]) -> IndexEntry:
    handle, text, digest, message, role, kind, name, path, call_id, blob = row
    assert isinstance(text, bytes)
    return IndexEntry(
        handle=str(handle),
        text=text.decode("utf-8", "surrogatepass"),
        digest=str(digest),
        message=int(str(message)),
        role=str(role),
        kind=str(kind),
        name=str(name),
        path=str(path),
        call_id=str(call_id),
        blob=str(blob),
    )


def plain(text: str) -> str:
    """Without halves of surrogate pairs, which SQLite's UTF-8 cannot hold, and without NUL, which ends a text."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
