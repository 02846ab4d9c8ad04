"""Draws a moment of the demo: tokens per call, what is in the window, the bills, and what happened.

Solid is what was sent, shaded what would have been sent, so that it can be read without colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from ebbtide.display import one_line, round_number, short_number
from ebbtide.fronts.demo.story import Bill, Event, Moment
from ebbtide.palette import PARTS, TERMINAL

OURS, RAW, LIMIT, TRIGGER = (TERMINAL[name] for name in ("ours", "raw", "limit", "trigger"))
QUIET = RAW
_MARK = {
    "overflow": LIMIT,
    "offload": TERMINAL["edit"],
    "removed": TERMINAL["edit"],
    "summary": TERMINAL["summary"],
    "recall": TERMINAL["good"],
}
_PART = {
    "text": ("text", PARTS["user"]),
    "call": ("calls", PARTS["tool calls"]),
    "result": ("results", PARTS["tool results"]),
    "image": ("images", PARTS["images"]),
    "thinking": ("thinking", PARTS["thinking"]),
}
_MOST_ROWS, _FEWEST_ROWS = 10, 5
"""Of the chart."""
_LABEL = 8
_ABOVE = 1.3
"""The top of the chart, as a multiple of the window. Requests beyond it are only labelled."""
_FIXED = 6
"""Lines that are always there: the title, the chart's legend, the request, the bills."""
_EVENTS = 5
"""Lines of events that the chart leaves free."""
_TALL = 28
"""Lines of a terminal that has room for blank ones."""
WIDEST = 100
"""Columns; longer lines of text are hard to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brush:
    """What the terminal can show."""

    width: int
    height: int = 30
    ascii_only: bool = False

    @property
    def columns(self) -> int:
        """Of the chart."""
        return self.text_width - _LABEL - 2

    @property
    def text_width(self) -> int:
        return min(self.width, WIDEST)

    @property
    def blanks(self) -> int:
        """Blank lines between the parts."""
        return 4 if self.height >= _TALL else 1

    @property
    def free_rows(self) -> int:
        """Lines for the chart and the events: the last frame, what to try next and the prompt must fit the terminal."""
        return self.height - 1 - _FIXED - self.blanks - len(next_steps(0))

    @property
    def chart_rows(self) -> int:
        return max(_FEWEST_ROWS, min(_MOST_ROWS, self.free_rows - _EVENTS))

    @property
    def event_rows(self) -> int:
        return max(3, self.free_rows - self.chart_rows)

    @property
    def steps(self) -> str:
        """From nothing to a full cell."""
        return " .:-=+*##" if self.ascii_only else " ▁▂▃▄▅▆▇█"

    def sign(self, drawn: str, plain: str) -> str:
        return plain if self.ascii_only else drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """The moments so far."""

    moments: tuple[Moment, ...] = ()
    events: tuple[Event, ...] = ()

    def add(self, moment: Moment) -> Film:
        return Film(moments=(*self.moments, moment), events=(*self.events, *moment.events))

    def before(self, moment: Moment) -> Film:
        """With the next call as it would be without its edits."""
        return self.add(replace(moment, sent=moment.before, parts=(), events=()))


def draw_film(film: Film, brush: Brush) -> RenderableType:
    now = film.moments[-1]
    blank = [Text()] if brush.height >= _TALL else []
    rows = [
        _title(now, brush),
        *blank,
        *_chart(film.moments, brush),
        _axis(now, brush),
        *blank,
        *_window(now, brush),
        *blank,
        *_bill(now.bill, brush),
        Text(),
        *(event_line(event, brush) for event in _newest(film.events, brush.event_rows)),
    ]
    return Group(*rows)


def next_steps(window: int) -> tuple[str, ...]:
    return (
        f"Next:  ebb explain --example --window {window // 1000}k    what was removed, and why",
        "       ebb audit                             what your own sessions cost",
        "       ebb run -- claude                     keep your agent inside its window",
    )


def _newest(events: Sequence[Event], room: int) -> Sequence[Event]:
    """The newest events; the overflow stays, because without it you do not see why the others are needed."""
    newest = events[-room:]
    overflow = [event for event in events[: len(events) - len(newest)] if event.kind == "overflow"]
    return [*overflow, *newest[len(overflow) :]]


def event_line(event: Event, brush: Brush) -> Text:
    saved = f"{brush.sign('−', '-')}{short_number(event.saved)}" if event.saved else ""
    room = brush.text_width - 16 - (8 if saved else 0)
    text = one_line(brush.sign(event.text, _ascii(event.text)), room)
    return Text.assemble(
        (f" {event.call:>3}  ", QUIET),
        (f"{event.kind:<9} ", f"bold {_MARK[event.kind]}"),
        f"{text:<{room}}",
        (f"{saved:>8}" if saved else "", f"bold {OURS}"),
        no_wrap=True,
    )


def _ascii(text: str) -> str:
    return text.replace("“", '"').replace("”", '"').replace("→", "->")


def _title(now: Moment, brush: Brush) -> Text:
    dot, room = brush.sign("·", "-"), brush.text_width
    facts = f" window {round_number(now.window)} {dot} no model is called"
    title = f" an agent repairs a tide gauge's report {dot}{facts}"
    count = f"call {now.call} of {now.calls}"
    text = title if len(f"ebb demo{title}  {count}") <= room else facts
    gap = max(2, room - len(f"ebb demo{text}{count}"))
    return Text.assemble(("ebb demo", "bold"), (text, QUIET), " " * gap, (count, "bold"), no_wrap=True)


def _chart(moments: Sequence[Moment], brush: Brush) -> Iterator[Text]:
    now = moments[-1]
    places = [round(column * (now.calls - 1) / (brush.columns - 1)) for column in range(brush.columns)]
    unit = now.window * _ABOVE / brush.chart_rows
    for row in reversed(range(brush.chart_rows)):
        base = row * unit
        cells = [_cell(moments[place] if place < len(moments) else None, now, base, unit, brush) for place in places]
        text = Text(no_wrap=True)
        text.append(*_label(now, base, unit))
        for style, run in groupby(cells, key=lambda cell: cell[1]):
            text.append("".join(sign for sign, _ in run), style)
        yield text


def _label(now: Moment, base: float, unit: float) -> tuple[str, str]:
    for name, tokens, style in _levels(now):
        if base <= tokens < base + unit:
            return f"{name:>{_LABEL - 1}} ", style
    return f"{round_number(round(base + unit)):>{_LABEL - 1}} ", QUIET


def _levels(now: Moment) -> tuple[tuple[str, int, str], ...]:
    return ("window", now.window, LIMIT), ("acts", now.acts_at, TRIGGER)


def _cell(moment: Moment | None, now: Moment, base: float, unit: float, brush: Brush) -> tuple[str, str]:
    """One call in moment row of the chart: what was sent, what was just removed, or what would have been sent."""
    if moment is not None:
        if filled := _eighths(moment.sent, base, unit):
            return brush.steps[filled], OURS
        if _eighths(moment.before, base, unit) >= _HALF:
            return brush.sign("▒", "%"), OURS
        if _eighths(moment.raw, base, unit) >= _HALF:
            top = base + unit >= now.window * _ABOVE - 1 and moment.raw > base + unit
            return (brush.sign("▴", "^") if top else brush.sign("░", ":")), LIMIT if base + unit > now.window else RAW
    for _, tokens, style in _levels(now):
        if base <= tokens < base + unit:
            return brush.sign("┄", "-"), f"dim {style}"
    return " ", ""


_HALF = 4


def _eighths(tokens: int, base: float, unit: float) -> int:
    """How much of the cell is filled. In the bottom row it is never nothing."""
    filled = round(8 * min(1.0, max(0.0, (tokens - base) / unit)))
    return max(filled, 1) if base == 0 and tokens else filled


def _axis(now: Moment, brush: Brush) -> Text:
    sent = f"{brush.sign('█', '#')} sent {short_number(now.sent)}"
    without = f"{brush.sign('░', ':')} without Ebbtide {short_number(now.raw)}"
    over = f"{brush.sign('░', ':')} over the window"
    removed = f"{brush.sign('▒', '%')} removed"
    beyond = ("  ", (over, LIMIT)) if now.raw > now.window else ()
    return Text.assemble(" " * _LABEL, (sent, OURS), "  ", (removed, OURS), "  ", (without, RAW), *beyond, no_wrap=True)


def _window(now: Moment, brush: Brush) -> Iterator[Text]:
    """The parts of the request, as shares of the window."""
    full, free = brush.sign("█", "#"), brush.sign("·", ".")
    bar, legend = Text(f"{'request':>{_LABEL - 1}} ", style=QUIET), Text(" " * _LABEL, no_wrap=True)
    free_share = max(0.0, 1 - now.sent / now.acts_at) if now.acts_at else 0.0
    left = f"left until it acts: {free_share:.0%}"
    used = 0
    for kind, tokens in now.parts:
        name, style = _PART.get(kind, (kind, QUIET))
        cells = round(brush.columns * tokens / now.window)
        used += cells
        bar.append(full * cells, style)
        part = f"{full} {name} {short_number(tokens)}  "
        if cells and legend.cell_len + len(part) + len(left) <= brush.text_width:
            legend.append(part, style)
    acts = round(brush.columns * now.acts_at / now.window)
    for column in range(used, brush.columns):
        bar.append(brush.sign("┆", "|") if column == acts else free, TRIGGER if column == acts else f"dim {QUIET}")
    legend.append(left, QUIET)
    yield bar
    yield legend


def _bill(bill: Bill, brush: Brush) -> Iterator[Text]:
    longest = max(bill.without_ebbtide, bill.with_ebbtide)
    share = f"{brush.sign('−', '-') if bill.saved_share >= 0 else '+'}{abs(bill.saved_share):.0%}"
    beside = f" {money(bill.with_ebbtide, dollars=bill.dollars)}  {share}  {basis(bill)}"
    room = brush.text_width - _LABEL - len(beside)
    for name, amount, style, sign in (
        ("without", bill.without_ebbtide, RAW, brush.sign("░", ":")),
        ("ebbtide", bill.with_ebbtide, OURS, brush.sign("█", "#")),
    ):
        cells = max(1, round(room * amount / longest)) if longest else 1
        text = Text(f"{name:>{_LABEL - 1}} ", style=QUIET, no_wrap=True)
        text.append(sign * cells, style)
        text.append(f" {money(amount, dollars=bill.dollars)}", "bold")
        if name == "ebbtide":
            text.append(f"  {share}", f"bold {OURS}")
            text.append(f"  {basis(bill)}", QUIET)
        yield text


def money(amount: float, *, dollars: bool) -> str:
    return f"${amount:.2f}" if dollars else f"{short_number(round(amount))} tokens"


def basis(bill: Bill) -> str:
    return f"at {bill.model}'s prices" if bill.dollars else "as input tokens at full price"
