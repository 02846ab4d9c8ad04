"""Draw the README's picture: `python -m scripts.draw_session`. Every figure in it comes from replaying the example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.drawing import WIDTH, drawing, path, shape, text

from ebbtide import example, preset
from ebbtide.formats import load
from ebbtide.money import session_cost
from ebbtide.replay.simulate import simulate

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "session.svg"
WINDOW = 100_000
HEIGHT = 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 52


@dataclass(frozen=True, slots=True)
class Session:
    raw: list[int]
    """Tokens of each request of the client."""
    fitted: list[int]
    """Tokens of the same requests as they were sent."""
    batches: list[tuple[int, int]]
    """Requests with new edits: their index, and how many edits."""
    acts_at: int


def replayed() -> Session:
    """Replay the example as `ebb report` does."""
    recording = load(example.path())
    calls, policy = list(recording.requests()), preset("default")
    history, _ = simulate(
        calls, name="example", wire=recording.wire, policy=policy, window=WINDOW, format=recording.format
    )
    lines = session_cost(history.records).tokens.calls
    batches = [(step.turn.number - 1, len(step.batch.edits)) for step in history.steps]
    acts_at = policy.levels(WINDOW, policy.output_reserved, 0).auto
    return Session([line.untouched_tokens for line in lines], [line.tokens for line in lines], batches, acts_at)


def drawn(session: Session) -> str:
    most = -(-max(session.raw) // 20_000) * 20_000
    last = len(session.raw) - 1
    end = WIDTH - RIGHT

    def x(place: float) -> float:
        return round(LEFT + (end - LEFT) * place / last, 1)

    def y(tokens: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * tokens / most, 1)

    def line(tokens: list[int]) -> str:
        return "M" + "L".join(f"{x(place)} {y(count)}" for place, count in enumerate(tokens))

    parts = [text(LEFT, 30, f"One agent session of {last + 1} calls, tokens per request", size=15, more="bold")]
    for tokens in range(0, most + 1, 20_000):
        parts.append(path(f"M{LEFT} {y(tokens)}H{end}", "edge", width=1))
        parts.append(text(LEFT - 8, y(tokens) + 4, f"{tokens // 1000}k", "soft", size=12, at="end"))
    parts += [text(x(n), HEIGHT - BOTTOM + 20, str(n), "soft", size=12, at="middle") for n in range(0, last, 10)]
    parts.append(text((LEFT + end) / 2, HEIGHT - 12, "model call", "soft", size=12, at="middle"))
    parts.append(shape(f"{line(session.fitted)}V{y(0)}H{LEFT}Z", "water", opacity=0.35))
    parts.append(path(f"M{LEFT} {y(WINDOW)}H{end}", "limit", width=1.4))
    parts.append(text(LEFT + 8, y(WINDOW) - 6, f"window, {WINDOW // 1000}k", "limit"))
    parts.append(path(f"M{LEFT} {y(session.acts_at)}H{end}", "trigger", width=1, dash="3 4"))
    acts = f"acts at {session.acts_at / 1000:.0f}k: 32k are reserved for the reply"
    parts.append(text(x(42), y(session.acts_at) - 7, acts, "trigger"))
    parts.append(path(line(session.raw), "raw", width=2))
    parts.append(path(line(session.fitted), "ours", width=2.5))
    parts += _batches(session, x, y)
    parts.append(text(end, y(session.raw[-1]) - 9, f"without Ebbtide: {session.raw[-1] / 1000:.0f}k", "soft", at="end"))
    ours = f"with Ebbtide: {session.fitted[-1] / 1000:.0f}k"
    parts.append(text(end, y(0) - 9, ours, "ours", at="end", more="bold"))
    return drawing(parts, height=HEIGHT, title="Tokens per request of one session, with and without Ebbtide")


def _batches(session: Session, x: Callable[[float], float], y: Callable[[float], float]) -> Iterator[str]:
    """Draw a dot and a label for each batch. A label that would overlap the previous one goes lower."""
    before, row = -100.0, 0
    for place, count in session.batches:
        at, height = x(place), y(session.fitted[place])
        row = 1 - row if at - before < 62 else 0
        before = at
        low = height + 20 + 15 * row if place > 9 else height - 11
        yield f'<circle cx="{at}" cy="{height}" r="4.5" class="ours"/>'
        yield text(min(at, WIDTH - RIGHT - 20), low, f"{count} edit" + "s" * (count > 1), "ours", size=12, at="middle")


def main() -> None:
    session = replayed()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(drawn(session), encoding="utf-8")
    print(f"{len(session.raw)} calls, {session.raw[-1]:,} tokens raw and {session.fitted[-1]:,} fitted at the end")
    print(f"largest request: {max(session.raw):,} raw, {max(session.fitted):,} fitted; batches {session.batches}")


if __name__ == "__main__":
    main()
