"""Makes every recorded plan again from the log alone, and reports where the result differs.

A plan depends on its view and its plan input. Both can be rebuilt from the log.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.core import texts
from ebbtide.core.cache.prefix import Prices
from ebbtide.core.planner import Budget, CompactionInput, PlanInput, make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.facts import FactsMemory
from ebbtide.policy import PRESETS, Policy
from ebbtide.policy.adjust import with_fact_collector
from ebbtide.runtime.decision import finished_children, passes_for
from ebbtide.runtime.session_log import RECORDED_COMPACTION
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import SessionState, apply_records, batch_from_record, edit_to_record
from ebbtide.store import Record
from ebbtide.wire import WIRES, wire_of_record
from ebbtide.wire.reader import EchoedEdits, Reader, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A plan that came out differently, or a message whose content does not match its ids."""

    plan: str
    """The plan's id, or the message's uuid."""
    reason: str
    is_comparable: bool = True
    """False for a plan that an older version made with other names or texts: then a difference means nothing."""


def replan(records: Sequence[Record], policies: Mapping[str, Policy] = PRESETS) -> tuple[int, list[Difference]]:
    """Return how many plans could be compared, and which of them came out differently."""
    results = [result for result in replan_each(records, policies) if result is None or result.is_comparable]
    return len(results), [difference for difference in results if difference is not None]


def count_plans(records: Sequence[Record]) -> int:
    return sum(_is_plan(record) for record in records)


def replan_each(records: Sequence[Record], policies: Mapping[str, Policy] = PRESETS) -> Iterator[Difference | None]:
    """Make each recorded plan again, and yield its difference, or None if it came out the same."""
    state, reader = SessionState(), _PlanReader()
    older_ids = {record.get("id") for record in records if _is_plan(record) and record.get("texts") != texts.VERSION}
    records = upgrade_log(records)
    messages: dict[str, Any] = {}
    turns = deque(n for n, record in enumerate(records) if record.get("kind") == "turn")
    for n, record in enumerate(records):
        if record.get("uuid"):
            messages[str(record["uuid"])] = record.get("wire") or record.get("message")
        while turns and turns[0] < n:
            turns.popleft()
        if _is_plan(record):
            # A manual compaction is planned between two requests: its own record says for which messages.
            turn = record if "add" in record else records[turns[0]] if turns else None
            reason = _difference_reason(record, turn, state, messages, policies, reader)
            # The reader only saves time. Report a difference only if a fresh reader finds it too.
            reason = reason and _difference_reason(record, turn, state, messages, policies, _PlanReader())
            is_comparable = record.get("id") not in older_ids
            yield Difference(plan=str(record["id"]), reason=reason, is_comparable=is_comparable) if reason else None
        state = apply_records(state, [record])


def _is_plan(record: Record) -> bool:
    return record.get("type") == "ebb" and record.get("kind") == "plan"


@dataclass(slots=True)
class _PlanReader:
    """Reads the request of a plan, and reuses what it read for the plan before.

    It starts over if a person undid or pinned something, or if the wire or the policy changed.
    """

    basis: tuple[object, ...] = ()
    reader: Reader | None = None
    facts_memory: FactsMemory = field(default_factory=FactsMemory)
    echoes: EchoedEdits = field(default_factory=EchoedEdits)

    def read(self, turn: Record, path: list[Any], state: SessionState, policy: Policy) -> Request:
        wire = WIRES[str(turn.get("wire"))]
        basis = (wire.name, policy.name, state.undone, state.protected_ids)
        if self.reader is None or basis != self.basis:
            self.basis, self.echoes = basis, EchoedEdits()
            self.reader = Reader(
                policy.estimator, wire=wire, echoes=self.echoes.by_fingerprint, pinned=state.protected_ids
            )
        self.echoes.learn(wire, state.edits)
        return self.reader.read({"model": str(turn.get("model", "")), wire.list_key: path})


def check_message_ids(records: Sequence[Record]) -> list[Difference]:
    """Return the messages whose items no longer hash to their recorded ids."""
    differences: list[Difference] = []
    for record in records:
        ids = record.get("ebbids")
        wire = wire_of_record(record)
        if not isinstance(ids, list) or wire is None:
            continue
        message = record.get("wire") or record.get("message")
        id_prefixes = [block.fingerprint for block in wire.messages.split(message, wire.list_key)]
        if id_prefixes != [str(id).rpartition("-")[0] for id in ids]:
            differences.append(Difference(plan=str(record.get("uuid")), reason="its content is not what its ids say"))
    return differences


def _difference_reason(
    record: Record,
    turn: Record | None,
    state: SessionState,
    messages: Mapping[str, Any],
    policies: Mapping[str, Policy],
    reader: _PlanReader,
) -> str:
    policy = policies.get(str(record.get("policy")))
    if policy is None:
        return f"the policy {record.get('policy')!r} is not known here"
    if turn is None:
        return "the request it was made for is not in the log"
    policy = with_fact_collector(policy, reader.facts_memory.collect)
    path = [*state.messages[: int(str(turn.get("base", 0)))], *_list_in(turn, "add")]
    missing = [uuid for uuid in path if str(uuid) not in messages]
    if missing:
        return f"not in the log: {pluralize(len(missing), 'message')}"
    request = reader.read(turn, [messages[str(uuid)] for uuid in path], state, policy)
    view = View.of(request.items, state.edits)
    plan_input = _plan_input_from_record(record, state, policy, int(str(record.get("window", 0))))
    try:
        plan = make_plan(
            view, budget=plan_input.budget, plan_input=plan_input, **passes_for(policy, plan_input.trigger)
        )
    except Exception as error:  # noqa: BLE001 - report the plan that failed, and go on with the others
        return f"planning failed: {type(error).__name__}: {error}"
    if [edit.id for edit in plan.edits] != _list_in(record, "planned"):
        return "other edits were planned"
    new_edits = {edit.id: edit for edit in plan.edits}
    for recorded_edit in _list_in(record, "edits"):
        comparable = {name: value for name, value in recorded_edit.items() if name != "of"}
        edit = new_edits.get(str(recorded_edit["id"]))
        if edit is None or json.dumps(comparable, sort_keys=True) != json.dumps(edit_to_record(edit), sort_keys=True):
            return "an edit came out otherwise"
    batch, _ = batch_from_record(record, state.items)
    is_same = all(edit.binding is None or _hidden_ids(edit) == _hidden_ids(new_edits[edit.id]) for edit in batch.edits)
    return "" if is_same else "an edit hides other items"


def _hidden_ids(edit: Edit) -> frozenset[str]:
    return edit.binding.movable.union(edit.binding.hidden) if edit.binding else frozenset()


def _plan_input_from_record(record: Record, state: SessionState, policy: Policy, window: int) -> PlanInput:
    situation = record.get("situation")
    fields: Mapping[str, Any] = situation if isinstance(situation, Mapping) else {}
    output, overhead = int(fields.get("max_output", 0)), int(fields.get("overhead", 0))
    # Older records have none: then only what lies outside the view counted.
    fixed = int(fields.get("fixed", overhead))
    read, write = fields.get("prices", (0.1, 1.25))
    directory = fields.get("directory")
    return PlanInput(
        budget=Budget(
            window=window,
            max_output=output,
            levels=policy.levels(window, output, fixed),
            overhead=overhead,
            fixed=fixed,
        ),
        tokens=int(fields.get("tokens", 0)),
        scale=float(fields.get("scale", 1.0)),
        scale_new=float(fields.get("scale_new", 1.0)),
        utilisation=float(fields.get("utilisation", 0.0)),
        cached_entries=int(fields.get("warm", 0)),
        kept_entries=int(fields.get("kept", 0)),
        first_unsent=int(fields.get("new", 0)),
        idle=fields.get("idle"),
        trigger=fields.get("trigger", "auto"),
        target=fields.get("target"),
        growth=int(fields.get("growth", 0)),
        prices=Prices(read=read, write=write),
        count_tokens=policy.estimator.text,
        result_overhead=policy.estimator.per_result,
        message_overhead=policy.estimator.per_message,
        blob_names=BlobNames(directory=directory, taken=state.taken) if directory is not None else None,
        thinking_bound_to_prefix=bool(fields.get("bound")),
        cleared=state.cleared,
        compaction=_compaction_input_from_record(fields.get("folding") or {}, state),
        now=float(fields.get("now", 0.0)),
    )


def _compaction_input_from_record(record: Mapping[str, Any], state: SessionState) -> CompactionInput:
    fields = {name: record[name] for name in RECORDED_COMPACTION if name in record}
    fields["instructions"] = tuple(map(str, record.get("instructions", ())))
    return CompactionInput(**fields, answers=state.answers, children=finished_children(state))


def _list_in(record: Record, key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []
