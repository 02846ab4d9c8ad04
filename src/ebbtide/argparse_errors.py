"""An argument parser with short errors: what is wrong, and what to do. All fronts use it, and write help alike."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from inspect import cleandoc
from typing import Any, NoReturn

from ebbtide.screen import notify_error

_SHORT, _MIN_SIMILARITY_SHORT = 4, 0.6
"""Letters of a word in which two swapped ones weigh much, such as `fti`."""
_MIN_SIMILARITY = 0.7
"""Minimum similarity for a suggestion. At difflib's default of 0.6, `token` would match `store`."""


class Parser(argparse.ArgumentParser):
    """Suggests the right word for a typo, and accepts positional arguments after options."""

    _is_intermixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        options, unknown = super().parse_known_args(args, namespace)
        if unknown and not self._is_intermixing and self._can_intermix():
            options, unknown = self._parse_intermixed(args)
        if self._is_intermixing:
            return options, unknown
        flags = [argument for argument in unknown if argument.startswith("-")]
        if flags:
            self.error(f"there is no option {flags[0]}{suggestion(flags[0].partition('=')[0], self.flags(), '--')}")
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return options, []

    def _can_intermix(self) -> bool:
        """Not if the arguments that follow belong to another command."""
        return self._subparsers is None and all(action.nargs != argparse.REMAINDER for action in self._actions)

    def _parse_intermixed(self, args: Sequence[str] | None) -> tuple[Any, list[str]]:
        """Parse again with positional arguments after options, which argparse ignores if they are optional."""
        self._is_intermixing = True
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self._is_intermixing = False

    def flags(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse hides the error if the help cannot be written."""
        if file is not sys.stdout:
            super()._print_message(message, file)
        else:
            file.write(message)
            file.flush()

    def error(self, message: str) -> NoReturn:
        argument, _, rest = message.removeprefix("argument ").partition(": invalid choice: '")
        value, separator, listed = rest.partition("' (choose from ")
        if separator and message.startswith("argument "):
            choices = re.findall(r"[\w.-]+", listed)
            message = f"{argument}: {value!r} is not one of {', '.join(choices)}{suggestion(value, choices)}"
            if argument == "COMMAND":
                hint = "; did you mean --version?" if value == "version" else suggestion(value, choices)
                message = f"there is no command {value!r}{hint}"
        next_step = "'ebb' alone lists the commands" if self.prog == "ebb" else f"'{self.prog} --help' explains it"
        # A shell pattern may have expanded to a file name with any characters.
        printable = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in message)
        notify_error(printable, next_step)
        self.exit(2)


def front_parser(name: str, main: Callable[[Sequence[str]], int]) -> Parser:
    """The parser of a front. The docstring of its `main` is the help; from `examples:` on it follows the options."""
    about, _, notes = cleandoc(main.__doc__ or "").partition("\n\nexamples:\n")
    style = argparse.RawDescriptionHelpFormatter
    return Parser(prog=f"ebb {name}", description=about, epilog=f"examples:\n{notes}", formatter_class=style)


def close_matches(word: str, known: Iterable[str], prefix: str = "") -> list[str]:
    """Up to two known words similar to this one, compared without the `prefix` that they share."""
    stems = {name.removeprefix(prefix): name for name in known}
    stem = word.removeprefix(prefix)
    cutoff = _MIN_SIMILARITY_SHORT if len(stem) <= _SHORT else _MIN_SIMILARITY
    return [stems[match] for match in get_close_matches(stem, stems, n=2, cutoff=cutoff)]


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    matches = close_matches(word, known, prefix)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
