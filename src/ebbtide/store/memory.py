"""A store in memory. It keeps the same lines as the directory store, so that both behave alike."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record
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
)
from ebbtide.store.protocol import (
    GRACE,
    LOCK_TIMEOUT,
    BlobInfo,
    GcResult,
    LockLost,
    LogReplaced,
    SessionInfo,
    VerifyResult,
)
from ebbtide.store.sessions import check_log, describe_session, fork_log
from ebbtide.store.tenants import tenant_project


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
    users: weakref.WeakSet[MemoryLog] = field(default_factory=weakref.WeakSet)
    """Logs that took the lock, and so will come back."""

    @property
    def bytes(self) -> int:
        return len(self.lines) + sum(len(data) for data, _ in self.blobs.values())

    def clear(self) -> None:
        """Forget everything but the number of the last lock. Logs on it go on with an empty session."""
        self.lines, self.end, self.blobs = bytearray(), Position(), {}

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
            lines = self._data.lines
            tail = bytes(lines[max(0, position.size - TAIL) : position.size])
            if position.token and last_commit_sum(tail) != LineEnd.at(position).sum:
                self._unrecorded_sums = {}
                raise LogReplaced(f"session {self.session!r} was deleted")
            return scan([bytes(lines[position.size :])], position)

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
            header = [] if data.end.size else [header_record(self.session, self._project, self._now)]
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
            data.users.add(self)
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

    def verify(self) -> VerifyResult:
        reading = self.read()
        if not reading.position.size:
            raise StoreError(f"session {self.session!r} is not stored")
        return check_log(reading, lambda name: encode_blob(self.read_blob(name)))


class PrivateLog(MemoryLog):
    """A log that only its owner can open. Commits are kept as objects, and encoded when they are first read.

    So a session that is never read back costs no encoding. A message that the client changes in place before that is
    read in its changed form. Positions count records, not bytes.
    """

    def __init__(self, session: str, *, project: str = "", now: float) -> None:
        super().__init__(session, project, _SessionData(), now)
        self._pending: list[tuple[Sequence[Record], float]] = []
        self._end, self._count = Position(), 0
        self._encoded_ends: dict[int, Position] = {}
        """Where in the bytes a reader stopped that had read this many records."""

    def read_since(self, position: Position) -> ReadResult:
        with self._data.mutex:
            if position == self._end:
                return ReadResult(position=self._end)
            while self._pending:
                records, at = self._pending[0]
                super().commit(records, at=at)
                del self._pending[0]
            # `setdefault` keeps the first end for a count: blobs saved later are then reported again, never missed.
            self._encoded_ends.setdefault(self._count, self._data.end)
            count = int(position.token or 0)
            if count in self._encoded_ends:
                return replace(super().read_since(self._encoded_ends[count]), position=self._end)
            everything = super().read_since(Position())
            return replace(everything, records=everything.records[count:], position=self._end)

    def commit(self, records: Sequence[Record], *, at: float, fence: int = 0) -> Position:
        with self._data.mutex:
            self._check_fence(fence)
            self._pending.append((records, at))
            self._count += len(records)
            self._end = Position(str(self._count)) if self._count else Position()
            return self._end


class MemoryStore:
    def __init__(self) -> None:
        self._data: dict[tuple[str, str], _SessionData] = {}

    def open(self, session: str, *, project: str = "", now: float) -> MemoryLog:
        return MemoryLog(session, project, self._data.setdefault((project, session), _SessionData()), now)

    def peek(self, session: str, *, project: str = "") -> MemoryLog:
        return MemoryLog(session, project, self._data.get((project, session), _SessionData()), 0.0)

    def list_sessions(self) -> list[SessionInfo]:
        used = [(key, data) for key, data in list(self._data.items()) if data.end.size]
        used.sort(key=lambda pair: pair[1].changed, reverse=True)
        return [
            describe_session(self.peek(session, project=project).read(), session=session, path="", changed=data.changed)
            for (project, session), data in used
        ]

    def projects_of(self, session: str) -> list[str]:
        return [info.project for info in self.list_sessions() if info.session == session]

    def check(self) -> None:
        """Memory can always be used."""

    def gc(
        self, *, older_than: float | None = None, max_bytes: int | None = None, now: float, dry_run: bool = False
    ) -> GcResult:
        used = {key: data for key, data in list(self._data.items()) if data.end.size and now - data.changed > GRACE}
        old = {key for key, data in used.items() if older_than is not None and now - data.changed > older_than}
        remaining = sum(data.bytes for data in list(self._data.values())) - sum(self._data[key].bytes for key in old)
        for key in sorted(used.keys() - old, key=lambda key: used[key].changed):
            if max_bytes is not None and remaining > max_bytes:
                old.add(key)
                remaining -= used[key].bytes
        open_keys = {key for key in old if self._data[key].users}
        result = self._remove(old - open_keys, lost_before=now - GRACE, dry_run=dry_run)
        return replace(result, in_use=tuple(session for _, session in sorted(open_keys)))

    def delete_session(self, session: str, *, project: str = "", force: bool = False) -> GcResult:
        data = self._data.get((project, session))
        if data is None or not data.end.size:
            raise StoreError(f"there is no session {session!r} of ours to delete")
        return self._delete({(project, session)}, force=force)

    def delete_tenant(self, tenant: str, *, force: bool = False) -> GcResult:
        project = tenant_project(tenant)
        keys = {key for key, data in list(self._data.items()) if key[0] == project and data.end.size}
        return self._delete(keys, force=force)

    def _delete(self, keys: Set[tuple[str, str]], *, force: bool) -> GcResult:
        for key in keys:
            if self._data[key].users and not force:
                raise StoreError(f"{key[1]} is open in this program: close that, or delete it by force")
        return self._remove(keys)

    def _remove(self, keys: Set[tuple[str, str]], *, lost_before: float = 0.0, dry_run: bool = False) -> GcResult:
        """Clear these sessions. Of the others, remove the blobs that are so old and that their log does not name."""
        before = sum(data.bytes for data in list(self._data.values()))
        doomed = {key: list(self._data[key].blobs) for key in sorted(keys)}
        for key, data in list(self._data.items()):
            old = [name for name, (_, at) in data.blobs.items() if at < lost_before and name.encode() not in data.lines]
            doomed |= {key: old} if key not in keys and old else {}
        freed = 0
        for key, names in doomed.items():
            data = self._data[key]
            with data.mutex:
                freed += data.bytes if key in keys else sum(len(data.blobs[name][0]) for name in names)
                if key in keys and not dry_run:
                    data.clear()
                elif not dry_run:
                    data.blobs = {name: blob for name, blob in data.blobs.items() if name not in names}
        return GcResult(
            sessions=tuple(session for _, session in sorted(keys)),
            blobs=tuple(name for names in doomed.values() for name in names),
            freed=freed,
            left=before - freed,
        )

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> MemoryLog:
        source, target = self.peek(session, project=project), self.open(new, project=project, now=now)
        fork_log(source, target, upto=upto, now=now)
        return target
