"""`ebb`. Errors are told by whose fault they are: 0 done, 1 ours, 2 bad input, 3 won't fit; a traceback is for nobody.

A command is a module with `add(commands)`. Fronts with dependencies of their own bring `ebbtide.fronts.NAME.command`
with `main(arguments) -> int`, and are imported only when called: no front imports another.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

from ebbtide import __version__
from ebbtide.core.errors import BadConfig, BadRequest, EbbtideError, WontFit
from ebbtide.fronts.cli import (
    context,
    diff,
    explain,
    export,
    fit,
    gc,
    recall,
    report,
    sessions,
    show,
    undo,
    verify,
    why,
)
from ebbtide.fronts.cli.screen import say

DONE, OURS, THEIRS, TOO_LARGE = 0, 1, 2, 3
INTERRUPTED, NO_READER = 130, 141
"""128 and the signal's number, as shells count."""

_COMMANDS = (fit, context, explain, report, why, recall, sessions, show, diff, undo, verify, gc, export)
_ELSEWHERE = {
    "replay": "replay recorded sessions under several policies, and compare the bills",
    "proxy": "an HTTP proxy before the provider",
    "run": "start an agent behind a proxy of its own",
    "chat": "the terminal agent",
    "ui": "the web inspector",
    "mcp": "recall as an MCP server",
}

_OVERVIEW = """\
Ebbtide keeps an LLM agent's conversation inside the model's window, and loses nothing.

Start here:
  ebb context FILE          what fills the window of a request or a recorded session
  ebb fit FILE              the same request, made to fit
  ebb explain FILE          what would leave, why, and what that saves
  ebb report FILE           the same held against the bills; --html for a page with plots
  ebb sessions              what is stored; then show, diff, why, undo
  ebb recall TEXT           search all that was recorded, and read it back

Files may be request bodies (Anthropic, OpenAI Chat, OpenAI Responses) or sessions recorded by
Claude Code, Codex, pi, OpenCode, SWE-agent or a chat log. No file at hand? Add --example.
'ebb COMMAND --help' explains each command, with examples.
"""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _never_choke()
    try:
        # Other fronts do not know it, and it may stand anywhere.
        return _run([one for one in arguments if one != "--traceback"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return NO_READER
    except SystemExit as done:
        # argparse leaves with 0 or 2; rich leaves with 1 where nobody reads any more.
        return done.code if done.code in (DONE, THEIRS) else NO_READER
    except Exception as failed:
        # The last door: the person gets a sentence and an exit code.
        if "--traceback" in arguments:
            raise
        return _told(failed)


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in _ELSEWHERE and _installed(arguments[0]):
        code: int = import_module(f"ebbtide.fronts.{arguments[0]}.command").main(arguments[1:])
        return code
    parser = command_line()
    args = parser.parse_args(arguments)
    if args.command is None:
        print(_OVERVIEW + _list(parser))
        return DONE
    done: int = args.run(args)
    sys.stdout.flush()
    return done


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ebb", description="Run 'ebb' alone for an overview.")
    parser.add_argument("--version", action="version", version=f"ebb {__version__}")
    parser.add_argument("--traceback", action="store_true", help="for a report of a fault: say where it broke")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in _COMMANDS:
        module.add(commands)
    for name, brief in _ELSEWHERE.items():
        if _installed(name):
            commands.add_parser(name, help=brief, add_help=False)
    return parser


def _list(parser: argparse.ArgumentParser) -> str:
    rows = parser.format_help().partition("commands:")[2].splitlines()
    return "\nCommands:\n" + "\n".join(row[2:] for row in rows if row.startswith("    "))


def _installed(name: str) -> bool:
    with suppress(ModuleNotFoundError):
        return find_spec(f"ebbtide.fronts.{name}.command") is not None
    return False


def _told(failed: Exception) -> int:
    match failed:
        case WontFit():
            say(f"ebb: won't fit: {failed}")
            return TOO_LARGE
        case BadRequest() | BadConfig():
            say(f"ebb: {failed}")
            return THEIRS
        case RecursionError():
            say("ebb: nested too deeply to be a request")
            return THEIRS
        case EbbtideError() | OSError():
            say(f"ebb: {failed}")
            return OURS
    say(f"ebb: a fault of ours: {type(failed).__name__}: {failed}\nebb --traceback ... says where; please report it")
    return OURS


def _never_choke() -> None:
    """A character that the terminal's encoding lacks is written out, and ends nothing."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _forget_stdout() -> None:
    """Python flushes at exit; where nobody reads, that would be one more error."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
