"""Files by name, those changed last first. What a link puts elsewhere is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ebbtide.fronts.chat.tools.desk import Desk, Given, Need, Outcome, Refused, Tool, text
from ebbtide.fronts.chat.tools.processes import LINES

_LOOKED_AT = 100_000  # entries: in a larger tree a pattern must say where to look
_SKIPPED = {".git", "node_modules", ".venv", "__pycache__"}


def _need(desk: Desk, given: Given) -> Need:
    return Need(tool="glob", kind="read", path=desk.place(given, default="."))


def _run(desk: Desk, given: Given) -> Outcome:
    start, pattern = desk.place(given, default="."), text(given, "pattern")
    if not start.is_dir():
        raise Refused(f"{desk.shown(start)} is no directory")
    found = matching(start, pattern)
    if not found:
        return Outcome(text="No file matches.")
    shown = [desk.shown(path) for path in found[:LINES]]
    more = [f"[{len(found) - LINES} more. Narrow the pattern.]"] if len(found) > LINES else []
    return Outcome(text="\n".join([*shown, *more]))


def matching(start: Path, pattern: str) -> list[Path]:
    """Really below `start`, newest first; equal times by name, so that the answer is the same every time."""
    if os.path.isabs(pattern) or ".." in Path(pattern).parts:
        raise Refused("`pattern` is relative to `path` and stays below it")
    try:
        inside = [path for path in _files(start, pattern) if path.resolve().is_relative_to(start)]
    except (ValueError, NotImplementedError) as wrong:
        raise Refused(f"`pattern`: {wrong}") from None
    return sorted(inside, key=lambda path: (-path.lstat().st_mtime_ns, str(path)))


def _files(start: Path, pattern: str) -> Iterator[Path]:
    for path in islice(start.glob(pattern), _LOOKED_AT):
        if not _SKIPPED & set(path.relative_to(start).parts) and path.is_file():
            yield path


glob = Tool(
    name="glob",
    about="Find files by name, as in **/*.py or src/*.md. The ones changed last come first; 250 at most.",
    fields={
        "pattern": {"type": "string"},
        "path": {"type": "string", "description": "Directory to look in; default: the workspace."},
    },
    wants=("pattern",),
    need=_need,
    run=_run,
)
