"""Facts are lines. Whatever a tool or a model wrote becomes one line of bounded length, without control characters."""

from __future__ import annotations

import re

_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
"""Also what a terminal or a bidirectional text would act on."""


_MOVED = re.compile(r"^\s*cd\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s*(?:&&|;)\s*")


def strip_cd(command: str) -> str:
    """The command without the change of directory in front of it."""
    return _MOVED.sub("", command, count=1)


def to_one_line(text: str, width: int) -> str:
    """The text on one line; too long, its head and its end."""
    line = _BLANK.sub(" ", text[: width * 8]).strip()
    if len(text) > width * 8:
        line += " " + _BLANK.sub(" ", text[-width:]).strip()
    if len(line) <= width:
        return line
    end = width // 4
    return f"{line[: width - end - 3].rstrip()} … {line[-end:].lstrip()}"
