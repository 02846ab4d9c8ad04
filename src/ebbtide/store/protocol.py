"""What every store promises. Each store runs the same tests: add it to `tests/store/stores.py`.

A session is a log of JSON records and the blobs (long texts) that its records name. The log only grows, by commits:

- A commit is all or nothing, and durable when `commit` returns. If `commit` raises, the records may be in the log or
  not: call `read_since` to find out.
- A blob is saved before the commit whose records name it, and never changes afterwards.
- Several processes may use one session. Hold `lock` to read the tail, decide and commit as one step. Whoever lost the
  lock in between cannot commit what it planned: each lock has a number, its fence.
- Damage is never hidden: a damaged line is reported, and the intact lines around it are still read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record
from ebbtide.store.log_lines import Damage, LogSink, Position, ReadResult

LOCK_TIMEOUT = 10.0
"""Seconds to wait for the lock. A commit takes milliseconds; after ten seconds the holder hangs."""
GRACE = 86_400.0
"""Seconds, a day: no request takes that long between saving a blob and recording its name."""


class LogReplaced(StoreError):
    """The log is not the one that was read before: it was removed, cut short or replaced."""


class LockLost(StoreError):
    """The session was locked by another process since this lock was taken. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobInfo:
    name: str
    bytes: int
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    session: str
    project: str
    path: str
    """Of the log; empty for a session in memory."""
    title: str
    first_prompt: str
    messages: int
    created: str
    modified: str
    bytes: int
    """Of the log alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    path: str
    """Of the log; empty for a session in memory."""
    lines: int
    unchecked_lines: int
    """Lines of another program, which have no checksum."""
    blobs: int
    """Blobs whose checksum was recomputed."""
    damage: tuple[Damage, ...]
    problems: tuple[str, ...]
    """Problems with ids, blobs or a missing end, which concern no single line."""
    torn_files: tuple[str, ...]
    """Unfinished writes that were moved away earlier. They are no damage: nothing in them was acknowledged."""

    @property
    def ok(self) -> bool:
        return not self.damage and not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class GcResult:
    """What was removed, or would be. Sessions in memory have no paths: there it lists ids and names."""

    sessions: tuple[str, ...] = ()
    """Paths of logs."""
    blobs: tuple[str, ...] = ()
    """Paths of stored results and of half-written files."""
    freed: int = 0
    """Bytes."""
    left: int = 0
    """Bytes that the store holds afterwards."""
    in_use: tuple[str, ...] = ()
    """Paths of logs that are old enough, but that a process has open."""


class LogReader(Protocol):
    """Read access to one session. No method writes anything."""

    @property
    def session(self) -> str: ...

    def read(self) -> ReadResult: ...

    def read_since(self, position: Position) -> ReadResult:
        """Read what any process appended after `position`. Cheap if nothing was.

        Raise `LogReplaced` if the position belongs to another log: then read everything again.
        """
        ...

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        """Send to `sink` what is needed to continue the session; the result has no records.

        These are the records of the checkpoint, if there is one of this format that still fits the log, and then what
        was appended since. Messages that we wrote have only `parentUuid`, `uuid` and `ebbids`.
        """
        ...

    def read_blob(self, name: str) -> str:
        """Return the blob's text. Raise `StoreError` if it is missing or not what was saved."""
        ...

    def blob_path(self, name: str) -> str:
        """Return the path that a stub may show to the model; "" if blobs are not files."""
        ...

    def list_blobs(self) -> list[BlobInfo]: ...

    def verify(self) -> VerifyResult:
        """Compare the log, the ids of messages and the blobs with their checksums. `StoreError` if there is no log."""
        ...


class Log(LogReader, Protocol):
    """Read and write access to one session."""

    @property
    def torn_files(self) -> tuple[str, ...]:
        """Files to which this log moved unfinished writes that it found at its end."""
        ...

    def commit(self, records: Sequence[Record], *, at: float, fence: int = 0) -> Position:
        """Append the records, all or none, and return the new end, which includes what other processes appended.

        With the `fence` that `lock` gave, raise `LockLost` and append nothing if anybody has locked the session since.
        """
        ...

    def lock(self, timeout: float = LOCK_TIMEOUT) -> AbstractContextManager[int]:
        """Keep other writers out. The value is this holder's fence; 0 if the lock could not be taken: then do not plan.

        A process may be paused for long, and lose its lock without noticing: commit what it planned with the fence.
        """
        ...

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        """Save records that replace everything before `position` when the session is resumed. May be lost."""
        ...

    def save_blob(self, name: str, text: str) -> None:
        """Save a text, durably. Saving the same again does nothing; another text under the same name is an error."""
        ...


class Store(Protocol):
    def open(self, session: str, *, project: str = "", now: float) -> Log:
        """Open a new or existing session. Nothing is created before the first commit; a torn end is repaired."""
        ...

    def peek(self, session: str, *, project: str = "") -> LogReader:
        """Open a session for reading. Nothing is written, and nothing repaired."""
        ...

    def list_sessions(self) -> list[SessionInfo]:
        """List all sessions, the most recently changed first."""
        ...

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> Log:
        """Create a session that begins with the first `upto` records of another, and has its blobs."""
        ...

    def projects_of(self, session: str) -> list[str]:
        """Return the projects that have a session of this name, the most recently changed first, of any tenant."""
        ...

    def check(self) -> None:
        """Raise `StoreError` if the store cannot be used now. Cheap; a folder is only looked at when it is used."""
        ...

    def gc(
        self, *, older_than: float | None = None, max_bytes: int | None = None, now: float, dry_run: bool = False
    ) -> GcResult:
        """Remove sessions whose last commit is `older_than` seconds ago, the oldest above `max_bytes`, and lost blobs.

        Nothing younger than `GRACE` goes, and no session that a process has open. A blob stays while any log names it.
        """
        ...

    def delete_session(self, session: str, *, project: str = "", force: bool = False) -> GcResult:
        """Remove a session with its blobs, except those that another log names. Programs that have it open start over.

        Raise `StoreError` if there is no such session, and without `force` if a process has it open.
        """
        ...

    def delete_tenant(self, tenant: str, *, force: bool = False) -> GcResult:
        """Remove all sessions of a tenant of the proxy (`tenant_project`), or raise `StoreError` and remove none."""
        ...


@runtime_checkable
class DatabaseStore(Store, Protocol):
    """What a store in a database has besides."""

    @property
    def is_reachable(self) -> bool:
        """Whether the last attempt to connect succeeded; False before the first."""
        ...

    def grant(self, role: str) -> None:
        """Let a role that owns nothing use the store."""
        ...

    def observe(self, report: Callable[[str, float], None]) -> None:
        """Call `report` with the name and the seconds of what the database was asked for."""
        ...

    def close(self) -> None:
        """Close the connections that are not in use. The store can still be used, and connects again."""
        ...
