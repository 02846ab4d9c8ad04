"""Shared parts of the drawings: one width, one set of colours for light and dark mode, no font to load.

Drawings name their colours, and one table says what each is in light and in dark mode. So a drawing is legible
everywhere and follows the colour scheme of the page around it.
"""

from __future__ import annotations

from html import escape

from ebbtide.palette import DARK, LIGHT, PARTS

WIDTH = 860
COLOURS = {
    # name: (in light, in dark)
    "paper": ("#ffffff", "#151b23"),
    "edge": ("#d8dee4", "#30363d"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "faint": ("#d0d7de", "#3d444d"),
    "raw": (LIGHT["raw"], DARK["raw"]),
    "panel": ("#f6f8fa", "#1c232c"),
    "ours": (LIGHT["ours"], DARK["ours"]),
    "water": ("#a9dcd6", "#17504b"),
    "tint": ("#e0f3f1", "#10302d"),
    "user": ("#96690a", PARTS["user"]),
    "assistant": ("#b9d7f7", "#23466e"),
    "call": ("#d9cff7", "#3d3470"),
    "green": ("#1a7f37", "#3fb950"),
    "leaf": ("#aceebb", "#1f5a33"),
    "amber": ("#9a6700", "#d29922"),
    "sand": ("#fae17d", "#5f4700"),
    "limit": (LIGHT["limit"], DARK["limit"]),
    "trigger": (LIGHT["trigger"], DARK["trigger"]),
    "rose": ("#ffcecb", "#67211f"),
}
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def _style() -> str:
    def rules(which: int) -> str:
        return "".join(
            f".{name}{{fill:{pair[which]}}}.s-{name}{{stroke:{pair[which]}}}" for name, pair in COLOURS.items()
        )

    plain = f".mono{{font-family:{MONO}}}.line{{fill:none}}"
    return f"<style>{plain}{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}</style>"


def drawing(parts: list[str], *, height: float, title: str) -> str:
    """Return the file's text. Screen readers read the title aloud."""
    box = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" font-family="system-ui, sans-serif" font-size="13">'
    )
    paper = rect(0.5, 0.5, WIDTH - 1, height - 1, "paper s-edge", round=10)
    return "\n".join([head, f"<title>{escape(title)}</title>", _style(), paper, *parts, "</svg>"]) + "\n"


def text(
    x: float, y: float, words: str, colour: str = "ink", *, size: float = 13, at: str = "start", more: str = ""
) -> str:
    weight = ' font-weight="600"' if "bold" in more.split() else ""
    kind = " mono" if "mono" in more.split() else ""
    anchor = "" if at == "start" else f' text-anchor="{at}"'
    grown = "" if size == 13 else f' font-size="{size:g}"'
    space = ' xml:space="preserve"' if "  " in words else ""
    return f'<text x="{x:.4g}" y="{y:.4g}" class="{colour}{kind}"{grown}{anchor}{weight}{space}>{escape(words)}</text>'


def lines(
    x: float, y: float, words: list[str], colour: str = "soft", *, step: float = 17, size: float = 12, **how: str
) -> str:
    return "\n".join(text(x, y + step * n, line, colour, size=size, **how) for n, line in enumerate(words))


def rect(x: float, y: float, width: float, height: float, colour: str, *, round: float = 0) -> str:
    corners = f' rx="{round:g}"' if round else ""
    return (
        f'<rect x="{x:.5g}" y="{y:.5g}" width="{max(width, 0):.5g}" height="{height:.5g}"{corners} class="{colour}"/>'
    )


def path(steps: str, colour: str, *, width: float = 1.5, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{steps}" class="line s-{colour}" stroke-width="{width:g}"{dashed}/>'


def shape(steps: str, colour: str, *, opacity: float = 1) -> str:
    seen = "" if opacity == 1 else f' opacity="{opacity:g}"'
    return f'<path d="{steps}" class="{colour}"{seen}/>'


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str = "soft", *, width: float = 1.6) -> str:
    """A straight arrow along an axis."""
    dx, dy = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    side_x, side_y = 4 * abs(dy), 4 * abs(dx)
    foot_x, foot_y = to_x - 7 * dx, to_y - 7 * dy
    head = f"M{to_x:g} {to_y:g}L{foot_x + side_x:g} {foot_y + side_y:g}L{foot_x - side_x:g} {foot_y - side_y:g}Z"
    return path(f"M{x:g} {y:g}L{foot_x:g} {foot_y:g}", colour, width=width) + shape(head, colour)


def tokens(count: float) -> str:
    """Format a number of tokens for people."""
    return f"{count:,.0f}" if count < 10_000 else f"{count / 1000:.1f}k" if count < 100_000 else f"{count / 1000:.0f}k"
