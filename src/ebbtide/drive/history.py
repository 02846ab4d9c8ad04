"""A session as its records tell it: each batch of edits with the request it was made for, and the conversation now.

Nothing is planned here and nothing written. A recorded file becomes a history by rehearsal, a stored one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

from ebbtide.core.counted import counted
from ebbtide.core.errors import BadRequest
from ebbtide.core.journal import Batch, State, fold, usage_out
from ebbtide.core.types import Edit, Item, Sent, Usage
from ebbtide.core.view import View
from ebbtide.ledger import Ledger, ledger_of
from ebbtide.policy import PRESETS, default
from ebbtide.store import Record, thread
from ebbtide.wire import WIRES
from ebbtide.wire.reading import Reader, Request
from ebbtide.wire.stand_ins import StandIns


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request that went out."""

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
    sent: Sent
    """The same as the cache sees it, usage included."""


@dataclass(frozen=True, kw_only=True)
class Strand:
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
        found: dict[str, list[Item]] = {}
        for item in self.items:
            if item.kind == "call":
                found.setdefault(item.call_id, []).append(item)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of edits, and the conversation around it."""

    batch: Batch
    turn: Turn
    undone: bool
    """Left out again, as things stand."""
    strand_of: Callable[[Turn], Strand] = field(repr=False, compare=False)

    @property
    def _strand(self) -> Strand:
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
        told = self.batch.record.get("situation")
        return told if isinstance(told, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    session: str
    name: str
    """What commands call it: the id, or the file."""
    stored: bool
    state: State
    turns: tuple[Turn, ...]
    steps: tuple[Step, ...]
    messages: Mapping[str, object] = field(repr=False)
    """By uuid."""
    newest: tuple[str, ...]
    """Uuids of the conversation as it stands, the last reply included."""
    records: Sequence[Record] = field(default=(), repr=False)
    """All that the log holds."""
    refusals: tuple[str, ...] = ()
    """Requests of a rehearsal that did not fit."""

    @property
    def wire(self) -> str:
        return self.turns[-1].wire if self.turns else "anthropic"

    def window(self, number: int) -> int | None:
        """What this request was held against. Of a log that does not say, what the newest plan up to it went by; None
        where nothing was planned either."""
        if 0 < number <= len(self.turns) and (told := self.turns[number - 1].sent.window):
            return told
        planned = {id for turn in self.turns[:number] for id in turn.planned}
        windows = [batch.record.get("window") for batch in self.state.batches if batch.id in planned]
        return windows[-1] if windows and isinstance(windows[-1], int) else None

    def now(self) -> tuple[Request, View]:
        """The conversation as the model would see it next."""
        model = self.turns[-1].model if self.turns else ""
        request = _Rereader(self.messages, self.state).read(self.newest, self.wire, model)
        return request, View.of(request.items, self.state.edits)

    def sent(self, number: int) -> tuple[Request, View]:
        """The request of one turn, with the edits that were in force then."""
        turn = self.turn(number)
        request = _Rereader(self.messages, self.state)(turn)
        return request, View.of(request.items, self._in_force(turn))

    def walk(self) -> Iterator[tuple[Turn, Request, View]]:
        """Every request in order. A view grows from the one before it: all of them cost little more than the last."""
        reader, view, force = _Rereader(self.messages, self.state), View.of(()), (frozenset[str](), "")
        for turn in self.turns:
            request, before, force = reader(turn), force, (turn.undone, turn.wire)
            if turn.planned or force != before:
                view = View.of(request.items, self._in_force(turn))
            else:
                view = view.regrow(request.same, request.items)
            yield turn, request, view

    def ledger(self, items: Sequence[Item]) -> Ledger:
        """The facts of these items, as a fold would record them."""
        return ledger_of(items)

    def _in_force(self, turn: Turn) -> tuple[Edit, ...]:
        made = {id for one in self.turns[: turn.number] for id in one.planned} - turn.undone
        return tuple(edit for batch in self.state.batches if batch.id in made for edit in batch.edits)

    def turn(self, number: int) -> Turn:
        if not 1 <= number <= len(self.turns):
            raise BadRequest(f"{self.name} has {counted(len(self.turns), 'request')}; there is no number {number}")
        return self.turns[number - 1]


def history_of(records: Sequence[Record], *, session: str, name: str = "", stored: bool = True) -> History:
    """Fold the records; messages are read where somebody looks at them."""
    messages = {str(one["uuid"]): one.get("wire") or one.get("message") for one in records if one.get("uuid")}
    turns, state = _turns(records)
    return History(
        session=session,
        name=name or session,
        stored=stored,
        state=state,
        turns=turns,
        steps=tuple(_steps(turns, state, _Strands(turns, _Rereader(messages, state)))),
        messages=messages,
        newest=_newest(records, turns),
        records=records,
    )


def _turns(records: Sequence[Record]) -> tuple[tuple[Turn, ...], State]:
    """Every request, and what all records come to."""
    turns, state, known, unread = list[Turn](), State(), 0, list[Record]()
    bills = {record.get("turn"): usage_out(record) for record in records if record.get("kind") == "usage"}
    for record in records:
        unread.append(record)
        if record.get("type") != "ebb" or record.get("kind") != "turn":
            continue
        state, unread = fold(state, unread), []
        planned, known = state.batches[known:], len(state.batches)
        sent = state.sent[-1]
        made = Turn(
            number=state.turns,
            at=sent.at,
            model=sent.model,
            wire=_known(str(record.get("wire"))),
            path=state.messages,
            planned=tuple(batch.id for batch in planned),
            undone=frozenset(state.undone),
            marked=bool(sent.marks),
            ttl=sent.ttl,
            overhead=_pair(record.get("overhead")),
            max_output=_whole(record.get("max_output")),
            usage=bills.get(state.turns),
            sent=sent._replace(usage=bills.get(state.turns)),
        )
        turns.append(made)
    return tuple(turns), fold(state, unread)


def _steps(turns: Sequence[Turn], state: State, strand_of: Callable[[Turn], Strand]) -> Iterator[Step]:
    by_id = {batch.id: batch for batch in state.batches}
    for turn in turns:
        for batch in (by_id[id] for id in turn.planned):
            yield Step(batch=batch, turn=turn, undone=batch.id in state.undone, strand_of=strand_of)


class _Strands:
    """Strands of one session, read where somebody asks. Few are kept: who looks at steps looks at them in order."""

    def __init__(self, turns: Sequence[Turn], reread: Callable[[Turn], Request]) -> None:
        self._reread = reread
        self._longest: dict[int, Turn] = {}
        """By number of a turn: the newest one that goes on from it."""
        self._read: dict[int, Strand] = {}
        for turn in reversed(turns):
            later = self._longest.get(turn.number + 1)
            on = later is not None and later.wire == turn.wire and _begins(turn.path, later.path)
            self._longest[turn.number] = later if later is not None and on else turn

    def __call__(self, turn: Turn) -> Strand:
        longest = self._longest[turn.number]
        # The inspector asks from several threads: what another let go is read again, and nothing is changed in place.
        found = self._read.get(longest.number)
        if found is None:
            found = Strand(items=self._reread(longest).items)
            self._read = {**dict(list(self._read.items())[1 - _STRANDS :]), longest.number: found}
        return found


_STRANDS = 4
"""Strands kept: the main one, and what a person compares it with."""


def _begins(path: Sequence[str], longer: Sequence[str]) -> bool:
    return len(path) <= len(longer) and (not path or path[-1] == longer[len(path) - 1])


class _Rereader:
    """Reads requests of one session again; what the last one had already is not read twice."""

    def __init__(self, messages: Mapping[str, object], state: State) -> None:
        # The counting of the policy that planned last: its figures are the ones in the log.
        policy = PRESETS.get(str(state.batches[-1].record.get("policy")), default) if state.batches else default
        self._messages, self._state, self._estimator = messages, state, policy.estimator
        self._readers: dict[str, Reader] = {}
        # Steps are looked at when somebody asks, and the inspector asks from several threads.
        self._lock = Lock()

    def __call__(self, turn: Turn) -> Request:
        return self.read(turn.path, turn.wire, turn.model)

    def read(self, path: Sequence[str], wire: str, model: str) -> Request:
        shape = WIRES[wire]
        said = [self._messages[one] for one in path if one in self._messages]
        with self._lock:
            if wire not in self._readers:
                ours = StandIns().learn(shape, self._state.edits).marks
                self._readers[wire] = Reader(self._estimator, wire=shape, ours=ours, pinned=self._state.spared)
            return self._readers[wire].read({"model": model, shape.key: said})


def _newest(records: Sequence[Record], turns: Sequence[Turn]) -> tuple[str, ...]:
    """The last request's messages and the reply to it; in another program's file the newest thread."""
    if not turns:
        return tuple(str(record["uuid"]) for record in thread(records))
    path = list(turns[-1].path)
    for record in records:
        if path and record.get("uuid") and record.get("parentUuid") == path[-1]:
            path.append(str(record["uuid"]))
    return tuple(path)


def _known(wire: str) -> str:
    return wire if wire in WIRES else "anthropic"


def _pair(value: object) -> tuple[int, int]:
    pair = value if isinstance(value, list) and len(value) == 2 else (0, 0)
    return _whole(pair[0]), _whole(pair[1])


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
