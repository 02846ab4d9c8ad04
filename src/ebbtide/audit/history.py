"""A session as its records tell it: each batch of edits with the request it was made for, and the conversation now.

Nothing is planned here and nothing written. A recorded file becomes a history by rehearsal, a stored one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

from ebbtide.core.cache.prefix_hashes import common_prefix_length
from ebbtide.core.errors import BadRequest
from ebbtide.core.record_fields import float_in, int_in
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.types import Edit, Item, SentRequest, Usage
from ebbtide.core.view import View
from ebbtide.facts import SessionFacts, collect_facts
from ebbtide.policy import PRESETS, default
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import Batch, SessionState, apply_records, usage_from_record
from ebbtide.store import Record, messages_on_branch
from ebbtide.wire import WIRES
from ebbtide.wire.echoes import EchoedEdits
from ebbtide.wire.reader import Reader, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """One request that was sent."""

    number: int
    """Counted from 1."""
    at: float
    model: str
    wire: str
    path: Sequence[str]
    """Uuids of its messages; each says all before it."""
    planned: tuple[str, ...]
    """Batches that were made for it."""
    undone: frozenset[str]
    """Batches that were not in force."""
    marked: bool
    """Whether it carried cache breakpoints."""
    ttl: float
    overhead: tuple[int, int]
    """Tokens of system prompt and tools."""
    max_output: int
    usage: Usage | None
    """What was billed, where the reply was recorded."""
    sent: SentRequest
    """The same as the cache sees it, usage included."""


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A conversation at its longest: the request of every turn on the way to it is its beginning.

    Read once and looked up by name. All of a long session's items, for each of its batches, would be millions.
    """

    items: tuple[Item, ...]

    def place(self, id: str, end: int) -> int | None:
        """Of an item, if it is in the first `end` messages."""
        place = self._places.get(id)
        return place if place is not None and self.items[place].message < end else None

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {item.id: place for place, item in enumerate(self.items)}

    @cached_property
    def calls(self) -> Mapping[str, Sequence[Item]]:
        """By their ids, in order: a client may use one twice."""
        calls_by_id: dict[str, list[Item]] = {}
        for item in self.items:
            if item.kind == "call":
                calls_by_id.setdefault(item.call_id, []).append(item)
        return calls_by_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of edits, and the conversation around it."""

    batch: Batch
    turn: HistoryRequest
    undone: bool
    """Left out again, as things stand."""
    strand_of: Callable[[HistoryRequest], Branch] = field(repr=False, compare=False)

    @property
    def _strand(self) -> Branch:
        return self.strand_of(self.turn)

    def covered(self, edit: Edit) -> Sequence[Item]:
        """The originals that the edit took out; empty for an insertion."""
        strand, end = self._strand, len(self.turn.path)
        first, last = strand.place(edit.first, end), strand.place(edit.last, end)
        return () if first is None or last is None else strand.items[first : last + 1]

    def original(self, item: Item) -> Item:
        """What an edit put there as it was before; the item itself where it is none of the originals."""
        place = self._strand.place(item.id, len(self.turn.path)) if item.id else None
        return item if place is None else self._strand.items[place]

    def call_of(self, result: Item) -> Item | None:
        """The newest one that it may be of."""
        calls, end = self._strand.calls.get(result.call_id, ()), len(self.turn.path)
        return next((call for call in reversed(calls) if call.message < end), None)

    def situation(self) -> Mapping[str, object]:
        plan_input = self.batch.record.get("situation")
        return plan_input if isinstance(plan_input, Mapping) else {}


@dataclass(frozen=True, kw_only=True)
class History:
    session: str
    name: str
    """What commands call it: the id, or the file."""
    stored: bool
    state: SessionState = field(default_factory=SessionState)
    turns: tuple[HistoryRequest, ...] = ()
    messages: Mapping[str, object] = field(default_factory=dict, repr=False)
    """By uuid."""
    newest: tuple[str, ...] = ()
    """Uuids of the conversation as it stands, the last reply included."""
    records: Sequence[Record] = field(default=(), repr=False)
    """All that the log holds."""
    refusals: tuple[str, ...] = ()
    """Requests of a rehearsal that did not fit."""
    _placed: int = 0
    """Batches that were made for one of the turns; what a person asked for since is made for the next."""
    _reread: _RequestReader | None = field(default=None, repr=False, compare=False)
    """Handed on when the session grows: what it read is not read again."""

    def extend(self, records: Sequence[Record]) -> History:
        """The same session, after what was appended to its log. Costs what is new."""
        new_messages = {
            str(record["uuid"]): record.get("wire") or record.get("message") for record in records if record.get("uuid")
        }
        messages = {**self.messages, **new_messages}
        turns, state, placed = _turns(self, records)
        all_records = [*self.records, *records]
        branches = len(turns) > len(self.turns) and not (turns[-1].path and turns[-1].path[-1] in new_messages)
        path = turns[-1].path if len(turns) > len(self.turns) else self.newest
        newest = (
            _path_with_reply(path, all_records if branches else records)
            if turns
            else [str(record["uuid"]) for record in messages_on_branch(all_records)]
        )
        reread = _RequestReader(messages, state) if self._reread is None else self._reread.extend(messages, state)
        return replace(
            self,
            state=state,
            turns=turns,
            messages=messages,
            newest=tuple(newest),
            records=all_records,
            _placed=placed,
            _reread=reread,
        )

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        assert self._reread is not None, "a history has grown from its records"
        return tuple(_steps(self.turns, self.state, _Branches(self.turns, self._reread)))

    @property
    def wire(self) -> str:
        return self.turns[-1].wire if self.turns else "anthropic"

    def window(self, number: int) -> int | None:
        """What this request was held against. Of a log that does not say, what the newest plan up to it went by; None
        where nothing was planned either."""
        if 0 < number <= len(self.turns) and (window := self.turns[number - 1].sent.window):
            return window
        planned = {id for turn in self.turns[:number] for id in turn.planned}
        windows = [batch.record.get("window") for batch in self.state.batches if batch.id in planned]
        return windows[-1] if windows and isinstance(windows[-1], int) else None

    def learned_window(self, model: str) -> tuple[int, float] | None:
        """The window that a refusal taught, and when; None where nothing was learned, or it was taken back."""
        window = self.state.limits.get(model)
        for record in reversed(self.records) if window else ():
            if record.get("kind") == "limit" and record.get("model") == model and record.get("window") == window:
                return int_in(record, "window"), float_in(record, "at")
        return None

    def now(self) -> tuple[Request, View]:
        """The conversation as the model would see it next."""
        model = self.turns[-1].model if self.turns else ""
        request = _RequestReader(self.messages, self.state).read(self.newest, self.wire, model)
        return request, View.of(request.items, self.state.edits)

    def sent(self, number: int) -> tuple[Request, View]:
        """The request of one turn, with the edits that were in force then."""
        turn = self.turn(number)
        request = _RequestReader(self.messages, self.state)(turn)
        return request, View.of(request.items, self.in_force(turn))

    def view(self, number: int) -> View:
        """What the model saw in a turn; 0 for the conversation as it stands. What was read before is not read again."""
        assert self._reread is not None, "a history has grown from its records"
        if number:
            turn = self.turn(number)
            return View.of(self._reread(turn).items, self.in_force(turn))
        model = self.turns[-1].model if self.turns else ""
        return View.of(self._reread.read(self.newest, self.wire, model).items, self.state.edits)

    def walk(self) -> Iterator[tuple[HistoryRequest, Request, View]]:
        """Every request in order. A view grows from the one before it: all of them cost little more than the last."""
        return RequestWalk().on(self)

    def ledger(self, items: Sequence[Item]) -> SessionFacts:
        """The facts of these items, as a fold would record them."""
        return collect_facts(items)

    def in_force(self, turn: HistoryRequest) -> tuple[Edit, ...]:
        batch_ids = {id for earlier in self.turns[: turn.number] for id in earlier.planned} - turn.undone
        return tuple(edit for batch in self.state.batches if batch.id in batch_ids for edit in batch.edits)

    def turn(self, number: int) -> HistoryRequest:
        if not 1 <= number <= len(self.turns):
            raise BadRequest(f"{self.name} has {pluralize(len(self.turns), 'request')}; there is no number {number}")
        return self.turns[number - 1]


def build_history(records: Sequence[Record], *, session: str, name: str = "", stored: bool = True) -> History:
    """Build a history from records. Messages are read when they are needed."""
    return History(session=session, name=name or session, stored=stored).extend(upgrade_log(records))


class RequestWalk:
    """Through the requests of a session, in order, and on from there when it has grown."""

    def __init__(self) -> None:
        self._reread: _RequestReader | None = None
        self._view, self._force = View.of(()), (frozenset[str](), "")
        self._turns = self._batches = 0

    def on(self, history: History) -> Iterator[tuple[HistoryRequest, Request, View]]:
        """Those that it has not been at. A view grows from the one before it."""
        messages, state = history.messages, history.state
        self._reread = _RequestReader(messages, state) if self._reread is None else self._reread.extend(messages, state)
        for turn in history.turns[self._turns :]:
            request, before, self._force = self._reread(turn), self._force, (turn.undone, turn.wire)
            batches = state.batches[self._batches : self._batches + len(turn.planned)]
            if self._force != before:
                self._view = View.of(request.items, history.in_force(turn))
            else:
                recorded = [edit for batch in batches if batch.id not in turn.undone for edit in batch.edits]
                edits = [edit for edit in recorded if edit.binding is not None]  # others hold nowhere
                grown = self._view.extend_from(request.unchanged_items, request.items)
                self._view = grown.apply(edits) if edits else grown
            self._turns, self._batches = turn.number, self._batches + len(batches)
            yield turn, request, self._view


def _turns(history: History, records: Sequence[Record]) -> tuple[tuple[HistoryRequest, ...], SessionState, int]:
    """Every request, what all records come to, and how many batches were made for these requests."""
    turns, state, placed, unread = list(history.turns), history.state, history._placed, list[Record]()
    for record in records:
        unread.append(record)
        if record.get("kind") == "usage":
            _add_usage(turns, record)
        if record.get("type") != "ebb" or record.get("kind") != "turn":
            continue
        state, unread = apply_records(state, unread), []
        planned, placed = state.batches[placed:], len(state.batches)
        sent = state.sent[-1]
        request = HistoryRequest(
            number=state.turns,
            at=sent.at,
            model=sent.model,
            wire=_known_wire(str(record.get("wire"))),
            path=state.messages,
            planned=tuple(batch.id for batch in planned),
            undone=frozenset(state.undone),
            marked=bool(sent.breakpoints),
            ttl=sent.ttl,
            overhead=_pair(record.get("overhead")),
            max_output=_int_or_zero(record.get("max_output")),
            usage=None,
            sent=sent,
        )
        turns.append(request)
    return tuple(turns), apply_records(state, unread), placed


def _add_usage(turns: list[HistoryRequest], record: Record) -> None:
    """What a request was billed comes after it."""
    number, usage = record.get("turn"), usage_from_record(record)
    if isinstance(number, int) and 0 < number <= len(turns):
        turn = turns[number - 1]
        turns[number - 1] = replace(turn, usage=usage, sent=turn.sent._replace(usage=usage))


def _steps(
    turns: Sequence[HistoryRequest], state: SessionState, strand_of: Callable[[HistoryRequest], Branch]
) -> Iterator[Step]:
    by_id = {batch.id: batch for batch in state.batches}
    for turn in turns:
        for batch in (by_id[id] for id in turn.planned):
            yield Step(batch=batch, turn=turn, undone=batch.id in state.undone, strand_of=strand_of)


class _Branches:
    """Strands of one session, read when they are needed. Few are kept: steps are usually looked at in order."""

    def __init__(self, turns: Sequence[HistoryRequest], reread: Callable[[HistoryRequest], Request]) -> None:
        self._reread = reread
        self._longest: dict[int, HistoryRequest] = {}
        """By number of a turn: the newest one that goes on from it."""
        self._read: dict[int, Branch] = {}
        for turn in reversed(turns):
            later = self._longest.get(turn.number + 1)
            on = later is not None and later.wire == turn.wire and _is_prefix(turn.path, later.path)
            self._longest[turn.number] = later if later is not None and on else turn

    def __call__(self, turn: HistoryRequest) -> Branch:
        longest = self._longest[turn.number]
        # The inspector asks from several threads: what another let go is read again, and nothing is changed in place.
        branch = self._read.get(longest.number)
        if branch is None:
            branch = Branch(items=self._reread(longest).items)
            self._read = {**dict(list(self._read.items())[1 - _STRANDS :]), longest.number: branch}
        return branch


_STRANDS = 4
"""Strands kept: the main one, and what a person compares it with."""


def _is_prefix(path: Sequence[str], longer: Sequence[str]) -> bool:
    return len(path) <= len(longer) and (not path or path[-1] == longer[len(path) - 1])


class _RequestReader:
    """Reads requests of one session again; what the last one had already is not read twice."""

    def __init__(self, messages: Mapping[str, object], state: SessionState) -> None:
        self._messages, self._state, self._estimator = messages, state, _estimator_of(state)
        self._readers: dict[str, tuple[Reader, EchoedEdits]] = {}
        self._last: tuple[Sequence[str], list[object]] = (), []
        # Steps are read when they are needed, and the inspector reads from several threads.
        self._lock = Lock()

    def extend(self, messages: Mapping[str, object], state: SessionState) -> _RequestReader:
        """The same, where the session has grown; another one where its items are counted or pinned otherwise."""
        with self._lock:
            before = self._state.edits
            if state.restored_ids != self._state.restored_ids or _estimator_of(state) is not self._estimator:
                return _RequestReader(messages, state)
            self._messages, self._state = messages, state
            new_edits = state.edits[len(before) :] if state.edits[: len(before)] == before else state.edits
            for wire, (_, echoes) in self._readers.items():
                echoes.learn(WIRES[wire], new_edits)
            return self

    def __call__(self, turn: HistoryRequest) -> Request:
        return self.read(turn.path, turn.wire, turn.model)

    def read(self, path: Sequence[str], wire: str, model: str) -> Request:
        wire_format = WIRES[wire]
        with self._lock:
            messages = self._said(path)
            if wire not in self._readers:
                echoes = EchoedEdits().learn(wire_format, self._state.edits)
                reader = Reader(
                    self._estimator, wire=wire_format, echoes=echoes.by_fingerprint, pinned=self._state.restored_ids
                )
                self._readers[wire] = reader, echoes
            return self._readers[wire][0].read({"model": model, wire_format.list_key: messages})

    def _said(self, path: Sequence[str]) -> list[object]:
        """The messages of a request. What it shares with the last one is not looked up again."""
        last_path, last_messages = self._last
        # Where one is missing, places are not those of the path.
        same = common_prefix_length(last_path, path) if len(last_messages) == len(last_path) else 0
        messages = last_messages[:same] + [self._messages[uuid] for uuid in path[same:] if uuid in self._messages]
        self._last = path, messages
        return messages


def _path_with_reply(path: Sequence[str], records: Sequence[Record]) -> list[str]:
    """The messages of a request, and the reply to it where these records have one."""
    uuids = list(path)
    for record in records:
        if uuids and record.get("uuid") and record.get("parentUuid") == uuids[-1]:
            uuids.append(str(record["uuid"]))
    return uuids


def _estimator_of(state: SessionState) -> Estimator:
    """That of the policy that planned last: its figures are the ones in the log."""
    policy = PRESETS.get(str(state.batches[-1].record.get("policy")), default) if state.batches else default
    return policy.estimator


def _known_wire(wire: str) -> str:
    return wire if wire in WIRES else "anthropic"


def _pair(value: object) -> tuple[int, int]:
    pair = value if isinstance(value, list) and len(value) == 2 else (0, 0)
    return _int_or_zero(pair[0]), _int_or_zero(pair[1])


def _int_or_zero(value: object) -> int:
    return value if isinstance(value, int) else 0
