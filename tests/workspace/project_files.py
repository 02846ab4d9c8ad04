"""Load the instruction files of a test project, and run git in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from ebbtide.workspace import OnSkip, Sources, load_instructions
from ebbtide.workspace.parallel import log_skip


def instruction_files(
    project: Path, cwd: Path | None = None, *, report: OnSkip = log_skip, **settings: Any
) -> list[tuple[str, str]]:
    base = project.parent.parent
    sources = Sources(cwd=cwd or project, home=base / "home", config_dir=base / "config", **settings)
    instructions = load_instructions(sources, on_skip=report)
    return [(os.path.relpath(source, base) if "://" not in source else source, text) for source, text in instructions]


def git(cwd: Path, *arguments: str, stdin: str = "") -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=cwd, input=stdin, text=True, check=True, capture_output=True).stdout
