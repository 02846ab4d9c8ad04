"""High and low waters. Between two of the same kind at least six hours pass, whatever the waves do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from tidegauge.readings import Reading, smoothed

APART = timedelta(hours=6)
"""Two high waters are about 12 h 25 min apart; half of that is certainly not another one."""


@dataclass(frozen=True)
class Extreme:
    kind: Literal["high", "low"]
    time: datetime
    height: float


def extremes(readings: list[Reading]) -> list[Extreme]:
    """High and low waters, oldest first."""
    heights = smoothed(readings)
    found = []
    for place in range(1, len(heights) - 1):
        before, here, after = heights[place - 1 : place + 2]
        if here > before and here > after:
            found.append(Extreme("high", readings[place].time, here))
        if here < before and here < after:
            found.append(Extreme("low", readings[place].time, here))
    return _thinned(found)


def _thinned(found: list[Extreme]) -> list[Extreme]:
    """Of several of one kind within six hours, the most extreme one."""
    kept: list[Extreme] = []
    for one in found:
        rival = next((k for k in reversed(kept) if k.kind == one.kind and one.time - k.time < APART), None)
        if rival is None:
            kept.append(one)
        elif _beats(one, rival):
            kept[kept.index(rival)] = one
    return sorted(kept, key=lambda one: one.time)


def _beats(one: Extreme, rival: Extreme) -> bool:
    return one.height > rival.height if one.kind == "high" else one.height < rival.height


def highs(readings: list[Reading]) -> list[Extreme]:
    return [one for one in extremes(readings) if one.kind == "high"]


def lows(readings: list[Reading]) -> list[Extreme]:
    return [one for one in extremes(readings) if one.kind == "low"]
