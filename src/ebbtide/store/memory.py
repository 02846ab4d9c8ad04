"""A store in memory. It keeps the same lines as the directory store, so that both behave alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record
from ebbtide.store.log_lines import (
    LogSink,
    Position,
    ReadResult,
    blob_records,
    blob_sum,
    check_blob_name,
    encode_blob,
    encode_commit,
    header_record,
    scan,
)
from ebbtide.store.protocol import LOCK_TIMEOUT, BlobInfo, LockLost, SessionInfo
from ebbtide.store.sessions import describe_session, fork_log


@dataclass(slots=True)
class _SessionData:
    """One session's content, shared by every log opened on it."""

    lines: bytearray = field(default_factory=bytearray)
    end: Position = field(default_factory=Position)
    blobs: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    changed: float = 0.0
    fence: int = 0
    """Of the last lock."""
    depth: int = 0
    """How often its holder has taken the lock."""
    mutex: threading.RLock = field(default_factory=threading.RLock)


class MemoryLog:
    torn_files: tuple[str, ...] = ()

    def __init__(self, session: str, project: str, data: _SessionData, now: float) -> None:
        self.session = session
        self._project, self._data, self._now = project, data, now
        self._unrecorded_sums: dict[str, str] = {}
        """Checksums of blobs that no commit has recorded yet."""

    def read(self) -> ReadResult:
        return self.read_since(Position())

    def read_since(self, position: Position) -> ReadResult:
        with self._data.mutex:
            return scan([bytes(self._data.lines[position.offset :])], position)

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        del snapshot_format
        result = self.read()
        sink(result.records)
        return replace(result, records=[])

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        """Do nothing: a session in memory ends with the process."""

    def commit(self, records: Sequence[Record], *, at: float, fence: int = 0) -> Position:
        with self._data.mutex:
            data = self._data
            self._check_fence(fence)
            if not records and not self._unrecorded_sums:
                return data.end
            header = [] if data.end.offset else [header_record(self.session, self._project, self._now)]
            lines, end = encode_commit([*header, *blob_records(self._unrecorded_sums, at), *records], data.end)
            data.lines += lines
            data.end, data.changed = end, at
            self._unrecorded_sums = {}
            return end

    @contextmanager
    def lock(self, timeout: float = LOCK_TIMEOUT) -> Iterator[int]:
        data = self._data
        if not data.mutex.acquire(timeout=max(0.0, timeout)):
            yield 0
            return
        try:
            data.fence, data.depth = data.fence + (not data.depth), data.depth + 1
            yield data.fence
        finally:
            data.depth -= 1
            data.mutex.release()

    def _check_fence(self, fence: int) -> None:
        if fence and fence != self._data.fence:
            raise LockLost(f"session {self.session!r} was locked by another since: what was planned is out of date")

    def save_blob(self, name: str, text: str) -> None:
        data = encode_blob(text)
        with self._data.mutex:
            stored, _ = self._data.blobs.setdefault(check_blob_name(name), (data, self._now))
        if stored != data:
            raise StoreError(f"{name} is already stored with another text")
        self._unrecorded_sums[name] = blob_sum(data)

    def read_blob(self, name: str) -> str:
        if check_blob_name(name) not in self._data.blobs:
            raise StoreError(f"{name} is not stored in session {self.session!r}")
        return self._data.blobs[name][0].decode("utf-8", "surrogatepass")

    def blob_path(self, name: str) -> str:
        check_blob_name(name)
        return ""

    def list_blobs(self) -> list[BlobInfo]:
        blobs = sorted(self._data.blobs.items())
        return [BlobInfo(name=name, bytes=len(data), modified=at) for name, (data, at) in blobs]


class PrivateLog(MemoryLog):
    """A log that only its owner can open. Commits are kept as objects, and encoded when they are first read.

    So a session that is never read back costs no encoding. A message that the client changes in place before that is
    read in its changed form. Positions count records, not bytes.
    """

    def __init__(self, session: str, *, project: str = "", now: float) -> None:
        super().__init__(session, project, _SessionData(), now)
        self._pending: list[tuple[Sequence[Record], float]] = []
        self._end = Position()
        self._encoded_ends: dict[int, Position] = {}
        """Where in the bytes a reader stopped that had read this many records."""

    def read_since(self, position: Position) -> ReadResult:
        with self._data.mutex:
            if position.lines == self._end.lines:
                return ReadResult(position=self._end)
            while self._pending:
                records, at = self._pending[0]
                super().commit(records, at=at)
                del self._pending[0]
            # `setdefault` keeps the first end for a count: blobs saved later are then reported again, never missed.
            self._encoded_ends.setdefault(self._end.lines, self._data.end)
            if position.lines in self._encoded_ends:
                return replace(super().read_since(self._encoded_ends[position.lines]), position=self._end)
            everything = super().read_since(Position())
            return replace(everything, records=everything.records[position.lines :], position=self._end)

    def commit(self, records: Sequence[Record], *, at: float, fence: int = 0) -> Position:
        with self._data.mutex:
            self._check_fence(fence)
            self._pending.append((records, at))
            self._end = Position(lines=self._end.lines + len(records))
            return self._end


class MemoryStore:
    def __init__(self) -> None:
        self._data: dict[tuple[str, str], _SessionData] = {}

    def open(self, session: str, *, project: str = "", now: float) -> MemoryLog:
        return MemoryLog(session, project, self._data.setdefault((project, session), _SessionData()), now)

    def peek(self, session: str, *, project: str = "") -> MemoryLog:
        return MemoryLog(session, project, self._data.get((project, session), _SessionData()), 0.0)

    def list_sessions(self) -> list[SessionInfo]:
        used = [(key, data) for key, data in list(self._data.items()) if data.end.offset]
        used.sort(key=lambda pair: pair[1].changed, reverse=True)
        return [
            describe_session(self.peek(session, project=project).read(), session=session, path="", changed=data.changed)
            for (project, session), data in used
        ]

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> MemoryLog:
        source, target = self.peek(session, project=project), self.open(new, project=project, now=now)
        fork_log(source, target, upto=upto, now=now)
        return target
