"""Draw the README's moving picture of `ebb demo`: `python -m scripts.draw_film`.

It plays the real demo, and draws a frame every few calls and at every event. A row that two frames share is
drawn once, and shown for both. It loads no font and runs no script; a reader who asked
for less motion sees the last frame.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from scripts.draw_demo import BAR, COLUMNS, EDGE, FONT, HIGH, LINES, WIDE, row_parts, window_parts

from ebbtide.fronts.demo.render import Brush, Film, draw_film
from ebbtide.fronts.demo.story import Moment, play_story
from ebbtide.policy import PRESETS

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo-film.svg"
EVERY = 5
"""Calls between two frames without an event."""
STEP, BREATH, EVENT, LAST = 0.3, 0.5, 1.3, 5.0
"""Seconds that a frame is shown: after some calls, before a removal, after an event, and at the end."""

Frame = tuple[float, Sequence[str]]
"""For how many seconds it is shown, and the SVG of each row."""


def play(moments: Iterable[Moment]) -> list[Frame]:
    film, frames, last = Film(), list[Frame](), None
    for moment in moments:
        if moment.events:
            frames.append((BREATH, _rows(film.before(moment))))
        film = film.add(moment)
        if moment.events:
            frames.append((EVENT, _rows(film)))
        elif moment.call % EVERY == 0:
            frames.append((STEP, _rows(film)))
        last = film
    assert last is not None, "the example has calls"
    return [*frames, (LAST, _rows(last))]


def _rows(film: Film) -> list[str]:
    console = Console(file=StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    lines: list[list[Segment]] = console.render_lines(draw_film(film, Brush(width=COLUMNS, height=LINES)), pad=False)
    rows = ("".join(row_parts(line, BAR + row * HIGH)) for row, line in enumerate(lines))
    # The root says it once.
    return [row.replace(' lengthAdjust="spacingAndGlyphs" xml:space="preserve"', "") for row in rows]


def picture(frames: Sequence[Frame]) -> str:
    count = max(len(rows) for _, rows in frames)
    width, height = 2 * EDGE + COLUMNS * WIDE, BAR + count * HIGH + EDGE
    whole = sum(seconds for seconds, _ in frames)
    shown = defaultdict[tuple[float, float], list[str]](list)
    for row in range(count):
        for start, end, drawing in _versions(frames, row):
            shown[start / whole, end / whole].append(drawing)
    styles, groups = [], []
    for n, ((start, end), drawings) in enumerate(sorted(shown.items())):
        styles.append(_keyframes(n, start, end))
        # Without the animation only the last frame is seen.
        at_rest = "" if end > 0.9999 else ' visibility="hidden"'
        groups.append(f'<g class="f{n}"{at_rest}>{"".join(drawings)}</g>')
    extent = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {extent} xml:space="preserve" role="img"',
            f' font-family="{FONT}" font-size="15">',
            "<title>ebb demo: a recorded session of an agent, kept inside its window, call by call</title>",
            "<style>",
            f"g{{animation-duration:{whole:g}s;animation-iteration-count:infinite;animation-timing-function:step-end}}",
            *styles,
            "@media (prefers-reduced-motion:reduce){g{animation:none!important}}",
            "</style>",
            *window_parts(width, height),
            *groups,
            "</svg>\n",
        )
    )


def _versions(frames: Sequence[Frame], row: int) -> Iterator[tuple[float, float, str]]:
    """Return what stands in a row, from when until when."""
    now, since, drawing = 0.0, 0.0, ""
    for seconds, rows in frames:
        current = rows[row] if row < len(rows) else ""
        if current != drawing:
            if drawing:
                yield since, now, drawing
            since, drawing = now, current
        now += seconds
    if drawing:
        yield since, now, drawing


def _keyframes(n: int, start: float, end: float) -> str:
    first = "" if start == 0 else "0%{visibility:hidden}"
    after = "" if end > 0.9999 else f"{end:.3%}{{visibility:hidden}}"
    return f".f{n}{{animation-name:k{n}}}@keyframes k{n}{{{first}{start:.3%}{{visibility:visible}}{after}}}"


def main() -> None:
    TARGET.write_text(picture(play(play_story(PRESETS["default"]))), encoding="utf-8")
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
