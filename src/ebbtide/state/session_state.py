"""Apply the records of a session's log to its state: edits made, undone and redone, and requests sent.

A record is one JSON object. What repeats from request to request is recorded as a difference (`base` and `add`).
Applying the same records gives the same state in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.core.cache.lifetimes import Pauses, is_hour_ignored
from ebbtide.core.cache.prefix import PrefixHashes, common_prefix_length, count_added_tokens
from ebbtide.core.records import Record, float_in, int_in, list_in, pairs_in, str_in, strings_in, usage_from_record
from ebbtide.core.stub import digest
from ebbtide.core.tokens.size import Calibration
from ebbtide.core.types import (
    COMPACTION_PASSES,
    FIVE_MINUTES,
    HOUR,
    Answer,
    AnswerMode,
    Blob,
    Edit,
    HistoryMark,
    Item,
    Kind,
    Role,
    SentRequest,
    SourceScope,
    Usage,
)
from ebbtide.state.binding_records import ItemTable, binding_from, bindings_to, table_after

KEPT_ANSWERS = 32
"""How many answers are remembered: one compaction needs fewer."""
KEPT_REQUESTS = 8
"""How many requests are remembered: enough to know what is cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The edits of one plan: made together, undone together."""

    id: str
    edits: tuple[Edit, ...]
    at: float
    turn: int
    """Number of the request that it was made for."""
    record: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)
    """The record of the plan, with its input."""


class SessionState(NamedTuple):
    """Everything that a session remembers. Applying a record returns a new state that shares the unchanged fields.

    It has 20 fields because each kind of record changes one or two of them, and a snapshot writes them side by side.
    It is a tuple because a new one is built for every request.
    """

    batches: tuple[Batch, ...] = ()
    undone: tuple[str, ...] = ()
    """Ids of undone batches, in the order they were undone."""
    edits: tuple[Edit, ...] = ()
    """Of all batches that are not undone, oldest first."""
    items: ItemTable = ItemTable()
    """The items that edits were made of."""
    sent: tuple[SentRequest, ...] = ()
    """The last few requests."""
    turns: int = 0
    """How many requests were sent."""
    messages: PrefixHashes = PrefixHashes()
    """Uuids of the message records of the last request. Each is derived from the one before."""
    calibration: Calibration = Calibration()
    taken: Mapping[str, str] = {}
    """Names of stored blobs, lower-cased, with the digest of their content."""
    restored_ids: frozenset[str] = frozenset()
    """Items that a person restored by undo: no pass may remove them again."""
    pinned: frozenset[str] = frozenset()
    """Items that a person wants to keep."""
    cleared: frozenset[str] = frozenset()
    """Call ids of results that Claude Code cleared itself, from its own records (R149)."""
    answers: Mapping[str, Answer] = {}
    """The newest answers, by the key of the question."""
    failures: int = 0
    """How many answers of a model in a row were unusable."""
    folded: int | None = None
    """Tokens of the request after the newest compaction."""
    stalled: int = 0
    """How many compactions in a row freed less than a twentieth."""
    limits: Mapping[str, int] = {}
    """From a model to the window that its provider turned out to have."""
    children: Mapping[str, str | None] = {}
    """From a sub-agent's session to its result; None while it works."""
    recall: str = ""
    """How the model can read what was removed, fixed at the first request: `path`, `tool` or `off`."""
    counters: Mapping[str, int] = {}
    """Compactions, tokens saved, requests without edits, and the totals of usage (R020, R028, R248)."""

    @property
    def protected_ids(self) -> frozenset[str]:
        """Items that no pass may remove."""
        return self.restored_ids | self.pinned

    @property
    def pauses(self) -> Pauses:
        counts = (self.counters.get(name, 0) for name in ("pauses", "pauses_under_an_hour", "hours_ignored"))
        return Pauses(*counts)

    @property
    def foreign_messages(self) -> int:
        """How many of the first messages have signatures that the provider refused."""
        return self.counters.get("foreign_messages", 0)

    @property
    def compact_count(self) -> int:
        return self.counters.get("compact_count", 0)


def apply_records(
    state: SessionState, records: Iterable[Mapping[str, object]], request: RequestRecord | None = None
) -> SessionState:
    """Return the state after more records. Records of other programs, and of later versions, are skipped.

    A request of this process follows as `request`, so that its prefix hashes are shared and not built again.
    """
    for record in records:
        kind = record.get("kind") if record.get("type") == "ebb" else "message"
        step = _STEPS.get(str(kind))
        if step is not None:
            state = step(state, record)
    if request is not None:
        state = _add_request(state, request.sent, request.messages, is_edited=bool(request.record["edited"]))
    return state


def _request(state: SessionState, record: Mapping[str, object]) -> SessionState:
    last = state.sent[-1] if state.sent else None
    sent = sent_from_record(record, last.prefix if last else PrefixHashes(), window=last.window if last else 0)
    messages = state.messages.extend_from(int_in(record, "base"), strings_in(record, "add"))
    return _add_request(state, sent, messages, is_edited=bool(record.get("edited")))


def _add_request(state: SessionState, sent: SentRequest, messages: PrefixHashes, *, is_edited: bool) -> SessionState:
    counters = state.counters if is_edited else _add(state.counters, skipped_count=1)
    pause = sent.at - state.sent[-1].at if state.sent else 0.0
    if pause >= FIVE_MINUTES:
        counters = _add(counters, pauses=1, pauses_under_an_hour=int(pause < HOUR))
    if added := count_added_tokens(state.sent, sent):
        counters = _add(counters, added_tokens=added, added_calls=1)
    requests = (*state.sent[1 - KEPT_REQUESTS :], sent)
    return state._replace(sent=requests, turns=state.turns + 1, messages=messages, counters=counters)


def _usage(state: SessionState, record: Mapping[str, object]) -> SessionState:
    usage = usage_from_record(record)
    sent, calibration = state.sent, state.calibration
    i = len(sent) - 1 - (state.turns - int_in(record, "turn"))
    billed = sent[i] if 0 <= i < len(sent) else None
    ignored = 0
    if billed is not None:
        ignored = int(is_hour_ignored(sent[i - 1] if i else None, billed, usage))
        sent = (*sent[:i], billed._replace(usage=usage), *sent[i + 1 :])
    estimated = int_in(record, "estimated")
    if estimated > 0 and usage.prompt > 0:
        calibration = calibration.observe(str_in(record, "model"), estimated, usage.prompt)
    counters = _add(
        state.counters,
        total_input=usage.input,
        total_output=usage.output,
        total_cache_read=usage.cache_read,
        total_cache_write=usage.cache_write,
        estimated=billed.tokens if billed is not None else 0,
    )
    if ignored:
        counters = _add(counters, hours_ignored=1)
    return state._replace(sent=sent, calibration=calibration, counters=counters)


def _plan(state: SessionState, record: Mapping[str, object]) -> SessionState:
    batch, items = batch_from_record(record, state.items)
    edits = batch.edits
    blob_digests = {name.lower(): mark for name, mark in pairs_in(record, "blobs")}
    saved = sum(edit.saved for edit in edits)
    folded, stalled = _after_fold(state, record, edits)
    return state._replace(
        batches=(*state.batches, batch),
        edits=(*state.edits, *edits),
        items=items,
        taken={**state.taken, **blob_digests} if blob_digests else state.taken,
        folded=folded,
        stalled=stalled,
        counters=_add(state.counters, compact_count=1, tokens_saved=saved),
    )


def _insert(state: SessionState, record: Mapping[str, object]) -> SessionState:
    """Add an edit that was inserted between two plans. No pass made it, so no plan can make it again."""
    batch, items = batch_from_record(record, state.items)
    return state._replace(batches=(*state.batches, batch), edits=(*state.edits, *batch.edits), items=items)


def batch_from_record(record: Mapping[str, object], items: ItemTable) -> tuple[Batch, ItemTable]:
    """Read the batch of a record, and return the table of items after it."""
    table = table_after(items, record)
    edits = tuple(edit_from_record(edit, table) for edit in list_in(record, "edits"))
    batch = Batch(
        id=str_in(record, "id"), edits=edits, at=float_in(record, "at"), turn=int_in(record, "turn"), record=record
    )
    return batch, table or items


def _after_fold(state: SessionState, record: Mapping[str, object], edits: Sequence[Edit]) -> tuple[int | None, int]:
    if not any(edit.by in COMPACTION_PASSES for edit in edits):
        return state.folded, state.stalled
    before, after = int_in(record, "tokens_before"), int_in(record, "tokens_after")
    return after, state.stalled + 1 if before - after < before // 20 else 0


_ANSWER_TEXTS = ("key", "first", "last", "text", "analysis", "failed")


def answer_from_record(record: Mapping[str, object]) -> Answer:
    way = record.get("way")
    mode: AnswerMode = "live" if way == "live" else "transcript" if way == "transcript" else "prefix"
    mark = record.get("history")
    history = HistoryMark(str(mark[0]), tuple(map(str, mark[1:]))) if isinstance(mark, list) and mark else None
    return Answer(answer_mode=mode, history=history, **{name: str_in(record, name) for name in _ANSWER_TEXTS})


def answer_to_record(answer: Answer) -> Record:
    """Write the fields that `answer_from_record` reads."""
    texts = {name: getattr(answer, name) for name in _ANSWER_TEXTS}
    return {**texts, "way": answer.answer_mode, "history": history_to_record(answer.history)}


def history_to_record(history: HistoryMark | None) -> list[str] | None:
    return [history.lasting, *history.passing] if history is not None else None


def _answer(state: SessionState, record: Mapping[str, object]) -> SessionState:
    answer = answer_from_record(record)
    newest = dict(list(state.answers.items())[-(KEPT_ANSWERS - 1) :])
    was_asked = answer.answer_mode != "live" and record.get("asked", True) is True
    return state._replace(
        answers={**newest, answer.key: answer},
        failures=(state.failures + 1 if answer.failed else 0) if was_asked else state.failures,
        counters=_add(
            state.counters, summary_calls=int(was_asked), summary_failures=int(was_asked and bool(answer.failed))
        ),
    )


def _limit(state: SessionState, record: Mapping[str, object]) -> SessionState:
    """Learn the window that a provider reported, and how it counted the refused request; or forget it on a reset."""
    model, estimated, used = str_in(record, "model"), int_in(record, "estimated"), int_in(record, "used")
    if record.get("reset"):
        return state._replace(limits={name: n for name, n in state.limits.items() if model and name != model})
    calibration = state.calibration.observe(model, estimated, used) if estimated > 0 and used > 0 else state.calibration
    window = int_in(record, "window")
    # An implausible window is recorded under another key, so it is not read here.
    return state._replace(limits={**state.limits, model: window} if window else state.limits, calibration=calibration)


def _pin(state: SessionState, record: Mapping[str, object]) -> SessionState:
    ids = frozenset(strings_in(record, "ids"))
    return state._replace(pinned=state.pinned | ids if record.get("on") else state.pinned - ids)


def _recall(state: SessionState, record: Mapping[str, object]) -> SessionState:
    """Keep the first choice: a tool that is added later would cost the whole cached prefix."""
    return state if state.recall else state._replace(recall=str_in(record, "way"))


def _child(state: SessionState, record: Mapping[str, object]) -> SessionState:
    """Keep the first result of a sub-agent."""
    session = str_in(record, "session")
    result = record.get("result")
    outcome = state.children.get(session)
    if outcome is None and isinstance(result, str):
        outcome = result
    return state._replace(children={**state.children, session: outcome})


def _undo(state: SessionState, record: Mapping[str, object]) -> SessionState:
    return _with_undone(state, (*state.undone, str_in(record, "batch")))


def _redo(state: SessionState, record: Mapping[str, object]) -> SessionState:
    batch = str_in(record, "batch")
    return _with_undone(state, tuple(id for id in state.undone if id != batch))


def _with_undone(state: SessionState, undone: tuple[str, ...]) -> SessionState:
    removed = [edit for batch in state.batches if batch.id in undone for edit in batch.edits]
    return state._replace(
        undone=undone,
        edits=tuple(edit for batch in state.batches if batch.id not in undone for edit in batch.edits),
        # A restored item stays. A restored run may have to be removed again when the window is full.
        restored_ids=frozenset(edit.first for edit in removed if edit.first and edit.first == edit.last),
        folded=_size_after_compaction(state, undone),
    )


def _size_after_compaction(state: SessionState, undone: Sequence[str]) -> int | None:
    """Return the size from which growth counts for the next automatic compaction.

    It is the size after the newest compaction; if a newer one was undone, the size before that one.
    """
    compactions = [batch for batch in state.batches if any(edit.by in COMPACTION_PASSES for edit in batch.edits)]
    active = [batch for batch in compactions if batch.id not in undone]
    inactive = [batch for batch in compactions if batch.id in undone]
    if inactive and (not active or inactive[-1].turn > active[-1].turn):
        return int_in(inactive[-1].record, "tokens_before")
    return int_in(active[-1].record, "tokens_after") if active else None


class RequestRecord(NamedTuple):
    """A request to send: its record, and the values that reading the record would give."""

    record: Record
    sent: SentRequest
    messages: PrefixHashes


def request_record(
    state: SessionState,
    sent: SentRequest,
    messages: PrefixHashes,
    *,
    wire: str,
    estimated: int,
    edited: bool,
    overhead: Sequence[int],
    max_output: int,
) -> RequestRecord:
    """Build the record of a request. What it shares with the request before is written as a count."""
    base = common_prefix_length(state.messages, messages)
    prefix = sent.prefix if isinstance(sent.prefix, PrefixHashes) else PrefixHashes(sent.prefix)
    last = state.sent[-1] if state.sent else None
    prefix_base = common_prefix_length(last.prefix if last else (), prefix)
    # The keys keep their order in the log. It is one dict literal because there is one for every request.
    record: Record = {
        "type": "ebb", "kind": "turn", "at": sent.at, "base": base, "add": messages.after(base), "wire": wire,
        "model": sent.model, "system": sent.system, "tools": sent.tools, "out_base": prefix_base,
        "out_add": prefix.after(prefix_base), "tokens": sent.tokens, "estimated": estimated,
        "marks": list(sent.breakpoints), "ttl": sent.ttl, "edited": edited, "overhead": list(overhead),
        "max_output": max_output,
    }  # fmt: skip
    if last is None or last.window != sent.window:
        record["window"] = sent.window
    if sent.hour:
        record["hour"] = list(sent.hour)
    return RequestRecord(record, sent, messages)


def sent_from_record(
    record: Mapping[str, object], before: Sequence[str], usage: Usage | None = None, *, window: int = 0
) -> SentRequest:
    """Read a sent request. The record is a difference to the request before, which had `before` and `window`."""
    prefix = before if isinstance(before, PrefixHashes) else PrefixHashes(before)
    return SentRequest(
        at=float_in(record, "at"),
        model=str_in(record, "model"),
        system=str_in(record, "system"),
        tools=str_in(record, "tools"),
        prefix=prefix.extend_from(int_in(record, "out_base"), strings_in(record, "out_add")),
        tokens=int_in(record, "tokens"),
        usage=usage,
        breakpoints=tuple(map(int, strings_in(record, "marks"))),
        ttl=float_in(record, "ttl", FIVE_MINUTES),
        window=int_in(record, "window") or window,
        hour=tuple(map(int, strings_in(record, "hour"))),
    )


def _message(state: SessionState, record: Mapping[str, object]) -> SessionState:
    """Read a message record, ours or Claude Code's own, and remember what Claude Code cleared itself (R149)."""
    metadata = record.get("microcompactMetadata")
    if not isinstance(metadata, Mapping):
        return state
    call_ids = {id for id in list_in(metadata, "compactedToolIds") if isinstance(id, str)}
    count = len(call_ids) + len(list_in(metadata, "clearedAttachmentUUIDs"))
    return state._replace(cleared=state.cleared | call_ids, counters=_add(state.counters, cleared_by_client=count))


def _hour(state: SessionState, _record: Mapping[str, object]) -> SessionState:
    return state._replace(counters=_add(state.counters, hours_ignored=1))


def _signatures(state: SessionState, record: Mapping[str, object]) -> SessionState:
    messages = max(int_in(record, "messages"), state.foreign_messages)
    return state._replace(counters={**state.counters, "foreign_messages": messages})


_STEPS = {
    "message": _message,
    "turn": _request,
    "usage": _usage,
    "plan": _plan,
    "insert": _insert,
    "undo": _undo,
    "redo": _redo,
    "answer": _answer,
    "limit": _limit,
    "child": _child,
    "recall": _recall,
    "pin": _pin,
    "hour": _hour,
    "signatures": _signatures,
}


def ebb_record(kind: str, **fields: object) -> Record:
    """Build a record of Ebbtide's own."""
    return {"type": "ebb", "kind": kind, **fields}


def edit_to_record(edit: Edit) -> Record:
    replacement = [{"keep": item.id} if item.id else _item_to(item) for item in edit.replacement]
    blobs = [[blob.name, blob.digest or digest(blob.text)] for blob in edit.blobs]
    record: Record = {"id": edit.id, "by": edit.by, "first": edit.first, "last": edit.last, "head": edit.branch_tip}
    if edit.insert_after:
        record["after"] = edit.insert_after
    if edit.made_of != "covered":
        record["made_of"] = edit.made_of
    return {**record, "put": replacement, "reason": edit.reason, "saved": edit.saved, "blobs": blobs}


def edits_to_record(edits: Sequence[Edit], items: ItemTable) -> Record:
    """Write the fields that say what edits do and which items they were made of."""
    item_fields, bindings = bindings_to(items, edits)
    return {
        "edits": [{**edit_to_record(edit), **binding} for edit, binding in zip(edits, bindings, strict=True)],
        **item_fields,
    }


def edit_from_record(record: object, table: ItemTable | None = None) -> Edit:
    """Read an edit. Without the item table that it was written for, it has no binding and is active nowhere."""
    fields = record if isinstance(record, Mapping) else {}
    return Edit(
        by=str_in(fields, "by"),
        first=str_in(fields, "first"),
        last=str_in(fields, "last"),
        branch_tip=str_in(fields, "head"),
        insert_after=str_in(fields, "after"),
        replacement=tuple(_item_from(item) for item in list_in(fields, "put")),
        reason=str_in(fields, "reason"),
        saved=int_in(fields, "saved"),
        blobs=tuple(Blob(name=name, text="") for name, _ in pairs_in(fields, "blobs")),
        made_of=_parse_source_scope(fields.get("made_of")),
        binding=binding_from(fields, table),
    )


def _parse_source_scope(value: object) -> SourceScope:
    return "lasting" if value == "lasting" else "all" if value == "all" else "covered"


def _item_to(item: Item) -> Record:
    record: Record = {
        "role": item.role,
        "kind": item.kind,
        "text": item.text,
        "tokens": item.tokens,
        "tier": item.trust,
    }
    if item.call_id:
        record |= {"call_id": item.call_id, "name": item.name}
    if item.kind == "call" and item.raw is not None:
        record["raw"] = item.raw  # the provider's own block: an id in it may link it to its reasoning
    return record


def _item_from(record: object) -> Item:
    fields = record if isinstance(record, Mapping) else {}
    role: Role = fields.get("role", "assistant")
    kind: Kind = fields.get("kind", "opaque")
    return Item(
        id=str_in(fields, "keep"),
        message=-1,
        role=role,
        kind=kind,
        text=str_in(fields, "text"),
        tokens=int_in(fields, "tokens"),
        name=str_in(fields, "name"),
        call_id=str_in(fields, "call_id"),
        trust=int_in(fields, "tier"),
        raw=fields.get("raw"),
    )


def _add(counters: Mapping[str, int], **added: int) -> Mapping[str, int]:
    return {**counters, **{name: counters.get(name, 0) + n for name, n in added.items()}}
