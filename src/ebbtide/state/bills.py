"""How large the provider, or a plan that no bill includes yet, said that a request is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.core.cache.prefix import RECENT_REQUESTS
from ebbtide.core.records import int_in
from ebbtide.core.types import Usage
from ebbtide.state.session_state import SessionState


def find_last_bill(state: SessionState, view: int) -> tuple[Usage | None, int | None]:
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


class PlannedSize(NamedTuple):
    """What a plan came to."""

    tokens: int
    """Of the whole request."""
    view: int
    """Estimated tokens of its view."""


def find_planned_size(
    state: SessionState, key: tuple[str, str, str], prefix: Sequence[str], billed: int
) -> PlannedSize | None:
    """Find the newest plan whose request was sent, has no bill yet, and is extended by this one or equal to it.

    `key` is the request's model, system prompt and tools. Of the request's messages the first `billed` are part of a
    bill: a plan for no more says less than that.
    """
    for batch in reversed(state.batches):
        back = state.turns - batch.turn
        if back < 0:
            continue  # a person made it, and no request was sent since
        if back >= min(len(state.sent), RECENT_REQUESTS):
            break
        sent = state.sent[-1 - back]
        length, record = len(sent.prefix), batch.record
        if sent.usage is not None or "view" not in record or not billed < length <= len(prefix):
            continue
        if (sent.model, sent.system, sent.tools) == key and sent.prefix[-1] == prefix[length - 1]:
            return PlannedSize(int_in(record, "tokens_after"), int_in(record, "view"))
    return None
