"""A file in numbered lines. What would fill the window is refused, with the way to read it in parts (R119)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ebbtide.core.tokens import DEFAULT
from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, number

LARGEST = 256 * 1024
"""Bytes of a file that is read whole."""
MOST = 25_000
"""Tokens of one answer, as estimated."""
_WIDE = 2_000  # characters of a line: what is longer is data, and nobody edits it by line
_PIECE = 16 * 1024  # bytes at a time: more than so many characters can have


def _need(desk: Desk, given: Given) -> Need:
    return Need(tool="read", kind="read", path=desk.place(given))


def _run(desk: Desk, given: Given) -> Outcome:
    path = desk.place(given)
    offset, limit = number(given, "offset", 1), number(given, "limit", 0)
    if offset < 1 or limit < 0:
        raise Refused("`offset` counts lines from 1, and `limit` is a number of lines")
    if path.is_dir():
        raise Refused(f"{desk.shown(path)} is a directory; use glob")
    if not path.is_file():
        raise Refused(f"there is no file {desk.shown(path)}")
    ranged = bool(limit) or offset > 1
    length = path.stat().st_size
    if length > LARGEST and not ranged:
        raise Refused(f"{desk.shown(path)} has {length:,} bytes, over {LARGEST:,}. {_HINT}")
    told = numbered(path, offset, limit)
    tokens = DEFAULT.text(told)
    if tokens > MOST:
        raise Refused(f"that would be about {tokens:,} tokens, over {MOST:,}. {_HINT}")
    desk.note(path)
    return Outcome(text=told or "(the file is empty, or ends before that line)")


_HINT = "Read a range with `offset` and `limit`, or search it with grep."


def numbered(path: Path, offset: int, limit: int) -> str:
    """Lines from `offset` on, each behind its number. Stops reading where far more came than will be shown."""
    found: list[str] = []
    taken = 0
    with path.open("rb") as file:
        for n, raw in enumerate(islice(_lines(file), offset - 1, offset - 1 + limit if limit else None), offset):
            if b"\0" in raw:
                raise Refused("the file is not text")
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            found.append(f"{n:>6}\t{line[:_WIDE]}{' [line cut]' if len(line) > _WIDE else ''}")
            taken += len(line)
            if taken > 2 * LARGEST:
                raise Refused(f"that range is too large. {_HINT}")
    return "\n".join(found)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """As much of each line as can be shown: one line may be as long as the file. A NUL is shown wherever it stands."""
    head = b""
    while part := file.readline(_PIECE):
        head = b"\0" if b"\0" in part else head or part
        if part.endswith(b"\n"):
            yield head
            head = b""
    if head:
        yield head


read = Tool(
    name="read",
    about=(
        "Read a text file. Lines come numbered, as in `    12<tab>text`; the numbers are not part of the file. "
        "A file over 256 KB is read in ranges."
    ),
    fields={
        "path": {"type": "string", "description": "Relative to the workspace, or absolute."},
        "offset": {"type": "integer", "description": "First line, from 1."},
        "limit": {"type": "integer", "description": "Number of lines."},
    },
    wants=("path",),
    need=_need,
    run=_run,
)
