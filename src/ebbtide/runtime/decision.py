"""What is decided about one request: what the plan depends on, what is written after it, and the report on it.

The functions here are the steps of `session.py` that need no effects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypedDict

from ebbtide.compaction.coordinator import CompactionCoordinator, ManualCompaction, PlannedRequest
from ebbtide.core.cache.breakpoints import choose_by_value
from ebbtide.core.cache.lifetimes import plan_hour
from ebbtide.core.cache.prefix import (
    common_prefix_length,
    count_cached_messages,
    find_usage_anchor,
    mean_growth,
    prices_for,
)
from ebbtide.core.edit_layout import UsableAnswers
from ebbtide.core.errors import Blocked, Busy, WontFit
from ebbtide.core.planner import Budget, CompactionInput, Pass, Plan, PlanInput
from ebbtide.core.stub import BlobNames
from ebbtide.core.tokens.size import SizeInputs, SizeRule, upper_bound
from ebbtide.core.tool_calls import RECALL_TOOLS, compact_instructions, unreadable_files
from ebbtide.core.types import FIVE_MINUTES, FRONT, HARNESS, USER, Edit, Item, Trigger, Usage
from ebbtide.core.view import View
from ebbtide.policy import Policy
from ebbtide.runtime.outgoing import (
    Outgoing,
    add_breakpoints,
    add_session_fields,
    needs_marks,
    raise_lifetimes,
    remove_signatures,
    session_fields,
    write_outgoing,
)
from ebbtide.runtime.report import NOTE_OF_FAILURE, Prepared, Report, ReportBasis, busy_message, too_large_message
from ebbtide.runtime.validation import NO_CACHE_FIELDS, Cache
from ebbtide.state.bills import find_last_bill, find_planned_size
from ebbtide.state.session_state import SessionState
from ebbtide.store import LogReader
from ebbtide.wire.body import ParsedBody
from ebbtide.wire.protocol import Wire
from ebbtide.wire.reader import Request

Body = Mapping[str, Any] | bytes | str | ParsedBody


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
    adds_breakpoints: bool = False
    """Whether to mark what the provider should cache where the client marks nothing and the provider needs it."""
    cache: Cache = NO_CACHE_FIELDS
    session: str = ""


class RequestState(NamedTuple):
    """One request of a session, before a plan is made for it."""

    policy: Policy
    budget: Budget
    state: SessionState
    request: Request
    view: View
    outgoing: Outgoing
    """The view as it would be sent without new edits."""
    previous: View | None
    """The view of the last request that was sent."""
    now: float


class Decision(NamedTuple):
    """One request and the plan for it."""

    body: Body
    """As the client sent it."""
    request: Request
    view: View
    outgoing: Outgoing
    """The view as it would be sent without the plan's edits."""
    plan_input: PlanInput
    plan: Plan | None
    """None if no plan could be made."""
    has_lock: bool

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self.plan.edits if self.plan is not None else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.has_lock else ("the log could not be locked: nothing new was planned",)


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


class PassStages(TypedDict):
    """The passes of each stage."""

    arrival: Sequence[Pass]
    always: Sequence[Pass]
    pressure: Sequence[Pass]
    last_resort: Sequence[Pass]


def passes_for(policy: Policy, trigger: Trigger) -> PassStages:
    """Return the passes to run: only the compaction passes for a manual compaction, else all of the policy's."""
    if trigger == "manual":
        return PassStages(arrival=(), always=(), pressure=policy.folds, last_resort=())
    folds = policy.folds if policy.overflow in ("summarize", "auto-compact") else ()
    return PassStages(
        arrival=policy.arrival,
        always=policy.always,
        pressure=(*policy.pressure, *folds),
        last_resort=policy.last_resort if policy.overflow != "error" else (),
    )


# --- size and cache ---------------------------------------------------------------------------------------------------


def build_plan_input(
    basis: RequestState, *, trigger: Trigger, blob_names: BlobNames | None, compaction: CompactionInput
) -> PlanInput:
    """Build the input of a plan: the size of the request, and what is cached of it."""
    policy, budget, state, request, view, outgoing, previous, now = basis
    readings = _build_size_inputs(basis)
    tokens, sent, estimator = policy.gauge(readings), state.sent, policy.estimator
    scale_new = _tokens_per_estimate(policy.gauge, readings, tokens)
    ttl = next((one.ttl for one in reversed(sent) if one.model == request.model), FIVE_MINUTES)
    warm, has_expired = count_cached_messages(
        sent, now=now, model=request.model, system=request.system, tools=request.tools, prefix=outgoing.hashes
    )
    return PlanInput(
        budget=budget,
        tokens=tokens,
        scale=scale_new or 1.0,
        scale_new=scale_new,
        utilisation=tokens / max(1, policy.usable(budget.window, budget.max_output, budget.fixed)),
        cached_entries=warm,
        kept_entries=outgoing.entries_in(warm) if has_expired else 0,
        first_unsent=_first_unsent(state, view, previous, outgoing),
        idle=max(0.0, now - sent[-1].at) if sent else None,
        trigger=trigger,
        growth=mean_growth(state.counters),
        prices=prices_for(request.model, ttl),
        count_tokens=estimator.text,
        result_overhead=estimator.per_result,
        message_overhead=estimator.per_message,
        blob_names=blob_names,
        thinking_bound_to_prefix=request.thinking_bound_to_prefix,
        cleared=state.cleared,
        compaction=compaction,
        now=now,
    )


def _first_unsent(state: SessionState, view: View, before: View | None, out: Outgoing) -> int:
    """Return the index of the first entry that was never sent."""
    if before is not None and view.grown_from[0] is before.entries:
        # The content is the same up to there, though perhaps not the bytes: clients move cache breakpoints.
        return len(before.entries)
    return out.entries_in(max((common_prefix_length(request.prefix, out.hashes) for request in state.sent), default=0))


def _build_size_inputs(basis: RequestState) -> SizeInputs:
    """Build the inputs of the size rules."""
    policy, budget, state, request, view, out, *_ = basis
    reach, usage = find_usage_anchor(
        state.sent, model=request.model, system=request.system, tools=request.tools, prefix=out.hashes
    )
    reply = since = 0
    if usage is not None:
        tail = view.entries[out.entries_in(reach) :]
        reply = _reply_tokens(tail)
        since = sum([entry.tokens for entry in tail]) - reply
    system, tools = request.overhead
    last, remaining = find_last_bill(state, view.tokens)
    planned = last and find_planned_size(state, (request.model, request.system, request.tools), out.hashes, reach)
    if planned:
        # No bill includes the newest edits yet. An estimate of the whole could refuse a retry of what was sent.
        usage, reply, since = Usage(input=planned.tokens), 0, view.tokens - planned.view
    return SizeInputs(
        policy.estimator, state.calibration, request.model, view.tokens, out.message_count, system, tools,
        last, remaining, usage, reply, since, budget.window,
    )  # fmt: skip


def _tokens_per_estimate(size_rule: SizeRule, readings: SizeInputs, tokens: int) -> float:
    """Return how far the size falls for each estimated token that is removed; 0 if the rule only uses bills.

    The billed size of such a rule still falls by what an edit frees (R043), one to one.
    """
    step = min(1000, readings.view)
    if not step:
        return 1.0
    remaining = None if readings.remaining is None else readings.remaining - step
    less = readings._replace(view=readings.view - step, since=readings.since - step, remaining=remaining)
    return (tokens - size_rule(less)) / step


def _reply_tokens(entries: Sequence[Item]) -> int:
    """Return the tokens of the leading assistant items: the reply, which the usage counts as output."""
    tokens = 0
    for entry in entries:
        if entry.role != "assistant":
            break
        tokens += entry.tokens
    return tokens


def may_exceed(basis: RequestState, tokens: int) -> bool:
    """Whether the request may be larger than the window without new edits."""
    return max(upper_bound(_build_size_inputs(basis)), tokens) > basis.budget.window


# --- compaction -------------------------------------------------------------------------------------------------------

_INSTRUCTION_ITEMS = 6
"""Leading items that may hold the project's instructions."""
MAX_USELESS_ANSWERS = 3
"""Useless answers in a row after which no model is asked automatically (R251)."""
MAX_STALLED = 2
"""Compactions in a row without effect, after which none is made automatically below the hard level."""


@dataclass(slots=True)
class InstructionFinder:
    """Finds what the system prompt and the project's files say about summaries. Searches once per prompt (R097)."""

    _searched: tuple[str, tuple[Item, ...]] = ("", ())
    _instructions: tuple[str, ...] = ()

    def find(self, request: Request) -> tuple[str, ...]:
        leading_items = request.items[:_INSTRUCTION_ITEMS]
        if self._searched != (request.system, leading_items):
            self._searched = request.system, leading_items
            system, _ = request.wire.messages.system_and_tools(request.body.tree)
            texts = [system if isinstance(system, str) else _text_of(system)]
            texts += [item.text for item in leading_items if item.trust <= HARNESS and item.trust != USER]
            self._instructions = tuple(filter(None, map(compact_instructions, texts)))
        return self._instructions


def _text_of(system: Any) -> str:
    parts = [part for part in system if isinstance(part, Mapping)] if isinstance(system, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts)


def build_compaction_input(
    state: SessionState,
    request: Request,
    coordinator: CompactionCoordinator,
    manual: ManualCompaction | None,
    *,
    instructions: tuple[str, ...],
    transcript_path: str,
    is_last_round: bool,
) -> CompactionInput:
    """Build what the passes may know about compaction. In the last round no model is asked.

    After several useless answers no model is asked automatically; a manual compaction still asks.
    """
    recall_mode, wishes = state.recall or coordinator.recall_mode, manual or _NO_WISHES
    may_ask = manual is not None or state.failures < MAX_USELESS_ANSWERS
    return CompactionInput(
        answers=UsableAnswers(state.answers, request.items) if state.answers else {},
        asks=may_ask and coordinator.can_summarize and not coordinator.is_asking and not is_last_round,
        live=coordinator.can_read_live and not is_last_round,
        focus=wishes.focus,
        instructions=instructions,
        summary=wishes.summary,
        first=wishes.first,
        last=wishes.last,
        after=state.folded,
        stalled=state.stalled >= MAX_STALLED,
        children=finished_children(state) if state.children else (),
        way=recall_mode,
        transcript=transcript_path if recall_mode == "path" else "",
        tool=RECALL_TOOLS[0] if recall_mode == "tool" else "",
        waiting=coordinator.is_asking,
    )


_NO_WISHES = ManualCompaction()


def finished_children(state: SessionState) -> tuple[tuple[str, str], ...]:
    """Return the finished sub-agents, each with its result."""
    return tuple((name, result) for name, result in state.children.items() if result is not None)


# --- writing ----------------------------------------------------------------------------------------------------------


def write_decision(
    decision: Decision, edits: Sequence[Edit], settings: SessionSettings, state: SessionState
) -> tuple[View, Outgoing]:
    """Write the request with these edits of its plan, and add breakpoints."""
    view, outgoing, plan = decision.view, decision.outgoing, decision.plan
    if plan is not None and edits:
        view = plan.after if len(edits) == len(plan.edits) else view.apply(edits)
        outgoing = write_outgoing(decision.request, view, outgoing)
    return view, _complete(decision.request, view, outgoing, settings, state, decision.plan_input.now)


def _complete(
    request: Request, view: View, outgoing: Outgoing, settings: SessionSettings, state: SessionState, now: float
) -> Outgoing:
    """Add what the provider's cache needs, breakpoints or a key, and leave out the signatures that it refused."""
    outgoing = _add_due_breakpoints(request, view, outgoing, settings, state, now)
    if settings.cache.raise_lifetimes and request.wire.cache.is_explicit:
        hour = _plan_hour(request, outgoing, state, now, standing=FRONT, is_front_marked=True)
        outgoing = raise_lifetimes(request, outgoing) if hour else outgoing
    if not (settings.cache.key is False and settings.cache.retention is None) and not state.pauses.ignored:
        fields = session_fields(request, settings.cache, f"{settings.project}\0{settings.session}")
        outgoing = add_session_fields(outgoing, fields) if fields else outgoing
    return remove_signatures(request, outgoing, state.foreign_messages) if state.foreign_messages else outgoing


def _add_due_breakpoints(
    request: Request, view: View, outgoing: Outgoing, settings: SessionSettings, state: SessionState, now: float
) -> Outgoing:
    """Add breakpoints to a request that carries an edit, or that would not be cached without them."""
    strategy = settings.policy.marks
    is_unmarked = settings.adds_breakpoints and needs_marks(request, outgoing)
    if strategy is None or not (view.has_edits or is_unmarked):
        return outgoing
    hour: tuple[int, ...] = ()
    if is_unmarked and strategy is choose_by_value:
        hour = _plan_hour(request, outgoing, state, now, standing=outgoing.standing)
    return add_breakpoints(request, outgoing, strategy, hour)


def _plan_hour(
    request: Request,
    outgoing: Outgoing,
    state: SessionState,
    now: float,
    *,
    standing: int,
    is_front_marked: bool = False,
) -> tuple[int, ...]:
    key = (request.model, request.system, request.tools)
    return plan_hour(
        state.sent,
        state.pauses,
        now=now,
        key=key,
        prefix=outgoing.hashes,
        standing=standing,
        is_front_marked=is_front_marked,
    )


def planned_request(decision: Decision, plan: Plan, settings: SessionSettings, state: SessionState) -> PlannedRequest:
    """Return what questions are about, with the breakpoints of the request: they read what it has cached."""
    request, view = decision.request, decision.view
    marked = _complete(request, view, decision.outgoing, settings, state, decision.plan_input.now)
    return PlannedRequest(request, view, decision.plan_input, plan, marked.marked_body)


def ready_request(
    request: Request, outgoing: Outgoing, report: Report, turn: int, policy: Policy, foreign_messages: int = 0
) -> Prepared:
    return Prepared(
        body=request.body.emit(outgoing.marked_body),
        report=report,
        turn=turn,
        model=request.model,
        estimated=policy.estimator.total(outgoing.tokens + sum(request.overhead), outgoing.message_count),
        items=request.items,
        has_cache_fields=bool(outgoing.hour) or outgoing.has_session_fields,
        has_signatures=request.wire.remove_signatures is not None and len(request.messages) > foreign_messages,
    )


def pass_through(request: Request, window: int) -> Preparation:
    report = Report(window=window, notes=(f"passed through: {request.partial_history_reason}",))
    return Preparation(Prepared(request.body.emit(request.body.tree), report, 0, request.model, items=request.items))


# --- the report -------------------------------------------------------------------------------------------------------


def build_report(decision: Decision, view: View, edits: Sequence[Edit], outgoing: Outgoing, log: LogReader) -> Report:
    """Report on a request that is sent as `view`, with these edits of its plan."""
    plan, plan_input, budget = decision.plan, decision.plan_input, decision.plan_input.budget
    if plan is not None and len(edits) == len(plan.edits):
        tokens = plan.tokens_after
    else:
        tokens = plan_input.after_freeing(plan.before.tokens - view.tokens if plan else 0).tokens
    # An edit ends the cached part where it begins.
    unchanged = common_prefix_length(decision.outgoing.hashes, outgoing.hashes)
    basis = ReportBasis(plan_input, view, tokens, decision.request.overhead, outgoing.columns.tokens, unchanged, log)
    return Report(
        tokens_before=plan_input.tokens,
        tokens_after=tokens,
        level=plan.level if plan else plan_input.level,
        window=budget.window,
        auto_at=plan_input.batch_at,
        edits=tuple(edits),
        held=view.visible_edits,
        behind=basis,
        repairs=tuple([f"{repair.rule} {repair.path}: {repair.what}" for repair in outgoing.repairs]),
        forgotten=unreadable_files(plan.before, view) if plan and edits else (),
        notes=_notes(plan) if plan else (),
        marks=tuple([f"{slot.section}.{slot.index}.{slot.block}" for slot in outgoing.breakpoints]),
    )


def _notes(plan: Plan) -> tuple[str, ...]:
    if not plan.deferred_reason and not plan.rejected and not plan.failures:
        return ()
    rejected = [f"{edit.by}: {reason}" for edit, reason in plan.rejected]
    failed = [f"{NOTE_OF_FAILURE} {failure.name} was left out: {failure.reason}" for failure in plan.failures]
    return (*([plan.deferred_reason] if plan.deferred_reason else []), *rejected, *failed)


def add_notes(report: Report, notes: Sequence[str]) -> Report:
    return replace(report, notes=(*report.notes, *notes))


def raise_if_too_large(report: Report, decision: Decision, policy: Policy) -> None:
    """Raise `Busy`, `WontFit` or `Blocked` if the request may not be sent."""
    budget, tokens = decision.plan_input.budget, report.tokens_after
    if not decision.has_lock:
        if tokens > budget.window:
            raise Busy(busy_message(report), tokens=tokens, limit=budget.window)
        return
    is_planned = decision.plan is not None
    # The policy `error` refuses where others act, which is before the window ends.
    is_strict = is_planned and policy.overflow == "error" and report.level in ("hard", "blocking")
    limit = budget.levels.hard if is_strict else budget.window
    if is_strict or tokens > limit:
        raise WontFit(too_large_message(report, limit), tokens=tokens, limit=limit, made_of=report.made_of)
    if is_planned and policy.blocks and budget.levels.is_reached(tokens, "blocking"):
        limit = budget.levels.blocking
        message = f"context limit reached: {tokens:,} of {limit:,} tokens. Compact, or start a new session."
        raise Blocked(message, tokens=tokens, limit=limit, made_of=report.made_of)
