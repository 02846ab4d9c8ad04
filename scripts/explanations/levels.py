"""The thresholds of the default, taken from the policy; the curve between them is labelled as a sketch."""

from __future__ import annotations

from collections.abc import Callable

from scripts.drawing import drawing, path, rect, shape, text
from scripts.explanations.example import LARGE

import ebbtide
from ebbtide.core.planner import Budget, PlanInput, Thresholds

GROWTH = 1_000
"""Tokens that a call adds, about the mean of the recorded sessions."""
OTHERS = ((32_000, 4_000), (64_000, 8_000), (1_000_000, 32_000))
"""Windows, and what is set aside for the reply."""


def drawn_levels() -> str:
    window, reply = LARGE, 8_000
    levels = ebbtide.preset("default").levels(window, reply)
    left, top, wide, high = 24, 66, 470, 250
    marked = [
        ("the window", window, "limit", "what the provider accepts, reply included"),
        ("blocking", levels.blocking, "raw", "the window without the reply"),
        ("hard", levels.hard, "limit", "the request must shrink, whatever it costs"),
        ("auto", levels.auto, "raw", "edits are made at the latest"),
        ("soft", levels.soft, "soft", "may compact if the cache is cold or a summary is ready"),
        ("batch", _batch_at(window, levels), "ours", f"edits are made if a call adds {GROWTH:,} tokens"),
        ("low", levels.low, "green", "the target of a batch"),
    ]

    def y(count: float) -> float:
        return top + high - high * count / window

    parts = [
        text(left, 32, "The thresholds of the default", size=16, more="bold"),
        text(left + 284, 32, f"in a window of {window // 1000}k, with {reply // 1000}k for the reply", "soft", size=12),
        rect(left, top, wide, high, "panel", round=6),
        rect(left, y(levels.low), wide, high - (y(levels.low) - top), "tint", round=6),
    ]
    parts += [_tide(left, wide, y, levels.low, _batch_at(window, levels))]
    heights = _apart([y(count) for _, count, _, _ in marked], 34)
    for (name, count, colour, why), at in zip(marked, heights, strict=True):
        dash = "" if name in ("the window", "batch", "low") else "3 4"
        parts += [
            path(f"M{left} {y(count):.1f}H{left + wide}", colour, width=1.4, dash=dash),
            path(f"M{left + wide} {y(count):.1f}L{left + wide + 18} {at:.1f}", colour, width=1),
            text(left + wide + 24, at + 1, f"{name}, {count:,}", colour, more="bold"),
            text(left + wide + 24, at + 15, why, "soft", size=11),
        ]
    base = top + high + 26
    parts.append(text(left, base, "a session’s requests, one after the other (a sketch)", "soft", size=11.5))
    others = [(size, ebbtide.preset("default").levels(size, kept)) for size, kept in OTHERS]
    parts.append(text(left, base + 30, "In other windows:", more="bold", size=12))
    for n, (size, found) in enumerate(others):
        row = f"{size // 1000:,}k: from {_batch_at(size, found):,} down to {found.low:,}"
        parts.append(text(left + 138 + 222 * n, base + 30, row, size=12))
    return drawing(parts, height=base + 48, title="The thresholds of the default in a window of 200,000 tokens")


def _batch_at(window: int, levels: Thresholds) -> int:
    return PlanInput(budget=Budget(window=window, levels=levels), tokens=0, growth=GROWTH).batch_at


def _apart(heights: list[float], least: float) -> list[float]:
    """The same heights from top to bottom, each at least so far below the one before."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + least) if placed else height)
    return placed


def _tide(left: float, wide: float, y: Callable[[float], float], low: float, auto: float) -> str:
    """Tokens rise to `auto` and fall to `low`; a little more stays each time."""
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
