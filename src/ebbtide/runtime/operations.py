"""What else happens to a session besides preparing requests: replies, refusals, compactions by hand, undo and redo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ebbtide.compaction.coordinator import CompactionResult, ManualCompaction, check_answer
from ebbtide.core.errors import BadRequest, WontFit
from ebbtide.core.planner import Budget
from ebbtide.core.types import Edit, Usage
from ebbtide.effects import AskModel, RawAnswer, ReleaseLock, Steps
from ebbtide.recall.search import find_item_id
from ebbtide.runtime.decision import Body, planned_request
from ebbtide.runtime.report import Prepared
from ebbtide.runtime.session import Session, save_blobs
from ebbtide.runtime.session_log import branch_fields, plan_record
from ebbtide.state.session_state import SessionState, ebb_record
from ebbtide.store import Record
from ebbtide.wire.overflow import Overflow, find_overflow_in_error, refuses_cache_fields, refuses_signatures


def record_reply(
    session: Session, reply: Sequence[Any], usage: Usage | None, prepared: Prepared, *, now: float
) -> Steps[None]:
    """Append the reply to the log, and its usage to the request that it answers."""
    if session.last is not None and prepared.items is session.last.request.items:
        session.last_reply = tuple(reply)
    has_lock = yield from session.catch_up()
    transcript = session.log.transcript
    if not transcript.path:
        # The log was replaced, and the request is gone with it: the next request brings this reply along.
        yield ReleaseLock()
        return
    records = transcript.records_for_reply(session.reader, reply, prepared.turn, prepared.items, now)
    if usage is not None and prepared.turn:
        bill = {"cache_read": usage.cache_read, "cache_write": usage.cache_write, "output": usage.output}
        if usage.cache_write_1h:
            bill["cache_write_1h"] = usage.cache_write_1h
        request = {"turn": prepared.turn, "model": prepared.model, "estimated": prepared.estimated, "at": now}
        records.append(ebb_record("usage", **request, input=usage.input, **bill))
    yield from session.append(records, now, has_lock)
    if usage is not None and session.budget is not None and session.budget.levels.is_reached(usage.total, "auto"):
        # R057, R235: known already, though the next request acts on it.
        session.events.emit("fold_due", tokens=usage.total, at=session.budget.levels.auto)


def compact(
    session: Session, body: Body | None, *, now: float, manual: ManualCompaction, apply: bool
) -> Steps[CompactionResult]:
    """Compact now, or find out what a compaction would do. Nothing is sent: the next request has the edits.

    Without a body it is the last request that is compacted, with the reply to it.
    """
    if body is None:
        body = _continued_body(session)
    request = session.reader.read(body, at=now)
    known_ids = {item.id for item in request.items}
    for name, id in (("first", manual.first), ("last", manual.last)):
        if id and id not in known_ids:
            raise BadRequest(f"{name}: {id[:80]!r} is no item of this request")
    decision = yield from session.decide(body, request, now=now, trigger="manual", manual=manual)
    plan = decision.plan
    if plan is None or not plan.edits or not apply:
        yield ReleaseLock()
        return CompactionResult(plan, decision.edits, () if decision.has_lock else ("the log could not be locked",))
    saved = yield from save_blobs(plan.edits)
    if not saved.edits:
        yield ReleaseLock()
        return CompactionResult(plan, (), saved.failures)
    log = session.log
    records = log.transcript.records_for_request(decision.request, now)
    record = plan_record(plan, saved.edits, decision, log.state, session.settings.policy)
    records.append({**record, **branch_fields(log.state, log.transcript.path, decision.request)})
    notes = yield from log.append(records, now, has_lock=decision.has_lock)
    session.announce(decision, saved.edits, notes, decision.outgoing)
    return CompactionResult(plan, saved.edits, (*saved.failures, *notes))


def _continued_body(session: Session) -> Body:
    """Return the last request with its reply, as the next request will begin.

    Thinking in the reply may be bound to what comes before it: a compaction that did not know it would leave it there.
    """
    if session.last is None:
        raise BadRequest("there is no request to compact yet: give one, or prepare one first")
    if not session.last_reply:
        return session.last.body
    request = session.last.request
    return {**request.body.tree, request.wire.list_key: [*request.messages, *session.last_reply]}


def append_record(session: Session, record: Record, *, now: float) -> Steps[None]:
    """Append a record such as a pin or a sub-agent's result."""
    yield from session.append([record], now)
    if record.get("kind") == "pin":
        session.read_again()


def undo_batch(session: Session, *, now: float, batch: str = "") -> Steps[tuple[Edit, ...]]:
    """Undo the newest batch of edits, or the one named. Return its edits."""
    has_lock, state = (yield from session.catch_up()), session.log.state
    active = [known for known in state.batches if known.id not in state.undone]
    chosen = [known for known in active if known.id == batch] if batch else active[-1:]
    if not chosen:
        yield ReleaseLock()
        return ()
    yield from session.append([ebb_record("undo", batch=chosen[0].id, at=now)], now, has_lock)
    session.read_again()
    return chosen[0].edits


def redo_batch(session: Session, *, now: float) -> Steps[tuple[Edit, ...]]:
    """Bring back the batch that was undone last. Return its edits."""
    has_lock, state = (yield from session.catch_up()), session.log.state
    if not state.undone:
        yield ReleaseLock()
        return ()
    batch = next(known for known in state.batches if known.id == state.undone[-1])
    yield from session.append([ebb_record("redo", batch=batch.id, at=now)], now, has_lock)
    session.read_again()
    return batch.edits


def catch_up(session: Session) -> Steps[None]:
    """Apply what other processes did, and write nothing."""
    yield from session.catch_up()
    yield ReleaseLock()


def find_item(session: Session, handle: str) -> str:
    """Return the id of the item of the last request that has this id, or whose hash begins with this handle."""
    return find_item_id(session.last.view.originals if session.last else (), handle)


def background_questions(session: Session) -> list[AskModel]:
    """Return what the next compaction would ask, once the soft threshold is reached."""
    last = session.last
    if last is None or last.plan is None:
        return []
    planned = planned_request(last, last.plan, session.settings, session.log.state)
    return session.compaction.background_questions(session.settings.policy.folds, planned)


def record_background_answers(
    session: Session, answers: Sequence[tuple[AskModel, RawAnswer]], *, now: float
) -> Steps[None]:
    """Append answers that came in the background: the next plan finds them. Outdated answers do no harm."""
    session.compaction.is_asking = False
    planned = session.compaction.background
    if planned is None:
        return
    wire, count = planned.request.wire, session.settings.policy.estimator.text
    records = [check_answer(question, answer, planned.view, wire, count, now) for question, answer in answers]
    yield from session.append(records, now)


# --- refusals ---------------------------------------------------------------------------------------------------------


def retry_after_refusal(session: Session, error: BaseException, prepared: Prepared, *, now: float) -> Steps[Prepared]:
    """Prepare the last request again, without what the provider refused. Raises the error if there is no other body."""
    if prepared.has_cache_fields and refuses_cache_fields(error):
        return _retry_without(session, ebb_record("hour", refused=True, at=now), now)
    if prepared.has_signatures and refuses_signatures(error):
        count = len(session.last.request.messages) if session.last is not None else 0
        return _retry_without(session, ebb_record("signatures", messages=count, at=now), now)
    overflow = find_overflow_in_error(error)
    if overflow is None:
        raise error
    if prepared.retried:
        message = f"the provider refused {prepared.report.tokens_after:,} tokens after folding: {error}"
        raise WontFit(message, tokens=prepared.report.tokens_after, limit=overflow.limit or 0) from error
    return _retry_after_overflow(session, overflow, prepared, now=now)


def _retry_without(session: Session, refusal: Record, now: float) -> Steps[Prepared]:
    """The record says what was refused: it is left out from now on."""
    if session.last is None:
        raise BadRequest("a refusal comes after prepare()")
    yield from session.append([refusal], now)
    preparation = yield from session.prepare(session.last.body, now=now)
    return (yield from session.commit(preparation))


def _retry_after_overflow(session: Session, overflow: Overflow, prepared: Prepared, *, now: float) -> Steps[Prepared]:
    """The provider refused the last request for its size: learn its window, compact, and prepare it again."""
    if session.last is None:
        raise BadRequest("overflow comes after prepare()")
    accepted = _largest_accepted(session.log.state, prepared.model)
    window = _window_from_overflow(overflow, prepared.report.tokens_after, session.budget, accepted)
    tokens = {"used": overflow.used or 0, "estimated": prepared.estimated}
    # A window that is not plausible is only noted.
    tokens["window" if window.is_plausible else "claimed"] = window.window
    yield from session.append([ebb_record("limit", model=prepared.model, at=now, **tokens)], now)
    preparation = yield from session.prepare(session.last.body, now=now, trigger="overflow", max_window=window.window)
    retry = yield from session.commit(preparation)
    return retry._replace(retried=True)


MIN_WINDOW = 1_024
"""Tokens. No model that takes messages has a smaller window; a refusal that names less is not about one."""


class _OverflowWindow(NamedTuple):
    """The window that a refused request must fit."""

    window: int
    is_plausible: bool
    """Whether it applies to later requests too."""


def _window_from_overflow(
    overflow: Overflow, sent_tokens: int, budget: Budget | None, accepted: int
) -> _OverflowWindow:
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
    return _OverflowWindow(window, is_plausible)


def _largest_accepted(state: SessionState, model: str) -> int:
    """Return the tokens of the largest prompt that this model's provider billed lately."""
    return max(
        (request.usage.prompt for request in state.sent if request.usage is not None and request.model == model),
        default=0,
    )
