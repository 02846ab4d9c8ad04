"""The parser of all commands, those of other fronts included, and the overview that `ebb` prints without a command.

A command of this package is a module with `add(commands)`. Another front has `ebbtide.fronts.NAME.command` with
`main(arguments) -> int` and `command_line()`; it is imported only when called.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from ebbtide import __version__, screen
from ebbtide.core.errors import BadConfig
from ebbtide.fronts.cli.parser import Commands, Parser

_COMMANDS = (
    *("fit", "context", "explain", "report", "why", "recall", "sessions", "show"),
    *("diff", "undo", "verify", "delete", "gc", "export", "doctor", "completion", "install"),
)
_MODULES = [import_module(f"ebbtide.fronts.cli.{name}") for name in _COMMANDS]
FRONTS = {
    "demo": "watch a session fill its window, be compacted and recall what was removed",
    "replay": "replay recorded sessions under several policies and compare the bills",
    "proxy": "an HTTP proxy in front of the provider",
    "top": "your sessions while they run: context, cache, money",
    "statusline": "one line for Claude Code's status line",
    "run": "start an agent behind its own proxy",
    "chat": "the terminal agent",
    "ui": "the web inspector",
    "mcp": "recall as an MCP server",
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "See what happens": ("demo", "context", "explain", "report", "replay", "top", "ui"),
    "Keep an agent inside its window": ("run", "install", "uninstall", "proxy", "chat", "fit", "statusline", "mcp"),
    "Look into sessions, and get things back": ("sessions", "show", "diff", "why", "recall", "undo", "redo"),
    "Maintain the store and the install": ("verify", "export", "delete", "gc", "doctor", "completion"),
}
_PITCH = "Ebbtide keeps an LLM agent's conversation inside the model's window, and loses nothing."
_TRY = (
    ("ebb demo", "watch it work, in 20 seconds: no key, no network"),
    ("ebb context --example --window 100k", "what fills a window; or give a FILE, or --claude"),
    ("ebb run -- claude", "keep your agent inside its window"),
)
_NOTES = """\
A FILE is a request body (Anthropic, OpenAI Chat, OpenAI Responses, Gemini) or a session recorded by
Claude Code, Codex, gemini-cli, pi, OpenCode, SWE-agent or a chat log.
'ebb COMMAND --help' explains a command, with examples. If something is wrong, run 'ebb doctor'."""


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


def is_installed(name: str) -> bool:
    with suppress(ModuleNotFoundError):
        return find_spec(f"ebbtide.fronts.{name}.command") is not None
    return False


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


def print_overview() -> None:
    """Say what Ebbtide is, what to try first, and which commands there are."""
    briefs = command_briefs()
    lists: dict[str, tuple[tuple[str, str], ...]] = {"Try it": _TRY}
    lists |= {
        title: tuple((f"{name:<10}", briefs[name]) for name in names if name in briefs)
        for title, names in GROUPS.items()
    }
    screen.draw(screen.styled_text((_PITCH, "bold")))
    for title, rows in lists.items():
        print()
        screen.draw(screen.styled_text((title, "bold cyan")))
        screen.draw(screen.command_list(rows))
    print()
    for row in _NOTES.splitlines():
        screen.draw(screen.styled_text((row, "dim")))
