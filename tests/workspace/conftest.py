from __future__ import annotations

from pathlib import Path

import pytest

from workspace.project_files import git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """home, config and a project with a package in it."""
    for folder in ("home/.claude", "config", "home/app/.git", "home/app/pkg"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path / "home" / "app"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "trunk")
    git(tmp_path, "config", "user.name", "Ada")
    (tmp_path / "a.txt").write_text("a")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path
