"""Draw the README's picture of `ebb demo`, its last frame: `python -m scripts.draw_demo`.

Blocks and shades are drawn as shapes, because fonts draw them differently. It loads no font and runs no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from io import StringIO
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.segment import Segment

from ebbtide.fronts.demo.render import Brush, Film, draw_film
from ebbtide.fronts.demo.story import Moment, play_story
from ebbtide.policy import PRESETS

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.svg"
COLUMNS, LINES = 100, 33
WIDE, HIGH = 9.0, 19.0
"""Size of a letter, in pixels."""
EDGE, BAR = 22, 44
PAPER, RIM, INK, FAINT = "#12161c", "#2b323b", "#d7dde4", 0.55
STEPS = " ▁▂▃▄▅▆▇█"
SHADES = {"░": 0.30, "▒": 0.55}
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def frame(moments: Iterable[Moment]) -> list[list[Segment]]:
    film = Film()
    for moment in moments:
        film = film.add(moment)
    console = Console(file=StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    return console.render_lines(draw_film(film, Brush(width=COLUMNS, height=LINES)), pad=False)


def picture(lines: list[list[Segment]]) -> str:
    width, height = 2 * EDGE + COLUMNS * WIDE, BAR + len(lines) * HIGH + EDGE
    extent = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {extent} font-family="{FONT}" font-size="15" role="img">',
        "<title>ebb demo: a recorded session of an agent, kept inside its window</title>",
        *window_parts(width, height),
    ]
    for row, line in enumerate(lines):
        parts += row_parts(line, BAR + row * HIGH)
    return "\n".join([*parts, "</svg>\n"])


def window_parts(width: float, height: float) -> list[str]:
    """Return the SVG of an empty terminal's window."""
    return [
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10" fill="{PAPER}" stroke="{RIM}"/>',
        *(
            f'<circle cx="{24 + 20 * n}" cy="20" r="6" fill="{colour}"/>'
            for n, colour in enumerate(("#ec6a5e", "#f4bf4f", "#61c554"))
        ),
        f'<text x="{width / 2:g}" y="25" fill="#8a929c" text-anchor="middle">$ ebb demo</text>',
    ]


def row_parts(line: list[Segment], top: float) -> Iterator[str]:
    """Return the SVG of one line of the terminal."""
    left = float(EDGE)
    for segment in line:
        for kind, run in groupby(segment.text, key=_kind):
            text = "".join(run)
            yield from _run(kind, text, segment, left, top)
            left += WIDE * cell_len(text)


def _kind(letter: str) -> str:
    return letter if letter in STEPS or letter in SHADES else "text"


def _run(kind: str, text: str, segment: Segment, left: float, top: float) -> Iterator[str]:
    colour, faint, bold = _look(segment)
    width = WIDE * cell_len(text)
    if kind == " ":
        return
    if kind in SHADES:
        yield _block(left, top, width, HIGH, colour, SHADES[kind])
    elif kind in STEPS:
        tall = HIGH * STEPS.index(kind) / (len(STEPS) - 1)
        yield _block(left, top + HIGH - tall, width, tall, colour, 1.0)
    else:
        weight = ' font-weight="bold"' * bold + f' opacity="{FAINT}"' * faint
        yield (
            f'<text x="{left:g}" y="{top + 14.5:g}" fill="{colour}" textLength="{width:g}"'
            f' lengthAdjust="spacingAndGlyphs" xml:space="preserve"{weight}>{escape(text)}</text>'
        )


def _block(left: float, top: float, width: float, height: float, colour: str, opacity: float) -> str:
    seen = "" if opacity == 1.0 else f' fill-opacity="{opacity}"'
    # A little taller, so that there is no gap between two rows.
    return f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height + 0.3:g}" fill="{colour}"{seen}/>'


def _look(segment: Segment) -> tuple[str, bool, bool]:
    style = segment.style
    if style is None:
        return INK, False, False
    colour: Color | None = style.color
    return colour.get_truecolor().hex if colour else INK, bool(style.dim), bool(style.bold)


def main() -> None:
    TARGET.write_text(picture(frame(play_story(PRESETS["default"]))), encoding="utf-8")
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
