"""What the provider's cache sees of the example's requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from scripts.drawing import WIDTH, drawing, lines, rect, shape, text, tokens
from scripts.explanations.example import SMALL, calls, items_of

import ebbtide
from ebbtide.core.types import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    call: int
    tokens: int
    shared: int
    """Tokens of the prefix that it shares with the previous request."""
    edits: int
    marks: list[int]
    """Tokens before each cache breakpoint."""


@cache
def sent() -> tuple[Sent, ...]:
    """The example's requests as they were sent, at the recorded times."""
    now = [0.0]
    context = ebbtide.Context(window=SMALL, clock=lambda: now[0])
    found, before = [], list[str]()
    for number, call in enumerate(calls(), 1):
        now[0] = call.at or 0.0
        ready = context.prepare(call.request)
        items = items_of(ready.body)
        same = next(
            (n for n, (a, b) in enumerate(zip(before, items, strict=False)) if a != b.id), min(len(before), len(items))
        )
        found.append(
            Sent(
                call=number,
                tokens=_sum(items),
                shared=_sum(items[:same]),
                edits=len(ready.report.edits),
                marks=sorted(
                    _sum(one for one in items if one.message <= _message(mark)) for mark in ready.report.marks
                ),
            )
        )
        before = [item.id for item in items]
    return tuple(found)


def _sum(items: Iterable[Item]) -> int:
    return sum(item.tokens for item in items)


def _message(mark: str) -> int:
    return int(mark.split(".")[1])


def drawn_cache() -> str:
    told = sent()
    first = next(n for n, one in enumerate(told) if one.edits > 1)
    rows = told[first - 3 : first + 6]
    left, top, step, high = 96, 92, 34, 18
    scale = (WIDTH - left - 150) / max(one.tokens for one in rows)
    parts = [
        text(24, 32, "What the provider’s cache sees", size=16, more="bold"),
        rect(24, 48, 14, 12, "water", round=3),
        text(44, 58, "same as the previous request: read at a tenth of the price", "soft", size=12),
        rect(424, 48, 14, 12, "ours", round=3),
        text(444, 58, "new or changed: written", "soft", size=12),
        shape("M608 50h10l-5 9z", "amber"),
        text(624, 58, "a cache breakpoint", "soft", size=12),
    ]
    for n, one in enumerate(rows):
        y = top + n * step
        read, wrote = one.shared * scale, (one.tokens - one.shared) * scale
        parts += [
            text(left - 12, y + 14, f"call {one.call}", "soft", size=12, at="end"),
            rect(left, y, one.tokens * scale, high, "water", round=4),
            rect(left + read, y, max(wrote, 2), high, "ours", round=min(4, wrote / 2)),
            *(shape(f"M{left + mark * scale - 4:.1f} {y - 7}h8l-4 7z", "amber") for mark in one.marks),
            text(left + one.tokens * scale + 12, y + 14, f"{tokens(one.tokens - one.shared)} written", "ours", size=12),
        ]
        if one.edits:
            told_by = f"{one.edits} edit" + "s" * (one.edits > 1)
            parts.append(text(left + one.tokens * scale + 112, y + 14, told_by, "limit", size=12, more="bold"))
    quiet = [one for before, one in pairwise(told) if one.shared == before.tokens]
    batches = [one for one in told if one.edits]
    read = sum(one.shared for one in told) / sum(one.tokens for one in told)
    y = top + len(rows) * step + 14
    notes = [
        f"The example in a window of {SMALL // 1000}k: {len(batches)} of its {len(told)} requests have new edits, "
        f"{len(quiet)} extend the previous one byte for byte.",
        f"{100 * read:.0f} % of all tokens sent repeat the beginning of the previous request.",
    ]
    parts.append(lines(24, y, notes))
    return drawing(parts, height=y + 38, title="Between two batches of edits each request extends the previous one")
