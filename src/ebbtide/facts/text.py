"""Text as one line of bounded length, and paths grouped by directory, for facts that must stay short."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
"""Whitespace, and characters that a terminal or bidirectional text would act on."""
_CHANGE_DIRECTORY = re.compile(r"^\s*cd\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s*(?:&&|;)\s*")
_PATH_WIDTH = 400


def strip_cd(command: str) -> str:
    """The command without a leading `cd DIR &&`."""
    return _CHANGE_DIRECTORY.sub("", command, count=1)


def to_one_line(text: str, width: int) -> str:
    """The text on one line without control characters. If it is too long, its beginning and its end."""
    line = _BLANK.sub(" ", text[: width * 8]).strip()
    if len(text) > width * 8:
        line += " " + _BLANK.sub(" ", text[-width:]).strip()
    if len(line) <= width:
        return line
    end = width // 4
    return f"{line[: width - end - 3].rstrip()} … {line[-end:].lstrip()}"


def base_name(path: str) -> str:
    trimmed = path.rstrip("/\\")
    return trimmed[max(trimmed.rfind("/"), trimmed.rfind("\\")) + 1 :]


def parent_directory(path: str) -> str:
    """The directory with its final slash; `./` for a bare name."""
    trimmed = path.rstrip("/\\")
    return trimmed[: len(trimmed) - len(base_name(path))] or "./"


def group_by_directory(notes: Iterable[tuple[str, str]]) -> list[str]:
    """One line `dir/: name note, name note` for each directory, from pairs of a path and a note about it."""
    groups: dict[str, list[str]] = {}
    for path, note in notes:
        line = to_one_line(path, _PATH_WIDTH)
        groups.setdefault(parent_directory(line), []).append(f"{base_name(line)} {note}".rstrip())
    return [f"{directory}: {', '.join(names)}" for directory, names in groups.items()]
