"""Builds the `PlanInput` of a request: its size, what is cached, and the budget. Yields no effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from ebbtide.compaction.coordinator import PlannedRequest
from ebbtide.core.cache.prefix import common_prefix_length, count_cached_messages, find_usage_anchor, prices_for
from ebbtide.core.planner import Budget, CompactionInput, Pass, Plan, PlanInput
from ebbtide.core.records import int_in
from ebbtide.core.stub import BlobNames
from ebbtide.core.tokens.size import SizeInputs, SizeRule, upper_bound
from ebbtide.core.types import FIVE_MINUTES, Edit, Item, Trigger, Usage
from ebbtide.core.view import View
from ebbtide.policy import Policy
from ebbtide.runtime.outgoing import Outgoing
from ebbtide.state.session_state import SessionState
from ebbtide.wire.body import ParsedBody
from ebbtide.wire.overflow import Overflow
from ebbtide.wire.reader import Request

Body = Mapping[str, Any] | bytes | str | ParsedBody


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


MIN_WINDOW = 1_024
"""Tokens. No model that takes messages has a smaller window; a refusal that names less is not about one."""


class OverflowWindow(NamedTuple):
    """The window that a refused request must fit."""

    window: int
    is_plausible: bool
    """Whether it applies to later requests too."""


def window_from_overflow(overflow: Overflow, sent_tokens: int, budget: Budget | None, accepted: int) -> OverflowWindow:
    """Return the window that a refusal for size implies. `accepted` is the largest prompt billed lately for this model.

    If the refusal names no number, or one that no window has, assume 90 % of what was sent. A window smaller than a
    prompt that was billed applies to the refused request alone: if it is real, the provider will name it again.
    """
    limit = overflow.limit if overflow.unit == "tokens" else None
    is_absurd = limit is not None and limit < MIN_WINDOW
    window = sent_tokens * 9 // 10 if limit is None or is_absurd else limit
    is_plausible = not is_absurd and window >= max(MIN_WINDOW, accepted)
    if overflow.output and budget is not None and budget.levels.blocking + overflow.output > window:
        # This provider holds the reply's reservation against the window, and our levels counted on a part of it.
        window = max(window - overflow.output, window // 8)
    return OverflowWindow(window, is_plausible)


class RequestState(NamedTuple):
    """One request of a session, before a plan is made for it."""

    policy: Policy
    budget: Budget
    state: SessionState
    request: Request
    view: View
    outgoing: Outgoing
    """The view as it would be sent without new edits."""


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
    def planned(self) -> PlannedRequest | None:
        """The part that questions are about; None without a plan."""
        if self.plan is None:
            return None
        return PlannedRequest(self.request, self.view, self.plan_input, self.plan, self.outgoing.body)

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self.plan.edits if self.plan is not None else ()

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.has_lock else ("the log could not be locked: nothing new was planned",)


def may_exceed(basis: RequestState, tokens: int) -> bool:
    """Whether the request may be larger than the window without new edits."""
    return max(upper_bound(build_size_inputs(basis)), tokens) > basis.budget.window


def largest_accepted(state: SessionState, model: str) -> int:
    """Return the tokens of the largest prompt that this model's provider billed lately."""
    return max(
        (request.usage.prompt for request in state.sent if request.usage is not None and request.model == model),
        default=0,
    )


def build_plan_input(
    basis: RequestState,
    *,
    previous: View | None,
    size_rule: SizeRule,
    trigger: Trigger,
    blob_names: BlobNames | None,
    compaction: CompactionInput,
    now: float,
) -> PlanInput:
    """Build the input of a plan. `previous` is the view of the last request that was sent."""
    policy, budget, state, request, view, outgoing = basis
    readings = build_size_inputs(basis)
    tokens, sent, estimator = size_rule(readings), state.sent, policy.estimator
    scale_new = _tokens_per_estimate(size_rule, readings, tokens)
    ttl = next((one.ttl for one in reversed(sent) if one.model == request.model), FIVE_MINUTES)
    warm = count_cached_messages(
        sent, now=now, model=request.model, system=request.system, tools=request.tools, prefix=outgoing.hashes
    )
    return PlanInput(
        budget=budget,
        tokens=tokens,
        scale=scale_new or 1.0,
        scale_new=scale_new,
        utilisation=tokens / max(1, policy.usable(budget.window, budget.max_output, budget.overhead)),
        cached_entries=warm,
        first_unsent=_first_unsent(state, view, previous, outgoing),
        idle=max(0.0, now - sent[-1].at) if sent else None,
        trigger=trigger,
        growth=max(0, (tokens - sent[0].tokens) // len(sent)) if sent else 0,
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


def build_size_inputs(basis: RequestState) -> SizeInputs:
    """Build the inputs of the size rules."""
    policy, budget, state, request, view, out = basis
    reach, usage = find_usage_anchor(
        state.sent, model=request.model, system=request.system, tools=request.tools, prefix=out.hashes
    )
    reply = since = 0
    if usage is not None:
        tail = view.entries[out.entries_in(reach) :]
        reply = _reply_tokens(tail)
        since = sum([entry.tokens for entry in tail]) - reply
    system, tools = request.overhead
    last, remaining = _last_bill(state, view.tokens)
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


def _last_bill(state: SessionState, view: int) -> tuple[Usage | None, int | None]:
    """The newest usage; and where edits were made since, what they left of it, with what the view gained after them.

    A bill from before would have it all done again, and a retry refused that had gone out; an estimate would count what
    no bill has yet (R043, R044).
    """
    for back, request in enumerate(reversed(state.sent)):
        if request.usage is not None:
            turn = state.turns - back
            return (
                (request.usage, None)
                if not _has_edits_since(state, turn)
                else _bill_after_edits(state, turn, view, request.usage)
            )
    return None, None


def _has_edits_since(state: SessionState, turn: int) -> bool:
    return bool(state.batches) and state.batches[-1].turn > turn


def _bill_after_edits(state: SessionState, turn: int, view: int, usage: Usage) -> tuple[Usage | None, int | None]:
    later = [batch for batch in state.batches if batch.turn > turn and batch.id not in state.undone]
    record = next((batch.record for batch in reversed(later) if "view" in batch.record), None)
    if record is not None:
        return usage, max(0, int_in(record, "tokens_after") + view - int_in(record, "view"))
    # An old log says only that something was compacted: an estimate is then nearer than the bill.
    return (None if any(edit.first != edit.last for batch in later for edit in batch.edits) else usage), None


def _reply_tokens(entries: Sequence[Item]) -> int:
    """Return the tokens of the leading assistant items: the reply, which the usage counts as output."""
    tokens = 0
    for entry in entries:
        if entry.role != "assistant":
            break
        tokens += entry.tokens
    return tokens
