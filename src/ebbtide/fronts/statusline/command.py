"""`ebb statusline`: prints one line for Claude Code's status line, and never an error.

Claude Code starts it after each message, so it imports next to nothing: options are read by hand, and the parser is
built only for help.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module

from ebbtide.live import describe, find_session, read_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

DEFAULT_ADDRESS = "http://127.0.0.1:8787"
_MAX_INPUT = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Prints one line on the session that Claude Code shows: its context now and without Ebbtide, the dollars
    saved so far, and when old turns were last summarized. It reads Claude Code's JSON from stdin, asks the
    proxy at ADDRESS, and takes a few hundredths of a second. It prints nothing if there is nothing to say,
    and never an error. 'ebb run -- claude' sets it for its session, unless you have a status line.

    examples:
      ebb statusline http://127.0.0.1:8787 < status.json
      in ~/.claude/settings.json: {"statusLine": {"type": "command", "command": "ebb statusline"}}

    exit codes:
      0  always, also if the proxy does not answer
      1  Ebbtide could not be loaded
      2  bad input: an unknown option
    """
    if any(argument.startswith("-") for argument in arguments) or len(arguments) > 1:
        command_line().parse_args(arguments)
    address = arguments[0] if arguments else DEFAULT_ADDRESS
    try:
        line = status_line(address, "" if sys.stdin.isatty() else sys.stdin.buffer.read(_MAX_INPUT).decode())
        if line:
            print(line, flush=True)
    except Exception:  # noqa: BLE001 - an error would stand in the person's editor
        return 0
    return 0


def status_line(address: str, text: str) -> str:
    """The line for what Claude Code says about itself; empty if the proxy does not know the session."""
    try:
        given = json.loads(text)
    except ValueError:
        given = {}
    name = given.get("session_id") if isinstance(given, dict) else ""
    session = find_session(read_status(address), name if isinstance(name, str) else "")
    return "".join(char for char in describe(session, time.time()) if char.isprintable()) if session else ""


def command_line() -> ArgumentParser:
    # argparse takes longer than all the rest, so it is imported only here.
    front_parser = import_module("ebbtide.argparse_errors").front_parser
    parser: ArgumentParser = front_parser("statusline", main)
    parser.add_argument("address", nargs="?", metavar="ADDRESS", help=f"of the proxy; default {DEFAULT_ADDRESS}")
    return parser
