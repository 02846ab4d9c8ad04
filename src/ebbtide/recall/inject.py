"""Recall behind a client's back: a call and its answer stand in every later request, and the client has neither.

They follow the last thing that the client did see, as one insertion: together they stay, leave, and are undone.
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
_UNIQUE = 12
"""Characters of a call's id that is one. Some local servers count from `call_0` in every answer."""


class RecallExchange(NamedTuple):
    """A call of a recall tool, and its result."""

    id: str
    name: str
    arguments: str
    """As JSON."""
    result: str
    raw: Mapping[str, Any] | None = None
    """The call as the provider wrote it."""


def build_insertion(
    recalled: Sequence[RecallExchange], text: str, after: str, taken: Collection[str], count: Callable[[Kind, str], int]
) -> Edit:
    """`said` are words of the same answer that the client got in another place, on wires that cannot part them."""
    call_ids = [_call_id_for(exchange, after, taken) for exchange in recalled]
    items = [_item("text", text, count)] if text else []
    for id, exchange in zip(call_ids, recalled, strict=True):
        items.append(
            replace(_item("call", exchange.arguments, count, exchange.name, id), raw=_with_id(exchange.raw, id))
        )
    items += [
        _item("result", exchange.result, count, exchange.name, id)
        for id, exchange in zip(call_ids, recalled, strict=True)
    ]
    tokens = sum(item.tokens for item in items)
    return Edit(
        by=BY,
        insert_after=after,
        replacement=tuple(items),
        reason="recalled behind the client's back",
        saved=-tokens,
        made_of="lasting",
    )


def _call_id_for(exchange: RecallExchange, after: str, used_ids: Collection[str]) -> str:
    if len(exchange.id) >= _UNIQUE and exchange.id not in used_ids:
        return exchange.id
    key = "\0".join((exchange.id, after, exchange.arguments)).encode("utf-8", "surrogatepass")
    return f"ebb_{blake2b(key, digest_size=8).hexdigest()}"


def _with_id(raw: Mapping[str, Any] | None, id: str) -> Mapping[str, Any] | None:
    return {**raw, "call_id" if "call_id" in raw else "id": id} if raw is not None else None


def _item(kind: Kind, text: str, count: Callable[[Kind, str], int], name: str = "", call_id: str = "") -> Item:
    role: Role = "tool" if kind == "result" else "assistant"
    tokens = count(kind, text)
    return Item(
        id="", message=-1, role=role, kind=kind, text=text, tokens=tokens, name=name, call_id=call_id, trust=QUOTED
    )


def find_anchor(reader: Reader, request: Request, shown_messages: Sequence[Any]) -> str:
    """The last item of this request once it goes on with what the client was shown."""
    ids = [id for message in shown_messages for id in reader.predict_ids(request.wire, message)]
    return ids[-1] if ids else request.items[-1].id if request.items else ""


def insert_record(edit: Edit, state: SessionState, now: float) -> Record:
    turn = state.turns
    before = sum(1 for batch in state.batches if batch.id.startswith(f"i{turn}."))
    return ebb_record("insert", id=f"i{turn}.{before}", at=now, turn=turn, **edits_to_record([edit], state.items))
