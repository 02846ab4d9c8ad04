"""What reaches a terminal. Text from a transcript never moves the cursor, rings, or turns the line around.

Colour, tables and bars come from rich, which is imported on first use: `ebb --version` does not wait for it. It also
looks after NO_COLOR and pipes.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, TypeVar

from ebbtide.display import make_visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

T = TypeVar("T")

_WIDE = 100_000  # columns: in a pipe a table is as wide as its cells
_FOLDED = 24  # columns: narrower than that, a path that folds stands a syllable to a line
_CLIPPED = 12  # columns: the beginning of a title still says which it is
_PLAIN = {"─": "-", "━": "-", "−": "-", "·": "-", "…": "...", "→": "->", "×": "x"}
"""What we draw with, for encodings that lack it."""


def never_choke() -> None:
    """A character that the stream's encoding lacks is written out, and ends nothing.

    A stream that the shell closed (`2>&-`) goes nowhere: Python would print to the other one instead.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as we run
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("ebb", _written_out)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="ebb")  # type: ignore[union-attr]


def _written_out(failed: UnicodeError) -> tuple[str, int]:
    if not isinstance(failed, UnicodeEncodeError):
        raise failed
    lacking = failed.object[failed.start : failed.end]
    return "".join(_PLAIN.get(one) or one.encode("ascii", "backslashreplace").decode() for one in lacking), failed.end


def say(message: str) -> None:
    """A word to the person, beside the data."""
    print(make_visible(message), file=sys.stderr)


def tell(*sentences: str, file: TextIO | None = None) -> None:
    """Beside a table. On a terminal a line ends between words; in a pipe a sentence is one line."""
    from rich.text import Text  # noqa: PLC0415

    for sentence in sentences:
        draw(Text(make_visible(sentence)), file=file)


def data(raw: bytes) -> None:
    """Bytes as they are."""
    sys.stdout.flush()
    out = getattr(sys.stdout, "buffer", None)
    if out is None:
        sys.stdout.write(raw.decode("utf-8", "replace"))
    else:
        out.write(raw)
    sys.stdout.flush()


def show_json(value: object, *, file: TextIO | None = None) -> None:
    """Pure ASCII, so that it is as harmless on a terminal as it is exact in a pipe."""
    print(json.dumps(value, indent=2, default=str), file=file or sys.stdout)


def console(file: TextIO | None = None) -> Console:
    from rich.console import Console, ConsoleDimensions  # noqa: PLC0415

    made = Console(file=file or sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not made.is_terminal:
        return Console(file=made.file, markup=False, highlight=False, emoji=False, width=_WIDE, no_color=True)
    if made.is_dumb_terminal:  # rich takes it to be 80 columns wide, whatever it is
        made.size = ConsoleDimensions(*shutil.get_terminal_size())
    return made


def draw(what: RenderableType, *, file: TextIO | None = None) -> None:
    """Render without the blanks that rich pads lines with."""
    to = console(file)
    if isinstance(what, _Rows) and not to.is_terminal:
        print(what.plain(), file=file or sys.stdout)
        return
    if to.is_terminal:
        to.print(what)
        return
    with to.capture() as held:
        to.print(what)
    plain = "\n".join(row.rstrip() for row in held.get().splitlines())
    print(plain, file=file or sys.stdout)


def table(
    columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]], *, folds: str = "", clips: str = ""
) -> RenderableType:
    """`columns` are headings and their side. On a narrow terminal one column gives way: it folds, or it is clipped.

    Where that is not enough, a row becomes two lines: its words, and its figures with their headings. None is cut.
    """
    cells = [[make_visible(cell) for cell in row] for row in rows]
    return _Rows(columns=tuple(columns), cells=cells, folds=folds, clips=clips)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Chooses its form when it is drawn, by the room that there is."""

    columns: tuple[tuple[str, str], ...]
    cells: list[list[str]]
    folds: str
    clips: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = self._widths()
        # Two blanks stand between columns.
        room = options.max_width - sum(widths) - 2 * (len(widths) - 1)
        names = [name for name, _ in self.columns]
        if room < 0 and (self.folds or self.clips):
            giving = names.index(self.folds or self.clips)
            widths[giving] = max(widths[giving] + room, min(widths[giving], _FOLDED if self.folds else _CLIPPED))
            room = options.max_width - sum(widths) - 2 * (len(widths) - 1)
        if room < 0:
            yield from self._stacked()
        else:
            yield self._table(widths)

    def plain(self) -> str:
        """For a pipe: as wide as its cells. Of a thousand tables rich would make a minute's work."""
        from rich.cells import cell_len  # noqa: PLC0415

        widths, told = self._widths(), list[str]()
        for row in ([name for name, _ in self.columns], *self.cells):
            blanks = [" " * (widths[n] - cell_len(cell)) for n, cell in enumerate(row)]
            sides = zip(row, blanks, self.columns, strict=True)
            told.append("  ".join(gap + cell if side == "right" else cell + gap for cell, gap, (_, side) in sides))
        return "\n".join(line.rstrip() for line in told)

    def _widths(self) -> list[int]:
        from rich.cells import cell_len  # noqa: PLC0415

        rows = [[name for name, _ in self.columns], *self.cells]
        return [max(cell_len(row[n]) for row in rows) for n in range(len(self.columns))]

    def _table(self, widths: list[int]) -> RenderableType:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for n, (heading, side) in enumerate(self.columns):
            made.add_column(
                heading,
                justify="right" if side == "right" else "left",
                no_wrap=heading != self.folds,
                overflow="ellipsis" if heading == self.clips else "fold",
                width=widths[n],
            )
        for row in self.cells:
            made.add_row(*map(Text, row))
        return made

    def _stacked(self) -> Iterator[RenderableType]:
        from rich.padding import Padding  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        figures = [n for n, (_, side) in enumerate(self.columns) if side == "right"]
        words = [n for n, (_, side) in enumerate(self.columns) if side == "left" and n < max(figures, default=_WIDE)]
        for row in self.cells:
            yield Text("  ".join(row[n] for n in words if row[n]), style="bold")
            rest = [f"{self.columns[n][0]} {cell}" for n, cell in enumerate(row) if cell and n not in words]
            if rest:
                yield Padding(Text(" · ".join(rest)), (0, 0, 0, 4))


def pairs(rows: Iterable[tuple[str, str]]) -> RenderableType:
    """Words to type, and beside them what they do, which keeps to its side where it takes several lines."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for words, what in rows:
        made.add_row(Text(f"  {words}", style="green"), Text(what))
    return made


def styled(*parts: tuple[str, str]) -> Text:
    """Words and their styles, on one line."""
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(*parts, no_wrap=True)


def watched(steps: Iterable[T], doing: str, total: int | None = None) -> Iterator[T]:
    """The steps, with a bar on the terminal where a person may be waiting."""
    if not sys.stderr.isatty():
        yield from steps
        return
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(make_visible(doing), total=total)
        for step in steps:
            yield step
            bar.advance(task)


def can_draw(characters: str) -> bool:
    """Whether stdout's encoding has these."""
    with suppress(UnicodeEncodeError, LookupError):
        characters.encode(sys.stdout.encoding or "ascii")
        return True
    return False
