"""The index is derived: it may be deleted at any time, also while it is open, and is then built again.

It never stands in the way. A file that is damaged or of another version is replaced; one that is locked, read-only or
on a full disk raises `Unusable`, and the caller searches in memory instead. What a hit names is read from the log.
"""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ebbtide.store.directory.file_names import INDEX_NAME
from ebbtide.store.directory.safe_fs import NEW, FileSystem
from ebbtide.store.log_lines import Position
from ebbtide.store.search.meaning import Embeddings
from ebbtide.store.search.query import search
from ebbtide.store.search.tables import (
    INDEX_VERSION,
    IndexedSession,
    IndexHit,
    ReadBatch,
    insert,
    made,
    make_tables,
    narrowed,
    scope_of,
    session_at,
)
from ebbtide.store.search.words import Query

NAME = INDEX_NAME
_WAIT_MS = 250  # for another process's commit; beyond it a search in memory is faster
_CACHE_KIB = 65_536  # a first build of 3M characters fits, so that it locks readers out only when it commits
_LEFTOVERS = ("", "-journal", "-wal", "-shm")
_BROKEN = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA))
"""Errors that a new file cures: damage, another program's file, tables that are not ours."""


class IndexUnavailable(Exception):
    """The file cannot be used now. Nothing is wrong with the log."""


@dataclass(slots=True)
class SearchIndex:
    """In a file of its own, or in memory where `path` is empty."""

    path: str = ""
    embeddings: Embeddings | None = None
    """Finds what words do not."""
    fs: FileSystem = field(default_factory=FileSystem)
    _db: sqlite3.Connection | None = None
    _inode: tuple[int, int] = (0, 0)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def indexed_position(self, project: str, session: str) -> Position:
        """Up to where the session's log is indexed."""
        with self._using() as db:
            return session_at(db, project, session)[1]

    def add(self, project: str, session: str, fill: ReadBatch) -> None:
        """All of what `fill` reads, or nothing; several processes add each record once."""
        with self._using() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                id, position, scope = made(db, project, session)
                insert(db, id, scope, fill(position, IndexedSession(db, id)))
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def search(
        self, query: Query, *, project: str, session: str = "", limit: int, handles: Container[str] | None = None
    ) -> list[IndexHit]:
        """The best first. Without `session`, over all sessions of the project; with `handles`, among these alone."""
        if not query.terms:
            return []
        with self._using() as db:
            scope = scope_of(db, project, session)
            if scope is not None and handles is not None:
                scope = narrowed(db, scope, handles)
            return search(db, query, scope, limit, self.embeddings) if scope else []

    def handles_starting_with(self, project: str, session: str, start: str) -> list[str]:
        """Handles that begin so."""
        with self._using() as db:
            id = session_at(db, project, session)[0]
            rows = db.execute(
                "SELECT handle FROM entry WHERE session = ? AND handle >= ? AND handle < ? LIMIT 9",
                (id, start, start + "\uffff"),
            )
            return [str(row[0]) for row in rows]

    def indexed_sessions(self, project: str) -> set[str]:
        with self._using() as db:
            rows = db.execute(
                "SELECT name FROM session WHERE project = (SELECT id FROM project WHERE path = ?)", (project,)
            )
            return {str(row[0]) for row in rows}

    def delete(self) -> None:
        """Begin anew, with the next use."""
        with self._lock:
            self._throw_away(self._on_disk())

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """The open index. One that turns out damaged is thrown away, and `Unusable` says to try again."""
        with self._lock:
            try:
                yield self._opened()
            except (sqlite3.Error, OSError) as failed:
                inode = self._inode
                self.close()
                if isinstance(failed, sqlite3.Error) and _code(failed) in _BROKEN:
                    self._throw_away(inode)
                raise IndexUnavailable(str(failed)) from failed

    def _opened(self) -> sqlite3.Connection:
        if self._db is not None and self.path and self._on_disk() != self._inode:
            self.close()  # deleted, or replaced by another process
        if self._db is None:
            self._db = self._connect()
        return self._db

    def _connect(self) -> sqlite3.Connection:
        if self.path:
            self._create()
        db = sqlite3.connect(
            self.path or ":memory:", timeout=_WAIT_MS / 1000, isolation_level=None, check_same_thread=False
        )
        self._inode = self._on_disk()
        try:
            _set_up(db)
        except BaseException:
            db.close()
            raise
        return db

    def _create(self) -> None:
        """An empty file that only its owner can read. SQLite itself drops a journal that it finds beside one."""
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(self.fs.stat(self.path).st_mode):
                raise OSError(f"{self.path} is not a regular file")
            return
        with suppress(FileExistsError):
            self.fs.close(self.fs.open(self.path, NEW))

    def _on_disk(self) -> tuple[int, int]:
        if not self.path:
            return (0, 0)
        try:
            found = self.fs.stat(self.path)
        except FileNotFoundError:
            return (-1, -1)
        return found.st_dev, found.st_ino

    def _throw_away(self, inode: tuple[int, int]) -> None:
        """Unless another process has replaced it already."""
        self.close()
        if self.path and self._on_disk() == inode:
            for end in _LEFTOVERS:
                with suppress(OSError):
                    self._unlink(self.path + end)

    def _unlink(self, path: str) -> None:
        folder = self.fs.open(path.rpartition("/")[0] or "/", 0)
        try:
            self.fs.unlink(path.rpartition("/")[2], at=folder)
        finally:
            self.fs.close(folder)


def _set_up(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    # No write-ahead log: if the index is deleted while open, the old file and the new one would share it by name.
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = NORMAL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, INDEX_VERSION):
        raise _another_version()
    if not version:
        make_tables(db)
    db.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', 'words', 'row')")


def _another_version() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("of another version")
    error.sqlite_errorcode = sqlite3.SQLITE_SCHEMA
    return error


def _code(error: sqlite3.Error) -> int:
    """The primary code; an error of the module itself counts as damage."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF
