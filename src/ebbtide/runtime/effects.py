"""The core decides, the edge acts. A preparation yields effects; a driver performs them, sync or async.

The lock is taken by `Load` and given back by `Append` or `Release`: held per commit, never while a model is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ebbtide.compaction.answer_sources import AnswerSources, AskModel, RawAnswer
from ebbtide.core.errors import StoreError
from ebbtide.core.types import Blob
from ebbtide.runtime.report import Prepared
from ebbtide.state.snapshot import SNAPSHOT_FORMAT
from ebbtide.store import Log, LogReplaced, LogSink, Position, ReadResult, Record

T = TypeVar("T")
LOCK_WAIT = 0.5
"""Seconds for the lock. Whoever plans holds it for a tenth of that; a request must not wait for one that hangs."""


class LoadLog(NamedTuple):
    """Take the lock and read what others appended. The answer is `Loaded`, or None if nothing can be read; `Gone` where
    the log is another than the one that `position` is of."""

    position: Position | None
    sink: LogSink
    """At first all that a log holds goes here, and the reading has no records."""
    lock_wait: float = LOCK_WAIT
    """Seconds to wait for the lock. A request that cannot go out without a plan waits longer than others."""


class LoadedLog(NamedTuple):
    reading: ReadResult
    has_lock: bool
    """False: somebody else works on it. What is recorded holds all the same; nothing may be added."""


class LogGone(NamedTuple):
    """Somebody removed the log, cut it short or exchanged it: what was read of it holds no longer."""


def holds_lock(outcome: Outcome) -> bool:
    return isinstance(outcome, LoadedLog) and outcome.has_lock


class SaveBlob(NamedTuple):
    """Make content durable. The answer is an empty string, or why it could not be done."""

    blob: Blob


class AppendRecords(NamedTuple):
    """Commit the records of a turn. The answer is the new position, or why it could not be done."""

    records: Sequence[Record]
    at: float


class WriteCheckpoint(NamedTuple):
    """What the log comes to up to here, so that resuming need not read all of it. There is no answer: it may fail."""

    records: Sequence[Record]
    position: Position


class GoesOut(NamedTuple):
    """A request before its turn is in the log. Without new edits it may go out by then. There is no answer, but whoever
    hears of it may raise: then nothing is recorded."""

    prepared: Prepared


class ReleaseLock(NamedTuple):
    """Nothing to commit."""


Effect = LoadLog | SaveBlob | AppendRecords | WriteCheckpoint | GoesOut | ReleaseLock | AskModel
Outcome = LoadedLog | LogGone | Position | RawAnswer | str | None
Steps = Generator[Effect, Outcome, T]


class Performer:
    """Performs effects on one session's log, and holds its lock in between."""

    __slots__ = ("_lock", "_log", "_soon")

    def __init__(self, log: Log, soon: Callable[[Prepared], None] | None = None) -> None:
        self._log, self._soon = log, soon
        self._lock: AbstractContextManager[bool] | None = None

    def __call__(self, effect: Effect) -> Outcome:
        match effect:
            case LoadLog():
                return self._load(effect)
            case AppendRecords():
                return self._append(effect)
            case SaveBlob():
                return self._save(effect.blob)
            case GoesOut():
                if self._soon is not None:
                    self._soon(effect.prepared)
            case WriteCheckpoint():
                self._log.write_checkpoint(effect.records, effect.position, SNAPSHOT_FORMAT)
            case ReleaseLock():
                self.release()
        return None

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.__exit__(None, None, None)

    def _load(self, effect: LoadLog) -> LoadedLog | LogGone | None:
        self.release()
        position = effect.position
        try:
            lock = self._log.lock(effect.lock_wait)
            locked, self._lock = lock.__enter__(), lock
            reading = (
                self._log.resume(effect.sink, SNAPSHOT_FORMAT) if position is None else self._log.read_since(position)
            )
        except LogReplaced:
            return LogGone()
        except StoreError:
            return None
        return LoadedLog(reading, locked)

    def _append(self, effect: AppendRecords) -> Position | str:
        try:
            return self._log.commit(effect.records, at=effect.at)
        except StoreError as failed:
            return str(failed)
        finally:
            self.release()

    def _save(self, blob: Blob) -> str:
        try:
            self._log.save_blob(blob.name, blob.text)
        except StoreError as failed:
            return str(failed) or "the store refused"
        return ""


_NO_SOURCES = AnswerSources()


@dataclass(frozen=True, slots=True)
class Finished(Generic[T]):
    value: T


def _run_until_question(steps: Steps[T], perform: Performer, outcome: Outcome) -> Finished[T] | AskModel:
    """Disk effects, until somebody must be asked or all is done. One thread takes the lock and gives it back."""
    try:
        while True:
            try:
                effect = steps.send(outcome)
            except StopIteration as done:
                return Finished(done.value)
            if isinstance(effect, AskModel):
                return effect
            outcome = perform(effect)
    finally:
        perform.release()


def run(
    steps: Steps[T], log: Log, advisers: AnswerSources = _NO_SOURCES, soon: Callable[[Prepared], None] | None = None
) -> T:
    """Perform effects one after the other."""
    perform, outcome = Performer(log, soon), None
    while not isinstance(reached := _run_until_question(steps, perform, outcome), Finished):
        outcome = advisers.ask(reached)
    return reached.value


async def arun(steps: Steps[T], log: Log, advisers: AnswerSources = _NO_SOURCES) -> T:
    """The same, with disk work off the event loop."""
    # A fifth of the time that `import ebbtide` may take, for those who never await.
    import asyncio  # noqa: PLC0415

    perform, outcome = Performer(log), None
    try:
        while not isinstance(
            reached := await asyncio.to_thread(_run_until_question, steps, perform, outcome), Finished
        ):
            outcome = await advisers.aask(reached)
    finally:
        steps.close()
    return reached.value
