"""The parser of all commands, those of other fronts included.

A command of this package is a module with `add(commands)`. Another front has `ebbtide.fronts.NAME.command` with
`main(arguments) -> int` and `command_line()`; it is imported only when called.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module

from ebbtide import __version__
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.cli.overview import FRONTS, GROUPS, is_installed
from ebbtide.fronts.cli.parser import Commands, Parser

_COMMANDS = (
    *("fit", "context", "explain", "report", "why", "recall", "sessions", "show"),
    *("diff", "undo", "verify", "delete", "gc", "store", "export", "doctor", "completion", "install"),
)
_MODULES = [import_module(f"ebbtide.fronts.cli.{name}") for name in _COMMANDS]


def command_line() -> Parser:
    parser = Parser(prog="ebb", description="Run 'ebb' alone for an overview.")
    parser.add_argument("--version", action="version", version=f"ebb {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error happened, for a bug report")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in _MODULES:
        module.add(commands)
    for name, brief in FRONTS.items():
        if is_installed(name):
            commands.add_parser(name, help=brief, add_help=False).load_front = partial(_load_front, name)
    return parser


def _load_front(name: str) -> argparse.ArgumentParser | None:
    """Build the parser of another front; None if its extra is not installed."""
    try:
        module = import_module(f"ebbtide.fronts.{name}.command")
    except (BadConfig, ModuleNotFoundError):
        return None
    build: Callable[[], argparse.ArgumentParser] = module.command_line
    return build()


def every_command() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, in the order of the overview, without those whose extra is missing."""
    choices = _commands(command_line()).choices
    names = [name for group in GROUPS.values() for name in group]
    parsers = {name: choices[name].resolve() for name in names if name in choices}
    return {name: parser for name, parser in parsers.items() if parser is not None}


def command_briefs() -> dict[str, str]:
    """One line on each command."""
    return {choice.dest: choice.help or "" for choice in _commands(command_line())._choices_actions}


def _commands(parser: Parser) -> Commands:
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return commands
