"""The ways to use Ebbtide, and the one engine behind them, as a sketch."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.drawing import WIDTH, arrow, drawing, lines, rect, text

WAYS = (
    ("Library", "context.prepare"),
    ("SDK", "ebbtide.wrap"),
    ("Proxy", "ebb proxy"),
    ("Run", "ebb run -- …"),
    ("Chat", "ebb chat"),
    ("MCP", "ebb mcp"),
)
STEPS = ("read", "apply", "measure", "plan", "save", "write")
LEFT, WIDE, BOX = 24, WIDTH - 48, 125
GAP = (WIDE - 6 * BOX) / 5
ENGINE = 5 * BOX + 4 * GAP
"""How wide the engine is: MCP, the last way, leads past it to the store."""


def drawn_ways() -> str:
    title = text(LEFT, 32, "Six ways in, one engine", size=16, more="bold")
    parts = [title, *_ways(), *_engine(), *_below(), *_past()]
    return drawing(parts, height=386, title="Six ways in lead to one engine, a provider and a store")


def _ways() -> Iterator[str]:
    for n, (name, how) in enumerate(WAYS):
        x = LEFT + n * (BOX + GAP)
        yield rect(x, 52, BOX, 52, "tint s-ours", round=7)
        yield text(x + BOX / 2, 74, name, at="middle", more="bold")
        yield text(x + BOX / 2, 93, how, "soft", size=11, at="middle", more="mono")
        if name != "MCP":
            yield arrow(x + BOX / 2, 108, x + BOX / 2, 132, "ours")


def _engine() -> Iterator[str]:
    yield rect(LEFT, 136, ENGINE, 132, "panel s-edge", round=8)
    yield text(LEFT + 16, 160, "Context", more="bold")
    yield text(LEFT + 84, 160, "one conversation: every request passes through it", "soft", size=12)
    each = (ENGINE - 32 - 5 * 16) / 6
    for n, step in enumerate(STEPS):
        x = LEFT + 16 + n * (each + 16)
        yield rect(x, 174, each, 34, "paper s-edge", round=6)
        yield text(x + each / 2, 196, step, at="middle", size=12)
        if n:
            yield arrow(x - 14, 191, x - 2, 191, "soft")
    about = [
        "core, passes, policies: pure. They see a conversation and propose edits.",
        "Every edit is checked in one place, recorded, and applied from then on.",
    ]
    yield lines(LEFT + 16, 232, about)


def _below() -> Iterator[str]:
    """Provider and store, and the arrows to them."""
    for x in (LEFT + ENGINE / 4, LEFT + 3 * ENGINE / 4):
        yield arrow(x - 8, 272, x - 8, 300, "ours")
        yield arrow(x + 8, 300, x + 8, 272, "ours")
    store = LEFT + ENGINE / 2 + 8
    yield rect(LEFT, 304, ENGINE / 2 - 8, 62, "leaf", round=7)
    yield text(LEFT + 16, 328, "The provider", more="bold")
    yield text(LEFT + 16, 348, "a valid request that fits, and its answer", size=12)
    yield rect(store, 304, LEFT + WIDE - store, 62, "water", round=7)
    yield text(store + 16, 328, "The store", more="bold")
    yield text(store + 16, 348, "the log with every message, removed text as files, an index to search", size=12)


def _past() -> Iterator[str]:
    last = LEFT + 5 * (BOX + GAP) + BOX / 2
    yield arrow(last - 8, 108, last - 8, 300, "ours")
    yield arrow(last + 8, 300, last + 8, 108, "ours")
    yield lines(last - 54, 190, ["recall", "and", "read"], at="start", size=11.5)
