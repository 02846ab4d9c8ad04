"""Going on with a session: its log is read once, in bounded memory, and a long one only from its last checkpoint on."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.runtime.transcript import Transcript
from ebbtide.state.binding_records import OldLog
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.state.snapshot import restore_snapshot, take_snapshot
from ebbtide.store import Position, ReadResult, Record

_LEAST = 4_000_000
"""Bytes of log between two checkpoints: what is folded in a tenth of a second."""
_SHARE = 5
"""Or a fifth of the log: then all checkpoints together are written for a fraction of what the log itself took."""


@dataclass(slots=True)
class CheckpointSchedule:
    """When to write one, and of what."""

    covered_bytes: int = 0
    """Bytes of log that the newest one covers."""
    can_write: bool = True
    """False once this process knows more than the log: what was not written must not be remembered as if it were."""

    def is_due(self, end: Position) -> bool:
        return self.can_write and end.offset - self.covered_bytes > max(_LEAST, end.offset // _SHARE)

    def build(self, state: SessionState, transcript: Transcript, end: Position) -> list[Record]:
        self.covered_bytes = end.offset
        return [take_snapshot(state), {**transcript.as_record(), "covers": end.offset}]

    def read(self, record: Record) -> None:
        covers = record.get("covers")
        self.covered_bytes = covers if isinstance(covers, int) else 0


@dataclass(slots=True)
class StateSink:
    """What a session comes to know while its log is read. It counts once all was read."""

    state: SessionState
    transcript: Transcript
    checkpoints: CheckpointSchedule
    old_log: OldLog | None = None

    def add(self, records: list[Record]) -> None:
        if not records:
            return
        if records[0].get("kind") == "checkpoint":
            self.state, records = restore_snapshot(records[0]), records[1:]
            self.transcript.restore(records[0])
            self.checkpoints.read(records[0])
        self.old_log = self.old_log or OldLog()
        self.state = apply_records(self.state, self.old_log.upgrade(records))
        self.transcript.learn(records)

    def finish(self, reading: ReadResult) -> None:
        """The last of a log. What waited for a record that did not come is taken as it is.

        Where lines of the log are damaged, results may be stored whose plan is gone: their names stay taken.
        """
        if reading.damage:
            stored = dict.fromkeys((name.lower() for name in reading.blob_sums), "")
            self.state = self.state._replace(taken={**stored, **self.state.taken})
        self.add(reading.records)
        if self.old_log is not None:
            self.state = apply_records(self.state, self.old_log.rest())
