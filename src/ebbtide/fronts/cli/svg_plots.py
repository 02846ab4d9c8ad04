"""SVG plots without scripts or outside resources. Colours are CSS classes of the page.

The canvas is 760 by 280 units; the page scales it. Neighbouring calls are merged if there are more than a screen can
show: curves show their mean, bars their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 30
_MAX_BARS = 190  # still three pixels wide
_PHONE_TICKS = 4  # marks on an axis that fit on a phone
Format = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    look: str
    """The CSS class."""
    values: Sequence[float | None]
    """One per call; None leaves a gap."""


@dataclass(frozen=True, slots=True)
class _Canvas:
    low: float
    high: float
    step: float
    """Between marks on the vertical axis."""
    calls: int

    def x(self, place: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * place / max(1, self.calls)

    def y(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - self.low) / span


def draw_curves(title: str, series: Sequence[Series], format_mark: Format) -> str:
    """Draw curves over the calls, with a tint under each."""
    values = [value for line in series for value in line.values if value is not None]
    canvas = _make_canvas([*values, 0.0], max((len(line.values) for line in series), default=0))
    return _svg(title, [*_axes(canvas, format_mark), *(_curve(canvas, line) for line in series)])


def draw_bars(title: str, series: Sequence[Series], format_mark: Format) -> str:
    """Draw stacked bars, one for each call or for a few calls together."""
    calls = max((len(line.values) for line in series), default=0)
    step = max(1, math.ceil(calls / _MAX_BARS))
    sums = [
        [sum(value or 0.0 for value in kind.values[n : n + step]) for n in range(0, calls, step)] for kind in series
    ]
    tops = [sum(column) for column in zip(*sums, strict=True)]
    canvas = _make_canvas([*tops, 0.0], calls)
    drawn, base = [], [0.0] * len(tops)
    for kind, amounts in zip(series, sums, strict=True):
        drawn.append(_bars(canvas, kind, amounts, base, step))
        base = [low + amount for low, amount in zip(base, amounts, strict=True)]
    return _svg(title, [*_axes(canvas, format_mark), *drawn])


def _make_canvas(values: Sequence[float], calls: int) -> _Canvas:
    low, high = min(values), max(values)
    step = _step(high - low)
    # Leave a margin above and below, except at zero.
    return _Canvas(low * 1.06 if low < 0 else 0.0, high * 1.06 if high > 0 else step / 4, step, calls)


def _step(span: float, ticks: int = 4) -> float:
    """A round distance between marks."""
    if span <= 0:
        return 1.0
    rough = span / ticks
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if rough <= unit * factor * 1.0001)


def _axes(canvas: _Canvas, format_mark: Format) -> list[str]:
    step = canvas.step
    marks = [step * n for n in range(math.ceil(canvas.low / step), math.floor(canvas.high / step) + 1)]
    drawn = []
    for mark in marks:
        y = canvas.y(mark)
        look = "zero" if abs(mark) < step / 1e6 else "grid"
        drawn.append(f'<line class="{look}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(
            f'<text x="{_LEFT - 8}" y="{y:.1f}" dy="0.35em" text-anchor="end">{escape(format_mark(mark))}</text>'
        )
    every = max(1, round(_step(canvas.calls, 6)))
    ticks = range(every, canvas.calls + 1, every)
    for n, call in enumerate(ticks):
        x, y = canvas.x(call - 0.5), HEIGHT - _BOTTOM + 20
        # A phone shows every other mark.
        thin = ' class="thin"' if n % 2 == 0 and len(ticks) > _PHONE_TICKS else ""
        drawn.append(f'<text{thin} x="{x:.1f}" y="{y}" text-anchor="middle">{call}</text>')
    return drawn


def _curve(canvas: _Canvas, series: Series) -> str:
    step = max(1, math.ceil(len(series.values) / (4 * _MAX_BARS)))
    runs: list[list[tuple[float, float]]] = [[]]
    for n in range(0, len(series.values), step):
        known = [value for value in series.values[n : n + step] if value is not None]
        if known:
            middle = n + min(step, len(series.values) - n) / 2
            runs[-1].append((canvas.x(middle), canvas.y(sum(known) / len(known))))
        elif runs[-1]:
            runs.append([])
    runs = [run for run in runs if run]
    paths = [" L".join(f"{x:.1f} {y:.1f}" for x, y in run) for run in runs]
    # A single point needs a length to be visible.
    line = " ".join(f"M{path}" + ("h0.1" if "L" not in path else "") for path in paths)
    base = f"{canvas.y(0):.1f}"
    areas = [
        f"M{run[0][0]:.1f} {base} L{path} L{run[-1][0]:.1f} {base}Z" for run, path in zip(runs, paths, strict=True)
    ]
    tint = f'<path class="tint {series.look}" d="{" ".join(areas)}"/>'
    return f'{tint}<path class="line {series.look}" d="{line}"><title>{escape(series.name)}</title></path>'


def _bars(canvas: _Canvas, series: Series, amounts: Sequence[float], base: Sequence[float], step: int) -> str:
    path = []
    for n, (amount, low) in enumerate(zip(amounts, base, strict=True)):
        if amount <= 0:
            continue
        left, right = canvas.x(n * step), canvas.x(min(canvas.calls, (n + 1) * step))
        gap = min(1.0, (right - left) / 5)
        top, bottom = canvas.y(low + amount), canvas.y(low)
        path.append(f"M{left + gap / 2:.1f} {bottom:.1f}V{top:.1f}H{right - gap / 2:.1f}V{bottom:.1f}Z")
    return f'<path class="bar {series.look}" d="{"".join(path)}"><title>{escape(series.name)}</title></path>'


def _svg(title: str, drawn: Sequence[str]) -> str:
    name = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">{"".join(drawn)}</svg>'
