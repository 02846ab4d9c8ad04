"""What the gauge logged. A row that cannot be read stops the program: a wrong height is worse than no report."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

EVERY = timedelta(minutes=6)
"""How often a gauge logs."""

COLUMNS = ("time", "height", "sigma", "battery")


class BadRow(ValueError):
    """A row that is not a reading. It names the line, since people look for it in an editor."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


@dataclass(frozen=True)
class Reading:
    """One line of the log."""

    time: datetime
    height: float
    """Metres above the gauge's zero."""
    sigma: float
    """Spread of the samples behind it, metres. A large one means waves, or a ship going by."""
    battery: float
    """Volts."""


@dataclass(frozen=True)
class Gap:
    """A stretch in which nothing was logged."""

    start: datetime
    end: datetime

    @property
    def minutes(self) -> int:
        return int((self.end - self.start).total_seconds() // 60)


def load(path: str | Path) -> list[Reading]:
    """All readings of a file, oldest first."""
    with open(path, newline="", encoding="utf-8") as source:
        return parse(source)


def parse(lines) -> list[Reading]:
    """Readings from lines of CSV. The first line names the columns."""
    rows = csv.reader(lines)
    header = tuple(next(rows, ()))
    if header != COLUMNS:
        raise BadRow(1, f"columns are {', '.join(header) or 'missing'}; wanted {', '.join(COLUMNS)}")
    readings = [_reading(number, row) for number, row in enumerate(rows, 2)]
    return sorted(readings, key=lambda reading: reading.time)


def _reading(number: int, row: list[str]) -> Reading:
    if len(row) != len(COLUMNS):
        raise BadRow(number, f"{len(row)} fields instead of {len(COLUMNS)}")
    try:
        when = datetime.fromisoformat(row[0])
    except ValueError:
        raise BadRow(number, f"{row[0]!r} is not a time") from None
    try:
        height, sigma, battery = (float(field) for field in row[1:])
    except ValueError:
        raise BadRow(number, f"{', '.join(row[1:])} are not three numbers") from None
    return Reading(when, height, sigma, battery)


def gaps(readings: list[Reading], longest: timedelta = 2 * EVERY) -> list[Gap]:
    """Where more time passed between two readings than a gauge ever takes."""
    found = []
    for before, after in zip(readings, readings[1:]):
        if after.time - before.time > longest:
            found.append(Gap(before.time, after.time))
    return found


def coverage(readings: list[Reading]) -> float:
    """Share of the expected readings that are there, from the first to the last."""
    if not readings:
        return 0.0
    expected = (readings[-1].time - readings[0].time) // EVERY + 1
    return min(1.0, len(readings) / expected)


def between(readings: list[Reading], start: datetime, end: datetime) -> list[Reading]:
    """Readings from `start` up to, but not at, `end`."""
    return [reading for reading in readings if start <= reading.time < end]


def smoothed(readings: list[Reading], width: int = 5) -> list[float]:
    """A running mean of the heights. At the ends it is taken over what is there."""
    half = width // 2
    heights = [reading.height for reading in readings]
    out = []
    for place in range(len(heights)):
        part = heights[max(0, place - half) : place + half + 1]
        out.append(round(sum(part) / len(part), 2))
    return out
