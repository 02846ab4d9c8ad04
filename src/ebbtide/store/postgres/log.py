"""One session's log in PostgreSQL.

A lock is a transaction that has updated the session's row: other writers wait for it, readers do not. The commit is
made in the same transaction, over the same connection. So a process that was paused, and whose connection the server
has cut, cannot commit over its successor. The lock ends with the first commit; the number in the row, its fence, then
says whether somebody else has locked the session since.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

import psycopg

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record
from ebbtide.store.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from ebbtide.store.log_lines import (
    TAIL,
    LineEnd,
    LogSink,
    Position,
    ReadResult,
    blob_records,
    blob_sum,
    check_blob_name,
    encode_blob,
    encode_commit,
    header_record,
    last_commit_sum,
    scan,
    scan_for_resume,
)
from ebbtide.store.postgres.connections import Connection, begin, roll_back
from ebbtide.store.postgres.place import Place
from ebbtide.store.postgres.rows import UPDATE_SESSION, end_of, session_values
from ebbtide.store.protocol import LOCK_TIMEOUT, BlobInfo, LockLost, LogReplaced, VerifyResult
from ebbtide.store.sessions import check_log

_SHORT_WAIT = 0.5
"""Seconds. Who would wait longer for a lock also waits for a database that is away."""
_BATCH = 64
"""Commits that are fetched at once when a session is resumed: some hundred kilobytes."""
_ROW = (
    "INSERT INTO ebbtide.session AS s (tenant, key, project, name) VALUES (%s, %s, %s, %s) "
    "ON CONFLICT (tenant, key) DO UPDATE SET {change} RETURNING s.id, s.fence, s.size, s.lines, s.chain"
)
_LOCK_ROW = _ROW.format(change="fence = nextval('ebbtide.fence')")
_KEEP_ROW = _ROW.format(change="fence = s.fence")


@dataclass(slots=True)
class _Turn:
    """A transaction that has locked the session's row."""

    connection: Connection
    row: int
    fence: int
    end: Position
    """Of the log."""
    depth: int = 0
    """How often its holder has taken the lock."""
    is_open: bool = True
    is_broken: bool = False
    """The transaction failed: what was planned under it must not be committed."""


class PostgresLog:
    torn_files: tuple[str, ...] = ()

    def __init__(self, place: Place, now: float, *, takes_lease: bool = False) -> None:
        self.session = place.session
        self._place, self._now = place, now
        self._lease: float | None = 0.0 if takes_lease else None
        """When this session was last marked as open; None if it is only read."""
        self._mutex = threading.RLock()
        self._turn: _Turn | None = None
        self._sums: dict[str, str] = {}
        self._unrecorded_sums: dict[str, str] = {}
        """Checksums of blobs that no commit has recorded yet."""

    # --- reading -------------------------------------------------------------------------------------------------

    def read(self) -> ReadResult:
        return self.read_since(Position())

    def read_since(self, position: Position) -> ReadResult:
        with self._mutex:
            turn = self._turn
            if turn is not None and turn.is_open and turn.end == position:
                return ReadResult(position=position)
            end, chunks = self._fetch(position)
            if end.size < position.size:
                raise self._replaced("was deleted")
            if end == position:
                return ReadResult(position=position)
            result = self._note_checked(scan(chunks, position))
            if position.token and (not chunks or (result.damage and result.damage[0].offset == position.size)):
                raise self._replaced("was deleted and begun again")
            return result

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        with self._mutex, self._reading() as connection:
            start = Position()
            checkpoint = self._read_checkpoint(connection, snapshot_format) if snapshot_format else None
            if checkpoint is not None:
                sink(checkpoint.records)
                self._sums |= checkpoint.blob_sums
                start = checkpoint.position
            return self._note_checked(scan_for_resume(self._stream(connection, start), start, sink))

    def read_blob(self, name: str) -> str:
        rows = self._query(
            b"SELECT data, sum FROM ebbtide.blob WHERE name = %s AND tenant = %s AND key = %s", check_blob_name(name)
        )
        if not rows:
            raise StoreError(f"{name} is not stored in session {self.session!r}")
        data, recorded_sum = cast(bytes, rows[0][0]), rows[0][1]
        if not blob_sum(data) == recorded_sum == self._sums.get(name, recorded_sum):
            raise StoreError(f"{name} of session {self.session!r} is not what was stored: its checksum differs")
        return data.decode("utf-8", "surrogatepass")

    def blob_path(self, name: str) -> str:
        check_blob_name(name)
        return ""

    def list_blobs(self) -> list[BlobInfo]:
        rows = self._query(
            b"SELECT name, octet_length(data), saved FROM ebbtide.blob WHERE tenant = %s AND key = %s ORDER BY name"
        )
        return [BlobInfo(name=str(name), bytes=int(str(n)), modified=float(str(at))) for name, n, at in rows]

    def verify(self) -> VerifyResult:
        reading = self.read()
        if not reading.position.size and not reading.damage:
            raise StoreError(f"session {self.session!r} is not stored")
        end = self._read_end()
        checked = check_log(reading, lambda name: encode_blob(self.read_blob(name)))
        if reading.position.size >= end.size:
            return checked
        missing = f"of {end.size:,} committed bytes only the first {reading.position.size:,} are left"
        return VerifyResult(
            path="", lines=checked.lines, unchecked_lines=checked.unchecked_lines, blobs=checked.blobs,
            damage=checked.damage, problems=(missing, *checked.problems), torn_files=(),
        )  # fmt: skip

    def _fetch(self, position: Position) -> tuple[Position, list[bytes]]:
        """Return the end of the log and the commits after a position: one query, which is cheap if there are none."""
        rows = self._query(
            b"SELECT s.size, s.lines, s.chain, c.data FROM ebbtide.session s LEFT JOIN ebbtide.commit c "
            b"ON c.session = s.id AND c.tenant = s.tenant AND c.start >= %s "
            b"WHERE s.tenant = %s AND s.key = %s ORDER BY c.start",
            position.size,
        )
        end = end_of(rows[0][:3]) if rows else Position()
        return end, [cast(bytes, row[3]) for row in rows if row[3] is not None]

    def _read_end(self) -> Position:
        rows = self._query(b"SELECT size, lines, chain FROM ebbtide.session WHERE tenant = %s AND key = %s")
        return end_of(rows[0]) if rows else Position()

    def _query(self, query: bytes, *values: object) -> list[tuple[object, ...]]:
        """Ask over the connection that holds the lock, or over another one."""
        with self._mutex, self._place.as_store_error("read"):
            if self._turn is not None and self._turn.is_open:
                return self._turn.connection.execute(query, (*values, *self._place.key), binary=True).fetchall()
            return self._place.query(query, *values)

    def _read_checkpoint(self, connection: Connection, snapshot_format: str) -> Checkpoint | None:
        """Return the checkpoint if it is of this log, which may have been deleted and begun again since."""
        row = connection.execute(
            "SELECT c.data FROM ebbtide.checkpoint c JOIN ebbtide.session s ON s.id = c.session "
            "WHERE s.tenant = %s AND s.key = %s AND c.tenant = s.tenant",
            self._place.key,
            binary=True,
        ).fetchone()
        checkpoint = decode_checkpoint([cast(bytes, row[0])], snapshot_format) if row else None
        if checkpoint is None:
            return None
        tail = connection.execute(
            "SELECT substring(c.data FROM greatest(1, octet_length(c.data) - %s)), c.start + octet_length(c.data) "
            "FROM ebbtide.commit c JOIN ebbtide.session s ON s.id = c.session "
            "WHERE s.tenant = %s AND s.key = %s AND c.tenant = s.tenant AND c.start < %s ORDER BY c.start DESC LIMIT 1",
            (TAIL, *self._place.key, checkpoint.position.size),
            binary=True,
        ).fetchone()
        if tail is None or tail[1] != checkpoint.position.size:
            return None
        is_same = last_commit_sum(cast(bytes, tail[0])) == LineEnd.at(checkpoint.position).sum
        return checkpoint if is_same else None

    def _stream(self, connection: Connection, start: Position) -> Iterator[bytes]:
        """Yield the commits after a position, some at a time."""
        with connection.cursor(name="ebb_resume", binary=True) as cursor:
            cursor.itersize = _BATCH
            cursor.execute(
                "SELECT c.data FROM ebbtide.commit c JOIN ebbtide.session s ON s.id = c.session "
                "WHERE s.tenant = %s AND s.key = %s AND c.tenant = s.tenant AND c.start >= %s ORDER BY c.start",
                (*self._place.key, start.size),
            )
            for (data,) in cursor:
                yield cast(bytes, data)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Lend the connection that holds the lock, or another one, in a transaction."""
        with self._mutex, self._place.as_store_error("read"):
            if self._turn is not None and self._turn.is_open:
                yield self._turn.connection
                return
            with self._place.transaction(read_only=True) as connection:
                yield connection

    def _replaced(self, reason: str) -> LogReplaced:
        """Forget what is known of the old log."""
        self._sums, self._unrecorded_sums = {}, {}
        return LogReplaced(f"session {self.session!r} in {self._place.label} {reason}")

    def _note_checked(self, result: ReadResult) -> ReadResult:
        self._sums |= result.blob_sums
        return result

    # --- the lock ------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, timeout: float = LOCK_TIMEOUT) -> Iterator[int]:
        if not self._mutex.acquire(timeout=max(0.0, timeout)):
            yield 0
            return
        try:
            if self._turn is None:
                with suppress(StoreError):
                    self._turn = self._take_turn(timeout)
            turn = self._turn
            if turn is None:
                yield 0
                return
            turn.depth += 1
            try:
                yield turn.fence
            finally:
                self._leave(turn)
        finally:
            self._mutex.release()

    def _take_turn(self, timeout: float) -> _Turn:
        """Lock the session's row. Raise `StoreError` if that takes longer, or fails."""
        place = self._place
        takes_lease, patient = self._lease is not None, timeout > _SHORT_WAIT
        begin_turn = partial(self._begin, _LOCK_ROW, timeout, takes_lease=takes_lease)
        with place.as_store_error("lock"), place.timed("ebb_store_lock_seconds"):
            return place.start(begin_turn, "lock", timeout=max(timeout, 0.1), patient=patient)[1]

    def _begin(self, statement: str, timeout: float, connection: Connection, *, takes_lease: bool = False) -> _Turn:
        """Start a transaction that has the session's row, in one round trip."""
        place = self._place
        place.connections.leases.give_back(connection)
        with connection.pipeline():
            begin(connection, place.tenant, lock_seconds=timeout)
            if not place.is_durable:
                connection.execute("SET LOCAL synchronous_commit = off")
            row = connection.execute(statement.encode(), (*place.key, *place.names))
            if takes_lease:
                self._lease = place.connections.leases.take(connection, place.key, self, self._lease or 0.0)
        values = row.fetchone()
        assert values is not None
        return _Turn(connection, int(str(values[0])), int(str(values[1])), end_of(values[2:]))

    def _leave(self, turn: _Turn) -> None:
        turn.depth -= 1
        if turn.depth:
            return
        self._turn = None
        if turn.is_open:
            # The fence must stay: whoever had locked the session before may no longer commit.
            with suppress(psycopg.Error):
                turn.connection.execute("COMMIT")
            self._end(turn)

    def _end(self, turn: _Turn) -> None:
        roll_back(turn.connection)
        turn.is_open = False
        self._place.connections.give_back(turn.connection, "lock")

    # --- writing -------------------------------------------------------------------------------------------------

    def commit(self, records: Sequence[Record], *, at: float, fence: int = 0) -> Position:
        if not self._mutex.acquire(timeout=LOCK_TIMEOUT):
            raise StoreError(f"another thread has held session {self.session!r} for {LOCK_TIMEOUT:.0f} seconds")
        try:
            turn = self._turn
            if not records and not self._unrecorded_sums:
                return turn.end if turn is not None and turn.is_open else self._read_end()
            if turn is None or not turn.is_open or fence not in (0, turn.fence):
                if turn is not None and turn.is_broken and fence:
                    raise self._lost()
                return self._commit_anew(records, at, fence)
            try:
                with self._place.as_store_error("write to"):
                    return self._write(turn, records, at)
            except StoreError:
                turn.is_broken = True
                raise
            finally:
                self._end(turn)
        finally:
            self._mutex.release()

    def _commit_anew(self, records: Sequence[Record], at: float, fence: int) -> Position:
        """Commit in a separate transaction."""
        place = self._place
        begin_turn = partial(self._begin, _KEEP_ROW, LOCK_TIMEOUT)
        with place.as_store_error("write to"):
            _, turn = place.start(begin_turn, "lock", timeout=LOCK_TIMEOUT)
            try:
                if fence not in (0, turn.fence):
                    raise self._lost()
                return self._write(turn, records, at)
            finally:
                self._end(turn)

    def _write(self, turn: _Turn, records: Sequence[Record], at: float) -> Position:
        """Write the records and end the transaction, in one round trip."""
        connection, start, sums, place = turn.connection, turn.end, self._unrecorded_sums, self._place
        header = [] if start.size else [header_record(self.session, place.project, self._now)]
        data, end = encode_commit([*header, *blob_records(sums, at), *records], start)
        with place.timed("ebb_store_commit_seconds"), connection.pipeline():
            connection.execute(
                "INSERT INTO ebbtide.commit (session, start, tenant, data) VALUES (%s, %s, %s, %b)",
                (turn.row, start.size, place.tenant, data),
            )
            connection.execute(UPDATE_SESSION, (*session_values(records, header, end, at), *place.key))
            if sums:
                connection.execute(
                    "UPDATE ebbtide.blob SET recorded = true WHERE tenant = %s AND key = %s AND name = ANY(%s)",
                    (*place.key, list(sums)),
                )
            connection.execute("COMMIT")
        self._sums |= sums
        self._unrecorded_sums = {}
        turn.end = end
        return end

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        data = encode_checkpoint(Checkpoint(snapshot_format, position, self._sums, list(records)))
        # The log is complete without it, so a failure is no error.
        with suppress(StoreError), self._place.as_store_error("write to"), self._place.transaction() as connection:
            connection.execute(
                "INSERT INTO ebbtide.checkpoint (session, tenant, data) "
                "SELECT id, tenant, %b FROM ebbtide.session WHERE tenant = %s AND key = %s "
                "ON CONFLICT (session) DO UPDATE SET data = EXCLUDED.data",
                (data, *self._place.key),
            )

    def save_blob(self, name: str, text: str) -> None:
        data = encode_blob(text)
        digest = blob_sum(data)
        check_blob_name(name)
        with self._mutex:
            # In a transaction of its own: the blob must outlive a commit that fails.
            with self._place.as_store_error("store a result of"), self._place.transaction() as connection:
                # `gc` removes old blobs that no record names. This one will be named soon.
                row = connection.execute(
                    "INSERT INTO ebbtide.blob AS b (tenant, key, name, sum, data) VALUES (%s, %s, %s, %s, %b) "
                    "ON CONFLICT (tenant, key, name) DO UPDATE SET saved = EXCLUDED.saved RETURNING sum",
                    (*self._place.key, name, digest, data),
                ).fetchone()
            if row is None or row[0] != digest:
                self._replace_lost_blob(name, data)
            self._unrecorded_sums[name] = digest

    def _replace_lost_blob(self, name: str, data: bytes) -> None:
        """Replace a blob whose writer died before it recorded the name. Raise `StoreError` if the name is in use."""
        with self.lock(timeout=0) as fence:
            if fence and name not in self._unrecorded_sums:
                with self._place.as_store_error("store a result of"), self._place.transaction() as connection:
                    cursor = connection.execute(
                        "UPDATE ebbtide.blob SET sum = %s, data = %b "
                        "WHERE tenant = %s AND key = %s AND name = %s AND NOT recorded",
                        (blob_sum(data), data, *self._place.key, name),
                    )
                if cursor.rowcount:
                    return
        raise StoreError(f"{name} is already stored with another text")

    def _lost(self) -> LockLost:
        return LockLost(f"session {self.session!r} was locked by another since: what was planned is out of date")
