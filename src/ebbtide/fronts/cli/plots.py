"""Pictures of a session, as SVG without script or outside resource. Colours are classes: a page decides on them.

Coordinates are those of a sheet of 760 by 280; a page scales it. More points than a screen can show are put together:
the mean of levels, the sum of amounts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 30
_MOST = 190  # bars that are still three pixels wide
_FEW = 4  # marks on an axis that a phone has room for
Shown = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    look: str
    """The class that colours it."""
    values: Sequence[float | None]
    """One for each call; None leaves a gap."""


@dataclass(frozen=True, slots=True)
class _Sheet:
    low: float
    high: float
    step: float
    """Between marks on the side."""
    calls: int

    def x(self, place: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * place / max(1, self.calls)

    def y(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - self.low) / span


def curves(title: str, series: Sequence[Series], shown: Shown, *, filled: bool = False) -> str:
    """Levels over the calls. With `filled`, the area under each is tinted."""
    values = [value for one in series for value in one.values if value is not None]
    sheet = _sheet([*values, 0.0], max((len(one.values) for one in series), default=0))
    drawn = [_curve(sheet, one, filled=filled) for one in series]
    return _svg(title, [*_axes(sheet, shown), *drawn])


def stacked(title: str, series: Sequence[Series], shown: Shown) -> str:
    """Amounts on top of each other, a bar for each call, or for some calls together."""
    calls = max((len(one.values) for one in series), default=0)
    step = max(1, math.ceil(calls / _MOST))
    sums = [[sum(value or 0.0 for value in one.values[n : n + step]) for n in range(0, calls, step)] for one in series]
    tops = [sum(column) for column in zip(*sums, strict=True)]
    sheet = _sheet([*tops, 0.0], calls)
    drawn, base = [], [0.0] * len(tops)
    for one, amounts in zip(series, sums, strict=True):
        drawn.append(_bars(sheet, one, amounts, base, step))
        base = [low + amount for low, amount in zip(base, amounts, strict=True)]
    return _svg(title, [*_axes(sheet, shown), *drawn])


def _sheet(values: Sequence[float], calls: int) -> _Sheet:
    low, high = min(values), max(values)
    step = _step(high - low)
    # A little air above and below, unless it is zero that the curve stands on.
    return _Sheet(low * 1.06 if low < 0 else 0.0, high * 1.06 if high > 0 else step / 4, step, calls)


def _step(span: float, ticks: int = 4) -> float:
    """A round distance between marks."""
    if span <= 0:
        return 1.0
    rough = span / ticks
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if rough <= unit * factor * 1.0001)


def _axes(sheet: _Sheet, shown: Shown) -> list[str]:
    step = sheet.step
    marks = [step * n for n in range(math.ceil(sheet.low / step), math.floor(sheet.high / step) + 1)]
    drawn = []
    for mark in marks:
        y = sheet.y(mark)
        look = "zero" if abs(mark) < step / 1e6 else "grid"
        drawn.append(f'<line class="{look}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 8}" y="{y:.1f}" dy="0.35em" text-anchor="end">{escape(shown(mark))}</text>')
    every = max(1, round(_step(sheet.calls, 6)))
    ticks = range(every, sheet.calls + 1, every)
    for n, call in enumerate(ticks):
        x, y = sheet.x(call - 0.5), HEIGHT - _BOTTOM + 20
        # On a phone every other one is left out.
        thin = ' class="thin"' if n % 2 == 0 and len(ticks) > _FEW else ""
        drawn.append(f'<text{thin} x="{x:.1f}" y="{y}" text-anchor="middle">{call}</text>')
    return drawn


def _curve(sheet: _Sheet, one: Series, *, filled: bool) -> str:
    step = max(1, math.ceil(len(one.values) / (4 * _MOST)))
    runs: list[list[tuple[float, float]]] = [[]]
    for n in range(0, len(one.values), step):
        known = [value for value in one.values[n : n + step] if value is not None]
        if known:
            middle = n + min(step, len(one.values) - n) / 2
            runs[-1].append((sheet.x(middle), sheet.y(sum(known) / len(known))))
        elif runs[-1]:
            runs.append([])
    paths = [" L".join(f"{x:.1f} {y:.1f}" for x, y in run) for run in runs if run]
    # A lone point would have no length, and so no ink.
    line = " ".join(f"M{path}" + ("h0.1" if "L" not in path else "") for path in paths)
    base = f"{sheet.y(0):.1f}"
    areas = [
        f"M{run[0][0]:.1f} {base} L{path} L{run[-1][0]:.1f} {base}Z"
        for run, path in zip(_full(runs), paths, strict=True)
    ]
    tint = f'<path class="tint {one.look}" d="{" ".join(areas)}"/>' if filled else ""
    return f'{tint}<path class="line {one.look}" d="{line}"><title>{escape(one.name)}</title></path>'


def _full(runs: Sequence[list[tuple[float, float]]]) -> list[list[tuple[float, float]]]:
    return [run for run in runs if run]


def _bars(sheet: _Sheet, one: Series, amounts: Sequence[float], base: Sequence[float], step: int) -> str:
    path = []
    for n, (amount, low) in enumerate(zip(amounts, base, strict=True)):
        if amount <= 0:
            continue
        left, right = sheet.x(n * step), sheet.x(min(sheet.calls, (n + 1) * step))
        gap = min(1.0, (right - left) / 5)
        top, bottom = sheet.y(low + amount), sheet.y(low)
        path.append(f"M{left + gap / 2:.1f} {bottom:.1f}V{top:.1f}H{right - gap / 2:.1f}V{bottom:.1f}Z")
    return f'<path class="bar {one.look}" d="{"".join(path)}"><title>{escape(one.name)}</title></path>'


def _svg(title: str, drawn: Sequence[str]) -> str:
    name = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(drawn)}</svg>'
