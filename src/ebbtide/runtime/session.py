"""One conversation: reads each request, applies recorded edits, plans new ones and writes what is sent.

This is the script of one request; start with `Session.prepare`. Its steps yield effects (`effects.py`) and perform
none. If planning fails, recorded edits are applied and nothing new is planned. An edit is made only after its content
is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.compaction.coordinator import CompactionCoordinator, ManualCompaction
from ebbtide.core.planner import Budget, Plan, PlanInput, make_plan
from ebbtide.core.types import Edit, Trigger
from ebbtide.core.view import View
from ebbtide.effects import LOCK_WAIT, AppendRecords, ReleaseLock, SaveBlob, Steps
from ebbtide.facts import FactsMemory
from ebbtide.policy.adjust import with_fact_collector
from ebbtide.runtime.decision import (
    Body,
    Decision,
    InstructionFinder,
    Preparation,
    RequestState,
    SavedEdits,
    SessionSettings,
    add_notes,
    build_compaction_input,
    build_plan_input,
    build_report,
    may_exceed,
    pass_through,
    passes_for,
    planned_request,
    raise_if_too_large,
    ready_request,
    write_decision,
)
from ebbtide.runtime.outgoing import Outgoing, write_outgoing
from ebbtide.runtime.overlap import OverlapGuard
from ebbtide.runtime.report import EventEmitter, Prepared
from ebbtide.runtime.session_log import LogUpdate, SessionLog, build_request_record, plan_record
from ebbtide.state.session_state import ebb_record
from ebbtide.store import LOCK_TIMEOUT, Log, Position, Record
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import EchoedEdits, Reader, Request

MAX_ROUNDS = 4
"""Times that one request may wait for answers: about everything, about its parts, and after what others did."""


@dataclass(slots=True)
class Session:
    """The memory of one conversation. Everything here can be rebuilt from its log."""

    settings: SessionSettings
    log: SessionLog
    events: EventEmitter
    compaction: CompactionCoordinator = field(default_factory=CompactionCoordinator)
    instructions: InstructionFinder = field(default_factory=InstructionFinder)
    echoes: EchoedEdits = field(default_factory=EchoedEdits)
    overlap: OverlapGuard = field(default_factory=OverlapGuard)
    reader: Reader = field(init=False)
    last: Decision | None = None
    """Of the last request, whether or not it could be sent."""
    last_reply: Sequence[Any] = ()
    """The messages that answered the last request, if they were recorded."""
    view: View | None = None
    """Of the last request that was sent."""
    outgoing: Outgoing | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        self.reader = Reader(
            settings.policy.estimator, wire=settings.wire, echoes=self.echoes.by_fingerprint, model=settings.model
        )
        self.compaction.emit = self.events.emit

    def prepare(
        self, body: Body, *, now: float, trigger: Trigger = "auto", max_window: int | None = None
    ) -> Steps[Preparation]:
        """Read, load, plan, save, write. Nothing is in the log yet: the caller commits."""
        request = self.reader.read(body, at=now)
        if request.partial_history_reason:
            return pass_through(request, self.window_for(request.model))
        overlaps = self.overlap.check(request, self.view)
        decision = yield from self.decide(body, request, now=now, trigger=trigger, max_window=max_window)
        self.last, self.last_reply, self.outgoing = decision, (), decision.outgoing
        saved = yield from save_blobs(decision.edits)
        view, outgoing = write_decision(decision, saved.edits, self.settings, self.log.state)
        report = build_report(decision, view, saved.edits, outgoing, self.log.log)
        report = replace(report, notes=(*report.notes, *overlaps)) if overlaps else report
        raise_if_too_large(report, decision, self.settings.policy)
        turn = self.log.state.turns + 1 if decision.has_lock else 0
        prepared = ready_request(
            decision.request, outgoing, report, turn, self.settings.policy, self.log.state.foreign_messages
        )
        return Preparation(prepared, decision, saved, view, outgoing)

    def commit(self, preparation: Preparation) -> Steps[Prepared]:
        """Append new messages, the plan and the request as one commit, then remember what was sent."""
        prepared, decision, saved, view, outgoing = preparation
        if decision is None or view is None or outgoing is None:
            return prepared
        records = self._records(decision, saved.edits, prepared.turn)
        sent = build_request_record(self.log, decision, outgoing, prepared)
        # A request record says what it adds to the one before: one that is not in the log must not be remembered.
        notes = yield from self.log.append(
            records, decision.plan_input.now, has_lock=decision.has_lock, request=sent if decision.has_lock else None
        )
        # From here on use the edits of the log: recorded edits are recognised by identity, and blobs are freed.
        self.view = View.of(view.originals, self.log.state.edits) if saved.edits else view
        self.outgoing = outgoing._replace(edits=self.log.state.edits) if saved.edits else outgoing
        notes = [*saved.failures, *decision.notes, *notes]
        self.announce(decision, saved.edits, notes, outgoing)
        if notes:
            return prepared._replace(report=add_notes(prepared.report, notes))
        return prepared

    def decide(
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
            update = yield from self.load(lock_wait, request.wire)
            if update.has_new_edits:
                self.view = outgoing = None
                request = self.reader.read(body, at=now)
            view = self._build_view(request)
            outgoing = write_outgoing(request, view, outgoing)
            budget = self._build_budget(request, max_window)
            state = RequestState(
                self.settings.policy, budget, self.log.state, request, view, outgoing, previous=self.view, now=now
            )
            plan_input = self._build_plan_input(state, trigger, manual, is_last_round=rounds_left == 0)
            if not update.has_lock and lock_wait < LOCK_TIMEOUT and may_exceed(state, plan_input.tokens):
                # It cannot be sent without a plan: wait longer for the lock.
                lock_wait = LOCK_TIMEOUT
                continue
            plan = self._plan(view, plan_input) if update.has_lock else None
            if plan is not None and plan.is_compaction and not has_run_hook:
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
            answers = yield from self.compaction.ask(planned_request(decision, plan, self.settings, self.log.state))
            yield from self.append(answers, now)
        if plan is not None and plan.failures:
            self.events.report_failures(plan.failures)
        return decision

    # --- the log --------------------------------------------------------------------------------------------------

    def load(self, lock_wait: float = LOCK_WAIT, wire: Wire | None = None) -> Steps[LogUpdate]:
        """Take the lock, apply what other processes appended, and let the reader follow."""
        update = yield from self.log.load(lock_wait)
        if update.was_replaced:
            self.events.emit("store", reason="the log was removed or exchanged: the session starts over")
        if update.has_new_edits:
            if wire is not None:
                self.echoes.learn(wire, self.log.state.edits)
            self.read_again()
        return update

    def catch_up(self) -> Steps[bool]:
        """Apply what other processes did. Return whether the lock is held since then."""
        update = yield from self.load(wire=self.reader.last_wire)
        self.log.checkpoints.can_write &= update.has_lock
        return update.has_lock

    def append(self, records: list[Record], now: float, has_lock: bool | None = None) -> Steps[None]:
        """Append records after what other processes wrote."""
        if has_lock is None:
            has_lock = yield from self.catch_up()
        if has_lock or self.log.unsaved:
            yield from self.log.append(records, now, has_lock=has_lock)
            return
        # Without the lock others may write in between: read everything back.
        if isinstance((yield AppendRecords(records, now)), Position):
            yield from self.catch_up()
            yield ReleaseLock()

    def read_again(self) -> None:
        """Edits or pins changed: read the next request from its beginning."""
        self.reader.pinned = self.log.state.protected_ids
        self.reader.forget()

    def _records(self, decision: Decision, edits: Sequence[Edit], turn: int) -> list[Record]:
        now = decision.plan_input.now
        records = self.log.transcript.records_for_request(decision.request, now, turn)
        if decision.plan is not None and edits:
            records.append(plan_record(decision.plan, edits, decision, self.log.state, self.settings.policy))
        if not self.log.state.recall and self.settings.saves_content:
            records.append(ebb_record("recall", way=self.compaction.recall_mode, at=now))
        return records

    # --- the parts of a decision ----------------------------------------------------------------------------------

    def window_for(self, model: str) -> int:
        """Return the window that was given, or a smaller one that the provider named when it refused a request."""
        window = self.settings.window
        tokens = window(model) if callable(window) else window
        return min(tokens, self.log.state.limits.get(model, tokens))

    def _build_budget(self, request: Request, max_window: int | None) -> Budget:
        """Return the same object as before while nothing that it depends on changes."""
        policy = self.settings.policy
        output, overhead = request.max_output or policy.output_reserved, sum(request.overhead)
        window, budget = self.window_for(request.model), self.budget
        window, fixed = min(window, max_window or window), request.fixed
        key = (window, output, overhead, fixed)
        if budget is None or (budget.window, budget.max_output, budget.overhead, budget.fixed) != key:
            thresholds = policy.levels(window, output, fixed)
            budget = self.budget = Budget(
                window=window, max_output=output, levels=thresholds, overhead=overhead, fixed=fixed
            )
        return budget

    def _build_view(self, request: Request) -> View:
        view, edits = self.view, self.log.state.edits
        if view is not None and view.edits is edits and request.unchanged_items <= len(view.originals):
            return view.extend_from(request.unchanged_items, request.items)
        return View.of(request.items, edits)

    def _build_plan_input(
        self, state: RequestState, trigger: Trigger, manual: ManualCompaction | None, *, is_last_round: bool
    ) -> PlanInput:
        compaction = build_compaction_input(
            state.state,
            state.request,
            self.compaction,
            manual,
            instructions=self.instructions.find(state.request),
            transcript_path=self.log.transcript_path,
            is_last_round=is_last_round,
        )
        return build_plan_input(
            state, trigger=trigger, blob_names=self.log.blob_names(compaction.way), compaction=compaction
        )

    def _plan(self, view: View, plan_input: PlanInput) -> Plan | None:
        try:
            passes = passes_for(self.settings.policy, plan_input.trigger)
            return make_plan(view, budget=plan_input.budget, plan_input=plan_input, **passes)
        except Exception as error:  # noqa: BLE001 - after an error of ours, recorded edits still apply
            self.events.log_failure("planning", "recorded edits are replayed", error)
            self.events.emit("fallback", reason="planning failed")
            return None

    def announce(self, decision: Decision, edits: Sequence[Edit], notes: Sequence[str], outgoing: Outgoing) -> None:
        """Tell listeners and hooks which edits were made."""
        if decision.plan is not None and edits:
            self.echoes.learn(decision.request.wire, edits)
            self.compaction.announce(decision.plan, edits)
        if edits or notes or outgoing.repairs:
            self.events.emit_request(decision.plan, edits, notes, outgoing.repairs, decision.plan_input.trigger)


def save_blobs(edits: Sequence[Edit]) -> Steps[SavedEdits]:
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
        SessionLog(log, settings.project, settings.saves_content),
        EventEmitter(session=log.session, listener=on_event),
        compaction or CompactionCoordinator(),
    )
