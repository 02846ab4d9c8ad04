"""What a session knows of its log: its state, the messages it has recorded, and what still has to be written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ebbtide.core import texts
from ebbtide.core.cache.prefix import PrefixHashes, common_prefix_length, rewrite_cost
from ebbtide.core.planner import Plan, PlanInput
from ebbtide.core.stub import HANDLE, BlobNames, digest
from ebbtide.core.types import Edit, Item, SentRequest
from ebbtide.effects import (
    LOCK_WAIT,
    AppendRecords,
    LoadedLog,
    LoadLog,
    LogGone,
    ReleaseLock,
    Steps,
    WriteCheckpoint,
)
from ebbtide.policy import Policy
from ebbtide.runtime.decision import Decision
from ebbtide.runtime.outgoing import Outgoing, marked_messages
from ebbtide.runtime.report import Prepared
from ebbtide.state.binding_records import OldLog
from ebbtide.state.session_state import (
    RequestRecord,
    SessionState,
    apply_records,
    ebb_record,
    edits_to_record,
    request_record,
)
from ebbtide.state.snapshot import restore_snapshot, take_snapshot
from ebbtide.store import Log, Position, ReadResult, Record, message_record
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader, Request


class LogUpdate(NamedTuple):
    """What loading the log changed."""

    has_lock: bool
    was_replaced: bool
    """The log is not the one that this session wrote: what was known of it is forgotten."""
    has_new_edits: bool
    """Recorded edits or pins differ from before: a request must be read again."""


@dataclass(slots=True)
class SessionLog:
    """A session's log as this process knows it. Other processes may append to it in between."""

    log: Log
    project: str = ""
    saves_content: bool = True
    state: SessionState = field(default_factory=SessionState)
    transcript: Transcript = field(init=False)
    checkpoints: CheckpointSchedule = field(init=False)
    position: Position | None = None
    unsaved: list[Record] = field(default_factory=list)
    """Records that could not be written yet. They are written with the next ones."""
    blob_folder: str = field(init=False)
    """Where saved content is; empty if it is kept in memory."""
    transcript_path: str = field(init=False)
    """The file in which a model can read the whole conversation, or ''."""

    def __post_init__(self) -> None:
        self.blob_folder = self.log.blob_path("x")[:-2]
        session = self.blob_folder.removesuffix("/tool-results") if self.saves_content else self.blob_folder
        self.transcript_path = f"{session}.jsonl" if session != self.blob_folder else ""
        self._start_over()

    def blob_names(self, recall_mode: str) -> BlobNames | None:
        """Return the names for content to save, as paths where the model may open them; None if none is saved."""
        if not self.saves_content:
            return None
        directory = HANDLE if self.blob_folder and recall_mode != "path" else self.blob_folder
        return BlobNames(directory=directory, taken=self.state.taken)

    def _start_over(self) -> None:
        self.state, self.position, self.unsaved = SessionState(), None, []
        self.transcript = Transcript(session=self.log.session, project=self.project)
        self.checkpoints = CheckpointSchedule()

    def load(self, lock_wait: float = LOCK_WAIT) -> Steps[LogUpdate]:
        """Take the lock and apply what other processes appended."""
        sink = StateSink(self.state, self.transcript, self.checkpoints)
        loaded = yield LoadLog(self.position, sink, lock_wait)
        was_replaced = isinstance(loaded, LogGone)
        if was_replaced:
            # Forget edits above all: the files that their stubs name may be gone. The client still has the originals.
            self._start_over()
            sink = StateSink(self.state, self.transcript, self.checkpoints)
            loaded = yield LoadLog(None, sink, lock_wait)
        before = self.state
        if isinstance(loaded, LoadedLog):
            self._apply(loaded.reading, sink)
        is_same = self.state.edits is before.edits and self.state.protected_ids == before.protected_ids
        has_lock = isinstance(loaded, LoadedLog) and loaded.has_lock
        return LogUpdate(has_lock, was_replaced, was_replaced or not is_same)

    def _apply(self, reading: ReadResult, sink: StateSink) -> None:
        is_first, self.position = self.position is None, reading.position
        if is_first or reading.records or reading.damage:
            sink.finish(reading)
            self.state = sink.state

    def append(
        self, records: list[Record], now: float, *, has_lock: bool, request: RequestRecord | None = None
    ) -> Steps[list[str]]:
        """Append the records and then the request as one commit. Return why it failed, if it did."""
        self.state = apply_records(self.state, records, request)
        if not has_lock:
            self._keep_for_later(records)
            yield ReleaseLock()
            return []
        if request is not None:
            records.append(request.record)
        position = yield AppendRecords([*self.unsaved, *records], now)
        if not isinstance(position, Position):
            self._keep_for_later(records)
            return [f"not saved yet: {position}"]
        self.position, self.unsaved = position, []
        if self.checkpoints.is_due(position):
            yield WriteCheckpoint(self.checkpoints.build(self.state, self.transcript, position), position)
        return []

    def _keep_for_later(self, records: list[Record]) -> None:
        self.checkpoints.can_write = False
        self.unsaved += records


_LEAST = 4_000_000
"""Bytes of log between two checkpoints: they are read in a tenth of a second."""
_SHARE = 5
"""Or a fifth of the log: then all checkpoints together are written for a fraction of what the log itself took."""


@dataclass(slots=True)
class CheckpointSchedule:
    """Decides when a checkpoint is written."""

    covered_bytes: int = 0
    """Bytes of log that the newest checkpoint covers."""
    can_write: bool = True
    """False once this process knows more than the log: a checkpoint must not contain what the log lacks."""

    def is_due(self, end: Position) -> bool:
        return self.can_write and end.size - self.covered_bytes > max(_LEAST, end.size // _SHARE)

    def build(self, state: SessionState, transcript: Transcript, end: Position) -> list[Record]:
        self.covered_bytes = end.size
        return [take_snapshot(state), {**transcript.as_record(), "covers": end.size}]

    def read(self, record: Record) -> None:
        covers = record.get("covers")
        self.covered_bytes = covers if isinstance(covers, int) else 0


@dataclass(slots=True)
class StateSink:
    """Builds the state while the log is read. Use the state only after `finish`."""

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


_WAITING = 256
"""Requests of one session that may be under way at once and have their replies recorded."""


@dataclass(slots=True)
class Transcript:
    """Which messages the log already has, and the path of the last request through them."""

    session: str
    project: str = ""
    known: dict[str, str] = field(default_factory=dict)
    """From parent and item ids to the record's uuid."""
    path: PrefixHashes = field(default_factory=PrefixHashes)
    _of: int = 0
    """The number of the request that the path is of."""
    ends: dict[int, str] = field(default_factory=dict)
    """From a turn to the uuid of its last message: replies may come in another order than requests were sent."""

    def learn(self, records: Iterable[Mapping[str, object]]) -> None:
        """Learn what the log holds."""
        for record in records:
            ids = record.get("ebbids")
            if isinstance(ids, list) and record.get("uuid"):
                self.known[_key(record.get("parentUuid"), ids)] = str(record["uuid"])

    def as_record(self) -> Record:
        """Return all that it knows, for `restore`."""
        return {"type": "ebb", "kind": "known", "uuids": self.known}

    def restore(self, record: Mapping[str, object]) -> None:
        uuids = record.get("uuids")
        if isinstance(uuids, dict):
            self.known |= uuids

    def records_for_request(self, request: Request, now: float, turn: int = 0) -> list[Record]:
        """Records for the messages of this request that the log does not have yet. `turn` is 0 for no turn."""
        # A request may have been read and not recorded: what it shares with that one says nothing about this path.
        same = min(request.body.unchanged, len(self.path)) if request.number == self._of + 1 else 0
        last = self.path[same - 1] if same else None
        path, records = list[str](), list[Record]()
        for n in range(same, len(request.messages)):
            after = request.first_items[n + 1] if n + 1 < len(request.first_items) else len(request.items)
            ids = [item.id for item in request.items[request.first_items[n] : after]]
            last = self._add(request.wire, request.messages[n], ids, last, now, records)
            path.append(last)
        self.path, self._of = self.path.extend_from(same, path), request.number
        if turn and self.path:
            self.ends[turn] = self.path[-1]
            self.ends.pop(turn - _WAITING, None)
        return records

    def records_for_reply(
        self, reader: Reader, messages: Sequence[Any], turn: int, items: Sequence[Item], now: float
    ) -> list[Record]:
        """Records for what came back for a turn, under the ids it will have when the client sends it as history.

        None for a turn that is too long ago: the next request carries its reply.
        """
        wire, records = reader.last_wire, list[Record]()
        last = self.ends.get(turn) if turn else self.path[-1] if self.path else None
        if wire is None or (turn and last is None):
            return records
        for message in messages:
            last = self._add(wire, message, reader.predict_ids(wire, message, items), last, now, records)
        return records

    def _add(
        self, wire: Wire, message: Any, ids: list[str], parent: str | None, now: float, records: list[Record]
    ) -> str:
        """The uuid of a message, whose record is added where the log has none."""
        key = _key(parent, ids)
        if key in self.known:
            return self.known[key]
        logged = wire.messages.for_log(message)
        is_native = logged is message
        record = message_record(
            logged,
            session=self.session,
            parent=parent,
            at=now,
            project=self.project,
            wire=None if is_native else message,
            extra={"ebbids": ids, **({} if is_native else {"ebbwire": wire.name})},
        )
        records.append(record)
        self.known[key] = str(record["uuid"])
        return self.known[key]


def _key(parent: object, ids: Sequence[object]) -> str:
    text = "\0".join([str(parent), *map(str, ids)])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


RECORDED_COMPACTION = (
    *("asks", "live", "focus", "instructions", "summary", "first", "last", "after", "stalled", "waiting"),
    *("way", "transcript", "tool"),
)
"""Fields of `CompactionInput` that a plan record has. Answers and sub-agents are records of their own."""


def plan_input_to_record(plan_input: PlanInput) -> Record:
    """All that a plan went by besides the view, so that it can be made again."""
    compaction, budget = plan_input.compaction, plan_input.budget
    return {
        "tokens": plan_input.tokens,
        "scale": plan_input.scale,
        "scale_new": plan_input.scale_new,
        "utilisation": plan_input.utilisation,
        "warm": plan_input.cached_entries,
        **({"kept": plan_input.kept_entries} if plan_input.kept_entries else {}),
        "new": plan_input.first_unsent,
        "idle": plan_input.idle,
        "trigger": plan_input.trigger,
        "target": plan_input.target,
        "growth": plan_input.growth,
        "prices": [plan_input.prices.read, plan_input.prices.write],
        "directory": plan_input.blob_names.directory if plan_input.blob_names else None,
        "bound": plan_input.thinking_bound_to_prefix,
        "folding": {name: getattr(compaction, name) for name in RECORDED_COMPACTION}
        | {"instructions": list(compaction.instructions)},
        "now": plan_input.now,
        "overhead": plan_input.budget.overhead,
        **({"fixed": budget.fixed} if budget.fixed > budget.overhead else {}),
        "max_output": plan_input.budget.max_output,
    }


def plan_record(plan: Plan, edits: Sequence[Edit], decision: Decision, state: SessionState, policy: Policy) -> Record:
    """Return a plan as it is logged: what it was based on, and which of its edits were made."""
    plan_input = decision.plan_input
    after = plan.after if len(edits) == len(plan.edits) else plan.before.apply(edits)
    turn = state.turns + 1
    # A person may compact several times between two requests.
    earlier = sum(1 for batch in state.batches if batch.turn == turn)
    cached = decision.outgoing.entries_in(plan_input.cached_entries)
    return ebb_record(
        "plan",
        id=f"p{turn}.{earlier}" if earlier else f"p{turn}",
        at=plan_input.now,
        turn=turn,
        policy=policy.name,
        window=plan_input.budget.window,
        situation=plan_input_to_record(plan_input),
        level=plan.level,
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        view=after.tokens,
        **edits_to_record(edits, state.items),
        blobs=[[blob.name, blob.digest or digest(blob.text)] for edit in edits for blob in edit.blobs],
        planned=[edit.id for edit in plan.edits],
        moved=rewrite_cost(plan.before, after, edits, cached, safety=policy.estimator.safety),
        messages=len(decision.request.messages),
        texts=texts.VERSION,
    )


def branch_fields(state: SessionState, path: PrefixHashes, request: Request) -> Record:
    """Which conversation a plan is about that was made between two turns, as a turn says it."""
    base = common_prefix_length(state.messages, path)
    return {"base": base, "add": list(path[base:]), "wire": request.wire.name, "model": request.model}


def build_request_record(log: SessionLog, decision: Decision, outgoing: Outgoing, prepared: Prepared) -> RequestRecord:
    """Return a sent request as it is logged, with the messages that carry breakpoints, ours and the client's."""
    request, plan_input = decision.request, decision.plan_input
    messages, ttl = marked_messages(request, outgoing)
    sent = SentRequest(
        plan_input.now,
        request.model,
        request.system,
        request.tools,
        outgoing.hashes,
        plan_input.tokens,
        None,
        tuple(messages),
        ttl,
        plan_input.budget.window,
        outgoing.hour,
    )
    return request_record(
        log.state,
        sent,
        log.transcript.path,
        wire=request.wire.name,
        estimated=prepared.estimated,
        edited=bool(prepared.report.edits),
        overhead=request.overhead,
        max_output=request.max_output,
    )
