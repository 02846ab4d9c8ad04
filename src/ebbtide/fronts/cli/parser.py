"""The parser of `ebb` commands, the options that several of them share, and the settings that result.

Help shows examples, exit codes and environment variables after the options. Everything is in the parser, so that
reference pages and shell completions can be generated from it.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from inspect import cleandoc
from textwrap import dedent, indent
from typing import Any, TypeAlias

from ebbtide import argparse_errors, example
from ebbtide.config import Settings, load_settings
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.policy import POLICY_HELP
from ebbtide.wire import WIRES

Run: TypeAlias = Callable[[argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

MAX_BYTES = 256 * 1024**2
"""Larger than any request that a provider accepts, and small enough to read into memory."""
_AMOUNT = re.compile(r"(\d+(?:[._]\d+)*)\s*([a-z]*)", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "g": 1024**3, "gb": 1024**3}
_SECONDS = {"": 86_400, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
CODES = """
    0  done, or nothing to do
    1  an error in Ebbtide or on the disk
    2  bad input: the message says where, or which option
"""
FITTING = f"{CODES.rstrip()}\n    3  the request does not fit: the message says what its tokens are\n"
"""For commands that fit a request, even if only to explain how."""
_VARIABLES = {
    "--store": ("EBB_HOME", "where sessions are kept"),
    "--policy": ("EBB_POLICY", "the policy"),
    "--window": ("EBB_WINDOW", "the window, in tokens"),
    "--model": ("EBB_MODEL", "the model"),
    "--claude": ("CLAUDE_CONFIG_DIR", "Claude Code's folder; default ~/.claude"),
}
"""By the option that overrides it."""
_COLOUR = ("NO_COLOR", "no colour, even on a terminal")


class Parser(argparse_errors.Parser):
    examples: str = ""
    codes: str = ""
    load_front: Callable[[], argparse.ArgumentParser | None] | None = None
    """Set on the entry of another front: builds its own parser, or None if its extra is not installed."""

    @property
    def epilog(self) -> str | None:
        """Built when printed, because the variables follow from the options."""
        parts = [("examples", self.examples), ("exit codes", self.codes), ("environment", self._environment())]
        return "\n\n".join(f"{name}:\n{indent(text, '  ')}" for name, text in parts if text) or None

    @epilog.setter
    def epilog(self, _: str | None) -> None:
        """argparse sets it in its constructor."""

    def group(self, title: str) -> argparse._ArgumentGroup:
        """Return the group with that title; create it if needed."""
        groups = (group for group in self._action_groups if group.title == title)
        return next(groups, None) or self.add_argument_group(title)

    def add_shared(self, *names: str) -> None:
        titles = {name: title for title, options in SHARED.items() for name in options}
        for name in names:
            title = titles[name]
            (self.group(title) if title else self).add_argument(name, **SHARED[title][name])

    def resolve(self) -> argparse.ArgumentParser | None:
        """Return the parser that knows the command's options; None if its extra is not installed."""
        return self if self.load_front is None else self.load_front()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if self.load_front is not None:
            parser = self.load_front()
            return (parser.parse_args(args) if parser else argparse.Namespace()), []
        return super().parse_known_args(args, namespace)

    def _environment(self) -> str:
        if not self.codes:
            return ""
        variables = [_VARIABLES[flag] for flag in self.flags() if flag in _VARIABLES]
        return "\n".join(f"{name:<18} {meaning}" for name, meaning in (*variables, _COLOUR))


def command(commands: Commands, name: str, run: Run, *options: str, codes: str = CODES) -> Parser:
    """Add a command with some of the `SHARED` options.

    The docstring of `run` is its help: a line for the overview, what the command does, and below `examples:` examples.
    """
    brief, _, text = cleandoc(run.__doc__ or "").partition("\n\n")
    about, _, examples = text.partition("\n\nexamples:\n")
    style = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(name, help=brief, description=about, formatter_class=style)
    parser.examples, parser.codes = dedent(examples), dedent(codes).strip()
    parser.set_defaults(run=run)
    parser.add_shared(*options)
    return parser


def parse_bytes(text: str) -> int:
    return int(_parse_amount(text, _BYTES, "a size; write it like 500M or 1G"))


def parse_seconds(text: str) -> float:
    """A number without a unit means days."""
    return _parse_amount(text, _SECONDS, "a time; write it like 30d or 12h")


def _parse_amount(text: str, units: dict[str, int], expectation: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    if match and match[2].lower() in units:
        with suppress(ValueError):
            return float(match[1].replace("_", "")) * units[match[2].lower()]
    raise argparse.ArgumentTypeError(f"{text!r} is not {expectation}")


def _parse_price(text: str) -> float | str:
    try:
        price = float(text)
    except ValueError:
        return text
    if not 0 <= price < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a price")
    return price


SHARED: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "": {
        "target": {"nargs": "?", "default": NEWEST, "metavar": "FILE|SESSION", "help": "default: the newest session"},
        "session": {"nargs": "?", "default": NEWEST, "metavar": "SESSION", "help": "default: the newest session"},
    },
    "input": {
        "--example": {"action": "store_true", "help": "use the session that comes with Ebbtide"},
        "--claude": {
            "action": "store_true",
            "help": "a session of Claude Code: its id, the start of its id, or 'last'",
        },
        "--wire": {"choices": list(WIRES), "help": "the API format of the request; default: detected"},
        "--max-bytes": {
            "metavar": "N",
            "type": parse_bytes,
            "default": MAX_BYTES,
            "help": "refuse larger input; default 256M",
        },
    },
    "engine": {
        "--price": {
            "type": _parse_price,
            "metavar": "USD|MODEL",
            "help": "dollars per million input tokens, or the model whose prices to use; default: the models called",
        },
        "--window": {"metavar": "TOKENS", "help": "such as 200k; default: the model's window; of the example 100k"},
        "--policy": {"metavar": "NAME", "help": POLICY_HELP},
    },
    "store": {
        "--store": {
            "metavar": "DIR|URL",
            "help": "where sessions are kept, such as postgresql://...; default: EBB_HOME, else your data folder",
        },
        "--project": {"metavar": "PATH", "help": "the project, if several have a session of that name"},
    },
    "output": {"--json": {"action": "store_true", "help": "print JSON instead of a table"}},
}
"""Arguments that several commands share, by the title of their group."""
READING = ("--claude", "--wire", "--max-bytes", "--window", "--policy", "--store", "--json")
"""Options of every command that reads a request or session and applies a policy to it."""


def resolve_settings(args: argparse.Namespace) -> Settings:
    """Apply the command line over the environment and the settings files. The example has its own window."""
    options = vars(args)
    arguments = {key: options.get(key) or None for key in ("window", "policy", "store", "model")}
    settings = load_settings(arguments=arguments)
    if options.get("example") and not settings.window:
        return replace(settings, window=example.WINDOW)
    return settings
