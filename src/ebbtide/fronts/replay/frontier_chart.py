"""Prints a frontier: a table of its points, a chart of bill against what stays, and the point to choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ebbtide import screen
from ebbtide.policy import DIAL
from ebbtide.replay.frontier import RAW, Frontier, Point

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_WIDEST, _ROWS = 100, 13
_PIPE = 80
"""Columns of a chart in a pipe."""
_MIN_RANGE = 0.1
"""The least that the horizontal axis spans, as a share of raw's bill. Where that is far off, it is outside."""
_LEFT = 8
"""Columns of the labels of the vertical axis, with the axis."""
_GLYPHS = {"bill": "●", "total": "○", "way": "─", "axis": "│", "tick": "┤", "corner": "└", "cut": "┴", "out": "→"}
_PLAIN = {"bill": "*", "total": "o", "way": "-", "axis": "|", "tick": "+", "corner": "+", "cut": "+", "out": ">"}
_TITLES = ("", "bill", "of raw", "misses cost", "total", "available", "missed", "over")
_EXPENDABLE = ("of raw", "misses cost", "over", "bill")
"""Columns that a narrow terminal goes without, the first first."""
_NOTE = (
    "misses cost: what recorded agents pay to read and search again. missed: names that the\n"
    "agent used again after ten calls or more and that were gone. over: calls above the window"
)

Cells = dict[tuple[int, int], tuple[str, str]]
"""Character and style by row and column."""


def print_frontier(frontier: Frontier) -> None:
    screen.draw(_table(frontier))
    screen.draw(screen.styled_text((_NOTE, "dim")))
    if frontier.points[RAW].used:
        for line in _chart(frontier):
            screen.draw(line)
    else:
        print("\nThe agent used no name again after more than ten calls, so there is nothing to draw.")
    print()
    screen.draw(
        screen.styled_text(
            ("For these sessions, choose ", ""), (frontier.choice, "bold green"), (f": {frontier.reason}.", "")
        )
    )
    print(f'To use it: --policy {frontier.choice}, or policy = "{frontier.choice}" in the settings.')


def _style(name: str, choice: str) -> str:
    if name == choice:
        return "bold green"
    return "cyan" if name in DIAL else "dim"


def _table(frontier: Frontier) -> RenderableType:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [(name, *_cells(point)) for name, point in frontier.points.items()]
    widths = {title: 2 + max(map(len, (title, *cells))) for title, *cells in zip(_TITLES, *rows, strict=True)}
    for title in _EXPENDABLE:
        if sum(widths.values()) > screen.console().width:
            del widths[title]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in widths:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for row in rows:
        style = _style(row[0], frontier.choice)
        cells = [cell for title, cell in zip(_TITLES, row, strict=True) if title in widths]
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table


def _cells(point: Point) -> tuple[str, ...]:
    share = point.available
    available = "-" if share is None else f"{min(share, 0.999) if share < 1 else 1.0:.1%}"
    return (
        f"${point.bill:,.2f}", f"{point.of_raw(point.bill):.2f}", f"${point.repairs:,.2f}", f"${point.total:,.2f}",
        available, f"{point.missed:,} of {point.used:,}", f"{point.over:,}",
    )  # fmt: skip


# --- the chart --------------------------------------------------------------------------------------------------------


def _chart(frontier: Frontier) -> list[Text]:
    glyphs = _GLYPHS if screen.can_draw("".join(_GLYPHS.values())) else _PLAIN
    width = screen.console().width
    width = min(width, _WIDEST) if width < 10_000 else _PIPE
    plot = _Plot(frontier, width - _LEFT - 1, glyphs)
    cells = plot.cells()
    lines = [screen.styled_text(("", "")), screen.styled_text(("available when needed", "dim"))]
    for row in range(_ROWS):
        tick = row % 4 == 0
        label = f"{plot.share_at(row):.0%}".rjust(_LEFT - 2) if tick else " " * (_LEFT - 2)
        parts = [(label + " ", "dim"), (glyphs["tick" if tick else "axis"], "dim")]
        parts += [cells.get((row, column), (" ", "")) for column in range(plot.width)]
        lines.append(screen.styled_text(*parts))
    lines += plot.foot()
    legend = f"{glyphs['bill']} the bill, {glyphs['total']} with what misses cost; both as shares of raw's bill"
    return [*lines, screen.styled_text((" " * _LEFT + legend, "dim"))]


class _Plot:
    """Where points are on a grid of characters."""

    def __init__(self, frontier: Frontier, width: int, glyphs: Mapping[str, str]) -> None:
        self.frontier, self.width, self._glyphs = frontier, width, glyphs
        points = frontier.points.values()
        others = [point.of_raw(amount) for point in points if point.name != RAW for amount in (point.bill, point.total)]
        lowest, highest = min(others), max(others)
        self._has_raw = 1 - highest < 2 * max(highest - lowest, _MIN_RANGE)
        if self._has_raw:
            lowest, highest = min(lowest, 1.0), max(highest, 1.0)
        margin = (max(highest - lowest, _MIN_RANGE) - (highest - lowest)) / 2 + 0.04 * (highest - lowest)
        self._left, self._right = lowest - margin, highest + margin
        shares = [point.available or 0.0 for point in points]
        self._low = min(int(min(shares) * 100 - 0.5) / 100, 0.97)

    def share_at(self, row: int) -> float:
        return 1 - (1 - self._low) * row / (_ROWS - 1)

    def _row(self, point: Point) -> int:
        return round((1 - (point.available or 0.0)) / (1 - self._low) * (_ROWS - 1))

    def _column(self, bill: float) -> int:
        return round((bill - self._left) / (self._right - self._left) * (self.width - 1))

    def cells(self) -> Cells:
        cells: Cells = {}
        names: dict[tuple[int, int, int], list[str]] = {}
        if not self._has_raw:
            outside = f"{RAW}, at 1.00 {self._glyphs['out']}"
            cells |= {(0, self.width - len(outside) + n): (letter, "dim") for n, letter in enumerate(outside)}
        for name, point in self.frontier.points.items():
            if name == RAW and not self._has_raw:
                continue
            style = _style(name, self.frontier.choice)
            row = self._row(point)
            first, last = self._column(point.of_raw(point.bill)), self._column(point.of_raw(point.total))
            cells |= {(row, column): (self._glyphs["way"], style) for column in range(first + 1, last)}
            cells[row, last] = (self._glyphs["total"], style)
            cells[row, first] = (self._glyphs["bill"], style)
            names.setdefault((row, first, last), []).append(name)
        for (row, first, last), group in sorted(names.items()):
            style = _style(_chief(group, self.frontier.choice), self.frontier.choice)
            self._write(cells, ", ".join(group), row, first, last, style)
        return cells

    def _write(self, cells: Cells, text: str, row: int, first: int, last: int, style: str) -> None:
        """Write a name beside its point, where nothing else is."""
        for at in (row, row + 1, row - 1, row + 2, row - 2):
            for start in (last + 2, first - 1 - len(text)):
                place = [(at, start + n) for n in range(-1, len(text) + 1)]
                if 0 <= at < _ROWS and start >= 0 and start + len(text) <= self.width and not cells.keys() & set(place):
                    cells.update({(at, start + n): (letter, style) for n, letter in enumerate(text)})
                    return

    def foot(self) -> list[Text]:
        line = [self._glyphs["way"]] * self.width
        labels = [" "] * (self.width + 5)
        for n in range(5):
            column = round(n * (self.width - 1) / 4)
            line[column] = self._glyphs["cut"]
            text = f"{self._left + (self._right - self._left) * column / (self.width - 1):.2f}"
            start = min(max(0, column - 2), self.width - len(text))
            labels[start : start + len(text)] = text
        return [
            screen.styled_text((" " * (_LEFT - 1) + self._glyphs["corner"] + "".join(line), "dim")),
            screen.styled_text((" " * _LEFT + "".join(labels).rstrip(), "dim")),
        ]


def _chief(names: list[str], choice: str) -> str:
    return choice if choice in names else names[0]
