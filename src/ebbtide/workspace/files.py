"""Reads files and finds programs without trusting links.

A file is read completely or not at all: half a rule may say the opposite.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

FILE_CAP = 128 * 1024  # bytes, about 32k tokens: longer rules would fill a small window


def read_within(path: Path, within: Sequence[Path]) -> str:
    """Return the text of a file that is, links resolved, within one of the roots."""
    real = path.resolve(strict=True)
    if not any(real.is_relative_to(root.resolve()) for root in within):
        raise PermissionError("a link leads out of the project")
    # The file may have been replaced by a link, or be a pipe that would block.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(real, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        return decode_text(file.read(FILE_CAP + 1))


def decode_text(data: bytes) -> str:
    if len(data) > FILE_CAP:
        raise ValueError(f"longer than {FILE_CAP} bytes")
    if b"\0" in data:
        raise ValueError("binary")
    return data.decode("utf-8-sig")


def file_times(paths: Iterable[str]) -> dict[str, int | None]:
    """Return when each file last changed, in nanoseconds; None if there is no file."""
    return {path: _changed_at(path) for path in paths}


def _changed_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return None


def changed_files(previous: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the files whose time differs from `previous`, with their time now."""
    return {path: now for path, now in file_times(sorted(previous)).items() if now != previous[path]}


def find_program(name: str) -> str | None:
    """Find an installed program. Relative entries of PATH are ignored: `.` would run the repository's own files."""
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
