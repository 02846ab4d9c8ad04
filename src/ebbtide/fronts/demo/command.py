"""`ebb demo`: an animation on a terminal, lines in a pipe. It needs no key, no network and no file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console
from rich.live import Live

from ebbtide import screen
from ebbtide.argparse_errors import front_parser
from ebbtide.config import load_settings
from ebbtide.config_keys import parse_tokens
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.demo.render import Brush, Film, basis, draw_film, event_line, money, next_steps
from ebbtide.fronts.demo.story import WINDOW, Moment, play_story
from ebbtide.policy import POLICY_HELP, Policy

INTERRUPTED = 130
_NARROWEST = 60
"""Columns that the chart needs."""
_LOWEST = 24
"""Lines that the animation needs."""
_CALL, _BREATH, _EVENT, _LAST = 0.06, 0.4, 0.9, 1.0
"""Seconds per call, before a removal, per event, and at the end: 20 in all."""


def main(arguments: Sequence[str]) -> int:
    """Plays the recorded session that comes with Ebbtide through the real engine: the window fills, old
    results are removed, old turns become a summary, and something removed is found again; below it the
    bill with and without Ebbtide. It takes under 30 seconds, without a key or a network, and writes no file.

    In so short a session, a summary has to free only 2,000 tokens, whatever the policy requires. In a pipe,
    lines are printed instead, without waiting.

    examples:
      ebb demo
      ebb demo --speed 3
      ebb demo --policy claude-code --window 60k
      ebb demo --no-wait > story.txt

    exit codes:
      0    done
      1    an error in Ebbtide
      2    bad input
      3    won't fit: the policy could not keep the session inside this window
      130  interrupted

    environment:
      NO_COLOR   no colour, even on a terminal
    """
    args = command_line().parse_args(arguments)
    settings = load_settings(arguments={"policy": args.policy or "default"})
    window = parse_tokens(args.window) if args.window else WINDOW
    console = screen.console()
    ascii_only = args.ascii or not screen.can_draw("█░┄┆·−→")
    brush = Brush(width=console.width, height=console.height, ascii_only=ascii_only)
    try:
        if not console.is_terminal or console.width < _NARROWEST or console.height < _LOWEST:
            return _print_lines(settings.policy(), window, brush)
        return _play_film(settings.policy(), window, brush, console, speed=0.0 if args.no_wait else args.speed)
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        return INTERRUPTED


def pause(moment: Moment) -> float:
    """Seconds to show a moment."""
    return _CALL + _EVENT * len(moment.events) + _LAST * (moment.call == moment.calls)


def _play_film(policy: Policy, window: int, brush: Brush, console: Console, *, speed: float) -> int:
    """Speed 1 is normal; 0 does not wait."""
    film, factor = Film(), 1 / speed if speed else 0.0
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for moment in play_story(policy, window=window):
            if moment.before > moment.sent:
                live.update(draw_film(film.before(moment), brush), refresh=True)
                time.sleep(_BREATH * factor)
            film = film.add(moment)
            live.update(draw_film(film, brush), refresh=True)
            time.sleep(pause(moment) * factor)
    for row in next_steps(window):
        console.print(row)
    return 0


def _print_lines(policy: Policy, window: int, brush: Brush) -> int:
    moment = None
    for moment in play_story(policy, window=window):
        for event in moment.events:
            print(event_line(event, brush).plain.rstrip(), flush=True)
    assert moment is not None, "the example has calls"
    bill = moment.bill
    print(f"\nafter {moment.calls} calls: {moment.sent:,} tokens in the request; without Ebbtide {moment.raw:,}")
    amounts = (money(amount, dollars=bill.dollars) for amount in (bill.with_ebbtide, bill.without_ebbtide))
    print("the bill: {} instead of {}, ".format(*amounts) + f"{bill.saved_share:.0%} less, {basis(bill)}\n")
    print(*next_steps(window), sep="\n")
    return 0


def _speed(text: str) -> float:
    with suppress(ValueError):
        speed = float(text)
        # Also refuses nan.
        if 0.1 <= speed <= 1000:
            return speed
    raise argparse.ArgumentTypeError(f"{text!r} is not a speed; 2 is twice as fast")


def _window(text: str) -> str:
    try:
        parse_tokens(text)
    except BadConfig as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("demo", main)
    engine, film = parser.add_argument_group("engine"), parser.add_argument_group("film")
    engine.add_argument("--window", metavar="TOKENS", type=_window, help=f"such as 60k; default {WINDOW // 1000}k")
    engine.add_argument("--policy", metavar="NAME", help=POLICY_HELP)
    pace = film.add_mutually_exclusive_group()
    pace.add_argument("--speed", metavar="X", type=_speed, default=1.0, help="2 is twice as fast; default 1")
    pace.add_argument("--no-wait", action="store_true", help="do not wait between calls")
    film.add_argument("--ascii", action="store_true", help="draw with # : . instead of blocks")
    return parser
