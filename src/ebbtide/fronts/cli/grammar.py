"""All commands as argparse has them, those of other fronts included. What is written about them is made from this.

A command of ours is a module with `add(commands)`. A front with dependencies of its own brings
`ebbtide.fronts.NAME.command` with `main(arguments) -> int` and `command_line()`, and is imported only when called.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from ebbtide import __version__
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.cli import (
    completion,
    context,
    diff,
    doctor,
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
from ebbtide.fronts.cli.help import Commands, Parser

_HERE = (
    *(fit, context, explain, report, why, recall, sessions, show),
    *(diff, undo, verify, gc, export, doctor, completion),
)
ELSEWHERE = {
    "demo": "watch a session fill a window, ebb, fold and be recalled",
    "replay": "replay recorded sessions under several policies, and compare the bills",
    "proxy": "an HTTP proxy before the provider",
    "run": "start an agent behind a proxy of its own",
    "chat": "the terminal agent",
    "ui": "the web inspector",
    "mcp": "recall as an MCP server",
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "See what happens": ("demo", "context", "explain", "report", "replay", "ui"),
    "Keep an agent inside its window": ("run", "proxy", "chat", "fit", "mcp"),
    "Look into sessions, and get things back": ("sessions", "show", "diff", "why", "recall", "undo", "redo"),
    "Look after the store and the install": ("verify", "export", "gc", "doctor", "completion"),
}


def command_line() -> Parser:
    parser = Parser(prog="ebb", description="Run 'ebb' alone for an overview.")
    parser.add_argument("--version", action="version", version=f"ebb {__version__}")
    parser.add_argument("--traceback", action="store_true", help="for a report of a fault: say where it broke")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in _HERE:
        module.add(commands)
    for name, brief in ELSEWHERE.items():
        if installed(name):
            commands.add_parser(name, help=brief, add_help=False).stands_for = partial(_front, name)
    return parser


def installed(name: str) -> bool:
    with suppress(ModuleNotFoundError):
        return find_spec(f"ebbtide.fronts.{name}.command") is not None
    return False


def _front(name: str) -> argparse.ArgumentParser | None:
    """Another front's own parser; None where its extra is not installed."""
    try:
        module = import_module(f"ebbtide.fronts.{name}.command")
    except (BadConfig, ModuleNotFoundError):
        return None
    made: Callable[[], argparse.ArgumentParser] = module.command_line
    return made()


def every_command() -> dict[str, argparse.ArgumentParser]:
    """By name, in the order of the overview. Those whose extra is missing are left out."""
    here = _commands(command_line()).choices
    names = [name for group in GROUPS.values() for name in group]
    found = {name: here[name].whole() for name in names if name in here}
    return {name: parser for name, parser in found.items() if parser is not None}


def briefs() -> dict[str, str]:
    """A line on each command."""
    return {choice.dest: choice.help or "" for choice in _commands(command_line())._choices_actions}


def _commands(parser: Parser) -> Commands:
    (found,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return found
