"""`ebb top`: a live table of sessions, from running proxies and from the store."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ebbtide import screen
from ebbtide.argparse_errors import front_parser
from ebbtide.config import load_settings
from ebbtide.core.errors import BadConfig
from ebbtide.core.text.preview import pluralize
from ebbtide.display import format_age, one_line, round_number, short_number
from ebbtide.fronts.top.sessions import Board, TopRow
from ebbtide.money import format_usd

INTERRUPTED = 130
_BAR = 12  # cells
_TITLE = 40


def main(arguments: Sequence[str]) -> int:
    """Shows your sessions while they run, the newest first: how full the context is and would be without
    Ebbtide, how much of the prompts came from the cache, what was saved, and what happens now. Running
    proxies are found by themselves; without one, the sessions of the store are shown. Ctrl-C ends it.

    examples:
      ebb top
      ebb top --once
      ebb top --proxy http://127.0.0.1:8787 --json

    exit codes:
      0    done
      1    an error in Ebbtide or on the disk
      2    bad input
      130  interrupted

    environment:
      EBB_HOME   same as --store
      NO_COLOR   no colour, even on a terminal
    """
    args = command_line().parse_args(arguments)
    for address in args.proxy:
        if not address.startswith("http://"):
            raise BadConfig(f"--proxy {address!r} is not an address such as http://127.0.0.1:8787")
    board = Board(load_settings(arguments={"store": args.store}), args.proxy)
    if args.json:
        screen.print_json([asdict(row) for row in board.rows()])
    elif args.once or not sys.stdout.isatty():
        screen.draw(draw(board.rows(), time.time()))
    else:
        return _watch(board, args.every)
    return 0


def _watch(board: Board, seconds: float) -> int:
    console = screen.console()
    # Redirected, stdout would seem to have no encoding, and the bars would be drawn with plain signs.
    shown = Live(console=console, auto_refresh=False, screen=True, redirect_stdout=False, redirect_stderr=False)
    with suppress(KeyboardInterrupt), shown as live:
        while True:
            live.update(draw(board.rows(), time.time(), height=console.height), refresh=True)
            time.sleep(seconds)
    return INTERRUPTED


def draw(rows: Sequence[TopRow], now: float, height: int = 0) -> RenderableType:
    """The table with its sums; at most `height` lines, if given."""
    if not rows:
        return Text("No sessions yet. 'ebb run -- claude' or 'ebb proxy' starts one.")
    shown = rows[: max(1, height - 4)] if height else rows
    names = ("session", "calls", "context", "now", "without", "cache", "saved", "changed")
    table = screen.table(names, [_cells(row, now) for row in shown], figures=_FIGURES, clips="session")
    saved = [row.saved_usd for row in rows if row.saved_usd is not None]
    total = f", {format_usd(sum(saved))} saved" if saved else ""
    head = f"{pluralize(len(rows), 'session')}{total}"
    return Group(Text(head, style="bold"), Text(), table)


_FIGURES = ("calls", "now", "without", "cache", "saved", "changed")


def _cells(row: TopRow, now: float) -> list[str]:
    work = format_age(now - row.last_at) if row.now in ("idle", "not running") else row.now
    if work == "now":
        work = "just now"
    return [
        one_line(row.title or row.session, _TITLE),
        f"{row.calls:,}",
        f"{_bar(row.tokens, row.window)} {round_number(row.window)}",
        short_number(row.tokens),
        short_number(row.tokens_without),
        "" if row.cache_hit_rate is None else f"{row.cache_hit_rate:.0%}",
        "" if row.saved_usd is None else format_usd(row.saved_usd),
        work,
    ]


def _bar(tokens: int, window: int) -> str:
    full, empty = ("█", "░") if screen.can_draw("█░") else ("#", ".")
    filled = min(_BAR, round(_BAR * tokens / window)) if window else 0
    return full * filled + empty * (_BAR - filled)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0.1 <= (seconds := float(text)) <= 3600:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 3600")


def command_line() -> argparse.ArgumentParser:
    parser = front_parser("top", main)
    add = parser.add_argument
    add("--once", action="store_true", help="print the table once")
    add("--json", action="store_true", help="print JSON once")
    add("--every", metavar="SECONDS", type=_seconds, default=1.0, help="how often to look; default 1")
    add("--proxy", metavar="URL", action="append", default=[], help="a proxy that does not use this store")
    add("--store", metavar="DIR|URL", help="where sessions are kept; default: EBB_HOME, else your data folder")
    return parser
