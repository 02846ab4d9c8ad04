"""Plots a replay: what each policy costs against what it keeps, and how full it lets the window get.

The colours are by Okabe and Ito, safe for colour-blind readers; after the last, shapes differ. Names are placed next to
their marks, so that no legend is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.display import round_number
from ebbtide.policy import DIAL
from ebbtide.replay.frontier import Frontier
from ebbtide.replay.measures import measure
from ebbtide.replay.run import ReplayOptions, ReplayResult, totals
from ebbtide.replay.score import CallPoint, Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00")
_SHAPES = "osD^vP"
_DASHES = {"X": "--", "*": "-", "o": "-"}
"""Line styles by shape, for policies that share a colour."""
_PLAIN = {"raw": "#555555", "recorded": "#111111"}
_KINDS = (".png", ".svg", ".pdf")
_INK, _FAINT = "#222222", "#DDDDDD"
_WIDTH, _HEIGHT = 430.0, 380.0  # of the left axes, in points, about
_MIN_DISTANCE = 8.0  # points: nearer marks share a label
_ROW_WIDTH = 26  # letters of a label


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    colour: str
    shape: str
    bold: bool


def check_plot_path(path: str) -> None:
    """Refuse a path that could not be written, before the work."""
    file = Path(path)
    if file.suffix.lower() not in _KINDS:
        raise BadRequest(f"--plot {path}: a plot ends in {', '.join(_KINDS)}")
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadRequest(f"--plot {path}: {error.strerror or error}") from None
    if not os.path.isdir(file.absolute().parent) or os.path.isdir(file):
        raise BadRequest(f"--plot {path}: there is no folder for it")
    if find_spec("matplotlib") is None:
        raise BadConfig("a plot needs the extra: pip install 'ebbtide[replay]'")


def draw_plot(
    path: str, results: Sequence[ReplayResult], options: ReplayOptions, frontier: Frontier | None = None
) -> None:
    # Without pyplot, which looks for a display and keeps figures alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    scores = totals(results)
    looks = _looks(list(scores))
    figure = Figure(figsize=(14, 6.2), dpi=130, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    for axes in (left, right):
        _style(axes)
    _bills(left, scores, looks)
    if frontier:
        _dial(left, frontier)
    _windows(right, _longest(results), looks, options)
    files = sum(1 for result in results if not result.error)
    ttl = "1 hour" if options.ttl > 300 else "5 minutes"
    figure.suptitle(
        f"{pluralize(files, 'recorded session')}, window {round_number(options.window)}, prompt cache of {ttl}",
        x=0.01, ha="left", fontsize=11, color="#666666",
    )  # fmt: skip
    # Without a date the same replay gives the same bytes.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        figure.savefig(path, metadata=metadata.get(Path(path).suffix.lower()))
    except OSError as error:
        raise BadRequest(f"--plot {path}: {error.strerror or error}") from None


def _looks(names: Sequence[str]) -> dict[str, _Look]:
    looks = {}
    others = 0
    # The default policy always has the same colour.
    for name in sorted(names, key=lambda name: (name != "default", name not in _PLAIN, names.index(name))):
        plain = _PLAIN.get(name)
        colour = plain or _COLOURS[others % len(_COLOURS)]
        shape = "X" if name == "raw" else "*" if name == "recorded" else _SHAPES[others // len(_COLOURS) % len(_SHAPES)]
        looks[name] = _Look(colour=colour, shape=shape, bold=name == "default")
        others += plain is None
    return looks


def _style(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#999999")
    axes.grid(True, color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors="#444444", labelsize=9)


# --- left: bill against retention -------------------------------------------------------------------------------------


def _bills(axes: Axes, scores: Mapping[str, Score], looks: Mapping[str, _Look]) -> None:
    axes.set_title("What it costs, and what is still there when it is needed", loc="left", fontsize=12, color=_INK)
    axes.set_xlabel("bill, as a share of the bill without Ebbtide   (← cheaper)", fontsize=9.5)
    axes.set_ylabel("available when needed   (keeps more →)", fontsize=9.5)
    raw = scores.get("raw")
    points: dict[str, tuple[float, float]] = {}
    for name, score in scores.items():
        keys = ("against_raw", "available", "available_or_recoverable")
        bill, available, with_search = (measure(score, raw)[key] for key in keys)
        if bill is None or available is None:
            continue
        look, points[name] = looks[name], (bill, available)
        if with_search is not None and with_search > available:
            axes.plot([bill, bill], [available, with_search], color=look.colour, linewidth=1.2, alpha=0.6, zorder=2)
            axes.plot([bill], [with_search], marker="_", markersize=9, color=look.colour, zorder=2)
        axes.plot(
            [bill], [available], look.shape, color=look.colour, markersize=12 if look.bold else 9, zorder=3,
            markeredgecolor="white", markeredgewidth=0.8,
        )  # fmt: skip
    if not points:
        axes.text(
            0.5, 0.5, "No name was needed after ten calls.", ha="center", transform=axes.transAxes, color="#666666"
        )
        return
    _frame(axes, points)
    for names, at in _place_names(axes, points):
        alone = looks[names[0]] if len(names) == 1 else _Look(colour=_INK, shape="", bold=False)
        axes.annotate(
            _rows(names), points[names[0]], xytext=at, textcoords="offset points", fontsize=9.5,
            color=alone.colour, fontweight="bold" if alone.bold else "normal", linespacing=1.1,
            va="center", ha="left" if at[0] > 0 else "right",
        )  # fmt: skip
    if any(score.recoverable for score in scores.values()):
        axes.text(
            0.01, 0.015, "a line up: with what one search finds", transform=axes.transAxes, fontsize=8.5,
            color="#666666",
        )  # fmt: skip


def _dial(axes: Axes, frontier: Frontier) -> None:
    """Connect the points of the dial, show what misses cost, and ring the point to choose."""
    dial = [point for name, point in frontier.points.items() if name in DIAL and point.available is not None]
    if not dial:
        return
    bills, shares = [point.of_raw(point.bill) for point in dial], [point.available or 0.0 for point in dial]
    axes.plot(bills, shares, color=_INK, linewidth=1, alpha=0.5, zorder=1)
    for point, share in zip(dial, shares, strict=True):
        totals_at = [point.of_raw(point.bill), point.of_raw(point.total)]
        axes.plot(totals_at, [share, share], color="#888888", linewidth=1, linestyle=":", zorder=1)
        axes.plot(totals_at[1:], [share], "o", color="#888888", markerfacecolor="white", markersize=5, zorder=2)
    chosen = frontier.points[frontier.choice]
    axes.plot(
        [chosen.of_raw(chosen.bill)], [chosen.available or 0.0], "o", markersize=19, markerfacecolor="none",
        markeredgecolor=_INK, zorder=2,
    )  # fmt: skip
    axes.set_title(
        f"What each setting costs and keeps; choose {frontier.choice} (ringed)", loc="left", fontsize=12, color=_INK
    )
    axes.text(0.01, 0.05, "open circle: with what misses cost", transform=axes.transAxes, fontsize=8.5, color="#666666")


def _frame(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Show all points with room for their names, and a little above 1, so that the best is not at the edge."""
    bills, shares = [x for x, _ in points.values()], [y for _, y in points.values()]
    wide = max(max(bills) - min(bills), 0.2)
    high = max(1 - min(shares), 0.04)
    axes.set_xlim(min(bills) - 0.12 * wide, max(bills) + 0.22 * wide)
    axes.set_ylim(min(shares) - 0.12 * high, 1 + 0.06 * high)


def _place_names(
    axes: Axes, points: Mapping[str, tuple[float, float]]
) -> Iterator[tuple[tuple[str, ...], tuple[float, float]]]:
    """Find a free place for each name, as an offset in points. Names of the same point share a label."""
    (left, right), (low, top) = axes.get_xlim(), axes.get_ylim()
    at = {
        name: ((x - left) / (right - left) * _WIDTH, (y - low) / (top - low) * _HEIGHT)
        for name, (x, y) in points.items()
    }
    groups: dict[str, list[str]] = {}
    for name, (x, y) in at.items():
        near = (first for first in groups if abs(at[first][0] - x) + abs(at[first][1] - y) < _MIN_DISTANCE)
        groups.setdefault(next(near, name), []).append(name)
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in at.values()]
    places = [(side, 12.0 * n) for n in (0, 0.75, -0.75, 1.5, -1.5, 2.5, -2.5, 3.5, -3.5) for side in (10.0, -10.0)]
    for first, names in groups.items():
        x, y = at[first]
        rows = _rows(names).split("\n")
        boxes = [(_box(x + dx, y + dy, rows, dx > 0), (dx, dy)) for dx, dy in places]
        free = [
            (box, place) for box, place in boxes if _inside(box) and not any(_overlap(box, other) for other in taken)
        ]
        box, place = (free or boxes)[0]
        taken.append(box)
        yield tuple(names), place


def _rows(names: Sequence[str]) -> str:
    return fill(", ".join(names), _ROW_WIDTH, break_on_hyphens=False)


def _box(x: float, y: float, rows: Sequence[str], rightwards: bool) -> tuple[float, float, float, float]:
    # About 5.6 points per letter and 12 per row at this font size.
    wide, half = 5.6 * max(map(len, rows)), 6.0 * len(rows)
    return (x, y - half, x + wide, y + half) if rightwards else (x - wide, y - half, x, y + half)


def _inside(box: tuple[float, float, float, float]) -> bool:
    return box[0] > 0 and box[2] < _WIDTH + 20 and box[1] > 0 and box[3] < _HEIGHT + 12


def _overlap(box: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


# --- right: tokens over time ------------------------------------------------------------------------------------------


def _longest(results: Sequence[ReplayResult]) -> Mapping[str, tuple[CallPoint, ...]]:
    return max((result.points for result in results), key=lambda points: max(map(len, points.values()), default=0))


def _windows(
    axes: Axes, points: Mapping[str, tuple[CallPoint, ...]], looks: Mapping[str, _Look], options: ReplayOptions
) -> None:
    calls = max(map(len, points.values()), default=0)
    axes.set_title(
        f"The longest session, {pluralize(calls, 'call')}: tokens of each request", loc="left", fontsize=12, color=_INK
    )
    axes.set_xlabel("model call", fontsize=9.5)
    axes.set_ylabel("tokens sent", fontsize=9.5)
    axes.yaxis.set_major_formatter(lambda value, _: round_number(round(value)))
    ends: list[tuple[float, str]] = []
    for name, line in points.items():
        look = looks[name]
        axes.plot(
            [point.call + 1 for point in line], [point.tokens for point in line], color=look.colour,
            linewidth=2.4 if look.bold else 1.1, alpha=1.0 if look.bold or name in _PLAIN else 0.85,
            linestyle=_DASHES.get(look.shape, "-."), zorder=4 if look.bold else 2,
        )  # fmt: skip
        ends.append((float(line[-1].tokens), name))
    top = max((point.tokens for line in points.values() for point in line), default=0)
    has_window_line = top > 0.8 * options.window
    if has_window_line:
        axes.axhline(options.window, color="#999999", linewidth=1, linestyle=":")
        axes.text(1, options.window, " window", va="bottom", fontsize=8.5, color="#666666")
    axes.set_ylim(0, max(top, options.window if has_window_line else 1) * 1.06)
    axes.set_xlim(0, calls)
    _name_ends(axes, ends, looks)


def _name_ends(axes: Axes, ends: Sequence[tuple[float, str]], looks: Mapping[str, _Look]) -> None:
    """Write names next to the ends of their lines, as near as possible without overlapping."""
    high = axes.get_ylim()[1]
    step = high * 0.036  # the height of a line of text
    at = -step
    placed = []
    for tokens, name in sorted(ends):
        at = max(tokens, at + step)
        placed.append((at, name))
    # Names beyond the top push the others down.
    over = max(0.0, at - high)
    limit = at - over
    for at, name in reversed(placed):
        limit = min(at, limit)
        look = looks[name]
        axes.annotate(
            name, (1, limit), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            fontsize=9.5, color=look.colour, fontweight="bold" if look.bold else "normal", va="center",
            annotation_clip=False,
        )  # fmt: skip
        limit -= step
