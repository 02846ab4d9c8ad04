"""What fills a window: tokens by category, and the hundred cells that show it (R241).

The header is what the provider billed where that is known; categories are estimates, so their sum may differ. The
buffer is what lies beyond the level where the policy acts, and it gets only the cells that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.core.types import Item
from ebbtide.core.view import View

CELLS = 100

MESSAGES = ("user", "assistant", "tool calls", "tool results", "thinking", "images", "our stubs", "other")
"""The parts of a conversation, in the order they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One request, weighed."""

    model: str
    size: int
    tokens: int
    """Billed where known, else estimated."""
    billed: bool
    auto_at: int
    """Where the policy acts by itself."""
    system: int
    tools: int
    unrecorded: int
    """What was billed beyond the estimate, where the recording has neither system prompt nor tools: they are it."""
    messages: tuple[tuple[str, int], ...]
    """Estimated tokens of each part that is there."""

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
            name
            for (name, _), n in zip(parts, _apportioned([t for _, t in parts], used), strict=True)
            for _ in range(n)
        ]
        return [*drawn, *["free"] * (CELLS - used - buffer), *["buffer"] * buffer]


def parts_of(view: View, scale: float) -> tuple[tuple[str, int], ...]:
    """Tokens by part; `scale` is what the gauge makes of an estimated token."""
    sums: dict[str, float] = {}
    for entry in view.entries:
        name = "our stubs" if view.is_ours(entry) else _part(entry)
        sums[name] = sums.get(name, 0) + entry.tokens * scale
    return tuple((name, round(sums[name])) for name in MESSAGES if name in sums)


def _part(entry: Item) -> str:
    if entry.kind == "text":
        return entry.role if entry.role in ("user", "assistant") else "other"
    named = {
        "call": "tool calls",
        "result": "tool results",
        "thinking": "thinking",
        "image": "images",
        "document": "images",
    }
    return named.get(entry.kind, "other")


def _apportioned(weights: Sequence[int], cells: int) -> list[int]:
    """Whole cells by weight, the largest remainders first, so that they add up."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    exact = [weight * cells / total for weight in weights]
    whole = [int(one) for one in exact]
    order = sorted(range(len(weights)), key=lambda n: whole[n] - exact[n])
    for n in order[: cells - sum(whole)]:
        whole[n] += 1
    return whole
