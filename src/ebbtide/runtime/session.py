"""One conversation between requests: reads what is new, replays recorded edits, plans, and remembers.

If anything of ours breaks, recorded edits are replayed and nothing new is planned. A stub is recorded only once its
content is durable; where that fails, its edit is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.compaction.answer_sources import AskModel, RawAnswer
from ebbtide.compaction.coordinator import CompactionCoordinator, CompactionResult, Decision, is_compaction
from ebbtide.compaction.questions import ManualCompaction, check_answer
from ebbtide.core.blob_names import BlobNames
from ebbtide.core.cache.prefix_hashes import common_prefix_length
from ebbtide.core.errors import BadRequest
from ebbtide.core.plan_input import Budget, PlanInput
from ebbtide.core.planner import Plan, make_plan
from ebbtide.core.tokens.size import SizeRule
from ebbtide.core.types import FIVE_MINUTES, Edit, Trigger, Usage
from ebbtide.core.view import View
from ebbtide.policy import Policy
from ebbtide.recall.search import find_item_id
from ebbtide.runtime.effects import (
    LOCK_WAIT,
    AppendRecords,
    Effect,
    GoesOut,
    LoadedLog,
    LoadLog,
    LogGone,
    Outcome,
    ReleaseLock,
    SaveBlob,
    Steps,
    WriteCheckpoint,
    holds_lock,
)
from ebbtide.runtime.events import FailureLog, request_events
from ebbtide.runtime.outgoing import Outgoing, add_breakpoints, write_outgoing
from ebbtide.runtime.plan_input_builder import (
    RequestState,
    build_plan_input,
    largest_accepted,
    may_exceed,
    passes_for,
    window_from_overflow,
)
from ebbtide.runtime.report import Event, Listener, Prepared, Report
from ebbtide.runtime.request_records import (
    add_notes,
    branch_fields,
    build_report,
    build_request_record,
    limit_record,
    plan_record,
    size_refusal,
    usage_record,
)
from ebbtide.runtime.resume import CheckpointSchedule, StateSink
from ebbtide.runtime.transcript import Transcript
from ebbtide.state.session_state import RequestRecord, SessionState, apply_records, ebb_record
from ebbtide.store import LOCK_TIMEOUT, Log, Position, ReadResult, Record
from ebbtide.wire import detect_response
from ebbtide.wire.body import ParsedBody as Read
from ebbtide.wire.echoes import EchoedEdits
from ebbtide.wire.overflow import Overflow
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader, Request

MAX_ROUNDS = 4
"""Times that one request may wait for answers: the whole, its parts, and what others did in between."""
Body = Mapping[str, Any] | bytes | str | Read


@dataclass(slots=True)
class Session:
    """The memory of one conversation. Its log is the truth; all here can be rebuilt from it."""

    policy: Policy
    window: int | Callable[[str], int]
    """Of every model, or of each by its name."""
    log: Log
    model: str = ""
    project: str = ""
    kept: bool = True
    """Whether what leaves is kept. A stateless `fit` keeps nothing, and its stubs say so."""
    wire: Wire | None = None
    listen: Listener | None = None
    mark_always: bool = False
    exact: SizeRule | None = None
    """A gauge to use instead of the policy's: `fit` promises by the upper bound."""
    compaction: CompactionCoordinator = field(default_factory=CompactionCoordinator)
    state: SessionState = field(default_factory=SessionState)
    _position: Position | None = None
    _reader: Reader = field(init=False)
    _view: View | None = None
    _projection: Outgoing | None = None
    _transcript: Transcript = field(init=False)
    _unsaved: list[Record] = field(default_factory=list)
    _checkpoints: CheckpointSchedule = field(default_factory=CheckpointSchedule)
    _ours: EchoedEdits = field(default_factory=EchoedEdits)
    _failures: FailureLog = field(default_factory=FailureLog)
    _last_budget: Budget | None = None
    _ceiling: int | None = None
    """What the request that is being folded anew has to fit, whatever the window is."""
    _last: tuple[Body, Decision] | None = None
    _shelf: BlobNames | None = None
    _written_at: str = ""
    """Where the whole conversation can be read; empty where there is no file."""

    def __post_init__(self) -> None:
        self._reader = Reader(self.policy.estimator, wire=self.wire, echoes=self._ours.by_fingerprint)
        self._transcript = Transcript(session=self.log.session, project=self.project)
        self.compaction.emit = self._event
        if self.kept:
            directory = self.log.blob_path("x")[:-2]
            self._shelf = BlobNames(directory=directory)
            if directory.endswith("/tool-results"):
                self._written_at = f"{directory.removesuffix('/tool-results')}.jsonl"

    # --- preparing -----------------------------------------------------------------------------------------------

    def prepare(
        self, body: Body, *, now: float, trigger: Trigger = "auto", target: int | None = None
    ) -> Steps[Prepared]:
        """Read, replay, plan, persist, commit, write. Yields effects; the edge performs them."""
        request = self._reader.read(body, at=now)
        if request.partial_history_reason:
            report = Report(
                window=self.window_for(request.model), notes=(f"passed through: {request.partial_history_reason}",)
            )
            return Prepared(request.body.emit(request.body.tree), report, 0, request.model, items=request.items)
        decided = yield from self._decide(body, request, now=now, trigger=trigger, target=target)
        request, view, situation, made, may_edit = decided
        self._last = (body, decided)
        assert self._projection is not None, "what is decided was projected"
        edits, failures = (yield from self._persist(made.edits)) if made and made.edits else ((), ())
        projection = self._projection
        unbroken = len(projection.tokens)
        if made and edits:
            view = made.after if len(edits) == len(made.edits) else view.apply(edits)
            projection = write_outgoing(request, view, projection)
            # An edit ends the warm part where it begins.
            unbroken = common_prefix_length(self._projection.chain, projection.chain)
        tree, marks = self._marked(request, view, projection)
        out = request.body.emit(tree)
        report = build_report(request, made, view, edits, situation, projection, unbroken, self.log)
        notes = [*failures, *(["the log could not be locked: nothing new was planned"] if not may_edit else [])]
        refusal = size_refusal(report, situation, self.policy, is_planned=made is not None, has_lock=may_edit)
        if refusal is not None:
            raise refusal
        stood = (
            request.wire.cache.present(tree, projection.ends)
            if marks or projection.marked[-1:] > [0]
            else ((), FIVE_MINUTES)
        )
        estimated = self._estimate(request, projection)
        turn = self.state.turns + 1 if may_edit else 0
        ready = Prepared(out, report, turn, request.model, estimated, items=request.items)
        yield GoesOut(ready)
        records, went = self._records(request, situation, projection, made, edits, stood, ready)
        # Turns say what they add to the one before: one that is in no log must not be known here alone.
        notes += yield from self._commit(records, now, may_edit, went if may_edit else None)
        # From here on the edits are those of the log: what is recorded is recognised by identity, and blobs let go.
        self._view = View.of(view.originals, self.state.edits) if edits else view
        projection.edits = self.state.edits
        self._projection = projection
        self._tell(made, edits, notes, projection, trigger)
        if notes or marks:
            named = [f"{place.section}.{place.index}.{place.block}" for place in marks]
            return ready._replace(report=add_notes(report, notes, named))
        return ready

    def _decide(
        self, body: Body, request: Request, *, now: float, trigger: Trigger, target: int | None = None,
        manual: ManualCompaction | None = None,
    ) -> Generator[Effect, Outcome, Decision]:  # fmt: skip
        """Plan, and where the plan asks, ask with the lock given back and plan again with what is known then."""
        told, patience = False, LOCK_WAIT
        for left in range(MAX_ROUNDS, -1, -1):
            known = StateSink(self.state, self._transcript, self._checkpoints)
            loaded = yield LoadLog(self._position, known.add, patience)
            if isinstance(loaded, LogGone):
                known = self._begin_anew()
                request = self._reread(body, now)
                loaded = yield LoadLog(None, known.add, patience)
            if isinstance(loaded, LoadedLog):
                request = self._absorb(loaded.reading, known, body, request, now)
            view = self._folded(request)
            last, self._projection = self._projection, None
            self._projection = write_outgoing(request, view, last)
            basis = RequestState(self.policy, self._budget(request), self.state, request, view, self._projection)
            situation = build_plan_input(
                basis, before=self._view, gauge=self.exact or self.policy.gauge, trigger=trigger, target=target,
                folding=self.compaction.build_input(self.state, request, manual, self._written_at, last=left == 0),
                shelf=self._on_shelf(), now=now,
            )  # fmt: skip
            if not holds_lock(loaded) and patience < LOCK_TIMEOUT and may_exceed(basis, situation.tokens):
                # It cannot go out as it is: worth waiting for whoever has the lock.
                patience = LOCK_TIMEOUT
                continue
            made = self._plan(view, situation) if holds_lock(loaded) else None
            if made is not None and is_compaction(made) and not told:
                told = True
                manual, allowed = self.compaction.run_before_hook(made, situation, manual)
                if not allowed:
                    made = self._plan(
                        view, situation._replace(compaction=situation.compaction._replace(forbidden=True))
                    )
                elif manual is not None and manual.focus != situation.compaction.focus:
                    yield ReleaseLock()
                    continue
            decided = Decision(request, view, situation, made, holds_lock(loaded))
            if made is None or not made.questions:
                break
            yield ReleaseLock()
            # What came of the questions goes into the log, whether or not the fold comes about.
            records = yield from self.compaction.ask(decided, self._projection.tree)
            yield from self._settle(records, now)
        self._failures.report(made.failures if made is not None else (), self._event)
        return decided

    def _begin_anew(self) -> StateSink:
        """The log is not the one that this session wrote. What rested on it is forgotten, stubs above all: the files
        that they name may be gone too. The client's history has the originals, and they are planned again."""
        self.state, self._position, self._unsaved = SessionState(), None, []
        self._transcript = Transcript(session=self.log.session, project=self.project)
        self._checkpoints = CheckpointSchedule()
        self._event("store", reason="the log was removed or exchanged: the session begins anew")
        return StateSink(self.state, self._transcript, self._checkpoints)

    def _absorb(self, loaded: ReadResult, known: StateSink, body: Any, request: Request, now: float) -> Request:
        """Take in what this process has not seen: at first all, later what others appended."""
        first, self._position = self._position is None, loaded.position
        if not first and not loaded.records:
            return request
        known.finish(loaded)
        before, self.state = self.state, known.state
        alike = self.state.edits is before.edits and self.state.protected_ids == before.protected_ids
        if self.state is before or (alike and not first):
            return request
        self._ours.learn(request.wire, self.state.edits)
        return self._reread(body, now)

    def _reread(self, body: Any, now: float) -> Request:
        self._repin()
        self._view = self._projection = None
        return self._reader.read(body, at=now)

    def _folded(self, request: Request) -> View:
        view = self._view
        if view is not None and view.edits is self.state.edits and request.unchanged_items <= len(view.originals):
            return view.extend_from(request.unchanged_items, request.items)
        return View.of(request.items, self.state.edits)

    # --- deciding ------------------------------------------------------------------------------------------------

    def window_for(self, model: str) -> int:
        """As given, or as its provider said when it refused a request."""
        window = self.window(model) if callable(self.window) else self.window
        return min(window, self.state.limits.get(model, window))

    def _budget(self, request: Request) -> Budget:
        """The same object while nothing that it follows from changes."""
        output, overhead = request.max_output or self.policy.output_reserved, sum(request.overhead)
        window, last = self.window_for(request.model), self._last_budget
        window = min(window, self._ceiling or window)
        if last is None or (last.window, last.max_output, last.overhead) != (window, output, overhead):
            levels = self.policy.levels(window, output, overhead)
            last = Budget(window=window, max_output=output, levels=levels, overhead=overhead)
            self._last_budget = last
        return last

    def _on_shelf(self) -> BlobNames | None:
        """The same object while nothing was put there."""
        if self._shelf is not None and self._shelf.taken is not self.state.taken:
            self._shelf = replace(self._shelf, taken=self.state.taken)
        return self._shelf

    def _estimate(self, request: Request, out: Outgoing) -> int:
        tokens = out.tokens_in(len(out.tokens)) + sum(request.overhead)
        return self.policy.estimator.total(tokens, len(out.starts))

    def _plan(self, view: View, situation: PlanInput) -> Plan | None:
        try:
            stages = passes_for(self.policy, situation.trigger)
            return make_plan(view, budget=situation.budget, plan_input=situation, **stages)
        except Exception as error:  # noqa: BLE001 - ours broke: recorded edits are replayed and nothing new is planned
            self._failures.log("planning", "recorded edits are replayed", error)
            self._event("fallback", reason="planning failed")
            return None

    def _persist(self, edits: Sequence[Edit]) -> Generator[Effect, Outcome, tuple[tuple[Edit, ...], tuple[str, ...]]]:
        """Content first. An edit whose content could not be made durable is not made."""
        kept: list[Edit] = []
        failures: list[str] = []
        for edit in edits:
            why = ""
            for blob in edit.blobs:
                why = why or str((yield SaveBlob(blob)) or "")
            if why:
                failures.append(f"not taken out, since it could not be kept: {why}")
            else:
                kept.append(edit)
        return tuple(kept), tuple(dict.fromkeys(failures))

    # --- going out -----------------------------------------------------------------------------------------------

    def _marked(self, request: Request, view: View, made: Outgoing) -> tuple[Mapping[str, Any], Sequence[Any]]:
        if self.policy.marks is None or not (view.has_edits or self.mark_always):
            return made.tree, ()
        return add_breakpoints(request, made, self.policy.marks)

    def _records(
        self, request: Request, situation: PlanInput, out: Outgoing, made: Plan | None, edits: Sequence[Edit],
        stood: tuple[Sequence[int], float], ready: Prepared,
    ) -> tuple[list[Record], RequestRecord]:  # fmt: skip
        records = self._transcript.records_for_request(request, situation.now, ready.turn)
        if made and edits:
            records.append(self._plan_record(made, edits, situation, request))
        if not self.state.recall and self.kept:
            records.append(ebb_record("recall", way=self.compaction.recall_mode, at=situation.now))
        return records, build_request_record(self.state, request, situation, out, self._transcript.path, stood, ready)

    def _plan_record(self, made: Plan, edits: Sequence[Edit], situation: PlanInput, request: Request) -> Record:
        assert self._projection is not None, "what is planned was projected"
        warm = self._projection.entries_in(situation.cached_entries)
        return plan_record(made, edits, situation, self.state, self.policy, len(request.messages), warm)

    def _commit(
        self, records: list[Record], now: float, may_edit: bool, turn: RequestRecord | None = None
    ) -> Generator[Effect, Outcome, list[str]]:
        """Append these, and then the turn. What could not be written is kept and goes with the next."""
        self.state = apply_records(self.state, records, turn)
        if not may_edit:
            self._checkpoints.can_write = False
            self._unsaved += records
            yield ReleaseLock()
            return []
        if turn is not None:
            records.append(turn.record)
        answer = yield AppendRecords([*self._unsaved, *records], now)
        if isinstance(answer, Position):
            self._position, self._unsaved = answer, []
            if self._checkpoints.is_due(answer):
                yield WriteCheckpoint(self._checkpoints.build(self.state, self._transcript, answer), answer)
            return []
        self._checkpoints.can_write = False
        self._unsaved += records
        return [f"not saved yet: {answer}"]

    def _tell(
        self, made: Plan | None, edits: Sequence[Edit], notes: Sequence[str], out: Outgoing, trigger: Trigger
    ) -> None:
        if edits and made:
            wire = self._reader.last_wire
            if wire is not None:
                self._ours.learn(wire, edits)
            self.compaction.announce(made, edits)
        if self.listen is None:
            return
        for event in request_events(self.log.session, made, edits, notes, out.repairs, trigger):
            self.listen(event)

    def _event(self, kind: str, **fields: object) -> None:
        if self.listen is not None:
            self.listen(Event(kind=kind, session=self.log.session, fields=fields))

    # --- afterwards ----------------------------------------------------------------------------------------------

    def record_reply(self, reply: Sequence[Any], usage: Usage | None, ready: Prepared, *, now: float) -> Steps[None]:
        """The reply into the log, its usage onto the request it answers."""
        held = yield from self._catch_up()
        if not self._transcript.path:
            # The log is gone, and the request with it: the next one brings this reply along.
            yield ReleaseLock()
            return
        records: list[Record] = list(
            self._transcript.records_for_reply(self._reader, reply, ready.turn, ready.items, now)
        )
        if usage is not None and ready.turn:
            records.append(usage_record(usage, ready, now))
        yield from self._settle(records, now, held)
        budget = self._last_budget
        if usage is not None and budget is not None and budget.levels.is_reached(usage.total, "auto"):
            # R057, R235: known already, though it is the next request that acts.
            self._event("fold_due", tokens=usage.total, at=budget.levels.auto)

    # --- when a person or the provider asks for it ---------------------------------------------------------------

    def compact(
        self, body: Body | None, *, now: float, manual: ManualCompaction, apply: bool
    ) -> Steps[CompactionResult]:
        """Fold now, or find out what a fold would do. Nothing goes out: the next request has the edits."""
        if body is None and self._last is None:
            raise BadRequest("there is no request to compact yet: give one, or prepare one first")
        asked = self._last[0] if body is None and self._last is not None else body
        assert asked is not None, "a body was given, or the last one is there"
        request = self._reader.read(asked, at=now)
        known = {item.id for item in request.items}
        for name, id in (("first", manual.first), ("last", manual.last)):
            if id and id not in known:
                raise BadRequest(f"{name}: {id[:80]!r} is no item of this request")
        decided = yield from self._decide(asked, request, now=now, trigger="manual", manual=manual)
        request, _, situation, made, may_edit = decided
        if made is None or not made.edits or not apply:
            yield ReleaseLock()
            why = () if may_edit else ("the log could not be locked",)
            return CompactionResult(made, made.edits if made else (), why)
        edits, failures = yield from self._persist(made.edits)
        if not edits:
            yield ReleaseLock()
            return CompactionResult(made, (), failures)
        records = self._transcript.records_for_request(request, now)
        place = branch_fields(self.state, self._transcript.path, request)
        records.append({**self._plan_record(made, edits, situation, request), **place})
        notes = yield from self._commit(records, now, may_edit)
        assert self._projection is not None, "what is decided was projected"
        self._tell(made, edits, notes, self._projection, "manual")
        return CompactionResult(made, edits, (*failures, *notes))

    def prepare_after_overflow(self, found: Overflow, ready: Prepared, *, now: float) -> Steps[Prepared]:
        """The provider refused the last request for its size: learn its window, fold, and write the request anew."""
        if self._last is None:
            raise BadRequest("overflow comes after prepare()")
        accepted = largest_accepted(self.state, ready.model)
        ceiling = window_from_overflow(found, ready.report.tokens_after, self._last_budget, accepted)
        yield from self._settle([limit_record(found, ready, ceiling, now)], now)
        self._ceiling = ceiling.window
        try:
            prepared = yield from self.prepare(self._last[0], now=now, trigger="overflow")
        finally:
            self._ceiling = None
        return prepared._replace(retried=True)

    def append_record(self, record: Record, *, now: float) -> Steps[None]:
        """A record of the session's own, as of a sub-agent or a pin."""
        yield from self._settle([record], now)
        if record.get("kind") == "pin":
            self._repin()

    def _repin(self) -> None:
        self._reader.pinned = self.state.protected_ids
        self._reader.forget()

    def find_item(self, handle: str) -> str:
        """The id of the item of the last request that a person means: by its id, or the beginning of its hash."""
        return find_item_id(self._last[1].view.originals if self._last else (), handle)

    def background_questions(self) -> list[AskModel]:
        """What the next fold would ask, once the soft level is reached; empty where nothing is to be asked."""
        if self._last is None or self._projection is None or self._last[1].plan is None:
            return []
        return self.compaction.background_questions(self.policy.folds, self._last[1], self._projection.tree)

    def record_background_answers(self, heard: Sequence[tuple[AskModel, RawAnswer]], *, now: float) -> Steps[None]:
        """Answers that came in the background, into the log: the next plan finds them. Overtaken ones do no harm."""
        self.compaction.is_asking = False
        if self.compaction.background is None:
            return
        request, view = self.compaction.background.request, self.compaction.background.view
        count = self.policy.estimator.text
        records = [check_answer(question, one, view, request.wire, count, now) for question, one in heard]
        yield from self._settle(records, now)

    def catch_up(self) -> Steps[None]:
        """Take in what other processes did; nothing is written."""
        yield from self._catch_up()
        yield ReleaseLock()

    def wire_for(self, response: Mapping[str, Any]) -> Wire:
        """The wire of the requests so far; before any, told by what a response has."""
        return self._reader.last_wire or detect_response(response)

    def _catch_up(self) -> Generator[Effect, Outcome, bool]:
        """Take in what others did. Whether the lock is ours since then."""
        known, before = StateSink(self.state, self._transcript, self._checkpoints), self.state
        loaded = yield LoadLog(self._position, known.add)
        if isinstance(loaded, LogGone):
            known = self._begin_anew()
            loaded = yield LoadLog(None, known.add)
        held = holds_lock(loaded)
        self._checkpoints.can_write &= held
        if isinstance(loaded, LoadedLog):
            self._position = loaded.reading.position
            known.finish(loaded.reading)
            self.state = known.state
        if self.state is not before and (
            self.state.edits is not before.edits or self.state.protected_ids != before.protected_ids
        ):
            if self._reader.last_wire is not None:
                self._ours.learn(self._reader.last_wire, self.state.edits)
            self._repin()
        return held

    def _settle(self, records: list[Record], now: float, held: bool | None = None) -> Generator[Effect, Outcome, None]:
        """Into the log, after what others did. Without the lock they may write in between: then all is read back."""
        if held is None:
            held = yield from self._catch_up()
        if held or self._unsaved:
            yield from self._commit(records, now, held)
            return
        answer = yield AppendRecords(records, now)
        if isinstance(answer, Position):
            yield from self._catch_up()
            yield ReleaseLock()
        else:
            yield from self._commit(records, now, False)
