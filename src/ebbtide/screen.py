"""Prints to the terminal. Text from a transcript never moves the cursor, rings, or reverses the line.

Colour, tables and progress bars come from rich, which also handles NO_COLOR and pipes. It is imported on first use,
because `ebb --version` should not wait for it.
"""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, TypeVar

from ebbtide.display import make_visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

T = TypeVar("T")

_PIPE_WIDTH = 100_000  # columns: in a pipe a table is as wide as its cells
_MIN_WRAPPED = 24  # columns: in a narrower column a path would break at every syllable
_MIN_CLIPPED = 12  # columns: the start of a title still identifies it
_ASCII = {"─": "-", "━": "-", "−": "-", "·": "-", "…": "...", "→": "->", "×": "x"}
"""Replacements for encodings that lack a character."""


def make_streams_safe() -> None:
    """Escape characters that a stream's encoding lacks, instead of failing.

    A stream that the shell closed (`2>&-`) becomes /dev/null: Python would print to the other stream instead.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("ebb", _escape_unencodable)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="ebb")  # type: ignore[union-attr]


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    escaped = (_ASCII.get(char) or char.encode("ascii", "backslashreplace").decode() for char in characters)
    return "".join(escaped), error.end


def notify(message: str) -> None:
    """Print a message to stderr."""
    print(make_visible(message), file=sys.stderr)


def notify_error(message: str, *next_steps: str) -> None:
    """Print an error to stderr: one prefix for all commands, in colour on a terminal, wrapped between words."""
    if not sys.stderr.isatty():
        notify("\n".join([f"ebb: {message}", *next_steps]))
        return
    from rich.text import Text  # noqa: PLC0415

    draw(Text.assemble(("ebb: ", "bold red"), make_visible(message)), file=sys.stderr)
    for step in next_steps:
        draw(Text(make_visible(step), style="dim"), file=sys.stderr)


def print_text(*sentences: str, file: TextIO | None = None) -> None:
    """Print sentences. On a terminal they wrap between words; in a pipe each is one line."""
    from rich.text import Text  # noqa: PLC0415

    for sentence in sentences:
        draw(Text(make_visible(sentence)), file=file)


def write_bytes(raw: bytes) -> None:
    """Write bytes to stdout unchanged."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(raw.decode("utf-8", "replace"))
    else:
        buffer.write(raw)
    sys.stdout.flush()


def write_text(text: str) -> None:
    """Write stored text: escaped on a terminal, unchanged in a pipe."""
    if sys.stdout.isatty():
        print(make_visible(text))
    else:
        write_bytes(text.encode("utf-8", "surrogatepass"))


def print_json(value: object, *, file: TextIO | None = None) -> None:
    """Print JSON in ASCII, which is safe on a terminal."""
    print(json.dumps(value, indent=2, default=str), file=file or sys.stdout)


def console(file: TextIO | None = None) -> Console:
    from rich.console import Console, ConsoleDimensions  # noqa: PLC0415

    terminal = Console(file=file or sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not terminal.is_terminal:
        return Console(file=terminal.file, markup=False, highlight=False, emoji=False, width=_PIPE_WIDTH, no_color=True)
    if terminal.is_dumb_terminal:  # rich assumes 80 columns for these
        terminal.size = ConsoleDimensions(*shutil.get_terminal_size())
    return terminal


def draw(content: RenderableType, *, file: TextIO | None = None) -> None:
    """Print a renderable. In a pipe, leave out the blanks that rich pads lines with."""
    target = console(file)
    if target.is_terminal:
        target.print(content)
        return
    if isinstance(content, _Table):
        print(content.plain(), file=file or sys.stdout)
        return
    with target.capture() as capture:
        target.print(content)
    print("\n".join(row.rstrip() for row in capture.get().splitlines()), file=file or sys.stdout)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    figures: Container[str] = (),
    wraps: str = "",
    clips: str = "",
) -> RenderableType:
    """Make a table. `figures` are aligned to the right; `wraps` or `clips` names the column that may shrink.

    If the terminal is still too narrow, each row becomes two lines: its text, and its figures with their headings.
    """
    cells = [[make_visible(cell) for cell in row] for row in rows]
    sides = [(name, "right" if name in figures else "left") for name in columns]
    return _Table(columns=tuple(sides), cells=cells, wraps=wraps, clips=clips)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Chooses its form when drawn, by the width of the terminal."""

    columns: tuple[tuple[str, str], ...]
    cells: list[list[str]]
    wraps: str
    clips: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        widths = self._widths()
        # Two blanks separate columns.
        spare = options.max_width - sum(widths) - 2 * (len(widths) - 1)
        if spare < 0 and (self.wraps or self.clips):
            index = [name for name, _ in self.columns].index(self.wraps or self.clips)
            width = widths[index]
            widths[index] = max(width + spare, min(width, _MIN_WRAPPED if self.wraps else _MIN_CLIPPED))
            spare += width - widths[index]
        if spare < 0:
            yield from self._two_line_rows()
        else:
            yield self._table(widths)

    def plain(self) -> str:
        """The table for a pipe. Rich would take a minute for a thousand tables."""
        from rich.cells import cell_len  # noqa: PLC0415

        widths, lines = self._widths(), list[str]()
        for row in ([name for name, _ in self.columns], *self.cells):
            blanks = [" " * (widths[n] - cell_len(cell)) for n, cell in enumerate(row)]
            cells = zip(row, blanks, self.columns, strict=True)
            lines.append("  ".join(gap + cell if side == "right" else cell + gap for cell, gap, (_, side) in cells))
        return "\n".join(line.rstrip() for line in lines)

    def _widths(self) -> list[int]:
        from rich.cells import cell_len  # noqa: PLC0415

        rows = [[name for name, _ in self.columns], *self.cells]
        return [max(cell_len(row[n]) for row in rows) for n in range(len(self.columns))]

    def _table(self, widths: list[int]) -> RenderableType:
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for n, (heading, side) in enumerate(self.columns):
            table.add_column(
                heading,
                justify="right" if side == "right" else "left",
                no_wrap=heading != self.wraps,
                overflow="ellipsis" if heading == self.clips else "fold",
                width=widths[n],
            )
        for row in self.cells:
            table.add_row(*map(Text, row))
        return table

    def _two_line_rows(self) -> Iterator[RenderableType]:
        from rich.padding import Padding  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        figures = [n for n, (_, side) in enumerate(self.columns) if side == "right"]
        texts = [
            n for n, (_, side) in enumerate(self.columns) if side == "left" and n < max(figures, default=_PIPE_WIDTH)
        ]
        for row in self.cells:
            yield Text("  ".join(row[n] for n in texts if row[n]), style="bold")
            details = [f"{self.columns[n][0]} {cell}" for n, cell in enumerate(row) if cell and n not in texts]
            if details:
                yield Padding(Text(" · ".join(details)), (0, 0, 0, 4))


def command_list(rows: Iterable[tuple[str, str]]) -> RenderableType:
    """Commands in one column and what they do in the other, which wraps within its column."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for command, meaning in rows:
        if command:
            grid.add_row(Text(f"  {command}", style="green"), Text(meaning))
        else:
            grid.add_row(Text(""), Text(meaning))
    return grid


def styled_text(*parts: tuple[str, str]) -> Text:
    """One line of texts, each with its style."""
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(*parts, no_wrap=True)


def show_progress(steps: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Yield the steps, with a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield from steps
        return
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(make_visible(label), total=total)
        for step in steps:
            yield step
            bar.advance(task)


def can_draw(characters: str) -> bool:
    """Whether the encoding of stdout has these characters."""
    with suppress(UnicodeEncodeError, LookupError):
        characters.encode(sys.stdout.encoding or "ascii")
        return True
    return False
