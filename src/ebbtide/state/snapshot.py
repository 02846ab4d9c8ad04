"""Write a session's state as one record, so that a long log need not be applied again from its start.

The log stays the truth. A snapshot of another version has another format and is not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ebbtide.core.cache.prefix import PrefixHashes, common_prefix_length
from ebbtide.core.records import Record, int_in, list_in, strings_in, usage_from_record
from ebbtide.core.tokens.size import Calibration
from ebbtide.core.types import Answer, Binding, Edit, SentRequest, Usage
from ebbtide.state.binding_records import ItemTable
from ebbtide.state.session_state import (
    Batch,
    SessionState,
    answer_from_record,
    answer_to_record,
    batch_from_record,
    sent_from_record,
)

_FIELDS = [
    name for kind in (SessionState, Batch, Edit, Binding, SentRequest, Usage, Answer) for name in kind.__annotations__
]
SNAPSHOT_FORMAT = "1-" + hashlib.blake2b(",".join(_FIELDS).encode(), digest_size=8).hexdigest()
"""Changes with the fields of a state. Increase the number if a field keeps its name and changes its meaning."""


def take_snapshot(state: SessionState) -> Record:
    """Write the state as a record that `restore_snapshot` reads."""
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


def restore_snapshot(snapshot: Mapping[str, object]) -> SessionState:
    """Read the state that a snapshot was taken of."""
    batches, items = _batches(list_in(snapshot, "batches"))
    undone = tuple(strings_in(snapshot, "undone"))
    answers = [answer_from_record(answer) for answer in list_in(snapshot, "answers") if isinstance(answer, Mapping)]
    folded = snapshot.get("folded")
    children = {name: result if isinstance(result, str) else None for name, result in _dict(snapshot, "children")}
    return SessionState(
        batches=batches,
        undone=undone,
        edits=tuple(edit for batch in batches if batch.id not in undone for edit in batch.edits),
        items=items,
        sent=_sent_from(list_in(snapshot, "sent")),
        turns=int_in(snapshot, "turns"),
        messages=PrefixHashes(strings_in(snapshot, "messages")),
        calibration=Calibration.from_dict(snapshot.get("calibration")),
        taken={name: str(mark) for name, mark in _dict(snapshot, "taken")},
        restored_ids=frozenset(strings_in(snapshot, "spared")),
        pinned=frozenset(strings_in(snapshot, "pinned")),
        cleared=frozenset(strings_in(snapshot, "cleared")),
        answers={answer.key: answer for answer in answers},
        failures=int_in(snapshot, "failures"),
        folded=folded if isinstance(folded, int) else None,
        stalled=int_in(snapshot, "stalled"),
        limits={name: n for name, n in _dict(snapshot, "limits") if isinstance(n, int)},
        children=children,
        recall=str(snapshot.get("recall") or ""),
        counters={name: n for name, n in _dict(snapshot, "counters") if isinstance(n, int)},
    )


def _batches(records: Sequence[object]) -> tuple[tuple[Batch, ...], ItemTable]:
    """Read batches in order: each record continues the item table of the one before."""
    batches, items = list[Batch](), ItemTable()
    for record in records:
        if isinstance(record, Mapping):
            batch, items = batch_from_record(record, items)
            batches.append(batch)
    return tuple(batches), items


def _sent_to(sent: Sequence[SentRequest]) -> list[Record]:
    """Write each prefix as a difference to the one before, as in the log."""
    records: list[Record] = []
    before: Sequence[str] = ()
    for request in sent:
        base = common_prefix_length(before, request.prefix)
        record = {
            name: getattr(request, name) for name in ("at", "model", "system", "tools", "tokens", "ttl", "window")
        }
        record |= {"marks": list(request.breakpoints), "hour": list(request.hour)}
        record |= {"out_base": base, "out_add": list(request.prefix[base:])}
        records.append({**record, "usage": asdict(request.usage) if request.usage else None})
        before = request.prefix
    return records


def _sent_from(records: Sequence[object]) -> tuple[SentRequest, ...]:
    sent: list[SentRequest] = []
    for record in records:
        if isinstance(record, Mapping):
            usage = record.get("usage")
            before = sent[-1].prefix if sent else PrefixHashes()
            sent.append(
                sent_from_record(record, before, usage_from_record(usage) if isinstance(usage, Mapping) else None)
            )
    return tuple(sent)


def _dict(snapshot: Mapping[str, object], key: str) -> Sequence[tuple[str, object]]:
    values = snapshot.get(key)
    return [(str(name), value) for name, value in values.items()] if isinstance(values, Mapping) else ()
