"""Least squares for the four constituents that make up most of the tide here. No library: nine unknowns are few."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from tidegauge.readings import Reading

SPEEDS = {"M2": 28.9841042, "S2": 30.0, "K1": 15.0410686, "O1": 13.9430356}
"""Degrees per hour."""


@dataclass(frozen=True)
class Constituent:
    name: str
    amplitude: float
    phase: float
    """Degrees, against the first reading."""


@dataclass(frozen=True)
class Fit:
    mean: float
    constituents: list[Constituent]
    start: datetime

    def predict(self, when: datetime) -> float:
        hours = (when - self.start).total_seconds() / 3600
        tide = sum(
            one.amplitude * math.cos(math.radians(SPEEDS[one.name] * hours - one.phase)) for one in self.constituents
        )
        return self.mean + tide

    def residuals(self, readings: list[Reading]) -> list[float]:
        """What the fit does not explain: wind, pressure, and errors of the gauge."""
        return [round(reading.height - self.predict(reading.time), 3) for reading in readings]


def fit(readings: list[Reading]) -> Fit:
    """The mean and the constituents that come closest to the readings."""
    if len(readings) < 100:
        raise ValueError(f"{len(readings)} readings are too few for nine unknowns; give at least 100")
    start = readings[0].time
    rows = [_row((reading.time - start).total_seconds() / 3600) for reading in readings]
    solved = _solve(*_normal(rows, [reading.height for reading in readings]))
    found = []
    for place, name in enumerate(SPEEDS):
        across, along = solved[1 + 2 * place], solved[2 + 2 * place]
        phase = math.degrees(math.atan2(along, across)) % 360
        found.append(Constituent(name, round(math.hypot(across, along), 3), round(phase, 1)))
    return Fit(round(solved[0], 3), found, start)


def _row(hours: float) -> list[float]:
    row = [1.0]
    for speed in SPEEDS.values():
        angle = math.radians(speed * hours)
        row += [math.cos(angle), math.sin(angle)]
    return row


def _normal(rows: list[list[float]], heights: list[float]) -> tuple[list[list[float]], list[float]]:
    size = len(rows[0])
    matrix = [[sum(row[i] * row[j] for row in rows) for j in range(size)] for i in range(size)]
    right = [sum(row[i] * height for row, height in zip(rows, heights)) for i in range(size)]
    return matrix, right


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss with the largest pivot of each column."""
    size = len(right)
    work = [[*row, value] for row, value in zip(matrix, right)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(work[i][column]))
        work[column], work[pivot] = work[pivot], work[column]
        for i in range(column + 1, size):
            factor = work[i][column] / work[column][column]
            for j in range(column, size + 1):
                work[i][j] -= factor * work[column][j]
    solved = [0.0] * size
    for i in range(size - 1, -1, -1):
        rest = sum(work[i][j] * solved[j] for j in range(i + 1, size))
        solved[i] = (work[i][size] - rest) / work[i][i]
    return solved
