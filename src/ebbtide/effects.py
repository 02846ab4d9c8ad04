"""The effects that a session yields instead of doing I/O, and the outcomes that a driver sends back.

`LoadLog` takes the session's lock; `AppendRecords` and `ReleaseLock` give it back. It is never held while a model
answers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from ebbtide.core.types import Blob, HistoryMark, Question
from ebbtide.store import Position, ReadResult, Record

T = TypeVar("T")
LOCK_WAIT = 0.5
"""Seconds to wait for the lock. A plan takes a tenth of that; a request must not wait for a process that hangs."""


class RecordSink(Protocol):
    """Receives the records of a log in batches, so that a long log is read in bounded memory."""

    def add(self, records: list[Record], /) -> None: ...


class LoadLog(NamedTuple):
    """Take the lock and read what others appended. The outcome is `LoadedLog`, `LogGone`, or None if nothing can be
    read."""

    position: Position | None
    """Where to read on; None reads the whole log into `sink`."""
    sink: RecordSink
    lock_wait: float = LOCK_WAIT


class LoadedLog(NamedTuple):
    reading: ReadResult
    has_lock: bool
    """False if another process holds the lock. Recorded edits still apply, but nothing may be added."""


class LogGone(NamedTuple):
    """The log was removed, cut short or replaced: what was read from it is no longer valid."""


class SaveBlob(NamedTuple):
    """Save content to disk. The outcome is an empty string, or why it failed."""

    blob: Blob


class AppendRecords(NamedTuple):
    """Append records as one commit and release the lock. The outcome is the new position, or why it failed."""

    records: Sequence[Record]
    at: float


class WriteCheckpoint(NamedTuple):
    """Write the session's state beside the log, so that resuming need not read all of it. May fail; no outcome."""

    records: Sequence[Record]
    position: Position


class ReleaseLock(NamedTuple):
    """Release the lock without writing."""


class AskModel(NamedTuple):
    """Ask a question about the conversation. The outcome is `RawAnswer`."""

    question: Question
    body: dict[str, Any]
    """The request for a model; empty if files and notes are asked for."""
    history: HistoryMark | None = None
    """Which conversation the question is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAnswer:
    """An answer that was not checked yet."""

    response: object = None
    failure: str = ""


Effect = LoadLog | SaveBlob | AppendRecords | WriteCheckpoint | ReleaseLock | AskModel
Outcome = LoadedLog | LogGone | Position | RawAnswer | str | None
Steps = Generator[Effect, Outcome, T]
