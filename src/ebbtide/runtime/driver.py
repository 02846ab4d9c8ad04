"""Performs the effects of a session, in this thread or on an event loop."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from ebbtide.compaction.answer_sources import AnswerSources
from ebbtide.core.errors import StoreError
from ebbtide.core.types import Blob
from ebbtide.effects import (
    AppendRecords,
    AskModel,
    Effect,
    LoadedLog,
    LoadLog,
    LogGone,
    Outcome,
    ReleaseLock,
    SaveBlob,
    Steps,
    WriteCheckpoint,
)
from ebbtide.state.snapshot import SNAPSHOT_FORMAT
from ebbtide.store import Log, LogReplaced, Position

T = TypeVar("T")
_NO_SOURCES = AnswerSources()


def run(steps: Steps[T], log: Log, sources: AnswerSources = _NO_SOURCES) -> T:
    """Perform the effects one after the other and return the result."""
    performer, outcome = _Performer(log), None
    while not isinstance(reached := _run_until_question(steps, performer, outcome), _Finished):
        outcome = sources.ask(reached)
    return reached.value


async def arun(steps: Steps[T], log: Log, sources: AnswerSources = _NO_SOURCES) -> T:
    """As `run`, with disk work off the event loop."""
    # Importing asyncio takes a fifth of the time that `import ebbtide` may take.
    import asyncio  # noqa: PLC0415

    performer, outcome = _Performer(log), None
    try:
        while not isinstance(
            reached := await asyncio.to_thread(_run_until_question, steps, performer, outcome), _Finished
        ):
            outcome = await sources.aask(reached)
    finally:
        steps.close()
    return reached.value


@dataclass(frozen=True, slots=True)
class _Finished(Generic[T]):
    value: T


def _run_until_question(steps: Steps[T], performer: _Performer, outcome: Outcome) -> _Finished[T] | AskModel:
    """Perform disk effects up to the next question or the end. The same thread takes and releases the lock."""
    try:
        while True:
            try:
                effect = steps.send(outcome)
            except StopIteration as stop:
                return _Finished(stop.value)
            if isinstance(effect, AskModel):
                return effect
            outcome = performer.perform(effect)
    finally:
        performer.release()


class _Performer:
    """Performs effects on one session's log, and holds its lock in between."""

    __slots__ = ("_fence", "_lock", "_log")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock: AbstractContextManager[int] | None = None
        self._fence = 0

    def perform(self, effect: Effect) -> Outcome:
        match effect:
            case LoadLog():
                return self._load(effect)
            case AppendRecords():
                return self._append(effect)
            case SaveBlob():
                return self._save(effect.blob)
            case WriteCheckpoint():
                self._log.write_checkpoint(effect.records, effect.position, SNAPSHOT_FORMAT)
            case ReleaseLock():
                self.release()
        return None

    def release(self) -> None:
        lock, self._lock, self._fence = self._lock, None, 0
        if lock is not None:
            lock.__exit__(None, None, None)

    def _load(self, effect: LoadLog) -> LoadedLog | LogGone | None:
        self.release()
        try:
            lock = self._log.lock(effect.lock_wait)
            self._fence, self._lock = lock.__enter__(), lock
            if effect.position is None:
                reading = self._log.resume(effect.sink.add, SNAPSHOT_FORMAT)
            else:
                reading = self._log.read_since(effect.position)
        except LogReplaced:
            return LogGone()
        except StoreError:
            return None
        return LoadedLog(reading, self._fence > 0)

    def _append(self, effect: AppendRecords) -> Position | str:
        try:
            return self._log.commit(effect.records, at=effect.at, fence=self._fence)
        except StoreError as error:
            return str(error)
        finally:
            self.release()

    def _save(self, blob: Blob) -> str:
        try:
            self._log.save_blob(blob.name, blob.text)
        except StoreError as error:
            return str(error) or "the store refused"
        return ""
