"""Where cache breakpoints go. None is placed that the provider would refuse or silently ignore.

The client's own breakpoints are counted first and never moved. A strategy chooses slots for more; the wire adds them to
a copy of the request, if the request carries an edit of ours or the caller asked for them. Breakpoints are in no prefix
hash, so placing them differently changes no prefix.

There is a slot for every block of the request, in wire order (tools, system, messages), so that the distance between
two slots in blocks is the difference of their indexes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol

from ebbtide.core.cache.prefix import min_prefix_tokens
from ebbtide.core.types import FIVE_MINUTES

Section = Literal["tools", "system", "messages"]

LIMIT = 4
"""Anthropic refuses a fifth (A45)."""

LOOK_BACK = 20
"""Blocks before a breakpoint in which the provider looks for what it kept (A51)."""

STRIDE = 15
"""Blocks from one breakpoint to the next. Less than the look-back: the next request may have to walk back further."""

MILESTONE = 2000
"""Tokens of a block worth a breakpoint: losing fewer is not even counted as a break (R223)."""

MISSED = 0.033
"""Share of recorded prompt tokens that were not read from the cache (hit rate 96.7 % over 15,806 calls)."""

NEARLY = 0.9
"""R219: of a TTL. If the next call comes later than this, the breakpoint would be paid for and not read."""


class BreakpointSlot(NamedTuple):
    """A block that could end a cached prefix. It is a tuple because several are built for every request."""

    section: Section
    index: int  # type: ignore[assignment]  # nobody asks such a tuple where a value is in it
    """Which tool, system block or message."""
    tokens_before: int
    """Of the whole request, up to and including this block."""
    block: int = 0
    """Which block of the message."""
    eligible: bool = True
    """False if the provider refuses a breakpoint: thinking, empty text, a nested part, a trailing system message."""
    has_breakpoint: bool = False
    """The client's own."""
    ttl: float = FIVE_MINUTES
    """Of the client's breakpoint, in seconds; of another slot, the one to ask for."""
    settled: bool = False
    """Where edits end: the next batch begins behind it, and what precedes it can then be read again."""
    stable: float = 1.0
    """Probability that this block is the same in the next request. 1.0 in the system prompt means static."""


class BreakpointStrategy(Protocol):
    """Chooses the slots to add. The client's and ours together are at most `limit`."""

    def __call__(
        self, slots: Sequence[BreakpointSlot], *, model: str, limit: int = LIMIT
    ) -> tuple[BreakpointSlot, ...]: ...


def choose_by_value(
    slots: Sequence[BreakpointSlot], *, model: str, warm: int = 0, idle: float = 0.0, limit: int = LIMIT
) -> tuple[BreakpointSlot, ...]:
    """The default (R218-R220): where edits end, ends of tools and system, the last milestone, before the newest one.

    The first of these is what the next batch of edits leaves as it is: kept alive by every request, it is read then,
    and only what follows is written.

    Each is worth the tokens it alone would save times the probability that they are asked for again. `warm` is how many
    leading messages the provider keeps: above all, their end stays within the look-back of some breakpoint, because a
    miss there costs the whole prefix. `idle` is how many seconds the next call is expected to take.
    """
    board = _Board(slots, model, limit, idle)
    survives = _survival(slots)
    tail = board.back(len(slots) - 1)
    wanted = {at for at in (*board.ends(), board.milestone(), tail) if at is not None and survives[at] > 0}
    reader = _reader(board, warm, tail if tail in wanted else None)
    board.take([] if reader is None else [reader])
    board.take(at for at in range(len(slots)) if slots[at].settled)
    board.take(_by_value(wanted, board, survives))
    return board.place_slots()


def first2_last2(slots: Sequence[BreakpointSlot], *, model: str, limit: int = LIMIT) -> tuple[BreakpointSlot, ...]:
    """OpenCode (R221): the first two system blocks and the last two messages, whatever they hold."""
    board = _Board(slots, model, limit)
    system = range(board.system, min(board.system + 2, board.messages))
    # Where the client left fewer than four, the longest prefix and then the steadiest one.
    board.take(at for at in (board.last(1), *reversed(system), board.last(2)) if at is not None)
    return board.place_slots()


def static_plus_last(slots: Sequence[BreakpointSlot], *, model: str, limit: int = LIMIT) -> tuple[BreakpointSlot, ...]:
    """mini-claude and Claude Code: the end of the newest message, of the static system prompt, and of the tools."""
    board = _Board(slots, model, limit)
    dynamic = (at for at in range(board.system, board.messages) if slots[at].stable < 1)
    static = next(dynamic, board.messages) - 1
    board.take(at for at in (board.last(1), static, board.system - 1) if at is not None and at >= 0)
    return board.place_slots()


class _Board:
    """The breakpoints while they are chosen. Which slots may have one is decided here and nowhere else."""

    def __init__(self, slots: Sequence[BreakpointSlot], model: str, limit: int, idle: float = 0.0) -> None:
        self.slots = slots
        self.theirs = [at for at, slot in enumerate(slots) if slot.has_breakpoint]
        self.chosen = list(self.theirs)
        self.room = min(limit, LIMIT) - len(self.theirs)
        self.floor = min_prefix_tokens(model)
        self.idle = idle
        self.system = bisect_left(slots, 1, key=_rank)
        self.messages = bisect_left(slots, 2, key=_rank)

    def back(self, at: int) -> int | None:
        """The nearest slot at or before this one that has a breakpoint or may have one."""
        while at >= 0 and self.slots[at].tokens_before >= self.floor:
            if self.slots[at].has_breakpoint or self._may(at):
                return at
            at -= 1
        return None

    def last(self, nth: int) -> int | None:
        """The end of the nth newest message."""
        end = len(self.slots)
        for _ in range(nth - 1):
            end = self._start(end)
        return end - 1 if end > self.messages else None

    def ends(self) -> Iterator[int | None]:
        """Of the tools, of the system prompt, and of all before the newest message (R218)."""
        yield self.back(self.system - 1)
        yield self.back(self.messages - 1)
        before = self.last(2)
        yield None if before is None else self.back(before)

    def end_of(self, messages: int) -> int | None:
        """Where the first `messages` messages end."""
        end = bisect_right(self.slots, messages - 1, lo=self.messages, key=lambda slot: slot.index)
        return self.back(end - 1) if messages > 0 else None

    def milestone(self) -> int | None:
        """The newest large block before the last two messages: read once, referred to, unlikely to change."""
        end = self._start(self._start(len(self.slots)))
        candidates = (
            at
            for at in range(end - 1, self.messages, -1)
            if self.slots[at].tokens_before - self.slots[at - 1].tokens_before >= MILESTONE
        )
        newest = next(candidates, None)
        return None if newest is None else self.back(newest)

    def take(self, wanted: Iterable[int]) -> None:
        for at in wanted:
            slot = self.back(at)
            if self.room > 0 and slot is not None and slot not in self.chosen:
                insort(self.chosen, slot)
                self.room -= 1

    def place_slots(self) -> tuple[BreakpointSlot, ...]:
        """Ours, with the intermediate ones, in wire order, each with the TTL that its neighbours allow (A48)."""
        self._step()
        slots: list[BreakpointSlot] = []
        for at in self.chosen:
            if at in self.theirs:
                continue
            shortest, longest = self._ttls(at)
            longest = min([longest, *(slot.ttl for slot in slots)])
            slots.append(self.slots[at]._replace(ttl=max(shortest, min(self.slots[at].ttl, longest))))
        return tuple(slots)

    def _step(self) -> None:
        """While there is room: no two in the messages further apart than a stride, from the newest back."""
        upper = self.chosen[-1] if self.chosen else -1
        while self.room > 0:
            below = bisect_left(self.chosen, upper) - 1
            lower = self.chosen[below] if below >= 0 else -1
            at = self.back(upper - STRIDE) if upper - lower > STRIDE else lower
            if at is None or at < self.messages:
                return
            self.take([at])
            upper = at

    def _may(self, at: int) -> bool:
        slot = self.slots[at]
        shortest, longest = self._ttls(at)
        return slot.eligible and shortest <= longest and self.idle < NEARLY * slot.ttl

    def _ttls(self, at: int) -> tuple[float, float]:
        """Least and most that a breakpoint here may ask for beside the client's: TTLs never rise along the request."""
        if not self.theirs:
            return 0.0, float("inf")
        after = [self.slots[other].ttl for other in self.theirs if other > at]
        before = [self.slots[other].ttl for other in self.theirs if other < at]
        return max(after, default=0.0), min(before, default=float("inf"))

    def _start(self, end: int) -> int:
        """Where the message that ends before `end` begins."""
        if end <= self.messages:
            return self.messages
        index = self.slots[end - 1].index
        return bisect_left(self.slots, index, lo=self.messages, hi=end, key=lambda slot: slot.index)


def _rank(slot: BreakpointSlot) -> int:
    return ("tools", "system", "messages").index(slot.section)


def _survival(slots: Sequence[BreakpointSlot]) -> list[float]:
    """By slot: that all up to it is asked for again. A break falls on any token alike, on top of what is known."""
    total = max(1, slots[-1].tokens_before) if slots else 1
    stability = accumulate((slot.stable for slot in slots), min)
    return [stable * (1 - MISSED * slot.tokens_before / total) for stable, slot in zip(stability, slots, strict=True)]


def _reader(board: _Board, warm: int, tail: int | None) -> int | None:
    """The breakpoint from which the provider finds what the last request cached; None if a client's does."""
    cached_end = board.end_of(warm)
    if cached_end is None or any(cached_end <= at <= cached_end + STRIDE for at in board.theirs):
        return None
    return tail if tail is not None and tail - cached_end <= STRIDE else cached_end


def _by_value(wanted: set[int], board: _Board, survives: Sequence[float]) -> Iterator[int]:
    """Best first, each valued beside those already placed.

    Prefixes are nested: a breakpoint is read when it survives and the next longer one does not, and then saves what
    lies between it and the next shorter one.
    """

    def value(at: int) -> float:
        next_ = bisect_left(board.chosen, at)
        shorter = board.slots[board.chosen[next_ - 1]].tokens_before if next_ else 0
        longer = survives[board.chosen[next_]] if next_ < len(board.chosen) else 0.0
        return (board.slots[at].tokens_before - shorter) * (survives[at] - longer)

    candidates = wanted.difference(board.chosen)
    while candidates:
        best = max(candidates, key=lambda at: (value(at), at))
        if value(best) <= 0:
            return
        candidates.discard(best)
        yield best
