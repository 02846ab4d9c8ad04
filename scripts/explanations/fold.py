"""A compaction of the example, before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from scripts.drawing import WIDTH, drawing, lines, rect, shape, text, tokens
from scripts.explanations.example import LARGE, calls, items_of

import ebbtide
from ebbtide.core.types import OURS, Item
from ebbtide.core.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    at: int
    """After how many calls."""
    covered: Mapping[str, int]
    """Tokens of the run by kind, before."""
    put: Mapping[str, int]
    """What replaces it."""
    tail: int
    """Unchanged."""
    headings: list[str]
    """Of the report."""


KINDS = {"user": "your messages", "assistant": "the model's text", "call": "calls", "result": "results"}


@cache
def fold(at: int = 50) -> Fold:
    """The example after some calls, compacted by hand and without a model."""
    context = ebbtide.Context(window=LARGE)
    for call in calls()[:at]:
        context.prepare(call.request)
    made = context.compact(apply=False)
    items = items_of(calls()[at - 1].request)
    before, after = View.of(items, context.edits()), View.of(items, [*context.edits(), *made.edits])
    (edit,) = [one for one in made.edits if one.by == "summarize"]
    stop = next(n for n, entry in enumerate(before.entries) if entry.id == edit.last) + 1
    gone, newest = before.entries[:stop], {entry.id for entry in before.entries[stop:]}
    standing = [entry for entry in after.entries if entry.id not in newest]
    report = next(entry for entry in standing if entry.source == OURS)
    return Fold(
        at=at,
        covered={kind: sum(one.tokens for one in gone if _kind(one) == kind) for kind in KINDS},
        put={
            "report": report.tokens,
            "user": sum(one.tokens for one in standing if one.role == "user" and one.source != OURS),
        },
        tail=sum(one.tokens for one in after.entries if one.id in newest),
        headings=re.findall(r"^([A-Z][^:\n]{3,40}):$", report.text, re.MULTILINE),
    )


def _kind(item: Item) -> str:
    return item.kind if item.kind in ("call", "result") else item.role


def drawn_fold() -> str:
    told = fold()
    left, wide, high = 24, WIDTH - 48, 46
    before = sum(told.covered.values()) + told.tail
    after = sum(told.put.values()) + told.tail
    scale = wide / before
    top, low = 84, 214
    parts = [
        text(left, 32, "A compaction, before and after", size=16, more="bold"),
        text(left, top - 12, f"before: {tokens(before)} tokens", more="bold"),
    ]
    colours = {"user": "user", "assistant": "assistant", "call": "call", "result": "water"}
    x = left
    for kind, count in told.covered.items():
        parts.append(_segment(x, top, count * scale, high, colours[kind], KINDS[kind], count))
        x += count * scale
    run_end = x
    parts.append(_segment(x, top, told.tail * scale, high, "leaf", "the newest", told.tail))
    user_from, user_to = left, left + told.covered["user"] * scale
    report = told.put["report"] * scale
    words = told.put["user"] * scale
    parts += [
        _flow(user_to, run_end, left, left + report, top + high, low, "faint"),
        _flow(user_from, user_to, left + report, left + report + words, top + high, low, "user"),
        _flow(
            run_end, run_end + told.tail * scale, left + report + words, left + after * scale, top + high, low, "leaf"
        ),
        _segment(left, low, report, high, "ours", "report", told.put["report"]),
        _segment(left + report, low, words, high, "user", KINDS["user"], told.put["user"]),
        _segment(left + report + words, low, told.tail * scale, high, "leaf", "the newest", told.tail),
        text(left + after * scale + 16, low + 20, f"after: {tokens(after)} tokens", more="bold"),
        text(left + after * scale + 16, low + 38, "no model was asked", "soft", size=12),
    ]
    notes = low + high + 32
    parts += [
        text(left, notes, "The report", "ours", more="bold"),
        lines(left, notes + 19, ["facts, collected without a model: " + " · ".join(told.headings[:5]).lower()]),
        text(left, notes + 48, "Your messages", "user", more="bold"),
        lines(left, notes + 67, ["word for word, while they fit half the window"]),
        text(left + 430, notes + 48, "The newest turns", "green", more="bold"),
        lines(left + 430, notes + 67, ["unchanged. The rest is in the log: recall finds it"]),
    ]
    note = f"The example after {told.at} calls. In the request the parts are mixed; here they are sorted."
    parts.append(text(left, notes + 98, note, "soft", size=11.5))
    return drawing(parts, height=notes + 116, title=f"A compaction reduces {tokens(before)} tokens to {tokens(after)}")


def _segment(x: float, y: float, wide: float, high: float, colour: str, name: str, count: int) -> str:
    ink = "paper" if colour in ("ours", "user") else "ink"
    label = ""
    if wide > 62:
        label = text(x + 9, y + 20, name, ink, size=12, more="bold") + text(x + 9, y + 36, tokens(count), ink, size=12)
    return rect(x, y, max(wide - 2, 1), high, colour, round=4) + label


def _flow(a: float, b: float, c: float, d: float, top: float, low: float, colour: str) -> str:
    """From a-b above to c-d below."""
    mid = (top + low) / 2
    down = f"M{a:.1f} {top}C{a:.1f} {mid} {c:.1f} {mid} {c:.1f} {low}"
    back = f"L{d - 2:.1f} {low}C{d - 2:.1f} {mid} {b - 2:.1f} {mid} {b - 2:.1f} {top}Z"
    return shape(down + back, colour, opacity=0.32)
