"""The life of a tool result: the largest one of the example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from scripts.drawing import arrow, drawing, lines, path, rect, shape, text, tokens
from scripts.explanations.example import SMALL, calls

import ebbtide


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    command: str
    tokens: int
    lines: int
    name: str
    stub: list[str]
    stub_tokens: int
    requests: int
    """That contained the stub, with the first one."""
    query: str
    found: str
    place: int
    """Line in the original."""


@cache
def life() -> Life:
    context = ebbtide.Context(window=SMALL)
    carried, taken = 0, None
    for call in calls():
        ready = context.prepare(call.request)
        taken = taken or next(
            ((edit, call, ready) for edit in ready.report.edits if edit.by == "offload_results"), None
        )
        carried += taken is not None and taken[0].replacement[0].text in str(ready.body["messages"]).replace(
            "\\n", "\n"
        )
    assert taken is not None
    edit, call, ready = taken
    asked, answer = call.request["messages"][-2]["content"][-1], call.request["messages"][-1]["content"][0]
    stub = ready.body["messages"][-1]["content"][0]["content"].splitlines()
    query = "2026-02-26T12:00"
    hit = context.recall(query)[0]
    return Life(
        command=asked["input"]["command"],
        tokens=edit.replacement[0].tokens + edit.saved,
        lines=len(answer["content"].splitlines()),
        name=f"{answer['tool_use_id']}.txt",
        stub=stub,
        stub_tokens=edit.replacement[0].tokens,
        requests=carried,
        query=query,
        found=context.read(hit.handle, hit.start).text.splitlines()[0],
        place=hit.line or 0,
    )


LEFT, TOP, WIDE, GAP = 24, 58, 184, 25.3
"""Of the four panels."""


def drawn_life() -> str:
    told = life()
    places = [LEFT + n * (WIDE + GAP) for n in range(4)]
    heads = ("1  It arrives", "2  It goes to disk", "3  A stub replaces it", "4  It comes back")
    parts = [text(LEFT, 32, "The life of a tool result", size=16, more="bold")]
    for x, head in zip(places, heads, strict=True):
        parts += [rect(x, TOP, WIDE, 268, "panel s-edge", round=8), text(x + 14, TOP + 26, head, more="bold")]
    parts += [arrow(x + WIDE + 4, TOP + 134, x + WIDE + GAP - 4, TOP + 134, "ours") for x in places[:3]]
    for x, panel in zip(places, (_arrives, _on_disk, _stub, _back), strict=True):
        parts += panel(x + 14, told)
    spared = told.requests * (told.tokens - told.stub_tokens)
    note = (
        f"{told.requests} requests of the example contained the stub. The full result would have added "
        f"{spared / 1e6:.1f} million tokens."
    )
    parts.append(text(LEFT, TOP + 296, note, "soft"))
    return drawing(
        parts, height=TOP + 316, title="A tool result arrives, goes to disk, and comes back when you need it"
    )


def _arrives(x: float, told: Life) -> Iterator[str]:
    yield text(x, TOP + 52, told.command, "soft", size=12, more="mono")
    for n in range(22):
        yield rect(x, TOP + 66 + 6 * n, 60 + (n * 37) % 92, 3, "raw", round=1.5)
    yield text(x, TOP + 222, f"{tokens(told.tokens)} tokens", "ink", size=15, more="bold")
    yield lines(x, TOP + 242, [f"{told.lines:,} lines"])


def _on_disk(x: float, told: Life) -> Iterator[str]:
    yield _sheet(x, TOP + 46, 92, 116)
    yield lines(x, TOP + 188, [told.name], "ink", more="mono", size=11)
    said = ["complete and synced before", "the edit is recorded: no stub", "names a missing file"]
    yield lines(x, TOP + 210, said, size=11.5)


def _stub(x: float, told: Life) -> Iterator[str]:
    yield rect(x - 4, TOP + 44, WIDE - 20, 116, "tint s-ours", round=5)
    yield lines(x + 2, TOP + 61, _short(told.stub, 24), "ink", step=13, size=9.2, more="mono")
    yield text(x, TOP + 188, f"{told.stub_tokens:,} tokens", "ours", size=15, more="bold")
    said = ["what it was, how it begins", "and ends, and where it is:", "the same bytes every time"]
    yield lines(x, TOP + 210, said, size=11.5)


def _back(x: float, told: Life) -> Iterator[str]:
    yield rect(x - 4, TOP + 44, WIDE - 20, 44, "leaf", round=5)
    yield text(x + 2, TOP + 61, f"recall {told.query}", size=10.5, more="bold")
    yield text(x + 2, TOP + 78, f"→ line {told.place} of {told.lines:,}", size=10.5)
    yield rect(x - 4, TOP + 96, WIDE - 20, 44, "leaf", round=5)
    yield text(x + 2, TOP + 113, "read", size=10.5, more="bold")
    yield text(x + 2, TOP + 130, told.found[:24] + "…", size=9.2, more="mono")
    yield rect(x - 4, TOP + 148, WIDE - 20, 28, "leaf", round=5)
    yield text(x + 2, TOP + 166, "undo", size=10.5, more="bold")
    said = ["found by its content, read", "exactly as it was, whenever", "you or the model need it"]
    yield lines(x, TOP + 210, said, size=11.5)


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
