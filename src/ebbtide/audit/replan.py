"""Makes every recorded plan again, from the log alone, and says where the bytes differ.

A plan goes by its view and its situation, and both are in the log: messages, earlier edits, and what was journaled.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.compaction.questions import compaction_input_from_record
from ebbtide.core.blob_names import BlobNames
from ebbtide.core.cache.economics import Prices
from ebbtide.core.plan_input import Budget, PlanInput
from ebbtide.core.planner import make_plan
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.facts import FactsMemory
from ebbtide.policy import PRESETS, Policy
from ebbtide.runtime.plan_input_builder import passes_for
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import SessionState, apply_records, batch_from_record, edit_to_record
from ebbtide.store import Record
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import fingerprint
from ebbtide.wire.echoes import EchoedEdits
from ebbtide.wire.reader import Reader, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A plan that could not be made again as it was, or a message that is not what its ids say."""

    plan: str
    """The plan's id, or the message's uuid."""
    reason: str


def replan(records: Sequence[Record], policies: Mapping[str, Policy] = PRESETS) -> tuple[int, list[Difference]]:
    """How many plans were made again, and which came out otherwise."""
    results = list(replan_each(records, policies))
    return len(results), [difference for difference in results if difference is not None]


def count_plans(records: Sequence[Record]) -> int:
    return sum(_is_plan(record) for record in records)


def replan_each(records: Sequence[Record], policies: Mapping[str, Policy] = PRESETS) -> Iterator[Difference | None]:
    """Every recorded plan made again, one after the other; None where it came out as it was."""
    state, reader = SessionState(), _PlanReader()
    older = {record.get("id") for record in records if _is_plan(record) and "items_on" not in record}
    records = upgrade_log(records)
    messages: dict[str, Any] = {}
    turns = deque(n for n, record in enumerate(records) if record.get("kind") == "turn")
    for n, record in enumerate(records):
        if record.get("uuid"):
            messages[str(record["uuid"])] = record.get("wire") or record.get("message")
        while turns and turns[0] < n:
            turns.popleft()
        if _is_plan(record):
            # A fold that a person asked for was made between two requests: it says itself what it was made for.
            turn = record if "add" in record else records[turns[0]] if turns else None
            why = _compare(record, turn, state, messages, policies, reader)
            # The reader only saves time. Report a difference only if a fresh reader finds it too.
            why = why and _compare(record, turn, state, messages, policies, _PlanReader())
            # An older version had other names and texts: where its plans come out otherwise, that says nothing.
            if not why or record.get("id") not in older:
                yield Difference(plan=str(record.get("id")), reason=why) if why else None
        state = apply_records(state, [record])


def _is_plan(record: Record) -> bool:
    return record.get("type") == "ebb" and record.get("kind") == "plan"


@dataclass(slots=True)
class _PlanReader:
    """The reader of the plan before, which has read most of the messages already.

    It starts over where a person undid or pinned something, or where the wire or the policy changed.
    """

    terms: tuple[object, ...] = ()
    reader: Reader | None = None
    facts_memory: FactsMemory = field(default_factory=FactsMemory)
    ours: EchoedEdits = field(default_factory=EchoedEdits)

    def read(self, turn: Record, path: list[Any], state: SessionState, policy: Policy) -> Request:
        wire = WIRES[str(turn.get("wire"))]
        terms = (wire.name, policy.name, state.undone, state.protected_ids)
        if self.reader is None or terms != self.terms:
            self.terms, self.ours = terms, EchoedEdits()
            self.reader = Reader(
                policy.estimator, wire=wire, echoes=self.ours.by_fingerprint, pinned=state.protected_ids
            )
        self.ours.learn(wire, state.edits)
        return self.reader.read({"model": str(turn.get("model", "")), wire.list_key: path})


def check_message_ids(records: Sequence[Record]) -> list[Difference]:
    """Message records whose items no longer hash to the ids recorded with them."""
    differences: list[Difference] = []
    for record in records:
        ids = record.get("ebbids")
        wire = WIRES.get(str(record.get("ebbwire", "anthropic")))
        if not isinstance(ids, list) or wire is None:
            continue
        message = record.get("wire") or record.get("message")
        marks = [
            fingerprint(block.role, block.kind, block.canonical)
            for block in wire.messages.split(message, wire.list_key)
        ]
        if marks != [str(id).rpartition("-")[0] for id in ids]:
            differences.append(Difference(plan=str(record.get("uuid")), reason="its content is not what its ids say"))
    return differences


def _compare(
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
    path = [*state.messages[: int(str(turn.get("base", 0)))], *_list_in(turn, "add")]
    missing = [uuid for uuid in path if str(uuid) not in messages]
    if missing:
        return f"not in the log: {pluralize(len(missing), 'message')}"
    request = reader.read(turn, [messages[str(uuid)] for uuid in path], state, policy)
    view = View.of(request.items, state.edits)
    plan_input = _plan_input_from_record(record, state, policy, int(str(record.get("window", 0))), reader.facts_memory)
    try:
        again = make_plan(
            view, budget=plan_input.budget, plan_input=plan_input, **passes_for(policy, plan_input.trigger)
        )
    except Exception as error:  # noqa: BLE001 - report the plan that cannot be made, and go on with the others
        return f"planning failed: {type(error).__name__}: {error}"
    if [edit.id for edit in again.edits] != _list_in(record, "planned"):
        return "other edits were planned"
    remade = {edit.id: edit for edit in again.edits}
    for fields in _list_in(record, "edits"):
        recorded = {name: value for name, value in fields.items() if name != "of"}
        edit = remade.get(str(fields["id"]))
        if edit is None or json.dumps(recorded, sort_keys=True) != json.dumps(edit_to_record(edit), sort_keys=True):
            return "an edit came out otherwise"
    batch, _ = batch_from_record(record, state.items)
    same = all(edit.binding is None or _hidden_ids(edit) == _hidden_ids(remade[edit.id]) for edit in batch.edits)
    return "" if same else "an edit hides other items"


def _hidden_ids(edit: Edit) -> frozenset[str]:
    return edit.binding.movable.union(edit.binding.hidden) if edit.binding else frozenset()


def _plan_input_from_record(
    record: Record, state: SessionState, policy: Policy, window: int, facts_memory: FactsMemory
) -> PlanInput:
    situation = record.get("situation")
    recorded: Mapping[str, Any] = situation if isinstance(situation, Mapping) else {}
    output, overhead = int(recorded.get("max_output", 0)), int(recorded.get("overhead", 0))
    read, write = recorded.get("prices", (0.1, 1.25))
    directory = recorded.get("directory")
    return PlanInput(
        budget=Budget(
            window=window, max_output=output, levels=policy.levels(window, output, overhead), overhead=overhead
        ),
        tokens=int(recorded.get("tokens", 0)),
        scale=float(recorded.get("scale", 1.0)),
        scale_new=float(recorded.get("scale_new", 1.0)),
        utilisation=float(recorded.get("utilisation", 0.0)),
        cached_entries=int(recorded.get("warm", 0)),
        first_unsent=int(recorded.get("new", 0)),
        idle=recorded.get("idle"),
        trigger=recorded.get("trigger", "auto"),
        target=recorded.get("target"),
        growth=int(recorded.get("growth", 0)),
        prices=Prices(read=read, write=write),
        count_tokens=policy.estimator.text,
        result_overhead=policy.estimator.per_result,
        message_overhead=policy.estimator.per_message,
        blob_names=BlobNames(directory=directory, taken=state.taken) if directory is not None else None,
        thinking_bound_to_prefix=bool(recorded.get("bound")),
        cleared=state.cleared,
        compaction=compaction_input_from_record(recorded.get("folding") or {}, state, facts_memory),
        now=float(recorded.get("now", 0.0)),
    )


def _list_in(record: Record, key: str) -> list[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else []
