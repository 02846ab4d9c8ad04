"""Programs that we start by ourselves are found by full paths: `.` in PATH would make them the repository's own."""

from __future__ import annotations

import os
import shutil


def find_program(name: str) -> str | None:
    """Where a program is installed. Entries of PATH that depend on the current folder do not count."""
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
