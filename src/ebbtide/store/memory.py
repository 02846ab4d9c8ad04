"""A store that dies with the process. It keeps the same lines as the directory store, so both behave alike."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.file_names import blob_name
from ebbtide.store.directory.fork import fork_log
from ebbtide.store.directory.session_index import describe
from ebbtide.store.log_lines import LogSink, Position, ReadResult, Record, encode_commit, scan
from ebbtide.store.protocol import (
    LOCK_TIMEOUT,
    BlobInfo,
    SessionInfo,
    blob_bytes,
    blob_records,
    blob_sum,
    header_record,
)


@dataclass(slots=True)
class _Kept:
    """One session's bytes, shared by every log opened on it."""

    data: bytearray = field(default_factory=bytearray)
    end: Position = field(default_factory=Position)
    blobs: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    changed: float = 0.0
    mutex: threading.RLock = field(default_factory=threading.RLock)


class _Hold:
    """The lock of one log, for the length of a `with`."""

    __slots__ = ("_mutex", "_taken", "_timeout")

    def __init__(self, mutex: threading.RLock, timeout: float) -> None:
        self._mutex, self._timeout, self._taken = mutex, timeout, False

    def __enter__(self) -> bool:
        self._taken = self._mutex.acquire(timeout=max(0.0, self._timeout))
        return self._taken

    def __exit__(self, *failed: object) -> None:
        if self._taken:
            self._mutex.release()


class MemoryLog:
    torn_files: tuple[str, ...] = ()

    def __init__(self, session: str, project: str, kept: _Kept, now: float) -> None:
        self.session = session
        self._project, self._kept, self._now = project, kept, now
        self._unsaid: dict[str, str] = {}
        """Sums of blobs that no commit has recorded yet."""

    def read(self) -> ReadResult:
        return self.read_since(Position())

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        del snapshot_format
        reading = self.read()
        sink(reading.records)
        return replace(reading, records=[])

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        """Nobody resumes what dies with the process."""

    def read_since(self, position: Position) -> ReadResult:
        with self._kept.mutex:
            return scan([bytes(self._kept.data[position.offset :])], position)

    def commit(self, records: Sequence[Record], *, at: float) -> Position:
        with self._kept.mutex:
            kept = self._kept
            own = [] if kept.end.offset else [header_record(self.session, self._project, self._now)]
            batch = [*own, *blob_records(self._unsaid, at), *records]
            if not records and not self._unsaid:
                return kept.end
            data, end = encode_commit(batch, kept.end)
            kept.data += data
            kept.end, kept.changed = end, at
            self._unsaid = {}
            return end

    def lock(self, timeout: float = LOCK_TIMEOUT) -> _Hold:
        return _Hold(self._kept.mutex, timeout)

    def save_blob(self, name: str, text: str) -> None:
        data = blob_bytes(text)
        with self._kept.mutex:
            held, _ = self._kept.blobs.setdefault(blob_name(name), (data, self._now))
        if held != data:
            raise StoreError(f"{name} is already stored with another text")
        self._unsaid[name] = blob_sum(data)

    def read_blob(self, name: str) -> str:
        if blob_name(name) not in self._kept.blobs:
            raise StoreError(f"{name} is not stored in session {self.session!r}")
        return self._kept.blobs[name][0].decode("utf-8", "surrogatepass")

    def blob_path(self, name: str) -> str:
        blob_name(name)
        return ""

    def list_blobs(self) -> list[BlobInfo]:
        kept = sorted(self._kept.blobs.items())
        return [BlobInfo(name=name, bytes=len(data), modified=at) for name, (data, at) in kept]


class PrivateLog(MemoryLog):
    """For one session that nobody else can open: what is committed waits as it came, and is written when it is read.

    So a message that its client changes in place before anybody reads is read as it is then. Positions count records.
    """

    def __init__(self, session: str, *, project: str = "", now: float) -> None:
        super().__init__(session, project, _Kept(), now)
        self._waiting: list[tuple[Sequence[Record], float]] = []
        self._end = Position()
        self._ends: dict[int, Position] = {}
        """Where in the bytes a reader stopped that had so many records: it goes on from there."""

    def read_since(self, position: Position) -> ReadResult:
        with self._kept.mutex:
            if position.lines == self._end.lines:
                return ReadResult(position=self._end)
            while self._waiting:
                records, at = self._waiting[0]
                super().commit(records, at=at)
                del self._waiting[0]
            # The first place with so many records: blobs that came later are told again rather than not at all.
            self._ends.setdefault(self._end.lines, self._kept.end)
            if position.lines in self._ends:
                return replace(super().read_since(self._ends[position.lines]), position=self._end)
            whole = super().read_since(Position())
            return replace(whole, records=whole.records[position.lines :], position=self._end)

    def commit(self, records: Sequence[Record], *, at: float) -> Position:
        with self._kept.mutex:
            self._waiting.append((records, at))
            self._end = Position(lines=self._end.lines + len(records))
            return self._end


class MemoryStore:
    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}

    def open(self, session: str, *, project: str = "", now: float) -> MemoryLog:
        return MemoryLog(session, project, self._kept.setdefault((project, session), _Kept()), now)

    def peek(self, session: str, *, project: str = "") -> MemoryLog:
        return MemoryLog(session, project, self._kept.get((project, session), _Kept()), 0.0)

    def list_sessions(self) -> list[SessionInfo]:
        used = [(key, kept) for key, kept in list(self._kept.items()) if kept.end.offset]
        used.sort(key=lambda pair: pair[1].changed, reverse=True)
        return [
            describe(self.peek(session, project=project).read(), session=session, path="", changed=kept.changed)
            for (project, session), kept in used
        ]

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> MemoryLog:
        source, target = self.peek(session, project=project), self.open(new, project=project, now=now)
        fork_log(source, target, upto=upto, now=now)
        return target
