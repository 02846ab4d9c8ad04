"""`ebb demo`: on a terminal a film, in a pipe its lines. Nothing is asked for: no key, no network, no file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live

from ebbtide.argparse_errors import Parser
from ebbtide.config import load_settings
from ebbtide.config_keys import parse_tokens
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.demo.render import Brush, Film, basis, drawn, event_line, money
from ebbtide.fronts.demo.story import MIN_SAVINGS, WINDOW, Moment, told
from ebbtide.policy import PRESETS, Policy

INTERRUPTED = 130
_NARROWEST = 60
"""Columns, below which the chart says nothing."""
_LOWEST = 24
"""Lines, below which a film would scroll."""
_PIPE = 100
"""Columns of a line in a pipe."""
_CALL, _BREATH, _EVENT, _LAST = 0.06, 0.4, 0.9, 1.0
"""Seconds for a call, before something ebbs, for something to read, and at the end: 20 in all."""

_ABOUT = f"""\
Plays the recorded session that comes with Ebbtide through the real engine, to be watched: the window
fills, results ebb out, old turns fold, and something that left is found again; beside it the bill
against the same session untouched. No key, no network, no file is written, under 30 seconds.

So that a fold shows in so short a session, it has to free only {MIN_SAVINGS:,} tokens here, whatever the policy
asks for. In a pipe, lines are printed instead, at once.
"""
_EPILOG = """\
examples:
  ebb demo
  ebb demo --speed 3
  ebb demo --policy claude-code --window 60k
  ebb demo --no-wait > story.txt

exit codes:
  0    done
  1    our fault
  2    bad input
  3    won't fit: the policy could not keep the session inside this window
  130  interrupted

environment:
  NO_COLOR   no colour, also on a terminal
"""


def main(arguments: Sequence[str]) -> int:
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={"policy": args.policy or "default"})
    window = parse_tokens(args.window) if args.window else WINDOW
    console = Console(markup=False, highlight=False, emoji=False)
    ascii_only = args.ascii or not _can_draw("█░┄┆·−→")
    try:
        if not console.is_terminal or console.width < _NARROWEST or console.height < _LOWEST:
            return _lines(settings.policy(), window, Brush(width=_width(console), ascii_only=ascii_only))
        brush = Brush(width=console.width, height=console.height, ascii_only=ascii_only)
        return _film(settings.policy(), window, brush, console, Pace(speed=0.0 if args.no_wait else args.speed))
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        return INTERRUPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    speed: float
    """1 as it is meant; 0 does not wait."""

    def wait(self, seconds: float) -> None:
        if self.speed:
            time.sleep(seconds / self.speed)


def pause(moment: Moment) -> float:
    """Seconds to look at it."""
    return _CALL + _EVENT * len(moment.events) + _LAST * (moment.call == moment.calls)


def _film(policy: Policy, window: int, brush: Brush, console: Console, pace: Pace) -> int:
    film = Film()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for moment in told(policy, window=window):
            if moment.before > moment.ours:
                live.update(drawn(film.about_to(moment), brush), refresh=True)
                pace.wait(_BREATH)
            film = film.and_then(moment)
            live.update(drawn(film, brush), refresh=True)
            pace.wait(pause(moment))
    console.print()
    for row in _next(window):
        console.print(row)
    return 0


def _lines(policy: Policy, window: int, brush: Brush) -> int:
    moment = None
    for moment in told(policy, window=window):
        for event in moment.events:
            print(event_line(event, brush).plain.rstrip(), flush=True)
    assert moment is not None, "the example has calls"
    bill = moment.bill
    print(f"\nafter {moment.calls} calls: {moment.ours:,} tokens in the request; untouched {moment.raw:,}")
    amounts = (money(one, dollars=bill.dollars) for one in (bill.ours, bill.raw))
    print("the bill: {} instead of {}, ".format(*amounts) + f"{bill.saved:.0%} less, {basis(bill)}\n")
    print(*_next(window), sep="\n")
    return 0


def _next(window: int) -> Iterator[str]:
    yield "Go on with:"
    yield f"  ebb explain --example --window {window // 1000}k    each of these edits, with its reason"
    yield "  ebb context --claude last             what fills your last Claude Code session"
    yield "  ebb run -- claude                     your agent, kept inside its window"


def _width(console: Console) -> int:
    return console.width if console.is_terminal else _PIPE


def _can_draw(characters: str) -> bool:
    with suppress(UnicodeEncodeError, LookupError):
        characters.encode(sys.stdout.encoding or "ascii")
        return True
    return False


def _speed(text: str) -> float:
    with suppress(ValueError):
        speed = float(text)
        # Slower than a tenth nobody watches, and nan is neither.
        if 0.1 <= speed <= 1000:
            return speed
    raise argparse.ArgumentTypeError(f"{text!r} is not a speed, as in 2 for twice as fast")


def _window(text: str) -> str:
    try:
        parse_tokens(text)
    except BadConfig as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
    return text


def command_line() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ebb demo", description=_ABOUT, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    engine, shown = parser.add_argument_group("engine"), parser.add_argument_group("film")
    engine.add_argument("--window", metavar="TOKENS", type=_window, help=f"as in 60k; default {WINDOW // 1000}k")
    engine.add_argument("--policy", metavar="NAME", help=f"one of {', '.join(PRESETS)}")
    pace = shown.add_mutually_exclusive_group()
    pace.add_argument("--speed", metavar="X", type=_speed, default=1.0, help="2 is twice as fast; default 1")
    pace.add_argument("--no-wait", action="store_true", help="as fast as the engine goes")
    shown.add_argument("--ascii", action="store_true", help="draw with # : . instead of blocks")
    return parser
