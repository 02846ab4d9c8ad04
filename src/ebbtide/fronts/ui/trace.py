"""A session as columns, one value a call: what filled the window, what it cost, and where the cache broke.

Figures are what the provider billed where that is known, else estimates of ours, and each column set says which. Parts
are estimates in any case, scaled so that they add up to the figure above them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from ebbtide.audit.history import History, HistoryRequest, RequestWalk
from ebbtide.core.cache.diagnosis import CacheBreak, diagnose_cache
from ebbtide.core.cache.warmth import CachedPrefix, find_cached_prefix
from ebbtide.core.types import COMPACTION_PASSES, OURS, Item, Usage
from ebbtide.core.view import View
from ebbtide.wire.blocks import group_by_message, is_original

PARTS = (
    "system", "tools", "unrecorded", "user", "assistant", "tool calls", "tool results", "thinking", "images",
    "our stubs", "other",
)  # fmt: skip
"""In the order they are stacked: what comes first in a request is at the bottom."""
_KINDS = {
    "call": "tool calls",
    "result": "tool results",
    "thinking": "thinking",
    "image": "images",
    "document": "images",
}


class _Weighed(NamedTuple):
    """A request, and what is in it."""

    view: View
    sums: Mapping[str, int]
    whole: int
    unrecorded: int
    """Before it."""


@dataclass(slots=True)
class Trace:
    """Columns, all of one length."""

    at: list[float] = field(default_factory=list)
    model: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Of the request as it went out."""
    untouched: list[int] = field(default_factory=list)
    """Had nothing ever been taken out."""
    billed: list[bool] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    parts: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in PARTS})
    read: list[int | None] = field(default_factory=list)
    write: list[int | None] = field(default_factory=list)
    fresh: list[int | None] = field(default_factory=list)
    """Input at full price."""
    output: list[int | None] = field(default_factory=list)
    warm: list[int] = field(default_factory=list)
    """Tokens that should still have been in the cache."""
    breaks: list[dict[str, object]] = field(default_factory=list)
    diagnosis: str | None = None
    hit_rate: float | None = None
    """None where nothing was billed."""


_COLUMNS = (
    "at", "model", "tokens", "untouched", "billed", "items", "read", "write", "fresh", "output", "warm",
)  # fmt: skip


def part_of(view: View, entry: Item) -> str:
    # What a fold carries along is in its hands, and still the client's own.
    if entry.source == OURS or (entry.id in view.edit_by_entry and not is_original(entry)):
        return "our stubs"
    if entry.kind == "text":
        return entry.role if entry.role in ("user", "assistant", "system") else "other"
    return _KINDS.get(entry.kind, "other")


class Tracer:
    """Columns of a session that may grow. A call that is followed by another is looked at once."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._walk, self._weigher, self._made, self._unrecorded = RequestWalk(), _Weigher(), Trace(), 0
        self._bills: list[Usage | None] = []
        self._breaks, self._looked = list[CacheBreak](), 0
        self._last = _Weighed(view=View.of(()), sums={}, whole=0, unrecorded=0)

    def trace(self, history: History) -> Trace:
        """The columns up to now: the same object, grown."""
        bills = [turn.usage for turn in history.turns[: len(self._bills)]]
        if bills[:-1] != self._bills[:-1]:
            # An older call was billed late.
            self._begin()
        elif bills != self._bills:
            # The newest was: what went out is known.
            self._drop_last()
            self._add(history, history.turns[len(bills) - 1], self._last)
        for turn, _, view in self._walk.on(history):
            sums, whole = self._weigher.weigh(view)
            self._last = _Weighed(view=view, sums=dict(sums), whole=whole, unrecorded=self._unrecorded)
            self._add(history, turn, self._last)
        found = diagnose_cache([turn.sent for turn in history.turns], found=self._breaks, looked=self._looked)
        # The newest may still get its bill.
        self._looked = max(0, len(history.turns) - 1)
        self._breaks = [one for one in found.breaks if one.at < self._looked]
        self._made.breaks = [_break_told(one, history.turns) for one in found.breaks]
        self._made.diagnosis, self._made.hit_rate = found.diagnosis, found.hit_rate if found.calls else None
        return self._made

    def _drop_last(self) -> None:
        made = self._made
        self._bills.pop()
        for column in (*made.parts.values(), *(getattr(made, name) for name in _COLUMNS)):
            column.pop()

    def _add(self, history: History, turn: HistoryRequest, weighed: _Weighed) -> None:
        trace, (view, sums, whole, unrecorded) = self._made, weighed
        self._bills.append(turn.usage)
        bare = not sum(turn.overhead)
        estimate = sum(sums.values()) + sum(turn.overhead)
        if turn.usage and bare:
            # The file has neither system prompt nor tools: what was billed beyond the messages is them.
            unrecorded = max(0, turn.usage.prompt - estimate)
        self._unrecorded = unrecorded
        extra = unrecorded if bare else 0
        scale = turn.usage.prompt / estimate if turn.usage and not bare and estimate else 1.0
        parts = {**sums, "system": sums.get("system", 0) + turn.overhead[0], "tools": turn.overhead[1]}
        for name in PARTS:
            trace.parts[name].append(extra if name == "unrecorded" else round(parts.get(name, 0) * scale))
        trace.tokens.append(turn.usage.prompt if turn.usage else estimate + extra)
        trace.untouched.append(round((whole + sum(turn.overhead)) * scale) + extra)
        trace.items.append(len(view.entries))
        known = [one.sent for one in history.turns[max(0, turn.number - 129) : turn.number - 1]]
        now = turn.sent
        warm = find_cached_prefix(
            known, now=now.at, model=now.model, system=now.system, tools=now.tools, prefix=now.prefix
        )
        # Where the last request is whole in this one, its tokens are known: nothing has to be added up.
        grew = bool(known) and warm.messages >= len(known[-1].prefix)
        tokens = trace.tokens[-2] if grew else warm_tokens(warm, view, sum(turn.overhead) or extra)
        trace.warm.append(min(tokens, trace.tokens[-1]))
        _bill(trace, turn)


def warm_tokens(warm: CachedPrefix, view: View, overhead: int) -> int:
    """Of the messages that are warm. The request that left them there may go on otherwise, and count for more."""
    alike = islice(group_by_message(view.entries), warm.messages)
    return min(warm.tokens, overhead + sum(_sum(group) for _, group in alike)) if warm.messages else 0


class _Weigher:
    """Tokens by part. A view that grew from the last one is weighed by what is new in it."""

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._whole = 0
        self._view = View.of(())

    def weigh(self, view: View) -> tuple[Mapping[str, int], int]:
        before, kept = view.grown_from
        if before is self._view.entries and before:
            old, new = self._view.entries[kept:], view.entries[kept:]
            tail = len(self._view.entries) - kept
            self._whole += _sum(view.originals[len(self._view.originals) - tail :]) - _sum(old)
            self._add(self._view, old, -1)
        else:
            self._sums, new, known = {}, view.entries, len(self._view.originals)
            grown = 0 < known <= len(view.originals) and view.originals[known - 1] is self._view.originals[-1]
            self._whole = self._whole + _sum(view.originals[known:]) if grown else _sum(view.originals)
        self._add(view, new, 1)
        self._view = view
        return self._sums, self._whole

    def _add(self, view: View, entries: Iterable[Item], sign: int) -> None:
        for entry in entries:
            part = part_of(view, entry)
            self._sums[part] = self._sums.get(part, 0) + sign * entry.tokens


def _bill(trace: Trace, turn: HistoryRequest) -> None:
    usage = turn.usage
    trace.at.append(turn.at)
    trace.model.append(turn.model)
    trace.billed.append(usage is not None)
    trace.read.append(usage.cache_read if usage else None)
    trace.write.append(usage.cache_write if usage else None)
    trace.fresh.append(usage.input if usage else None)
    trace.output.append(usage.output if usage else None)


def _break_told(one: CacheBreak, turns: Sequence[HistoryRequest]) -> dict[str, object]:
    turn = turns[one.at]
    return {
        "call": turn.number,
        "lost": one.lost,
        "cause": one.cause,
        "detail": one.detail,
        # The commonest reason for a message to change is an edit of ours.
        "batch": next(iter(turn.planned), "") if one.cause == "message" else "",
    }


def batch_marks(history: History) -> list[dict[str, object]]:
    """Where the chart shows that something left."""
    return [
        {
            "id": step.batch.id,
            "call": step.turn.number,
            "fold": any(edit.by in COMPACTION_PASSES for edit in step.batch.edits),
            "edits": len(step.batch.edits),
            "saved": sum(edit.saved for edit in step.batch.edits),
            "undone": step.undone,
        }
        for step in history.steps
    ]


def _sum(items: Iterable[Item]) -> int:
    return sum(item.tokens for item in items)
