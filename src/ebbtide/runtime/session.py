"""One conversation: reads each request, applies recorded edits, plans new ones and writes what is sent.

If planning fails, recorded edits are applied and nothing new is planned. An edit is made only after its content is
saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ebbtide.compaction.coordinator import (
    CompactionCoordinator,
    CompactionResult,
    ManualCompaction,
    PlannedRequest,
    check_answer,
    is_compaction,
)
from ebbtide.core.errors import BadRequest
from ebbtide.core.planner import Budget, Plan, PlanInput, make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.tokens.size import SizeRule
from ebbtide.core.types import FIVE_MINUTES, Edit, Trigger, Usage
from ebbtide.core.view import View
from ebbtide.effects import LOCK_WAIT, AppendRecords, AskModel, RawAnswer, ReleaseLock, SaveBlob, Steps
from ebbtide.facts import FactsMemory
from ebbtide.policy import Policy
from ebbtide.policy.adjust import with_fact_collector
from ebbtide.recall.search import find_item_id
from ebbtide.runtime.outgoing import Outgoing, add_breakpoints, write_outgoing
from ebbtide.runtime.plan_input_builder import (
    Body,
    Decision,
    RequestState,
    build_plan_input,
    largest_accepted,
    may_exceed,
    passes_for,
    window_from_overflow,
)
from ebbtide.runtime.report import EventEmitter, Prepared, Report, add_notes, build_report, raise_if_too_large
from ebbtide.runtime.session_log import (
    LogUpdate,
    SessionLog,
    branch_fields,
    build_request_record,
    limit_record,
    plan_record,
    usage_record,
)
from ebbtide.state.session_state import ebb_record
from ebbtide.store import LOCK_TIMEOUT, Log, Position, Record
from ebbtide.wire import detect_response
from ebbtide.wire.echoes import EchoedEdits
from ebbtide.wire.overflow import Overflow
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Reader, Request

MAX_ROUNDS = 4
"""Times that one request may wait for answers: about everything, about its parts, and after what others did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    policy: Policy
    window: int | Callable[[str], int]
    """Of every model, or of each by its name."""
    model: str = ""
    project: str = ""
    saves_content: bool = True
    """Whether removed content is saved. A stateless `fit` saves nothing, and its stubs say so."""
    wire: Wire | None = None
    always_adds_breakpoints: bool = False
    size_rule: SizeRule | None = None
    """Used instead of the policy's: `fit` goes by the upper bound."""


class SavedEdits(NamedTuple):
    """The edits of a plan whose content is on disk, and why others were left out."""

    edits: tuple[Edit, ...] = ()
    failures: tuple[str, ...] = ()


class Preparation(NamedTuple):
    """A request that may be sent and is not in the log yet."""

    prepared: Prepared
    decision: Decision | None = None
    """None for a request that is passed through: there is nothing to commit."""
    saved: SavedEdits = SavedEdits()
    view: View | None = None
    outgoing: Outgoing | None = None


@dataclass(slots=True)
class Session:
    """The memory of one conversation. Everything here can be rebuilt from its log."""

    settings: SessionSettings
    log: SessionLog
    events: EventEmitter
    compaction: CompactionCoordinator = field(default_factory=CompactionCoordinator)
    echoes: EchoedEdits = field(default_factory=EchoedEdits)
    reader: Reader = field(init=False)
    last: Decision | None = None
    """Of the last request, whether or not it could be sent."""
    view: View | None = None
    """Of the last request that was sent."""
    outgoing: Outgoing | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        self.reader = Reader(settings.policy.estimator, wire=settings.wire, echoes=self.echoes.by_fingerprint)
        self.compaction.emit = self.events.emit

    # --- a request ------------------------------------------------------------------------------------------------

    def prepare(
        self, body: Body, *, now: float, trigger: Trigger = "auto", max_window: int | None = None
    ) -> Steps[Preparation]:
        """Read, load, plan, save, write. Nothing is in the log yet: the caller commits."""
        request = self.reader.read(body, at=now)
        if request.partial_history_reason:
            return self._pass_through(request)
        decision = yield from self._decide(body, request, now=now, trigger=trigger, max_window=max_window)
        self.last, self.outgoing = decision, decision.outgoing
        saved = yield from self._save_blobs(decision.edits)
        view, outgoing = self._write(decision, saved.edits)
        report = build_report(decision, view, saved.edits, outgoing, self.log.log)
        raise_if_too_large(report, decision, self.settings.policy)
        return Preparation(self._ready(decision, outgoing, report), decision, saved, view, outgoing)

    def commit(self, preparation: Preparation) -> Steps[Prepared]:
        """Append new messages, the plan and the request as one commit, then remember what was sent."""
        prepared, decision, saved, view, outgoing = preparation
        if decision is None or view is None or outgoing is None:
            return prepared
        records = self._records(decision, saved.edits, prepared)
        sent = build_request_record(self.log, decision, outgoing, _present_breakpoints(decision, outgoing), prepared)
        # A request record says what it adds to the one before: one that is not in the log must not be remembered.
        notes = yield from self.log.append(
            records, decision.plan_input.now, has_lock=decision.has_lock, request=sent if decision.has_lock else None
        )
        # From here on use the edits of the log: recorded edits are recognised by identity, and blobs are freed.
        self.view = View.of(view.originals, self.log.state.edits) if saved.edits else view
        self.outgoing = replace(outgoing, edits=self.log.state.edits) if saved.edits else outgoing
        notes = [*saved.failures, *decision.notes, *notes]
        self._announce(decision, saved.edits, notes, outgoing)
        if notes or outgoing.breakpoints:
            return prepared._replace(report=add_notes(prepared.report, notes, outgoing.breakpoints))
        return prepared

    def _pass_through(self, request: Request) -> Preparation:
        report = Report(
            window=self.window_for(request.model), notes=(f"passed through: {request.partial_history_reason}",)
        )
        body = request.body.emit(request.body.tree)
        return Preparation(Prepared(body, report, 0, request.model, items=request.items))

    def _decide(
        self,
        body: Body,
        request: Request,
        *,
        now: float,
        trigger: Trigger,
        max_window: int | None = None,
        manual: ManualCompaction | None = None,
    ) -> Steps[Decision]:
        """Plan. If a pass needs a model: release the lock, ask, record the answers, and plan again."""
        has_run_hook, lock_wait, outgoing = False, LOCK_WAIT, self.outgoing
        for rounds_left in range(MAX_ROUNDS, -1, -1):
            update = yield from self.log.load(lock_wait)
            if self._follow(update, request.wire):
                self.view = outgoing = None
                request = self.reader.read(body, at=now)
            view = self._build_view(request)
            outgoing = write_outgoing(request, view, outgoing)
            state = RequestState(
                self.settings.policy, self._budget(request, max_window), self.log.state, request, view, outgoing
            )
            plan_input = build_plan_input(
                state,
                previous=self.view,
                size_rule=self.settings.size_rule or self.settings.policy.gauge,
                trigger=trigger,
                blob_names=self._blob_names(),
                compaction=self.compaction.build_input(
                    self.log.state, request, manual, self._log_path(), is_last_round=rounds_left == 0
                ),
                now=now,
            )
            if not update.has_lock and lock_wait < LOCK_TIMEOUT and may_exceed(state, plan_input.tokens):
                # It cannot be sent without a plan: wait longer for the lock.
                lock_wait = LOCK_TIMEOUT
                continue
            plan = self._plan(view, plan_input) if update.has_lock else None
            if plan is not None and is_compaction(plan) and not has_run_hook:
                has_run_hook = True
                manual, is_allowed = self.compaction.run_before_hook(plan, plan_input, manual)
                if not is_allowed:
                    forbidden = plan_input.compaction._replace(forbidden=True)
                    plan = self._plan(view, plan_input._replace(compaction=forbidden))
                elif manual is not None and manual.focus != plan_input.compaction.focus:
                    yield ReleaseLock()
                    continue
            decision = Decision(body, request, view, outgoing, plan_input, plan, update.has_lock)
            if plan is None or not plan.questions:
                break
            yield ReleaseLock()
            # Answers are recorded whether or not the compaction is made.
            records = yield from self.compaction.ask(PlannedRequest(request, view, plan_input, plan, outgoing.body))
            yield from self._record(records, now)
        self.events.report_failures(plan.failures if plan is not None else ())
        return decision

    def _follow(self, update: LogUpdate, wire: Wire | None) -> bool:
        """Make the reader follow the log. Return whether requests must be read again."""
        if update.was_replaced:
            self.events.emit("store", reason="the log was removed or exchanged: the session begins anew")
        if update.has_new_edits:
            if wire is not None:
                self.echoes.learn(wire, self.log.state.edits)
            self._read_again()
        return update.has_new_edits

    def _read_again(self) -> None:
        """Edits or pins changed: read the next request from its beginning."""
        self.reader.pinned = self.log.state.protected_ids
        self.reader.forget()

    def _build_view(self, request: Request) -> View:
        view, edits = self.view, self.log.state.edits
        if view is not None and view.edits is edits and request.unchanged_items <= len(view.originals):
            return view.extend_from(request.unchanged_items, request.items)
        return View.of(request.items, edits)

    def window_for(self, model: str) -> int:
        """Return the window that was given, or a smaller one that the provider named when it refused a request."""
        window = self.settings.window
        tokens = window(model) if callable(window) else window
        return min(tokens, self.log.state.limits.get(model, tokens))

    def _budget(self, request: Request, max_window: int | None) -> Budget:
        """Return the same object as before while nothing that it depends on changes."""
        policy = self.settings.policy
        output, overhead = request.max_output or policy.output_reserved, sum(request.overhead)
        window, budget = self.window_for(request.model), self.budget
        window = min(window, max_window or window)
        if budget is None or (budget.window, budget.max_output, budget.overhead) != (window, output, overhead):
            thresholds = policy.levels(window, output, overhead)
            budget = self.budget = Budget(window=window, max_output=output, levels=thresholds, overhead=overhead)
        return budget

    def _blob_names(self) -> BlobNames | None:
        if not self.settings.saves_content:
            return None
        return BlobNames(directory=self.log.blob_folder, taken=self.log.state.taken)

    def _log_path(self) -> str:
        """Return the file in which a model can read the whole conversation, or ''."""
        folder = self.log.blob_folder if self.settings.saves_content else ""
        return f"{folder.removesuffix('/tool-results')}.jsonl" if folder.endswith("/tool-results") else ""

    def _plan(self, view: View, plan_input: PlanInput) -> Plan | None:
        try:
            passes = passes_for(self.settings.policy, plan_input.trigger)
            return make_plan(view, budget=plan_input.budget, plan_input=plan_input, **passes)
        except Exception as error:  # noqa: BLE001 - after an error of ours, recorded edits still apply
            self.events.log_failure("planning", "recorded edits are replayed", error)
            self.events.emit("fallback", reason="planning failed")
            return None

    def _save_blobs(self, edits: Sequence[Edit]) -> Steps[SavedEdits]:
        """Save the content of each edit. An edit whose content could not be saved is left out."""
        saved, failures = list[Edit](), list[str]()
        for edit in edits:
            failure = ""
            for blob in edit.blobs:
                failure = failure or str((yield SaveBlob(blob)) or "")
            if failure:
                failures.append(f"not taken out, since it could not be kept: {failure}")
            else:
                saved.append(edit)
        return SavedEdits(tuple(saved), tuple(dict.fromkeys(failures)))

    def _write(self, decision: Decision, edits: Sequence[Edit]) -> tuple[View, Outgoing]:
        """Write the request with these edits of its plan, and add breakpoints."""
        view, outgoing, plan = decision.view, decision.outgoing, decision.plan
        if plan is not None and edits:
            view = plan.after if len(edits) == len(plan.edits) else view.apply(edits)
            outgoing = write_outgoing(decision.request, view, outgoing)
        strategy = self.settings.policy.marks
        if strategy is not None and (view.has_edits or self.settings.always_adds_breakpoints):
            outgoing = add_breakpoints(decision.request, outgoing, strategy)
        return view, outgoing

    def _ready(self, decision: Decision, outgoing: Outgoing, report: Report) -> Prepared:
        request = decision.request
        tokens = outgoing.tokens + sum(request.overhead)
        return Prepared(
            body=request.body.emit(outgoing.marked_body),
            report=report,
            turn=self.log.state.turns + 1 if decision.has_lock else 0,
            model=request.model,
            estimated=self.settings.policy.estimator.total(tokens, outgoing.message_count),
            items=request.items,
        )

    def _records(self, decision: Decision, edits: Sequence[Edit], prepared: Prepared) -> list[Record]:
        now = decision.plan_input.now
        records = self.log.transcript.records_for_request(decision.request, now, prepared.turn)
        if decision.plan is not None and edits:
            records.append(plan_record(decision.plan, edits, decision, self.log.state, self.settings.policy))
        if not self.log.state.recall and self.settings.saves_content:
            records.append(ebb_record("recall", way=self.compaction.recall_mode, at=now))
        return records

    def _announce(self, decision: Decision, edits: Sequence[Edit], notes: Sequence[str], outgoing: Outgoing) -> None:
        if decision.plan is not None and edits:
            self.echoes.learn(decision.request.wire, edits)
            self.compaction.announce(decision.plan, edits)
        self.events.emit_request(decision.plan, edits, notes, outgoing.repairs, decision.plan_input.trigger)

    # --- after a request ------------------------------------------------------------------------------------------

    def record_reply(self, reply: Sequence[Any], usage: Usage | None, prepared: Prepared, *, now: float) -> Steps[None]:
        """Append the reply to the log, and its usage to the request that it answers."""
        has_lock = yield from self._catch_up()
        transcript = self.log.transcript
        if not transcript.path:
            # The log was replaced, and the request is gone with it: the next request brings this reply along.
            yield ReleaseLock()
            return
        records = transcript.records_for_reply(self.reader, reply, prepared.turn, prepared.items, now)
        if usage is not None and prepared.turn:
            records.append(usage_record(usage, prepared, now))
        yield from self._record(records, now, has_lock)
        if usage is not None and self.budget is not None and self.budget.levels.is_reached(usage.total, "auto"):
            # R057, R235: known already, though the next request acts on it.
            self.events.emit("fold_due", tokens=usage.total, at=self.budget.levels.auto)

    def retry_after_overflow(self, overflow: Overflow, prepared: Prepared, *, now: float) -> Steps[Prepared]:
        """The provider refused the last request for its size: learn its window, compact, and prepare it again."""
        if self.last is None:
            raise BadRequest("overflow comes after prepare()")
        accepted = largest_accepted(self.log.state, prepared.model)
        window = window_from_overflow(overflow, prepared.report.tokens_after, self.budget, accepted)
        yield from self._record([limit_record(overflow, prepared, window, now)], now)
        preparation = yield from self.prepare(self.last.body, now=now, trigger="overflow", max_window=window.window)
        retry = yield from self.commit(preparation)
        return retry._replace(retried=True)

    def compact(
        self, body: Body | None, *, now: float, manual: ManualCompaction, apply: bool
    ) -> Steps[CompactionResult]:
        """Compact now, or find out what a compaction would do. Nothing is sent: the next request has the edits."""
        if body is None:
            if self.last is None:
                raise BadRequest("there is no request to compact yet: give one, or prepare one first")
            body = self.last.body
        request = self.reader.read(body, at=now)
        known_ids = {item.id for item in request.items}
        for name, id in (("first", manual.first), ("last", manual.last)):
            if id and id not in known_ids:
                raise BadRequest(f"{name}: {id[:80]!r} is no item of this request")
        decision = yield from self._decide(body, request, now=now, trigger="manual", manual=manual)
        plan = decision.plan
        if plan is None or not plan.edits or not apply:
            yield ReleaseLock()
            return CompactionResult(plan, decision.edits, () if decision.has_lock else ("the log could not be locked",))
        saved = yield from self._save_blobs(plan.edits)
        if not saved.edits:
            yield ReleaseLock()
            return CompactionResult(plan, (), saved.failures)
        transcript = self.log.transcript
        records = transcript.records_for_request(decision.request, now)
        record = plan_record(plan, saved.edits, decision, self.log.state, self.settings.policy)
        records.append({**record, **branch_fields(self.log.state, transcript.path, decision.request)})
        notes = yield from self.log.append(records, now, has_lock=decision.has_lock)
        self._announce(decision, saved.edits, notes, decision.outgoing)
        return CompactionResult(plan, saved.edits, (*saved.failures, *notes))

    def append_record(self, record: Record, *, now: float) -> Steps[None]:
        """Append a record such as a pin or a sub-agent's result."""
        yield from self._record([record], now)
        if record.get("kind") == "pin":
            self._read_again()

    def undo_batch(self, *, now: float, batch: str = "") -> Steps[tuple[Edit, ...]]:
        """Undo the newest batch of edits, or the one named. Return its edits."""
        has_lock, state = (yield from self._catch_up()), self.log.state
        active = [known for known in state.batches if known.id not in state.undone]
        chosen = [known for known in active if known.id == batch] if batch else active[-1:]
        if not chosen:
            yield ReleaseLock()
            return ()
        yield from self._record([ebb_record("undo", batch=chosen[0].id, at=now)], now, has_lock)
        self._read_again()
        return chosen[0].edits

    def redo_batch(self, *, now: float) -> Steps[tuple[Edit, ...]]:
        """Bring back the batch that was undone last. Return its edits."""
        has_lock, state = (yield from self._catch_up()), self.log.state
        if not state.undone:
            yield ReleaseLock()
            return ()
        batch = next(known for known in state.batches if known.id == state.undone[-1])
        yield from self._record([ebb_record("redo", batch=batch.id, at=now)], now, has_lock)
        self._read_again()
        return batch.edits

    def find_item(self, handle: str) -> str:
        """Return the id of the item of the last request that has this id, or whose hash begins with this handle."""
        return find_item_id(self.last.view.originals if self.last else (), handle)

    def background_questions(self) -> list[AskModel]:
        """Return what the next compaction would ask, once the soft threshold is reached."""
        planned = self.last.planned if self.last is not None else None
        return self.compaction.background_questions(self.settings.policy.folds, planned) if planned else []

    def record_background_answers(self, answers: Sequence[tuple[AskModel, RawAnswer]], *, now: float) -> Steps[None]:
        """Append answers that came in the background: the next plan finds them. Outdated answers do no harm."""
        self.compaction.is_asking = False
        planned = self.compaction.background
        if planned is None:
            return
        wire, count = planned.request.wire, self.settings.policy.estimator.text
        records = [check_answer(question, answer, planned.view, wire, count, now) for question, answer in answers]
        yield from self._record(records, now)

    def catch_up(self) -> Steps[None]:
        """Apply what other processes did, and write nothing."""
        yield from self._catch_up()
        yield ReleaseLock()

    def wire_for(self, response: Mapping[str, Any]) -> Wire:
        """Return the wire of the requests so far; before any, the one that the response looks like."""
        return self.reader.last_wire or detect_response(response)

    def _catch_up(self) -> Steps[bool]:
        """Apply what other processes did. Return whether the lock is held since then."""
        update = yield from self.log.load()
        self.log.checkpoints.can_write &= update.has_lock
        self._follow(update, self.reader.last_wire)
        return update.has_lock

    def _record(self, records: list[Record], now: float, has_lock: bool | None = None) -> Steps[None]:
        """Append records after what other processes wrote."""
        if has_lock is None:
            has_lock = yield from self._catch_up()
        if has_lock or self.log.unsaved:
            yield from self.log.append(records, now, has_lock=has_lock)
            return
        # Without the lock others may write in between: read everything back.
        if isinstance((yield AppendRecords(records, now)), Position):
            yield from self._catch_up()
            yield ReleaseLock()


def _present_breakpoints(decision: Decision, outgoing: Outgoing) -> tuple[Sequence[int], float]:
    """Return the messages that carry breakpoints, ours and the client's, and how long the provider caches them."""
    if not outgoing.breakpoints and not outgoing.client_breakpoints_in(outgoing.message_count):
        return (), FIVE_MINUTES
    return decision.request.wire.cache.present(outgoing.marked_body, outgoing.edit_ends)


def prepare_and_commit(
    session: Session, body: Body, *, now: float, on_ready: Callable[[Prepared], None] | None = None
) -> Steps[Prepared]:
    """Prepare a request, hand it to `on_ready`, and then commit it.

    A request without new edits may be sent from `on_ready`. If `on_ready` raises, nothing is recorded.
    """
    preparation = yield from session.prepare(body, now=now)
    if on_ready is not None and preparation.decision is not None:
        on_ready(preparation.prepared)
    return (yield from session.commit(preparation))


def open_session(
    settings: SessionSettings,
    log: Log,
    *,
    on_event: Callable[..., None] | None = None,
    compaction: CompactionCoordinator | None = None,
) -> Session:
    policy = with_fact_collector(settings.policy, FactsMemory().collect)
    return Session(
        replace(settings, policy=policy),
        SessionLog(log, settings.project),
        EventEmitter(session=log.session, listener=on_event),
        compaction or CompactionCoordinator(),
    )
