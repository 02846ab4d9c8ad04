"""What is written down and told about one request: its situation, its plan, what came of it, why it was refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.compaction.questions import compaction_input_to_record as folding_to
from ebbtide.core.blob_names import digest
from ebbtide.core.cache.economics import rewrite_cost
from ebbtide.core.cache.prefix_hashes import PrefixHashes, common_prefix_length
from ebbtide.core.errors import Blocked, Busy, WontFit
from ebbtide.core.plan_input import PlanInput
from ebbtide.core.planner import Plan
from ebbtide.core.tool_calls import unreadable_files
from ebbtide.core.types import Edit, SentRequest, Usage
from ebbtide.core.view import View
from ebbtide.policy import Policy
from ebbtide.runtime.outgoing import Outgoing
from ebbtide.runtime.plan_input_builder import OverflowWindow
from ebbtide.runtime.report import Prepared, Report, ReportBasis
from ebbtide.state.session_state import RequestRecord, SessionState, ebb_record, edits_to_record, request_record
from ebbtide.store import LogReader, Record
from ebbtide.wire.overflow import Overflow
from ebbtide.wire.reader import Request

NOTE_OF_FAILURE = "the pass"
"""How a note begins that names a pass which broke."""


def plan_input_to_record(situation: PlanInput) -> Record:
    """All that a plan went by besides the view, so that it can be made again."""
    return {
        "tokens": situation.tokens,
        "scale": situation.scale,
        "scale_new": situation.scale_new,
        "utilisation": situation.utilisation,
        "warm": situation.cached_entries,
        "new": situation.first_unsent,
        "idle": situation.idle,
        "trigger": situation.trigger,
        "target": situation.target,
        "growth": situation.growth,
        "prices": [situation.prices.read, situation.prices.write],
        "directory": situation.blob_names.directory if situation.blob_names else None,
        "bound": situation.thinking_bound_to_prefix,
        "folding": folding_to(situation.compaction),
        "now": situation.now,
        "overhead": situation.budget.overhead,
        "max_output": situation.budget.max_output,
    }


def plan_record(
    made: Plan,
    edits: Sequence[Edit],
    situation: PlanInput,
    state: SessionState,
    policy: Policy,
    messages: int,
    warm: int,
) -> Record:
    """A plan as it is journaled: what it went by, and what came of it. `warm` leading entries were in the cache."""
    after = made.after if len(edits) == len(made.edits) else made.before.apply(edits)
    written = edits_to_record(edits, state.items)
    turn = state.turns + 1
    # A person may fold several times between two requests.
    before = sum(1 for batch in state.batches if batch.turn == turn)
    return ebb_record(
        "plan",
        id=f"p{turn}.{before}" if before else f"p{turn}",
        at=situation.now,
        turn=turn,
        policy=policy.name,
        window=situation.budget.window,
        situation=plan_input_to_record(situation),
        level=made.level,
        tokens_before=made.tokens_before,
        tokens_after=made.tokens_after,
        view=after.tokens,
        **written,
        blobs=[[blob.name, blob.digest or digest(blob.text)] for edit in edits for blob in edit.blobs],
        planned=[edit.id for edit in made.edits],
        moved=rewrite_cost(made.before, after, edits, warm, safety=policy.estimator.safety),
        messages=messages,
    )


def branch_fields(state: SessionState, path: PrefixHashes, request: Request) -> Record:
    """Which conversation a plan is about that was made between two turns, as a turn says it."""
    base = common_prefix_length(state.messages, path)
    return {"base": base, "add": list(path[base:]), "wire": request.wire.name, "model": request.model}


def usage_record(usage: Usage, ready: Prepared, now: float) -> Record:
    bill = {"cache_read": usage.cache_read, "cache_write": usage.cache_write, "output": usage.output}
    told = {"turn": ready.turn, "model": ready.model, "estimated": ready.estimated, "at": now}
    return ebb_record("usage", **told, input=usage.input, **bill)


def limit_record(found: Overflow, ready: Prepared, ceiling: OverflowWindow, now: float) -> Record:
    """A refusal for size. A window that is not plausible is a claim: it is told, and nobody goes by it."""
    counted = {"used": found.used or 0, "estimated": ready.estimated}
    counted["window" if ceiling.is_plausible else "claimed"] = ceiling.window
    return ebb_record("limit", model=ready.model, at=now, **counted)


def build_request_record(
    state: SessionState, request: Request, situation: PlanInput, out: Outgoing, messages: PrefixHashes,
    stood: tuple[Sequence[int], float], ready: Prepared,
) -> RequestRecord:  # fmt: skip
    """A request as it goes out. `messages` are those of the log, `stood` says where breakpoints are and their TTL."""
    marks, ttl = tuple(stood[0]), stood[1]
    around = request.model, request.system, request.tools
    return request_record(
        state,
        SentRequest(situation.now, *around, out.chain, situation.tokens, None, marks, ttl, situation.budget.window),
        messages,
        wire=request.wire.name,
        estimated=ready.estimated,
        edited=bool(ready.report.edits),
        overhead=request.overhead,
        max_output=request.max_output,
    )


def build_report(
    request: Request, made: Plan | None, view: View, edits: Sequence[Edit], situation: PlanInput, out: Outgoing,
    unbroken: int, log: LogReader,
) -> Report:  # fmt: skip
    """What is told of a request that goes out as `view`: `made` was planned for it, and these edits came of that."""
    if made is not None and len(edits) == len(made.edits):
        after = made.tokens_after
    else:
        after = situation.after_freeing(made.before.tokens - view.tokens if made else 0).tokens
    budget = situation.budget
    return Report(
        tokens_before=situation.tokens,
        tokens_after=after,
        level=made.level if made else situation.level,
        window=budget.window,
        auto_at=budget.levels.auto,
        edits=tuple(edits),
        held=view.visible_edits,
        behind=ReportBasis(situation, view, after, request.overhead, out.tokens, unbroken, log),
        repairs=tuple([f"{repair.rule} {repair.path}: {repair.what}" for repair in out.repairs]) if out.repairs else (),
        forgotten=unreadable_files(made.before, view) if made and edits else (),
        notes=_notes(made) if made else (),
    )


def _notes(made: Plan) -> tuple[str, ...]:
    if not made.deferred_reason and not made.rejected and not made.failures:
        return ()
    refused = [f"{edit.by}: {why}" for edit, why in made.rejected]
    failed = [f"{NOTE_OF_FAILURE} {one.name} was left out: {one.reason}" for one in made.failures]
    return (*([made.deferred_reason] if made.deferred_reason else []), *refused, *failed)


def add_notes(report: Report, notes: Sequence[str], marks: Sequence[str]) -> Report:
    return replace(report, notes=(*report.notes, *notes), marks=tuple(marks))


def size_refusal(
    report: Report, situation: PlanInput, policy: Policy, *, is_planned: bool, has_lock: bool
) -> WontFit | None:
    """Why a request may not go out as it would; None where it may."""
    budget, tokens = situation.budget, report.tokens_after
    if not has_lock:
        return None if tokens <= budget.window else Busy(_busy_message(report), tokens=tokens, limit=budget.window)
    # The policy `error` refuses where others act, which is before the window ends.
    strict = is_planned and policy.overflow == "error" and report.level in ("hard", "blocking")
    limit = budget.levels.hard if strict else budget.window
    if strict or tokens > limit:
        return WontFit(too_large_message(report, limit), tokens=tokens, limit=limit, made_of=report.made_of)
    if is_planned and policy.blocks and budget.levels.is_reached(tokens, "blocking"):
        at = budget.levels.blocking
        told = f"context limit reached: {tokens:,} of {at:,} tokens. Compact, or start a new session."
        return Blocked(told, tokens=tokens, limit=at, made_of=report.made_of)
    return None


def _busy_message(report: Report) -> str:
    return (
        f"{report.tokens_after:,} tokens do not fit the window of {report.window:,}, and nothing could be taken out: "
        "the session's log could not be locked. Another process is at work on it, or the disk refuses: try again. "
        "`ebb doctor` names a lock that hangs."
    )


def too_large_message(report: Report, limit: int) -> str:
    made = report.made_of
    parts = {"system": made.system, "tools": made.tools, **made.messages}
    told = ", ".join(f"{name} {tokens:,}" for name, tokens in sorted(parts.items(), key=lambda one: -one[1]) if tokens)
    # The parts are estimates; the sum rests on a bill, or leaves room for error.
    rest = report.tokens_after - sum(parts.values())
    told += f", as estimated, and {rest:,} that were billed besides or are allowed for error" if rest > 0 else ""
    failed = "".join(f" Besides, {note}." for note in report.notes if note.startswith(NOTE_OF_FAILURE))
    return (
        f"{report.tokens_after:,} tokens do not fit a limit of {limit:,}. They are made of: {told}. "
        "What would help: a larger window, fewer tools, a shorter system prompt, or less in the newest message."
        f"{failed}"
    )
