"""What any store promises. A commit that returned is kept; one that raised may be there or not, and `since` tells."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ebbtide.core.errors import StoreError
from ebbtide.store.log_lines import STORE, LogSink, Position, ReadResult, Record
from ebbtide.store.message_records import timestamp

LOCK_TIMEOUT = 10.0
"""Seconds to wait for the lock. A commit takes milliseconds; ten seconds means that a holder hangs."""


class LogReplaced(StoreError):
    """The log is not the one that was read: somebody removed it, cut it short or put another in its place."""


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


class LogReader(Protocol):
    """One session, to look at. Nothing here writes."""

    @property
    def session(self) -> str: ...

    def read(self) -> ReadResult: ...

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        """What one needs who goes on with the session: given to `take` in order, some records at a time.

        What `remember` was given under the same form, if it still is of this log, and then what the log got since. Of
        messages of ours only `parentUuid`, `uuid` and `ebbids`. The reading that is returned has no records.
        """
        ...

    def read_since(self, position: Position) -> ReadResult:
        """What was appended after `position`, by whomever. Costs one stat where nothing was.

        LogGone where the position is of another log: then all has to be read anew.
        """
        ...

    def read_blob(self, name: str) -> str:
        """A blob's text. StoreError where it is missing, or is not what was put."""
        ...

    def blob_path(self, name: str) -> str:
        """What a stub may tell the model; empty where there is no file."""
        ...

    def list_blobs(self) -> list[BlobInfo]: ...


class Log(LogReader, Protocol):
    """One session, to write to. Several processes may hold one each."""

    @property
    def torn_files(self) -> tuple[str, ...]:
        """Files that took the torn tails which this log found and repaired."""
        ...

    def commit(self, records: Sequence[Record], *, at: float) -> Position:
        """All of them or none, durable on return. Without `locked`, the position skips what others wrote meanwhile."""
        ...

    def lock(self, timeout: float = LOCK_TIMEOUT) -> AbstractContextManager[bool]:
        """For reading the tail, planning and committing as one. False: not taken; replay, and make no edits."""
        ...

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        """What the log comes to up to a position, instead of all before it. Derived: it may be lost or ignored."""
        ...

    def save_blob(self, name: str, text: str) -> None:
        """Durable on return. The same text again is a no-op, another under a recorded name an error."""
        ...


class Store(Protocol):
    def open(self, session: str, *, project: str = "", now: float) -> Log:
        """A session to continue or to begin. Nothing is created before the first commit; a torn tail is set aside."""
        ...

    def peek(self, session: str, *, project: str = "") -> LogReader:
        """A session to look at; nothing is written, not even a repair."""
        ...

    def list_sessions(self) -> list[SessionInfo]:
        """All of them, the most recently changed first."""
        ...

    def fork(self, session: str, new: str, *, project: str = "", upto: int | None = None, now: float) -> Log:
        """A new session that begins as the first `upto` records of another, blobs included."""
        ...


def header_record(session: str, project: str, now: float) -> Record:
    """The first line of a log: whose it is, as no file name can say it."""
    return {"type": "ebb", STORE: "session", "sessionId": session, "cwd": project, "timestamp": timestamp(now)}


def blob_records(sums: Mapping[str, str], at: float) -> list[Record]:
    """Recorded with the commit that follows the put, so that `verify` can tell a changed blob."""
    return [
        {"type": "ebb", STORE: "blob", "name": name, "sha256": digest, "timestamp": timestamp(at)}
        for name, digest in sums.items()
    ]


def lost_record(was: Position, left: Position, at: float) -> Record:
    """That the log once went further than it does: written before the next commit, which would hide it for ever."""
    told = {"lines": was.lines, "bytes": was.offset, "left_lines": left.lines, "left_bytes": left.offset}
    return {"type": "ebb", STORE: "lost", **told, "timestamp": timestamp(at)}


def blob_bytes(text: str) -> bytes:
    """UTF-8; lone surrogates pass, since a tool's output is whatever it is."""
    return text.encode("utf-8", "surrogatepass")


def blob_sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
