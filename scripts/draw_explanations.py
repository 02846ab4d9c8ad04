"""Draws the pictures of the explanations: `python -m scripts.draw_explanations`. Figures come from the code and from
playing the example; what is only a scheme says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from scripts.drawing import WIDTH, arrow, drawing, lines, path, rect, shape, text, tokens

import ebbtide
from ebbtide.core.types import OURS, Item
from ebbtide.core.view import View
from ebbtide.example import path as example
from ebbtide.formats import Call
from ebbtide.wire.reading import Reader

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SMALL, LARGE = 100_000, 200_000
"""Windows: one in which the example has to be edited, one in which a fold has to be asked for."""


@cache
def calls() -> tuple[Call, ...]:
    return tuple(ebbtide.load(example()).requests())


def items_of(body: object) -> tuple[Item, ...]:
    return Reader(estimator=ebbtide.preset("default").estimator).read(body).items  # type: ignore[arg-type]


# --- the life of a tool result ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    command: str
    tokens: int
    lines: int
    name: str
    stub: list[str]
    stub_tokens: int
    requests: int
    """That carried the stub, the first one counted."""
    query: str
    found: str
    place: int
    """Line in the original."""


@cache
def life() -> Life:
    """Of the largest result in the example."""
    context = ebbtide.Context(window=SMALL)
    carried, taken = 0, None
    for call in calls():
        ready = context.prepare(call.request)
        taken = taken or next(
            ((edit, call, ready) for edit in ready.report.edits if edit.by == "offload_results"), None
        )
        carried += taken is not None and taken[0].put[0].text in str(ready.body["messages"]).replace("\\n", "\n")
    assert taken is not None
    edit, call, ready = taken
    asked, answer = call.request["messages"][-2]["content"][-1], call.request["messages"][-1]["content"][0]
    stub = ready.body["messages"][-1]["content"][0]["content"].splitlines()
    query = "2026-02-26T12:00"
    hit = context.recall(query)[0]
    return Life(
        command=asked["input"]["command"],
        tokens=edit.put[0].tokens + edit.saved,
        lines=len(answer["content"].splitlines()),
        name=f"{answer['tool_use_id']}.txt",
        stub=stub,
        stub_tokens=edit.put[0].tokens,
        requests=carried,
        query=query,
        found=context.read(hit.handle, hit.start).text.splitlines()[0],
        place=hit.line or 0,
    )


def drawn_life() -> str:
    told = life()
    left, top, wide, gap = 24, 58, 184, 25.3
    places = [left + n * (wide + gap) for n in range(4)]
    parts = [text(left, 32, "The life of a tool result", size=16, more="bold")]
    heads = ("1  It arrives", "2  It goes to disk", "3  A stub stands for it", "4  It comes back")
    for x, head in zip(places, heads, strict=True):
        parts += [rect(x, top, wide, 268, "panel s-edge", round=8), text(x + 14, top + 26, head, more="bold")]
    parts += [arrow(x + wide + 4, top + 134, x + wide + gap - 4, top + 134, "ours") for x in places[:3]]
    first, second, third, fourth = (x + 14 for x in places)
    parts += [
        text(first, top + 52, told.command, "soft", size=12, more="mono"),
        *(rect(first, top + 66 + 6 * n, 60 + (n * 37) % 92, 3, "raw", round=1.5) for n in range(22)),
        text(first, top + 222, f"{tokens(told.tokens)} tokens", "ink", size=15, more="bold"),
        lines(first, top + 242, [f"{told.lines:,} lines"]),
        _sheet(second, top + 46, 92, 116),
        lines(second, top + 188, [told.name], "ink", more="mono", size=11),
        lines(
            second,
            top + 210,
            ["whole, and synced, before", "the edit is recorded: no stub", "names a file that is not there"],
            size=11.5,
        ),
        rect(third - 4, top + 44, wide - 20, 116, "tint s-ours", round=5),
        lines(third + 2, top + 61, _short(told.stub, 24), "ink", step=13, size=9.2, more="mono"),
        text(third, top + 188, f"{told.stub_tokens:,} tokens", "ours", size=15, more="bold"),
        lines(
            third,
            top + 210,
            ["what it was, how it begins", "and ends, and where it is:", "the same bytes every time"],
            size=11.5,
        ),
        rect(fourth - 4, top + 44, wide - 20, 44, "leaf", round=5),
        text(fourth + 2, top + 61, f"recall {told.query}", size=10.5, more="bold"),
        text(fourth + 2, top + 78, f"→ line {told.place} of {told.lines:,}", size=10.5),
        rect(fourth - 4, top + 96, wide - 20, 44, "leaf", round=5),
        text(fourth + 2, top + 113, "read", size=10.5, more="bold"),
        text(fourth + 2, top + 130, told.found[:24] + "…", size=9.2, more="mono"),
        rect(fourth - 4, top + 148, wide - 20, 28, "leaf", round=5),
        text(fourth + 2, top + 166, "undo", size=10.5, more="bold"),
        lines(
            fourth,
            top + 210,
            ["found by what it said, read", "exactly as it was, whenever", "you or the model want it"],
            size=11.5,
        ),
    ]
    spared = told.requests * (told.tokens - told.stub_tokens)
    parts.append(
        text(
            left,
            top + 296,
            f"{told.requests} requests of the example carried the stub. The whole would have been "
            f"{spared / 1e6:.1f} million tokens more.",
            "soft",
        )
    )
    return drawing(
        parts, height=top + 316, title="A tool result arrives, goes to disk, and comes back when it is wanted"
    )


def _sheet(x: float, y: float, wide: float, high: float) -> str:
    fold = 20
    outline = f"M{x} {y}h{wide - fold}l{fold} {fold}v{high - fold}h{-wide}z"
    rows = [rect(x + 12, y + 30 + 9 * n, 40 + (n * 29) % 30, 3, "raw", round=1.5) for n in range(9)]
    corner = path(f"M{x + wide - fold} {y}v{fold}h{fold}", "ours")
    return shape(outline, "paper") + path(outline, "ours") + corner + "".join(rows)


def _short(rows: list[str], most: int) -> list[str]:
    picked = [*rows[:4], next(row for row in rows if row.startswith("[...")), *rows[-2:]]
    head = picked[0].replace("[ebb: ", "[").split("; ")
    picked = [head[0] + ";", head[-1], *picked[1:]]
    return [row if len(row) <= most + 1 else row[:most] + "…" for row in picked]


# --- a fold -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    at: int
    """After how many calls."""
    covered: Mapping[str, int]
    """Tokens of the run by kind, before."""
    put: Mapping[str, int]
    """What stands for it."""
    tail: int
    """Stays, as it was."""
    headings: list[str]
    """Of the report."""


KINDS = {"user": "your words", "assistant": "the model's words", "call": "calls", "result": "results"}


@cache
def fold(at: int = 50) -> Fold:
    """The example after some calls, had somebody said `/compact` then. No model is asked."""
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
        text(left, 32, "A fold, before and after", size=16, more="bold"),
        text(left, top - 12, f"before: {tokens(before)} tokens", more="bold"),
    ]
    colours = {"user": "user", "assistant": "water", "call": "sand", "result": "faint"}
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
        lines(left, notes + 19, ["facts kept by machine: " + " · ".join(told.headings[:6]).lower()]),
        text(left, notes + 48, "Your words", "user", more="bold"),
        lines(left, notes + 67, ["as you wrote them, in your own name, while they fit half the window"]),
        text(left + 430, notes + 48, "The newest turns", "green", more="bold"),
        lines(left + 430, notes + 67, ["untouched. The rest is in the log: one recall away"]),
    ]
    note = f"The example after {told.at} calls. In the request the parts lie mixed; here they are sorted."
    parts.append(text(left, notes + 98, note, "soft", size=11.5))
    return drawing(parts, height=notes + 116, title=f"A fold makes {tokens(after)} tokens of {tokens(before)}")


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


# --- the cached prefix ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    call: int
    tokens: int
    shared: int
    """Tokens of the beginning that it has in common with the request before."""
    edits: int
    marks: list[int]
    """Tokens before each mark."""


@cache
def sent() -> tuple[Sent, ...]:
    """The example's requests as they went out, on the clock of the recording."""
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
        text(44, 58, "begins like the request before: read, at a tenth of the price", "soft", size=12),
        rect(424, 48, 14, 12, "ours", round=3),
        text(444, 58, "new, or moved: written", "soft", size=12),
        shape("M608 50h10l-5 9z", "amber"),
        text(624, 58, "a mark: all before it is kept", "soft", size=12),
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
        f"The example in a window of {SMALL // 1000}k: {len(batches)} of its {len(told)} requests bring edits, "
        f"{len(quiet)} extend the one before, byte for byte.",
        f"{100 * read:.0f} % of all tokens sent were the beginning of the request before.",
    ]
    parts.append(lines(24, y, notes))
    return drawing(parts, height=y + 38, title="Between two batches of edits each request extends the last one")


# --- levels -----------------------------------------------------------------------------------------------------------


def drawn_levels() -> str:
    window, reply = LARGE, 8_000
    levels = ebbtide.preset("default").levels(window, reply)
    left, top, wide, high = 24, 66, 470, 250
    marked = [
        ("the window", window, "limit", "what the provider takes, reply included"),
        ("blocking", levels.blocking, "raw", "the window without the reply"),
        ("hard", levels.hard, "limit", "it must come down, whatever it costs"),
        ("auto", levels.auto, "ours", "high water: edits are made, in one batch"),
        ("soft", levels.soft, "soft", "may fold, if the cache is cold or an answer is there"),
        ("low", levels.low, "green", "low water: where a batch ends"),
    ]

    def y(count: float) -> float:
        return top + high - high * count / window

    parts = [
        text(left, 32, "The levels of the default", size=16, more="bold"),
        text(left + 236, 32, f"in a window of {window // 1000}k, with {reply // 1000}k for the reply", "soft", size=12),
        rect(left, top, wide, high, "panel", round=6),
        rect(left, y(levels.low), wide, high - (y(levels.low) - top), "tint", round=6),
    ]
    parts += [_tide(left, wide, y, levels.low, levels.auto)]
    heights = _apart([y(count) for _, count, _, _ in marked], 34)
    for (name, count, colour, why), at in zip(marked, heights, strict=True):
        dash = "" if name in ("the window", "auto", "low") else "3 4"
        parts += [
            path(f"M{left} {y(count):.1f}H{left + wide}", colour, width=1.4, dash=dash),
            path(f"M{left + wide} {y(count):.1f}L{left + wide + 18} {at:.1f}", colour, width=1),
            text(left + wide + 24, at + 1, f"{name}, {count:,}", colour, more="bold"),
            text(left + wide + 24, at + 15, why, "soft", size=11),
        ]
    base = top + high + 26
    parts.append(text(left, base, "a session’s requests, one after the other (a scheme)", "soft", size=11.5))
    others = [(size, ebbtide.preset("default").levels(size, kept)) for size, kept in OTHERS]
    parts.append(text(left, base + 30, "In other windows:", more="bold", size=12))
    for n, (size, found) in enumerate(others):
        row = f"{size // 1000:,}k: from {found.auto:,} down to {found.low:,}"
        parts.append(text(left + 138 + 222 * n, base + 30, row, size=12))
    return drawing(parts, height=base + 48, title="The levels of the default in a window of 200,000 tokens")


OTHERS = ((32_000, 4_000), (64_000, 8_000), (1_000_000, 32_000))
"""Windows, and what is set aside for the reply."""


def _apart(heights: list[float], least: float) -> list[float]:
    """The same heights from top to bottom, each at least so far below the one before."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + least) if placed else height)
    return placed


def _tide(left: float, wide: float, y: Callable[[float], float], low: float, auto: float) -> str:
    """Tokens rise to high water and fall to low water; a little more stays each time."""
    points, count, x = [f"M{left} {y(0):.1f}"], 0.04 * auto, left
    steps = 46
    for n in range(steps):
        x = left + wide * (n + 1) / steps
        points.append(f"L{x:.1f} {y(count):.1f}")
        count += auto * (0.05 + 0.035 * ((n * 7) % 5) / 4)
        if count > auto:
            points.append(f"L{x:.1f} {y(auto):.1f}L{x:.1f} {y(low):.1f}")
            count = low
    line = "".join(points)
    area = f"{line}L{left + wide:.1f} {y(0):.1f}Z"
    return shape(area, "water", opacity=0.55) + path(line, "ours", width=2.2)


# --- ways in ----------------------------------------------------------------------------------------------------------


def drawn_ways() -> str:
    left, wide = 24, WIDTH - 48
    box, gap = 125, (wide - 6 * 125) / 5
    ways = (
        ("Library", "context.prepare"),
        ("SDK", "ebbtide.wrap"),
        ("Proxy", "ebb proxy"),
        ("Run", "ebb run -- …"),
        ("Chat", "ebb chat"),
        ("MCP", "ebb mcp"),
    )
    parts = [text(left, 32, "Six ways in, one engine", size=16, more="bold")]
    for n, (name, how) in enumerate(ways):
        x = left + n * (box + gap)
        parts += [
            rect(x, 52, box, 52, "tint s-ours", round=7),
            text(x + box / 2, 74, name, at="middle", more="bold"),
            text(x + box / 2, 93, how, "soft", size=11, at="middle", more="mono"),
        ]
        if name != "MCP":
            parts.append(arrow(x + box / 2, 108, x + box / 2, 132, "ours"))
    engine, last = 5 * box + 4 * gap, left + 5 * (box + gap) + box / 2
    parts += [
        rect(left, 136, engine, 132, "panel s-edge", round=8),
        text(left + 16, 160, "Context", more="bold"),
        text(left + 84, 160, "one conversation: nothing is sent that it has not seen", "soft", size=12),
    ]
    steps = ("read", "replay", "gauge", "plan", "save", "write")
    each = (engine - 32 - 5 * 16) / 6
    for n, step in enumerate(steps):
        x = left + 16 + n * (each + 16)
        parts += [rect(x, 174, each, 34, "paper s-edge", round=6), text(x + each / 2, 196, step, at="middle", size=12)]
        if n:
            parts.append(arrow(x - 14, 191, x - 2, 191, "soft"))
    parts += [
        lines(
            left + 16,
            232,
            [
                "core, passes, policies: pure. They see a conversation and propose edits.",
                "Every edit is judged in one place, recorded, and replayed from then on.",
            ],
        ),
        arrow(left + engine / 4 - 8, 272, left + engine / 4 - 8, 300, "ours"),
        arrow(left + engine / 4 + 8, 300, left + engine / 4 + 8, 272, "ours"),
        arrow(left + 3 * engine / 4 - 8, 272, left + 3 * engine / 4 - 8, 300, "ours"),
        arrow(left + 3 * engine / 4 + 8, 300, left + 3 * engine / 4 + 8, 272, "ours"),
        rect(left, 304, engine / 2 - 8, 62, "leaf", round=7),
        text(left + 16, 328, "The provider", more="bold"),
        text(left + 16, 348, "a valid request that fits, and its answer", size=12),
        rect(left + engine / 2 + 8, 304, left + wide - (left + engine / 2 + 8), 62, "water", round=7),
        text(left + engine / 2 + 24, 328, "The store", more="bold"),
        text(
            left + engine / 2 + 24, 348, "the log with every message, what left as files, an index to find it", size=12
        ),
        arrow(last - 8, 108, last - 8, 300, "ours"),
        arrow(last + 8, 300, last + 8, 108, "ours"),
        lines(last - 54, 190, ["recall", "and", "read"], at="start", size=11.5),
    ]
    return drawing(parts, height=386, title="Six ways in lead to one engine, a provider and a store")


DRAWINGS: Mapping[str, Callable[[], str]] = {
    "life-of-a-result.svg": drawn_life,
    "fold.svg": drawn_fold,
    "cache.svg": drawn_cache,
    "levels.svg": drawn_levels,
    "ways-in.svg": drawn_ways,
}


def main() -> None:
    for name, drawn in DRAWINGS.items():
        (IMAGES / name).write_text(drawn(), encoding="utf-8")
        print(IMAGES / name)


if __name__ == "__main__":
    main()
