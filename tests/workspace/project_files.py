"""What is found in a project, and git run in one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from ebbtide.workspace import OnSkip, Sources, load_instructions
from ebbtide.workspace.parallel import log_skip


def found(
    project: Path, cwd: Path | None = None, *, report: OnSkip = log_skip, **settings: Any
) -> list[tuple[str, str]]:
    base = project.parent.parent
    sources = Sources(cwd=cwd or project, home=base / "home", config_dir=base / "config", **settings)
    got = load_instructions(sources, on_skip=report)
    return [(os.path.relpath(source, base) if "://" not in source else source, text) for source, text in got]


def git(cwd: Path, *words: str, say: str = "") -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=cwd, input=say, text=True, check=True, capture_output=True).stdout
