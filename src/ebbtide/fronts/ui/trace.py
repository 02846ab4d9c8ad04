"""A session as columns with one value for each request: what filled the window, its usage, and cache breaks.

Token counts are the provider's where it billed the request, else our estimates; `billed` says which. Parts are always
estimates, scaled so that they add up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from ebbtide import window_usage
from ebbtide.accounting.savings import CallSavings
from ebbtide.audit.history import History, HistoryRequest, RequestWalk
from ebbtide.core.cache.diagnosis import CacheBreak, diagnose_cache
from ebbtide.core.cache.prefix import CachedPrefix, find_cached_prefix
from ebbtide.core.types import COMPACTION_PASSES, OURS, Item, Usage
from ebbtide.core.view import View
from ebbtide.wire.blocks import group_by_message, is_original

PARTS = (
    "system", "tools", "unrecorded", "user", "assistant", "tool calls", "tool results", "thinking", "images",
    "our stubs", "other",
)  # fmt: skip
"""In the order in which the chart stacks them, from the bottom."""


class _RequestSize(NamedTuple):
    """A request, and the tokens of its parts."""

    view: View
    sums: Mapping[str, int]
    untouched: int
    unrecorded: int
    """Of the request before it."""


@dataclass(slots=True)
class Trace:
    """Columns of the same length. Each is a field, although there are 15, because the page reads them by name."""

    at: list[float] = field(default_factory=list)
    model: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Of the request as it was sent."""
    untouched: list[int] = field(default_factory=list)
    """Of the request without any edit."""
    billed: list[bool] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    parts: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in PARTS})
    read: list[int | None] = field(default_factory=list)
    write: list[int | None] = field(default_factory=list)
    fresh: list[int | None] = field(default_factory=list)
    """Input at full price."""
    output: list[int | None] = field(default_factory=list)
    warm: list[int] = field(default_factory=list)
    """Tokens that should have been in the cache."""
    breaks: list[dict[str, object]] = field(default_factory=list)
    diagnosis: str | None = None
    hit_rate: float | None = None
    """None if nothing was billed."""


_COLUMNS = (
    "at", "model", "tokens", "untouched", "billed", "items", "read", "write", "fresh", "output", "warm",
)  # fmt: skip


def part_name(view: View, entry: Item) -> str:
    # An original that a compaction kept belongs to its edit, but is not our text.
    if entry.source == OURS or (entry.id in view.edit_by_entry and not is_original(entry)):
        return "our stubs"
    return window_usage.part_name(entry)


class Tracer:
    """Builds the columns of a session that may grow. Each request but the newest is processed once."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._walk, self._counter, self._trace, self._unrecorded = RequestWalk(), _TokenCounter(), Trace(), 0
        self._bills: list[Usage | None] = []
        self._breaks, self._checked = list[CacheBreak](), 0
        self._last = _RequestSize(view=View.of(()), sums={}, untouched=0, unrecorded=0)

    def trace(self, history: History) -> Trace:
        """Return the columns: the same object each time, extended."""
        bills = [turn.usage for turn in history.turns[: len(self._bills)]]
        if bills[:-1] != self._bills[:-1]:
            # Usage of an older request arrived late: start again.
            self._reset()
        elif bills != self._bills:
            # Usage of the newest request arrived.
            self._drop_last()
            self._add(history, history.turns[len(bills) - 1], self._last)
        for turn, _, view in self._walk.visit_new(history):
            sums, whole = self._counter.count(view)
            self._last = _RequestSize(view=view, sums=dict(sums), untouched=whole, unrecorded=self._unrecorded)
            self._add(history, turn, self._last)
        health = diagnose_cache([turn.sent for turn in history.turns], found=self._breaks, looked=self._checked)
        # Usage of the newest request may still arrive.
        self._checked = max(0, len(history.turns) - 1)
        self._breaks = [entry for entry in health.breaks if entry.at < self._checked]
        self._trace.breaks = [_break_json(entry, history.turns) for entry in health.breaks]
        self._trace.diagnosis, self._trace.hit_rate = health.diagnosis, health.hit_rate if health.calls else None
        return self._trace

    def _drop_last(self) -> None:
        trace = self._trace
        self._bills.pop()
        for column in (*trace.parts.values(), *(getattr(trace, name) for name in _COLUMNS)):
            column.pop()

    def _add(self, history: History, turn: HistoryRequest, size: _RequestSize) -> None:
        trace, (view, sums, untouched, unrecorded) = self._trace, size
        self._bills.append(turn.usage)
        lacks_overhead = not sum(turn.overhead)
        estimate = sum(sums.values()) + sum(turn.overhead)
        if turn.usage and lacks_overhead:
            # The file has neither system prompt nor tools: they are what was billed beyond the messages.
            unrecorded = max(0, turn.usage.prompt - estimate)
        self._unrecorded = unrecorded
        extra = unrecorded if lacks_overhead else 0
        scale = turn.usage.prompt / estimate if turn.usage and not lacks_overhead and estimate else 1.0
        parts = {**sums, "system": sums.get("system", 0) + turn.overhead[0], "tools": turn.overhead[1]}
        for name in PARTS:
            trace.parts[name].append(extra if name == "unrecorded" else round(parts.get(name, 0) * scale))
        trace.tokens.append(turn.usage.prompt if turn.usage else estimate + extra)
        trace.untouched.append(round((untouched + sum(turn.overhead)) * scale) + extra)
        trace.items.append(len(view.entries))
        earlier = [turn.sent for turn in history.turns[max(0, turn.number - 129) : turn.number - 1]]
        sent = turn.sent
        prefix = find_cached_prefix(
            earlier, now=sent.at, model=sent.model, system=sent.system, tools=sent.tools, prefix=sent.prefix
        )
        # If this request starts with all of the last one, the cached tokens are those of the last one.
        has_grown = bool(earlier) and prefix.messages >= len(earlier[-1].prefix)
        tokens = trace.tokens[-2] if has_grown else cached_tokens(prefix, view, sum(turn.overhead) or extra)
        trace.warm.append(min(tokens, trace.tokens[-1]))
        _add_bill(trace, turn)


def scale_to_bills(trace: Trace, lines: Sequence[CallSavings]) -> Trace:
    """The sizes that the session's bill counts with, as every other command shows them; parts scaled to match."""
    if len(lines) != len(trace.tokens):
        return trace
    scales = [line.tokens / tokens if tokens else 1.0 for line, tokens in zip(lines, trace.tokens, strict=True)]
    return replace(
        trace,
        tokens=[line.tokens for line in lines],
        untouched=[line.untouched_tokens for line in lines],
        parts={
            name: [round(tokens * scale) for tokens, scale in zip(column, scales, strict=True)]
            for name, column in trace.parts.items()
        },
    )


def cached_tokens(prefix: CachedPrefix, view: View, overhead: int) -> int:
    """Count the tokens of the cached messages. The request that cached them may have been longer."""
    groups = islice(group_by_message(view.entries), prefix.messages)
    return min(prefix.tokens, overhead + sum(_sum(group) for _, group in groups)) if prefix.messages else 0


class _TokenCounter:
    """Counts tokens by part. For a view that extends the last one, only the new entries are counted."""

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._untouched = 0
        self._view = View.of(())

    def count(self, view: View) -> tuple[Mapping[str, int], int]:
        previous, same = view.grown_from
        if previous is self._view.entries and previous:
            old, new = self._view.entries[same:], view.entries[same:]
            tail = len(self._view.entries) - same
            self._untouched += _sum(view.originals[len(self._view.originals) - tail :]) - _sum(old)
            self._add(self._view, old, -1)
        else:
            self._sums, new, count = {}, view.entries, len(self._view.originals)
            has_grown = 0 < count <= len(view.originals) and view.originals[count - 1] is self._view.originals[-1]
            self._untouched = self._untouched + _sum(view.originals[count:]) if has_grown else _sum(view.originals)
        self._add(view, new, 1)
        self._view = view
        return self._sums, self._untouched

    def _add(self, view: View, entries: Iterable[Item], sign: int) -> None:
        for entry in entries:
            part = part_name(view, entry)
            self._sums[part] = self._sums.get(part, 0) + sign * entry.tokens


def _add_bill(trace: Trace, turn: HistoryRequest) -> None:
    usage = turn.usage
    trace.at.append(turn.at)
    trace.model.append(turn.model)
    trace.billed.append(usage is not None)
    trace.read.append(usage.cache_read if usage else None)
    trace.write.append(usage.cache_write if usage else None)
    trace.fresh.append(usage.input if usage else None)
    trace.output.append(usage.output if usage else None)


def _break_json(cache_break: CacheBreak, turns: Sequence[HistoryRequest]) -> dict[str, object]:
    turn = turns[cache_break.at]
    return {
        "call": turn.number,
        "lost": cache_break.lost,
        "cause": cache_break.cause,
        "detail": cache_break.detail,
        # A message usually changes because of one of our edits.
        "batch": next(iter(turn.planned), "") if cache_break.cause == "message" else "",
    }


def list_batch_marks(history: History) -> list[dict[str, object]]:
    """Return the batches, for the marks in the chart."""
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
