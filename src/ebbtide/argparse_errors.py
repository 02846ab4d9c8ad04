"""A command line that cannot be followed is refused in two lines: what is wrong, and what to do. No wall of usage.

Below all fronts, because each reads a command line of its own and a slip of the finger is the same in all of them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

_NEAR = 0.7
"""Of difflib's ratio: a slip of the finger is nearer. At its own 0.6 a token is a store."""


class Parser(argparse.ArgumentParser):
    """A word that is nearly right is answered with the right one; words may stand behind options."""

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and not self._mixing and self._may_mix():
            found, unknown = self._mixed(args)
        if self._mixing:
            return found, unknown
        wrong = [one for one in unknown if one.startswith("-")]
        if wrong:
            self.error(f"there is no option {wrong[0]}{suggestion(wrong[0].partition('=')[0], self.flags(), '--')}")
        if unknown:
            self.error(f"{unknown[0]!r} is one word too many")
        return found, []

    def _may_mix(self) -> bool:
        """Not where what follows is another command's."""
        return self._subparsers is None and all(action.nargs != argparse.REMAINDER for action in self._actions)

    def _mixed(self, args: Sequence[str] | None) -> tuple[Any, list[str]]:
        """Once more, with words behind options too: argparse gives optional words up at the first option."""
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self._mixing = False

    def flags(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse keeps it to itself where a help page cannot be written."""
        if file is not sys.stdout:
            super()._print_message(message, file)
        else:
            file.write(message)
            file.flush()

    def error(self, message: str) -> NoReturn:
        which, _, rest = message.removeprefix("argument ").partition(": invalid choice: '")
        given, chosen, listed = rest.partition("' (choose from ")
        if chosen and message.startswith("argument "):
            choices = re.findall(r"[\w.-]+", listed)
            message = f"{which}: {given!r} is not one of {', '.join(choices)}{suggestion(given, choices)}"
            if which == "COMMAND":
                near = "; did you mean --version?" if given == "version" else suggestion(given, choices)
                message = f"there is no command {given!r}{near}"
        more = "'ebb' alone lists the commands" if self.prog == "ebb" else f"'{self.prog} --help' explains it"
        # A shell's pattern may have put a file's name there, and that may hold anything.
        shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in message)
        self.exit(2, f"{self.prog}: error: {shown}\n{more}\n")


def close_matches(word: str, known: Iterable[str], prefix: str = "") -> list[str]:
    """Known words that this one may have been meant for, two at most. `begin` they share by rule: it likens none."""
    cut = {one.removeprefix(prefix): one for one in known}
    return [cut[one] for one in get_close_matches(word.removeprefix(prefix), cut, n=2, cutoff=_NEAR)]


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    found = close_matches(word, known, prefix)
    return f"; did you mean {' or '.join(found)}?" if found else ""
