"""A state as one record: what a log comes to up to some place, so that a long one need not be folded again.

The log stays the truth. A checkpoint that another version wrote has another form, and is not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ebbtide.core.cache.prefix_hashes import PrefixHashes, common_prefix_length
from ebbtide.core.record_fields import int_in, list_in, strings_in
from ebbtide.core.tokens.calibration import Calibration
from ebbtide.core.types import Answer, Binding, Edit, SentRequest, Usage
from ebbtide.state.binding_records import ItemTable
from ebbtide.state.session_state import (
    Batch,
    Record,
    SessionState,
    answer_from_record,
    answer_to_record,
    batch_from_record,
    sent_from_record,
    usage_from_record,
)

_FIELDS = [
    name for kind in (SessionState, Batch, Edit, Binding, SentRequest, Usage, Answer) for name in kind.__annotations__
]
SNAPSHOT_FORMAT = "1-" + hashlib.blake2b(",".join(_FIELDS).encode(), digest_size=8).hexdigest()
"""Changes by itself with what a state is made of. Count up where a record comes to mean something else."""


def take_snapshot(state: SessionState) -> Record:
    """`expanded` gives it back."""
    return {
        "type": "ebb",
        "kind": "checkpoint",
        "batches": [batch.record for batch in state.batches],
        "undone": list(state.undone),
        "sent": _sent_to(state.sent),
        "turns": state.turns,
        "messages": list(state.messages),
        "calibration": state.calibration.as_dict(),
        "taken": dict(state.taken),
        "spared": sorted(state.restored_ids),
        "pinned": sorted(state.pinned),
        "cleared": sorted(state.cleared),
        "answers": [answer_to_record(answer) for answer in state.answers.values()],
        "failures": state.failures,
        "folded": state.folded,
        "stalled": state.stalled,
        "limits": dict(state.limits),
        "children": dict(state.children),
        "recall": state.recall,
        "counters": dict(state.counters),
    }


def restore_snapshot(told: Mapping[str, object]) -> SessionState:
    """The state that a record of this form was made from."""
    batches, items = _batches(list_in(told, "batches"))
    undone = tuple(strings_in(told, "undone"))
    answers = [answer_from_record(one) for one in list_in(told, "answers") if isinstance(one, Mapping)]
    folded = told.get("folded")
    children = {name: brought if isinstance(brought, str) else None for name, brought in _dict(told, "children")}
    return SessionState(
        batches=batches,
        undone=undone,
        edits=tuple(edit for batch in batches if batch.id not in undone for edit in batch.edits),
        items=items,
        sent=_sent_from(list_in(told, "sent")),
        turns=int_in(told, "turns"),
        messages=PrefixHashes(strings_in(told, "messages")),
        calibration=Calibration.from_dict(told.get("calibration")),
        taken={name: str(mark) for name, mark in _dict(told, "taken")},
        restored_ids=frozenset(strings_in(told, "spared")),
        pinned=frozenset(strings_in(told, "pinned")),
        cleared=frozenset(strings_in(told, "cleared")),
        answers={answer.key: answer for answer in answers},
        failures=int_in(told, "failures"),
        folded=folded if isinstance(folded, int) else None,
        stalled=int_in(told, "stalled"),
        limits={name: n for name, n in _dict(told, "limits") if isinstance(n, int)},
        children=children,
        recall=str(told.get("recall") or ""),
        counters={name: n for name, n in _dict(told, "counters") if isinstance(n, int)},
    )


def _batches(records: Sequence[object]) -> tuple[tuple[Batch, ...], ItemTable]:
    """In the order in which they were made: each goes on from the items that those before it were made of."""
    batches, items = list[Batch](), ItemTable()
    for record in records:
        if isinstance(record, Mapping):
            batch, items = batch_from_record(record, items)
            batches.append(batch)
    return tuple(batches), items


def _sent_to(sent: Sequence[SentRequest]) -> list[Record]:
    """Each prefix by what it shares with the one before, as in the log."""
    told: list[Record] = []
    before: Sequence[str] = ()
    for one in sent:
        alike = common_prefix_length(before, one.prefix)
        record = {name: getattr(one, name) for name in ("at", "model", "system", "tools", "tokens", "ttl", "window")}
        record |= {"marks": list(one.breakpoints), "out_base": alike, "out_add": list(one.prefix[alike:])}
        told.append({**record, "usage": asdict(one.usage) if one.usage else None})
        before = one.prefix
    return told


def _sent_from(told: Sequence[object]) -> tuple[SentRequest, ...]:
    sent: list[SentRequest] = []
    for one in told:
        if isinstance(one, Mapping):
            usage = one.get("usage")
            before = sent[-1].prefix if sent else PrefixHashes()
            sent.append(sent_from_record(one, before, usage_from_record(usage) if isinstance(usage, Mapping) else None))
    return tuple(sent)


def _dict(told: Mapping[str, object], key: str) -> Sequence[tuple[str, object]]:
    found = told.get(key)
    return [(str(name), value) for name, value in found.items()] if isinstance(found, Mapping) else ()
