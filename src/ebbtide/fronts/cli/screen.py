"""What reaches a terminal. Text from a transcript never moves the cursor, rings, or turns the line around.

Colour, tables and bars come from rich, which is imported on first use: `ebb --version` does not wait for it. It also
looks after NO_COLOR and pipes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, TypeVar

from ebbtide.showing import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

T = TypeVar("T")

_WIDE = 100_000  # columns: in a pipe a table is as wide as its cells


def say(message: str) -> None:
    """A word to the person, beside the data."""
    print(visible(message), file=sys.stderr)


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
    from rich.console import Console  # noqa: PLC0415

    made = Console(file=file or sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=False)
    return made if made.is_terminal else Console(
        file=file or sys.stdout, markup=False, highlight=False, emoji=False, width=_WIDE, no_color=True
    )  # fmt: skip


def draw(what: RenderableType, *, file: TextIO | None = None) -> None:
    """Render without the blanks that rich pads lines with."""
    to = console(file)
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
    """`columns` are headings and their side. On a narrow terminal one column gives way: it folds, or it is clipped."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [[visible(cell) for cell in row] for row in rows]
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for n, (heading, side) in enumerate(columns):
        gives_way = heading in (folds, clips) and heading != ""
        made.add_column(
            heading,
            justify="right" if side == "right" else "left",
            no_wrap=heading != folds,
            overflow="ellipsis" if heading == clips else "fold",
            min_width=None if gives_way else max(len(row[n]) for row in [[name for name, _ in columns], *cells]),
        )
    for row in cells:
        made.add_row(*map(Text, row))
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
        task = bar.add_task(visible(doing), total=total)
        for step in steps:
            yield step
            bar.advance(task)


def can_draw(characters: str) -> bool:
    """Whether stdout's encoding has these."""
    with suppress(UnicodeEncodeError, LookupError):
        characters.encode(sys.stdout.encoding or "ascii")
        return True
    return False
