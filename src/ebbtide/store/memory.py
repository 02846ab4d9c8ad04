"""A store that dies with the process. It keeps the same lines as the directory store, so both behave alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ebbtide.core.errors import StoreError
from ebbtide.store.contract import WAIT, BlobInfo, SessionInfo, blob_bytes, blob_records, blob_sum, header
from ebbtide.store.fork import fork_log
from ebbtide.store.index import describe
from ebbtide.store.lines import Position, Reading, Record, encode, scan
from ebbtide.store.names import blob_name


@dataclass(slots=True)
class _Kept:
    """One session's bytes, shared by every log opened on it."""

    data: bytearray = field(default_factory=bytearray)
    end: Position = field(default_factory=Position)
    blobs: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    changed: float = 0.0
    mutex: threading.RLock = field(default_factory=threading.RLock)


class MemoryLog:
    set_aside: tuple[str, ...] = ()

    def __init__(self, session: str, project: str, kept: _Kept, now: float) -> None:
        self.session = session
        self._project, self._kept, self._now = project, kept, now
        self._unsaid: dict[str, str] = {}
        """Sums of blobs that no commit has recorded yet."""

    def read(self) -> Reading:
        return self.since(Position())

    def since(self, position: Position) -> Reading:
        with self._kept.mutex:
            return scan([bytes(self._kept.data[position.offset :])], position)

    def commit(self, records: Sequence[Record], *, at: float) -> Position:
        with self._kept.mutex:
            kept = self._kept
            own = [] if kept.end.offset else [header(self.session, self._project, self._now)]
            batch = [*own, *blob_records(self._unsaid, at), *records]
            if not records and not self._unsaid:
                return kept.end
            data, end = encode(batch, kept.end)
            kept.data += data
            kept.end, kept.changed = end, at
            self._unsaid = {}
            return end

    @contextmanager
    def locked(self, timeout: float = WAIT) -> Iterator[bool]:
        taken = self._kept.mutex.acquire(timeout=max(0.0, timeout))
        try:
            yield taken
        finally:
            if taken:
                self._kept.mutex.release()

    def put(self, name: str, text: str) -> None:
        data = blob_bytes(text)
        with self._kept.mutex:
            held, _ = self._kept.blobs.setdefault(blob_name(name), (data, self._now))
        if held != data:
            raise StoreError(f"{name} is already stored with another text")
        self._unsaid[name] = blob_sum(data)

    def get(self, name: str) -> str:
        if blob_name(name) not in self._kept.blobs:
            raise StoreError(f"{name} is not stored in session {self.session!r}")
        return self._kept.blobs[name][0].decode("utf-8", "surrogatepass")

    def path(self, name: str) -> str:
        blob_name(name)
        return ""

    def blobs(self) -> list[BlobInfo]:
        kept = sorted(self._kept.blobs.items())
        return [BlobInfo(name=name, bytes=len(data), modified=at) for name, (data, at) in kept]


class MemoryStore:
    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}

    def open(self, session: str, *, project: str = "", now: float) -> MemoryLog:
        return MemoryLog(session, project, self._kept.setdefault((project, session), _Kept()), now)

    def peek(self, session: str, *, project: str = "") -> MemoryLog:
        return MemoryLog(session, project, self._kept.get((project, session), _Kept()), 0.0)

    def sessions(self) -> list[SessionInfo]:
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
