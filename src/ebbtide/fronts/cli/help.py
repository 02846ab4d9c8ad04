"""The parser of `ebb` commands: its help shows examples, exit codes and environment variables after the options.

Everything is in the parser, so that reference pages and shell completions can be generated from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from inspect import cleandoc
from textwrap import dedent, indent
from typing import Any, TypeAlias

from ebbtide import argparse_errors

Run: TypeAlias = Callable[[argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

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


def command(
    commands: Commands,
    name: str,
    run: Run,
    *,
    brief: str,
    codes: str = CODES,
    options: Iterable[Callable[[Parser], None]] = (),
) -> Parser:
    """Add a command. The docstring of `run` is its help, with the examples below a line `examples:`.

    `options` are functions that add shared options.
    """
    about, _, examples = cleandoc(run.__doc__ or "").partition("\n\nexamples:\n")
    parser = commands.add_parser(
        name, help=brief, description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.examples, parser.codes = dedent(examples), dedent(codes).strip()
    parser.set_defaults(run=run)
    for add_option in options:
        add_option(parser)
    return parser
