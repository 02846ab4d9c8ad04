"""The search index of a store: an SQLite file that is derived from the logs.

It may be deleted at any time, also while it is open, and is then built again. A file that is damaged or of another
version is replaced. If the file is locked, read-only or the disk is full, `IndexUnavailable` tells the caller to
search in memory instead.
"""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ebbtide.store.directory.safe_fs import FOLDER, NEW, FileSystem
from ebbtide.store.log_lines import Position
from ebbtide.store.search import tables
from ebbtide.store.search.query import Embeddings, search
from ebbtide.store.search.tables import IndexHit, ReadBatch
from ebbtide.store.search.words import Query

_WAIT_MS = 250  # for another process's commit; after that a search in memory is faster
_CACHE_KIB = 65_536  # a first build of 3M characters fits, so that it locks readers out only when it commits
_SUFFIXES = ("", "-journal", "-wal", "-shm")
_BROKEN = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA))
"""Errors that a new file cures: damage, another program's file, tables of another version."""


class IndexUnavailable(Exception):
    """The index cannot be used now. The log is not affected."""


@dataclass(slots=True)
class SearchIndex:
    """An index in the file `path`, or in memory if that is empty."""

    path: str = ""
    embeddings: Embeddings | None = None
    """Finds texts that share no word with the query."""
    fs: FileSystem = field(default_factory=FileSystem)
    _db: sqlite3.Connection | None = None
    _file_id: tuple[int, int] = (0, 0)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def indexed_position(self, project: str, session: str) -> Position:
        """Return how far the session's log is indexed."""
        with self._open() as db:
            return tables.find_session(db, project, session)[1]

    def add(self, project: str, session: str, read_batch: ReadBatch) -> None:
        """Add everything that `read_batch` returns, or nothing. Several processes add each record once."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                session_id, position, scope = tables.add_session(db, project, session)
                tables.insert_batch(db, session_id, scope, read_batch(position, tables.IndexedSession(db, session_id)))
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def search(
        self, query: Query, *, project: str, session: str = "", limit: int, handles: Container[str] | None = None
    ) -> list[IndexHit]:
        """Return the best hits first. Without `session`, search the project; with `handles`, only these entries."""
        if not query.terms:
            return []
        with self._open() as db:
            scope = tables.find_scope(db, project, session, handles)
            return search(db, query, scope, limit, self.embeddings) if scope else []

    def handles_starting_with(self, project: str, session: str, prefix: str) -> list[str]:
        with self._open() as db:
            rows = db.execute(
                "SELECT handle FROM entry WHERE session = ? AND handle >= ? AND handle < ? LIMIT 9",
                (tables.find_session(db, project, session)[0], prefix, prefix + "\uffff"),
            )
            return [str(row[0]) for row in rows]

    def indexed_sessions(self, project: str) -> set[str]:
        with self._open() as db:
            rows = db.execute(
                "SELECT name FROM session WHERE project = (SELECT id FROM project WHERE path = ?)", (project,)
            )
            return {str(row[0]) for row in rows}

    def delete(self) -> None:
        """Delete the index. The next use creates an empty one."""
        with self._lock:
            self._delete_file(self._current_file_id())

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the index if it is not open. If it turns out to be damaged, delete it and raise `IndexUnavailable`."""
        with self._lock:
            try:
                if self._db is not None and self.path and self._current_file_id() != self._file_id:
                    self.close()  # it was deleted, or replaced by another process
                if self._db is None:
                    self._db = self._connect()
                yield self._db
            except (sqlite3.Error, OSError) as error:
                file_id = self._file_id
                self.close()
                if isinstance(error, sqlite3.Error) and _error_code(error) in _BROKEN:
                    self._delete_file(file_id)
                raise IndexUnavailable(str(error)) from error

    def _connect(self) -> sqlite3.Connection:
        if self.path:
            self._create_file()
        db = sqlite3.connect(
            self.path or ":memory:", timeout=_WAIT_MS / 1000, isolation_level=None, check_same_thread=False
        )
        self._file_id = self._current_file_id()
        try:
            _set_up(db)
        except BaseException:
            db.close()
            raise
        return db

    def _create_file(self) -> None:
        """Create an empty file that only its owner can read. SQLite ignores an old journal beside an empty file."""
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(self.fs.stat(self.path).st_mode):
                raise OSError(f"{self.path} is not a regular file")
            return
        with suppress(FileExistsError):
            self.fs.close(self.fs.open(self.path, NEW))

    def _current_file_id(self) -> tuple[int, int]:
        if not self.path:
            return (0, 0)
        try:
            info = self.fs.stat(self.path)
        except FileNotFoundError:
            return (-1, -1)
        return info.st_dev, info.st_ino

    def _delete_file(self, file_id: tuple[int, int]) -> None:
        """Delete the file, unless another process has replaced it already."""
        self.close()
        if not self.path or self._current_file_id() != file_id:
            return
        parent, _, name = self.path.rpartition("/")
        with suppress(OSError):
            folder = self.fs.open(parent or "/", FOLDER)
            for suffix in _SUFFIXES:
                with suppress(OSError):
                    self.fs.unlink(name + suffix, at=folder)
            self.fs.close(folder)


def _set_up(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    # No write-ahead log: if the index is deleted while open, the old file and the new one would share it by name.
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = NORMAL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, tables.INDEX_VERSION):
        error = sqlite3.DatabaseError("of another version")
        error.sqlite_errorcode = sqlite3.SQLITE_SCHEMA
        raise error
    if not version:
        tables.create_tables(db)
    db.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', 'words', 'row')")


def _error_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code; an error of Python's module itself counts as damage."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code & 0xFF
