"""Reads a session's history from its log: every request, the edits planned for it, and the current conversation.

Nothing is planned or written here. For a recorded file without a log, `replay.simulate` makes one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from threading import Lock

from ebbtide.core.cache.prefix import common_prefix_length
from ebbtide.core.errors import BadRequest
from ebbtide.core.records import float_in, int_in, list_in, usage_from_record
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.types import Edit, Item, SentRequest, Usage
from ebbtide.core.view import View
from ebbtide.facts import SessionFacts, collect_facts
from ebbtide.policy import PRESETS, default
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import Batch, SessionState, apply_records
from ebbtide.store import Record, messages_on_branch
from ebbtide.wire import DEFAULT_WIRE, WIRES
from ebbtide.wire.reader import EchoedEdits, Reader, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """One request that was sent."""

    number: int
    """Counted from 1."""
    at: float
    model: str
    wire: str
    path: Sequence[str]
    """Uuids of its messages; each implies all before it."""
    planned: tuple[str, ...]
    """Ids of the batches planned for it."""
    undone: frozenset[str]
    """Ids of the batches that were undone at the time."""
    marked: bool
    """Whether it carried cache breakpoints."""
    ttl: float
    overhead: tuple[int, int]
    """Tokens of system prompt and tools."""
    max_output: int
    usage: Usage | None
    """The billed tokens, if the reply was recorded."""
    sent: SentRequest
    """The same request as the cache model sees it, with usage."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """The items of the longest request on a branch. Each earlier request on the branch is a beginning of it.

    All batches on the branch share these items: a copy for each batch of a long session would be millions of items.
    """

    items: tuple[Item, ...]

    def index_of(self, id: str, end: int) -> int | None:
        """Return the index of an item, or None if it is not in the first `end` messages."""
        index = self._index_by_id.get(id)
        return index if index is not None and self.items[index].message < end else None

    @cached_property
    def _index_by_id(self) -> Mapping[str, int]:
        return {item.id: index for index, item in enumerate(self.items)}

    @cached_property
    def calls(self) -> Mapping[str, Sequence[Item]]:
        """Calls by call id, in order. A client can use an id twice."""
        calls: dict[str, list[Item]] = {}
        for item in self.items:
            if item.kind == "call":
                calls.setdefault(item.call_id, []).append(item)
        return calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of edits, with the request it was planned for."""

    batch: Batch
    turn: HistoryRequest
    undone: bool
    """Whether the batch is undone now."""
    branch_of: Callable[[HistoryRequest], Branch] = field(repr=False, compare=False)

    @property
    def _branch(self) -> Branch:
        return self.branch_of(self.turn)

    def covered_items(self, edit: Edit) -> Sequence[Item]:
        """Return the originals that the edit replaced; empty for an insertion."""
        branch, end = self._branch, len(self.turn.path)
        first, last = branch.index_of(edit.first, end), branch.index_of(edit.last, end)
        return () if first is None or last is None else branch.items[first : last + 1]

    def removed_items(self, edit: Edit) -> Sequence[Item]:
        """Return the originals that the edit replaced, without those that it kept."""
        kept_ids = {item.id for item in edit.replacement if item.id}
        return [item for item in self.covered_items(edit) if item.id not in kept_ids]

    def original(self, item: Item) -> Item:
        """Return the original of a replaced item, or the item itself if it has none."""
        index = self._branch.index_of(item.id, len(self.turn.path)) if item.id else None
        return item if index is None else self._branch.items[index]

    def find_call(self, result: Item) -> Item | None:
        """Find the call of a result: the newest with its call id."""
        calls, end = self._branch.calls.get(result.call_id, ()), len(self.turn.path)
        return next((call for call in reversed(calls) if call.message < end), None)

    def is_file_used_after(self, path: str, item: Item) -> bool:
        """Whether a later call of the request names the file, by its path or only by its name."""
        branch, end, name = self._branch, len(self.turn.path), path.rsplit("/", 1)[-1]
        start = branch.index_of(item.id, end)
        later = branch.items[start + 1 :] if start is not None else ()
        calls = (entry for entry in takewhile(lambda entry: entry.message < end, later) if entry.kind == "call")
        return any(name in call.text for call in calls)

    def situation(self) -> Mapping[str, object]:
        situation = self.batch.record.get("situation")
        return situation if isinstance(situation, Mapping) else {}


@dataclass(frozen=True, kw_only=True)
class History:
    session: str
    name: str
    """How commands refer to it: the session id, or the file."""
    stored: bool
    state: SessionState = field(default_factory=SessionState)
    turns: tuple[HistoryRequest, ...] = ()
    messages: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Messages by uuid."""
    newest: tuple[str, ...] = ()
    """Uuids of the current conversation, including the last reply."""
    records: Sequence[Record] = field(default=(), repr=False)
    """All records of the log."""
    refusals: tuple[str, ...] = ()
    """Requests of a simulation that did not fit."""
    _placed_batches: int = 0
    """How many batches belong to a request so far. Later ones, which a person asked for, belong to the next request."""
    _request_reader: _RequestReader | None = field(default=None, repr=False, compare=False)
    """Passed on when the session grows, so that nothing is read twice."""

    def extend(self, records: Sequence[Record]) -> History:
        """Return the history with more log records. Only the new records are processed."""
        new_messages = {
            str(record["uuid"]): record.get("wire") or record.get("message") for record in records if record.get("uuid")
        }
        messages = {**self.messages, **new_messages}
        turns, state, placed_batches = _read_turns(self, records)
        all_records = [*self.records, *records]
        has_branched = len(turns) > len(self.turns) and not (turns[-1].path and turns[-1].path[-1] in new_messages)
        path = turns[-1].path if len(turns) > len(self.turns) else self.newest
        newest = (
            _path_with_reply(path, all_records if has_branched else records)
            if turns
            else [str(record["uuid"]) for record in messages_on_branch(all_records)]
        )
        return replace(
            self, state=state, turns=turns, messages=messages, newest=tuple(newest), records=all_records,
            _placed_batches=placed_batches, _request_reader=_extend_reader(self._request_reader, messages, state),
        )  # fmt: skip

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        assert self._request_reader is not None, "a history has grown from its records"
        return tuple(_build_steps(self.turns, self.state, _Branches(self.turns, self._request_reader)))

    @property
    def wire(self) -> str:
        return self.turns[-1].wire if self.turns else DEFAULT_WIRE

    def window(self, number: int) -> int | None:
        """Return the window a request was planned for, or that of the newest plan before it if the log does not say.

        Returns None if there was no plan either.
        """
        if 0 < number <= len(self.turns) and (window := self.turns[number - 1].sent.window):
            return window
        planned = {id for turn in self.turns[:number] for id in turn.planned}
        windows = [batch.record.get("window") for batch in self.state.batches if batch.id in planned]
        return windows[-1] if windows and isinstance(windows[-1], int) else None

    def learned_window(self, model: str) -> tuple[int, float] | None:
        """Return the window learned from a provider's refusal, and when; None if none was learned or it was reset."""
        window = self.state.limits.get(model)
        for record in reversed(self.records) if window else ():
            if record.get("kind") == "limit" and record.get("model") == model and record.get("window") == window:
                return int_in(record, "window"), float_in(record, "at")
        return None

    def next_request(self) -> tuple[Request, View]:
        """Return the conversation as the model would see it next."""
        return self._read_newest(_RequestReader(self.messages, self.state))

    def sent_request(self, number: int) -> tuple[Request, View]:
        """Return one request, with the edits that were in force then."""
        return self._read_sent(number, _RequestReader(self.messages, self.state))

    def view(self, number: int) -> View:
        """Return what the model saw in a request; 0 for the current conversation. Earlier reads are reused."""
        assert self._request_reader is not None, "a history has grown from its records"
        reader = self._request_reader
        return (self._read_sent(number, reader) if number else self._read_newest(reader))[1]

    def _read_newest(self, reader: _RequestReader) -> tuple[Request, View]:
        request = reader.read(self.newest, self.wire, self.turns[-1].model if self.turns else "")
        return request, View.of(request.items, self.state.edits)

    def _read_sent(self, number: int, reader: _RequestReader) -> tuple[Request, View]:
        turn = self.turn(number)
        request = reader(turn)
        return request, View.of(request.items, self.edits_in_force(turn))

    def walk(self) -> Iterator[tuple[HistoryRequest, Request, View]]:
        """Yield every request in order. Each view extends the one before it, so all cost little more than the last."""
        return RequestWalk().visit_new(self)

    def collect_facts(self, items: Sequence[Item]) -> SessionFacts:
        """Collect the facts of these items, as a compaction would record them."""
        return collect_facts(items)

    def edits_in_force(self, turn: HistoryRequest) -> tuple[Edit, ...]:
        batch_ids = {id for earlier in self.turns[: turn.number] for id in earlier.planned} - turn.undone
        return tuple(edit for batch in self.state.batches if batch.id in batch_ids for edit in batch.edits)

    def turn(self, number: int) -> HistoryRequest:
        if not 1 <= number <= len(self.turns):
            raise BadRequest(f"{self.name} has {pluralize(len(self.turns), 'request')}; there is no number {number}")
        return self.turns[number - 1]


def build_history(records: Sequence[Record], *, session: str, name: str = "", stored: bool = True) -> History:
    """Build a session's history from its records. Messages are read only when needed."""
    return History(session=session, name=name or session, stored=stored).extend(upgrade_log(records))


class RequestWalk:
    """Visits the requests of a session in order, and continues from there when the session has grown."""

    def __init__(self) -> None:
        self._request_reader: _RequestReader | None = None
        self._view, self._view_basis = View.of(()), (frozenset[str](), "")
        self._turns = self._batches = 0

    def visit_new(self, history: History) -> Iterator[tuple[HistoryRequest, Request, View]]:
        """Yield the requests not visited yet. Each view extends the one before it."""
        messages, state = history.messages, history.state
        self._request_reader = _extend_reader(self._request_reader, messages, state)
        for turn in history.turns[self._turns :]:
            request, last_basis = self._request_reader(turn), self._view_basis
            self._view_basis = turn.undone, turn.wire
            batches = state.batches[self._batches : self._batches + len(turn.planned)]
            if self._view_basis != last_basis:
                self._view = View.of(request.items, history.edits_in_force(turn))
            else:
                edits = [edit for batch in batches if batch.id not in turn.undone for edit in batch.edits]
                # An edit without a binding has no effect.
                bound_edits = [edit for edit in edits if edit.binding is not None]
                view = self._view.extend_from(request.unchanged_items, request.items)
                self._view = view.apply(bound_edits) if bound_edits else view
            self._turns, self._batches = turn.number, self._batches + len(batches)
            yield turn, request, self._view


def _read_turns(history: History, records: Sequence[Record]) -> tuple[tuple[HistoryRequest, ...], SessionState, int]:
    """Return every request, the state after all records, and how many batches were planned for these requests."""
    turns, state, placed_batches, unread = list(history.turns), history.state, history._placed_batches, list[Record]()
    for record in records:
        unread.append(record)
        if record.get("kind") == "usage":
            _add_usage(turns, record)
        if record.get("type") != "ebb" or record.get("kind") != "turn":
            continue
        state, unread = apply_records(state, unread), []
        planned, placed_batches = state.batches[placed_batches:], len(state.batches)
        sent = state.sent[-1]
        request = HistoryRequest(
            number=state.turns,
            at=sent.at,
            model=sent.model,
            wire=wire if (wire := str(record.get("wire"))) in WIRES else DEFAULT_WIRE,
            path=state.messages,
            planned=tuple(batch.id for batch in planned),
            undone=frozenset(state.undone),
            marked=bool(sent.breakpoints),
            ttl=sent.ttl,
            overhead=_overhead(record),
            max_output=int_in(record, "max_output"),
            usage=None,
            sent=sent,
        )
        turns.append(request)
    return tuple(turns), apply_records(state, unread), placed_batches


def _add_usage(turns: list[HistoryRequest], record: Record) -> None:
    """Add the billed usage to its request, which comes earlier in the log."""
    number, usage = record.get("turn"), usage_from_record(record)
    if isinstance(number, int) and 0 < number <= len(turns):
        turn = turns[number - 1]
        turns[number - 1] = replace(turn, usage=usage, sent=turn.sent._replace(usage=usage))


def _build_steps(
    turns: Sequence[HistoryRequest], state: SessionState, branch_of: Callable[[HistoryRequest], Branch]
) -> Iterator[Step]:
    by_id = {batch.id: batch for batch in state.batches}
    for turn in turns:
        for batch in (by_id[id] for id in turn.planned):
            yield Step(batch=batch, turn=turn, undone=batch.id in state.undone, branch_of=branch_of)


class _Branches:
    """Reads the branches of a session when needed. Only a few are cached, because steps are read in order."""

    def __init__(self, turns: Sequence[HistoryRequest], read_request: Callable[[HistoryRequest], Request]) -> None:
        self._read_request = read_request
        self._longest: dict[int, HistoryRequest] = {}
        """By request number: the newest request that continues it."""
        self._cache: dict[int, Branch] = {}
        for turn in reversed(turns):
            later = self._longest.get(turn.number + 1)
            is_continued = later is not None and later.wire == turn.wire and _is_prefix(turn.path, later.path)
            self._longest[turn.number] = later if later is not None and is_continued else turn

    def __call__(self, turn: HistoryRequest) -> Branch:
        longest = self._longest[turn.number]
        # The inspector calls this from several threads, so the cache is replaced, never changed in place.
        branch = self._cache.get(longest.number)
        if branch is None:
            branch = Branch(items=self._read_request(longest).items)
            self._cache = {**dict(list(self._cache.items())[1 - _MAX_CACHED_BRANCHES :]), longest.number: branch}
        return branch


_MAX_CACHED_BRANCHES = 4
"""The main branch, and those a person compares it with."""


def _is_prefix(path: Sequence[str], longer: Sequence[str]) -> bool:
    return len(path) <= len(longer) and (not path or path[-1] == longer[len(path) - 1])


class _RequestReader:
    """Reads requests of a session from its messages. What a request shares with the last one is not read twice."""

    def __init__(self, messages: Mapping[str, object], state: SessionState) -> None:
        self._messages, self._state, self._estimator = messages, state, _estimator_of(state)
        self._readers: dict[str, tuple[Reader, EchoedEdits]] = {}
        self._last: tuple[Sequence[str], list[object]] = (), []
        # Steps are read on demand, and the inspector reads them from several threads.
        self._lock = Lock()

    def extend(self, messages: Mapping[str, object], state: SessionState) -> _RequestReader:
        """Return this reader with more messages, or a new one if items are now counted or pinned differently."""
        with self._lock:
            old_edits = self._state.edits
            if state.restored_ids != self._state.restored_ids or _estimator_of(state) is not self._estimator:
                return _RequestReader(messages, state)
            self._messages, self._state = messages, state
            new_edits = state.edits[len(old_edits) :] if state.edits[: len(old_edits)] == old_edits else state.edits
            for wire, (_, echoes) in self._readers.items():
                echoes.learn(WIRES[wire], new_edits)
            return self

    def __call__(self, turn: HistoryRequest) -> Request:
        return self.read(turn.path, turn.wire, turn.model)

    def read(self, path: Sequence[str], wire: str, model: str) -> Request:
        wire_format = WIRES[wire]
        with self._lock:
            messages = self._messages_of(path)
            if wire not in self._readers:
                echoes = EchoedEdits().learn(wire_format, self._state.edits)
                reader = Reader(
                    self._estimator, wire=wire_format, echoes=echoes.by_fingerprint, pinned=self._state.restored_ids
                )
                self._readers[wire] = reader, echoes
            return self._readers[wire][0].read({"model": model, wire_format.list_key: messages})

    def _messages_of(self, path: Sequence[str]) -> list[object]:
        """Return the messages of a request. What it shares with the last one is reused."""
        last_path, last_messages = self._last
        # If a message is missing, the lists do not match index by index.
        common = common_prefix_length(last_path, path) if len(last_messages) == len(last_path) else 0
        messages = last_messages[:common] + [self._messages[uuid] for uuid in path[common:] if uuid in self._messages]
        self._last = path, messages
        return messages


def _extend_reader(
    reader: _RequestReader | None, messages: Mapping[str, object], state: SessionState
) -> _RequestReader:
    return _RequestReader(messages, state) if reader is None else reader.extend(messages, state)


def _path_with_reply(path: Sequence[str], records: Sequence[Record]) -> list[str]:
    """Return the messages of a request and, if these records have it, the reply."""
    extended = list(path)
    for record in records:
        if extended and record.get("uuid") and record.get("parentUuid") == extended[-1]:
            extended.append(str(record["uuid"]))
    return extended


def _estimator_of(state: SessionState) -> Estimator:
    """Return the estimator of the policy that planned last: the log has its numbers."""
    policy = PRESETS.get(str(state.batches[-1].record.get("policy")), default) if state.batches else default
    return policy.estimator


def _overhead(record: Record) -> tuple[int, int]:
    match list_in(record, "overhead"):
        case [int(system), int(tools)]:
            return system, tools
    return 0, 0
