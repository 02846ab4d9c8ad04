"""Help that teaches: what a command is for, its options by what they are about, lines that can be typed as they stand,
what its exit code means, and which variables it listens to.

All of it is in the parser, for whoever makes pages or completions of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any, TypeAlias

from ebbtide import argparse_errors

Run: TypeAlias = Callable[[argparse.Namespace], int]
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

CODES = """
    0  done; also: nothing to do
    1  our fault or the disk's
    2  bad input: the message says where, or which option
"""
FITTING = f"{CODES.rstrip()}\n    3  a request that won't fit: the message says what the tokens are made of\n"
"""Of commands that fit a request, be it only to tell how."""
_VARIABLES = {
    "--store": ("EBB_HOME", "where sessions are kept"),
    "--policy": ("EBB_POLICY", "the policy"),
    "--window": ("EBB_WINDOW", "the window, in tokens"),
    "--model": ("EBB_MODEL", "the model"),
    "--claude": ("CLAUDE_CONFIG_DIR", "Claude Code's folder; default ~/.claude"),
}
"""By the option that beats it."""
_COLOUR = ("NO_COLOR", "no colour, also on a terminal")


class Parser(argparse_errors.Parser):
    """Teaches, too."""

    examples: str = ""
    codes: str = ""
    stands_for: Callable[[], argparse.ArgumentParser | None] | None = None
    """Makes the parser of another front, for which this one only keeps the place."""

    @property
    def epilog(self) -> str | None:
        """Made when it is asked for: which variables count follows from the options."""
        told = [("examples", self.examples), ("exit codes", self.codes), ("environment", self._environment())]
        return "\n\n".join(f"{name}:\n{indent(text, '  ')}" for name, text in told if text) or None

    @epilog.setter
    def epilog(self, _: str | None) -> None:
        """argparse sets it before anything is known."""

    def group(self, title: str) -> argparse._ArgumentGroup:
        """The group of that title, made where it is not there yet."""
        there = (group for group in self._action_groups if group.title == title)
        return next(there, None) or self.add_argument_group(title)

    def whole(self) -> argparse.ArgumentParser | None:
        """Itself, or what it stands for; None where that is not installed."""
        return self if self.stands_for is None else self.stands_for()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if self.stands_for is not None:
            there = self.stands_for()
            return (there.parse_args(args) if there else argparse.Namespace()), []
        return super().parse_known_args(args, namespace)

    def _environment(self) -> str:
        if not self.codes:
            return ""
        known = [_VARIABLES[flag] for flag in self.flags() if flag in _VARIABLES]
        return "\n".join(f"{name:<18} {what}" for name, what in (*known, _COLOUR))


def command(
    commands: Commands, name: str, run: Run, *, brief: str, about: str, examples: str, codes: str = CODES
) -> Parser:
    parser = commands.add_parser(
        name,
        help=brief,
        description=dedent(about).strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.examples, parser.codes = dedent(examples).strip(), dedent(codes).strip()
    parser.set_defaults(run=run)
    return parser
