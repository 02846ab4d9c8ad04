"""The tables of the index: what goes in, and what comes out for a query.

Words are looked for first, side by side as the query has them; then the query as a part of longer words, by
trigrams; then any of its words, the rarest ones. Both full-text tables hold no text of their own, so they cannot forget
a part: where a log was exchanged under us, all is built anew.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ebbtide.store.lines import Position
from ebbtide.store.search_rank import Candidate, ranked
from ebbtide.store.search_words import Query, Term, grams_of, words_of

VERSION = 1
"""Of tables and words. An index of another one is built anew."""
_CANDIDATES = 40  # of each stage, whose texts are looked at: eight for each of the five that are shown
_STRICT_TERMS = 24  # a query of more words is a sentence, and no other text holds all of it
_GRAMS = 48  # enough to leave few texts, in which the whole is then looked for
_LOOSE_TERMS = 24  # the rarest words of a long query say what it is about; more of them only cost time
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
CREATE VIRTUAL TABLE words USING fts5(scope, head, body, content='', tokenize='ascii');
CREATE VIRTUAL TABLE grams USING fts5(body, content='', detail=none, tokenize='trigram');
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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
    """What else finds it: of a result, the call's arguments."""
    blob: str = ""
    """The name under which the same text is kept as a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What was read of a log, and where the reading ended."""

    entries: Sequence[Entry]
    position: Position
    messages: Sequence[tuple[str, int]] = ()
    """Message records by uuid, with their number in the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    session: str
    entry: Entry
    stage: int
    """0: as the query has it; 1: as a part of words; 2: some of its words."""
    copies: int
    """How many entries have this very text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look."""

    word: str
    """That all its entries have."""
    session: int = 0
    project: int = 0


class Known:
    """What earlier batches of a session hold, for one that follows."""

    def __init__(self, db: sqlite3.Connection, session: int) -> None:
        self._db, self._session = db, session

    def call(self, call_id: str) -> Entry | None:
        row = self._db.execute(
            _SELECT + "WHERE e.session = ? AND call_id = ? AND kind = 'call' ORDER BY e.id DESC",
            (self._session, call_id),
        ).fetchone()
        return _entry(row[1:]) if row else None

    def number(self, uuid: str) -> int | None:
        """Of a message."""
        row = self._db.execute(
            "SELECT number FROM message WHERE session = ? AND uuid = ?", (self._session, uuid)
        ).fetchone()
        return int(row[0]) if row else None


_SELECT = (
    "SELECT s.name, handle, text, digest, message, role, kind, e.name, path, call_id, blob "
    "FROM entry e JOIN session s ON s.id = e.session "
)
Fill = Callable[[Position, Known], Batch]
"""Reads on from a position."""


def make_tables(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for statement in _TABLES.split(";") if not version else ():  # another process may have been first
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")
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


def insert(db: sqlite3.Connection, session: int, scope: str, batch: Batch) -> None:
    for entry in batch.entries:
        _insert_one(db, session, scope, entry)
    db.executemany(
        "INSERT OR IGNORE INTO message (session, uuid, number) VALUES (?, ?, ?)",
        [(session, uuid, number) for uuid, number in batch.messages],
    )
    end = batch.position
    db.execute(
        "UPDATE session SET offset = ?, lines = ?, sum = ? WHERE id = ?", (end.offset, end.lines, end.sum, session)
    )


def _insert_one(db: sqlite3.Connection, session: int, scope: str, entry: Entry) -> None:
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
    head, body = words_of(f"{entry.name} {entry.path} {entry.about}"), _ENCODED.sub(" ", entry.text)
    db.execute(
        "INSERT INTO words (rowid, scope, head, body) VALUES (?, ?, ?, ?)",
        (made.lastrowid, scope, head, words_of(body)),
    )
    db.execute("INSERT INTO grams (rowid, body) VALUES (?, ?)", (made.lastrowid, _plain(body)))


def _values(entry: Entry) -> tuple[object, ...]:
    texts = (entry.role, entry.kind, entry.name, entry.path, entry.call_id, entry.blob)
    text = entry.text.encode("utf-8", "surrogatepass")
    return entry.handle, text, entry.digest, entry.message, *map(_plain, texts)


def _entry(row: Sequence[object]) -> Entry:
    handle, text, digest, message, role, kind, name, path, call_id, blob = row
    assert isinstance(text, bytes)
    return Entry(
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


def _plain(text: str) -> str:
    """Without halves of surrogate pairs, which SQLite's UTF-8 cannot hold, and without NUL, which ends a text."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


# --- searching ---------------------------------------------------------------------------------------------------


def search(db: sqlite3.Connection, query: Query, scope: Scope, limit: int) -> list[Found]:
    seen: dict[int, Candidate] = {}
    found: list[list[Candidate]] = []
    for stage in (_side_by_side, _as_parts, _any_of):
        fresh = [one for one in stage(db, query, scope) if one.id not in seen]
        seen |= {one.id: one for one in fresh}
        found = ranked(seen.values(), query)
        if len(found) >= limit:
            break
    return [_told(db, group[0], len(group)) for group in found[:limit]]


def _told(db: sqlite3.Connection, one: Candidate, copies: int) -> Found:
    row = db.execute(_SELECT + "WHERE e.id = ?", (one.id,)).fetchone()
    return Found(session=str(row[0]), entry=_entry(row[1:]), stage=one.stage, copies=copies)


def _side_by_side(db: sqlite3.Connection, query: Query, scope: Scope) -> list[Candidate]:
    if len(query.terms) > _STRICT_TERMS:
        return []
    return _matching(db, " AND ".join(map(_phrase, query.terms)), scope, 0)


def _any_of(db: sqlite3.Connection, query: Query, scope: Scope) -> list[Candidate]:
    rare = sorted((df, n, term) for n, term in enumerate(query.loose) if (df := _documents(db, term)))
    chosen = [term for _, _, term in rare[:_LOOSE_TERMS]]
    return _matching(db, " OR ".join(map(_phrase, chosen)), scope, 2) if chosen else []


def _as_parts(db: sqlite3.Connection, query: Query, scope: Scope) -> list[Candidate]:
    """Texts that hold every term as it is written, within longer words or cut off anywhere."""
    wanted = [term.written.lower() for term in query.terms]
    if len(wanted) > _STRICT_TERMS or any(len(written) < 3 for written in wanted):
        return []
    grams = list(dict.fromkeys(gram for written in wanted for gram in grams_of(written)))
    grams = grams[:: 1 + len(grams) // _GRAMS]
    rows = db.execute(
        "SELECT e.id, e.place, e.kind, e.digest, e.text FROM grams JOIN entry e ON e.id = grams.rowid "
        "JOIN session s ON s.id = e.session WHERE grams MATCH ? AND (s.id = ? OR s.project = ?) ORDER BY e.id DESC",
        (" AND ".join(map(_quoted, grams)), scope.session, scope.project),
    )
    found: list[Candidate] = []
    for row in rows:
        text = row[4].decode("utf-8", "surrogatepass")
        low = text.lower()
        if all(written in low for written in wanted):
            # No measure of how much it is about the query: the shorter the text, the more.
            found.append(_candidate(row[:4], text, 1 / (1 + len(text) / 1000), 1))
        if len(found) == _CANDIDATES:
            break
    return found


def _matching(db: sqlite3.Connection, wanted: str, scope: Scope, stage: int) -> list[Candidate]:
    rows = db.execute(
        "SELECT e.id, e.place, e.kind, e.digest, e.text, rank FROM (SELECT rowid AS id, "
        # What a text is about counts half as much again as what stands in it.
        "bm25(words, 0.0, 1.5, 1.0) AS rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?) w "
        "JOIN entry e ON e.id = w.id",
        (f"scope : {scope.word} AND {{head body}} : ({wanted})", _CANDIDATES),
    )
    return [_candidate(row[:4], row[4].decode("utf-8", "surrogatepass"), -row[5], stage) for row in rows]


def _candidate(row: Sequence[object], text: str, score: float, stage: int) -> Candidate:
    id, place, kind, digest = row
    return Candidate(
        id=int(str(id)), place=int(str(place)), kind=str(kind), digest=str(digest), text=text, score=score, stage=stage
    )


def _documents(db: sqlite3.Connection, term: Term) -> int:
    """How many texts have its rarest word; 0 where one of its words is in none."""
    counts: Iterable[int] = (
        int(row[0]) if row else 0
        for word in term.words
        for row in [db.execute("SELECT doc FROM vocabulary WHERE term = ?", (word,)).fetchone()]
    )
    return min(counts)


def _phrase(term: Term) -> str:
    return _quoted(" ".join(term.words)) + (" *" if term.partial else "")


def _quoted(text: str) -> str:
    return '"' + _plain(text).replace('"', '""') + '"'
