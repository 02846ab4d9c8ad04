"""Measures and draws what fills a window (R241). Several fronts share it.

The header shows what the provider billed, if known; categories are estimates, so that their sum may differ. The buffer
is the space beyond the level where the policy acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.core.tokens.size import SizeInputs
from ebbtide.core.types import Item
from ebbtide.core.view import View
from ebbtide.display import one_line, round_number, token_count
from ebbtide.palette import PARTS
from ebbtide.policy import Policy
from ebbtide.wire.reader import Request

CELLS = 100


def describe_learned_window(window: int, date: str) -> str:
    """Say that a window was learned, and when."""
    return f"window {round_number(window)}, learned from the provider's refusal on {date}"


MESSAGES = ("user", "assistant", "tool calls", "tool results", "thinking", "images", "our stubs", "other")
"""The parts of a conversation, in display order. The names are part of `ebb context --json`."""
_PARTS = {
    "call": "tool calls",
    "result": "tool results",
    "thinking": "thinking",
    "image": "images",
    "document": "images",
}
"""By kind of item; texts are named by their role."""
_LABELS = {"our stubs": "placeholders"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUsage:
    """How one request fills the window."""

    model: str
    size: int
    tokens: int
    """Billed if known, else estimated."""
    is_billed: bool
    auto_at: int
    """Where the policy acts."""
    system: int
    tools: int
    unrecorded: int
    """Billed beyond the estimate, if the recording lacks system prompt and tools: that is their size."""
    messages: tuple[tuple[str, int], ...]
    """Estimated tokens of each part present."""
    learned_on: str = ""
    """When the window was learned from a provider's refusal; empty if it was set or is the model's."""

    @property
    def conversation(self) -> int:
        return sum(tokens for _, tokens in self.messages)

    @property
    def used(self) -> int:
        return self.system + self.tools + self.unrecorded + self.conversation

    @property
    def buffer(self) -> int:
        return max(0, self.size - self.auto_at)

    @property
    def free(self) -> int:
        return max(0, self.size - self.used - self.buffer)

    @property
    def context_left(self) -> float:
        """Share left until the policy acts (R051)."""
        return max(0.0, 1 - self.tokens / self.auto_at) if self.auto_at else 0.0

    def share(self, tokens: int) -> float:
        return tokens / self.size

    def cells(self) -> list[str]:
        """The category of each cell: `system`, `tools`, `unrecorded`, a part of the messages, `free` or `buffer`."""
        parts = [("system", self.system), ("tools", self.tools), ("unrecorded", self.unrecorded), *self.messages]
        used = min(CELLS, max(round(self.share(self.used) * CELLS), 1 if self.used else 0))
        buffer = min(round(self.share(self.buffer) * CELLS), CELLS - used)
        drawn = [
            name for (name, _), n in zip(parts, _apportion([t for _, t in parts], used), strict=True) for _ in range(n)
        ]
        return [*drawn, *["free"] * (CELLS - used - buffer), *["buffer"] * buffer]


def measure_window(policy: Policy, request: Request, view: View, *, size: int, billed: int | None) -> WindowUsage:
    """Measure a request as the view shows it. `billed` are its tokens as the provider counted them, if it did."""
    system, tools = request.overhead
    counted_tokens = view.tokens + system + tools
    readings = SizeInputs(
        estimator=policy.estimator,
        model=request.model,
        view=view.tokens,
        messages=len(request.messages),
        system=system,
        tools=tools,
    )
    estimate = policy.gauge(readings)
    scale = estimate / counted_tokens if counted_tokens else 1.0
    return WindowUsage(
        model=request.model or "unknown model",
        size=size,
        tokens=estimate if billed is None else billed,
        is_billed=billed is not None,
        auto_at=policy.levels(size, request.max_output or policy.output_reserved, request.fixed).auto,
        system=round(system * scale),
        tools=round(tools * scale),
        unrecorded=max(0, billed - estimate) if billed is not None and not system + tools else 0,
        messages=_tokens_by_part(view, scale),
    )


def _tokens_by_part(view: View, scale: float) -> tuple[tuple[str, int], ...]:
    """Add up tokens by part. `scale` converts estimated tokens to measured ones."""
    sums: dict[str, float] = {}
    for entry in view.entries:
        name = "our stubs" if view.is_ours(entry) else part_name(entry)
        name = name if name in MESSAGES else "other"
        sums[name] = sums.get(name, 0) + entry.tokens * scale
    return tuple((name, round(sums[name])) for name in MESSAGES if name in sums)


def part_name(entry: Item) -> str:
    """The part of a conversation that an original belongs to."""
    if entry.kind == "text":
        return entry.role if entry.role in ("user", "assistant", "system") else "other"
    return _PARTS.get(entry.kind, "other")


def _apportion(weights: Sequence[int], cells: int) -> list[int]:
    """Distribute cells by weight, the largest remainders first, so that they add up."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    exact = [weight * cells / total for weight in weights]
    counts = [int(one) for one in exact]
    order = sorted(range(len(weights)), key=lambda n: counts[n] - exact[n])
    for n in order[: cells - sum(counts)]:
        counts[n] += 1
    return counts


StyledLine = list[tuple[str, str]]
"""One line of texts, each with its style."""

_COLOURS = {**PARTS, "messages": "bold", "buffer": "bright_black", "free": "bright_black"}
_SIDE = 10


def draw_window(window: WindowUsage, *, ascii_only: bool = False, width: int = 0) -> list[StyledLine]:
    """Draw ten by ten cells with a table to the right, or below if `width` is too small."""
    used, buffer, free = "#x." if ascii_only else "■▒·"
    marks = {"buffer": buffer, "free": free}
    cells = window.cells()
    legend = _legend(window, used, buffer, free, "-" if ascii_only else "·")
    rows: list[StyledLine] = [[("Context Usage", "bold")]]
    grid: list[StyledLine] = [
        [("  ", ""), *((f"{marks.get(name, used)} ", _COLOURS[name]) for name in cells[n : n + _SIDE])]
        for n in range(0, CELLS, _SIDE)
    ]
    blank = "  " * (_SIDE + 1)
    longest = max(sum(len(words) for words, _ in row) for row in legend)
    if width and len(blank) + 2 + longest > width:
        return [*rows, *grid, [], *([("  ", ""), *row] if row else [] for row in legend)]
    for n in range(max(_SIDE, len(legend))):
        beside = legend[n] if n < len(legend) else []
        rows.append([*(grid[n] if n < _SIDE else [(blank, "")]), ("  ", ""), *beside])
    return rows


def _legend(window: WindowUsage, used: str, buffer: str, free: str, dot: str) -> list[StyledLine]:
    share = round(window.share(window.tokens) * 100)
    size = f"{round_number(window.tokens)}/{round_number(window.size)} tokens ({share}%)"
    rows: list[StyledLine] = [[(f"{one_line(window.model, 60)} {dot} {size}", "bold")]]
    rows.append([(describe_learned_window(window.size, window.learned_on), "dim")] if window.learned_on else [])
    rows.append([("Estimated usage by category", "italic")])

    def entry(mark: str, colour: str, name: str, tokens: int, indent: str = "") -> None:
        amount = f"{token_count(tokens)} ({window.share(tokens):.1%})"
        rows.append([(indent, ""), (f"{mark} ", _COLOURS[colour]), (f"{name}: ", ""), (amount, "dim")])

    if window.unrecorded:
        entry(used, "unrecorded", "System prompt and tools, not in the file", window.unrecorded)
    else:
        entry(used, "system", "System prompt", window.system)
        entry(used, "tools", "System tools", window.tools)
    entry(used, "messages", "Messages", window.conversation)
    for name, tokens in window.messages:
        entry(used, name, _LABELS.get(name, name).capitalize(), tokens, "  ")
    entry(buffer, "buffer", "Autocompact buffer", window.buffer)
    entry(free, "free", "Free space", window.free)
    rows.append([(f"Context left until auto-compact: {window.context_left:.0%}", "dim")])
    return rows
