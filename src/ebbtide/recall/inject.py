"""Inserts recall calls that a client never saw: we answer them, and add call and answer to every later request.

They follow the last item that the client saw. They are one insertion, so they are removed and undone together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from ebbtide.core.types import QUOTED, Edit, Item, Kind, Role
from ebbtide.state.session_state import SessionState, ebb_record, edits_to_record
from ebbtide.store import Record
from ebbtide.wire.reader import Reader, Request

BY = "recall"
_MIN_UNIQUE_LENGTH = 12
"""Shorter call ids can repeat: some local servers count from `call_0` in every answer."""


class RecallExchange(NamedTuple):
    """A call of a recall tool and its result."""

    id: str
    name: str
    arguments: str
    """As JSON."""
    result: str
    raw: Mapping[str, Any] | None = None
    """The call as the provider wrote it."""


def build_insertion(
    exchanges: Sequence[RecallExchange],
    answer_text: str,
    after: str,
    used_ids: Collection[str],
    count: Callable[[Kind, str], int],
) -> Edit:
    """Build the edit that inserts these calls and results after the item `after`.

    `answer_text` is text of the same answer, on wires that cannot separate it from the calls; the client has it
    elsewhere.
    """
    call_ids = [_call_id_for(exchange, after, used_ids) for exchange in exchanges]
    items = [_build_item("text", answer_text, count)] if answer_text else []
    for id, exchange in zip(call_ids, exchanges, strict=True):
        call = _build_item("call", exchange.arguments, count, exchange.name, id)
        items.append(replace(call, raw=_with_id(exchange.raw, id)))
    for id, exchange in zip(call_ids, exchanges, strict=True):
        items.append(_build_item("result", exchange.result, count, exchange.name, id))
    tokens = sum(item.tokens for item in items)
    return Edit(
        by=BY,
        insert_after=after,
        replacement=tuple(items),
        reason="recall call that the client does not see",
        saved=-tokens,
        made_of="lasting",
    )


def _call_id_for(exchange: RecallExchange, after: str, used_ids: Collection[str]) -> str:
    if len(exchange.id) >= _MIN_UNIQUE_LENGTH and exchange.id not in used_ids:
        return exchange.id
    seed = "\0".join((exchange.id, after, exchange.arguments)).encode("utf-8", "surrogatepass")
    return f"ebb_{blake2b(seed, digest_size=8).hexdigest()}"


def _with_id(raw: Mapping[str, Any] | None, id: str) -> Mapping[str, Any] | None:
    return {**raw, "call_id" if "call_id" in raw else "id": id} if raw is not None else None


def _build_item(kind: Kind, text: str, count: Callable[[Kind, str], int], name: str = "", call_id: str = "") -> Item:
    role: Role = "tool" if kind == "result" else "assistant"
    tokens = count(kind, text)
    return Item(
        id="", message=-1, role=role, kind=kind, text=text, tokens=tokens, name=name, call_id=call_id, trust=QUOTED
    )


def find_anchor(reader: Reader, request: Request, visible_messages: Sequence[Any]) -> str:
    """Return the id of the last item that the client will have: of what we showed it, or else of this request."""
    ids = [id for message in visible_messages for id in reader.predict_ids(request.wire, message)]
    return ids[-1] if ids else request.items[-1].id if request.items else ""


def insert_record(edit: Edit, state: SessionState, now: float) -> Record:
    turn = state.turns
    earlier_count = sum(1 for batch in state.batches if batch.id.startswith(f"i{turn}."))
    return ebb_record(
        "insert", id=f"i{turn}.{earlier_count}", at=now, turn=turn, **edits_to_record([edit], state.items)
    )
