"""Help that teaches: what a command is for, its options by what they are about, lines that can be typed as they stand,
what its exit code means, and which variables it listens to. A word that is nearly right is answered with the right one.

All of it is in the parser, for whoever makes pages or completions of it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from textwrap import dedent, indent
from typing import Any, NoReturn, TypeAlias

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
_NEAR = 0.7
"""Of difflib's ratio: a slip of the finger is nearer. At its own 0.6 a token is a store."""
_CHOICE = re.compile(r"argument (?P<which>.+?): invalid choice: '(?P<given>.*?)' \(choose from (?P<choices>.*)\)", re.S)


class Parser(argparse.ArgumentParser):
    """Refuses in two lines: what is wrong, and what to do."""

    examples: str = ""
    codes: str = ""
    stands_for: Callable[[], argparse.ArgumentParser | None] | None = None
    """Makes the parser of another front, for which this one only keeps the place."""
    _mixing = False

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
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and not self._mixing and self._subparsers is None:
            found, unknown = self._mixed(args)
        if self._mixing:
            return found, unknown
        wrong = [one for one in unknown if one.startswith("-")]
        if wrong:
            self.error(f"there is no option {wrong[0]}{_meant(wrong[0].partition('=')[0], self.flags(), '--')}")
        if unknown:
            self.error(f"{unknown[0]!r} is one word too many")
        return found, []

    def _mixed(self, args: Sequence[str] | None) -> tuple[Any, list[str]]:
        """Once more, with words behind options too: argparse gives optional words up at the first option."""
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self._mixing = False

    def flags(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    def error(self, message: str) -> NoReturn:
        if found := _CHOICE.fullmatch(message):
            choices = re.findall(r"[\w.-]+", found["choices"])
            message = f"{found['which']}: {found['given']!r} is not one of {', '.join(choices)}"
            message += _meant(found["given"], choices)
            if found["which"] == "COMMAND":
                near = "; did you mean --version?" if found["given"] == "version" else _meant(found["given"], choices)
                message = f"there is no command {found['given']!r}{near}"
        more = "'ebb' alone lists the commands" if self.prog == "ebb" else f"'{self.prog} --help' explains it"
        self.exit(2, f"{self.prog}: error: {message}\n{more}\n")

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


def near(word: str, known: Iterable[str], begin: str = "") -> list[str]:
    """Known words that this one may have been meant for, two at most. `begin` they share by rule: it likens none."""
    cut = {one.removeprefix(begin): one for one in known}
    return [cut[one] for one in get_close_matches(word.removeprefix(begin), cut, n=2, cutoff=_NEAR)]


def _meant(word: str, known: Iterable[str], begin: str = "") -> str:
    found = near(word, known, begin)
    return f"; did you mean {' or '.join(found)}?" if found else ""
