"""Draws the README's picture: `python -m scripts.draw_session`. Every figure in it comes from replaying the example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import ebbtide
from ebbtide.example import path

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "session.svg"
WINDOW = 100_000
WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 52
INK, FAINT, RAW, OURS, LIMIT = "#24292f", "#d0d7de", "#8c959f", "#0969da", "#cf222e"


@dataclass(frozen=True, slots=True)
class Session:
    raw: list[int]
    """Tokens of each request as the client had it."""
    fitted: list[int]
    """The same requests as they went out."""
    batches: list[tuple[int, int]]
    """Which request, counted from 0, edits were recorded for, and how many."""
    acts_at: int


def replayed() -> Session:
    """The example with and without Ebbtide, on the clock of the recording."""
    calls = list(ebbtide.load(path()).requests())
    now = [0.0]
    idle = replace(ebbtide.preset("default"), arrival=(), pressure=(), last_resort=())
    plain = ebbtide.Context(window=10_000_000, policy=idle, clock=lambda: now[0])
    fitting = ebbtide.Context(window=WINDOW, clock=lambda: now[0])
    raw, fitted, batches, acts_at = [], [], [], 0
    for place, call in enumerate(calls):
        now[0] = call.at or 0.0
        raw.append(plain.prepare(call.request).report.tokens_after)
        report = fitting.prepare(call.request).report
        fitted.append(report.tokens_after)
        acts_at = report.auto_at
        if report.edits:
            batches.append((place, len(report.edits)))
    return Session(raw, fitted, batches, acts_at)


def drawn(session: Session) -> str:
    most = -(-max(session.raw) // 20_000) * 20_000
    last = len(session.raw) - 1

    def x(place: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * place / last, 1)

    def y(tokens: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * tokens / most, 1)

    def line(tokens: list[int]) -> str:
        return " ".join(f"{x(place)},{y(count)}" for place, count in enumerate(tokens))

    def text(at: float, height: float, words: str, more: str = "") -> str:
        return f'<text x="{at}" y="{height}" {more}>{words}</text>'

    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for tokens in range(0, most + 1, 20_000):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tokens)}" y2="{y(tokens)}" stroke="{FAINT}"/>')
        parts.append(text(LEFT - 8, y(tokens) + 4, f"{tokens // 1000}k", 'text-anchor="end"'))
    parts += [text(x(place), HEIGHT - BOTTOM + 20, str(place), 'text-anchor="middle"') for place in range(0, last, 10)]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "model call", 'text-anchor="middle"'))
    parts.append(text(LEFT, 24, f"One agent session of {last + 1} calls, tokens per request", 'font-weight="bold"'))
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(WINDOW)}" y2="{y(WINDOW)}" stroke="{LIMIT}"/>')
    parts.append(text(LEFT + 8, y(WINDOW) - 6, f"window, {WINDOW // 1000}k", f'fill="{LIMIT}"'))
    acts = y(session.acts_at)
    parts.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{acts}" y2="{acts}" stroke="{OURS}" stroke-dasharray="3 4"/>'
    )
    parts.append(text(x(40), acts - 6, f"acts at {session.acts_at / 1000:.0f}k: 32k are the reply's", f'fill="{OURS}"'))
    parts.append(f'<polyline points="{line(session.raw)}" fill="none" stroke="{RAW}" stroke-width="2"/>')
    parts.append(f'<polyline points="{line(session.fitted)}" fill="none" stroke="{OURS}" stroke-width="2.5"/>')
    for place, count in session.batches:
        edits = f"{count} edit" + "s" * (count > 1)
        parts.append(f'<circle cx="{x(place)}" cy="{y(session.fitted[place])}" r="4.5" fill="{OURS}"/>')
        parts.append(
            text(
                x(place),
                y(session.fitted[place]) + (20 if place > 9 else -10),
                edits,
                f'text-anchor="middle" fill="{OURS}"',
            )
        )
    end = f"as the client had it: {session.raw[-1] / 1000:.0f}k"
    parts.append(text(x(last), y(session.raw[-1]) - 8, end, 'text-anchor="end" fill="#57606a"'))
    ours = f"with Ebbtide: {session.fitted[-1] / 1000:.0f}k"
    parts.append(text(x(last), y(0) - 8, ours, f'text-anchor="end" fill="{OURS}"'))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'{head} font-family="sans-serif" font-size="13" fill="{INK}">\n' + "\n".join(parts) + "\n</svg>\n"


def main() -> None:
    session = replayed()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(drawn(session), encoding="utf-8")
    print(f"{len(session.raw)} calls, {session.raw[-1]:,} tokens raw and {session.fitted[-1]:,} fitted at the end")
    print(f"largest request: {max(session.raw):,} raw, {max(session.fitted):,} fitted; batches {session.batches}")


if __name__ == "__main__":
    main()
