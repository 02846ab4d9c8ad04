"""Instructions go from the general to the particular, and nothing leads out of the project."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from ebbtide.workspace.files import FILE_CAP
from ebbtide.workspace.instructions import FILES_CAP
from workspace.project_files import instruction_files


def test_instructions_are_ordered_from_general_to_specific(project: Path) -> None:
    base = project.parent.parent
    (base / "config/AGENTS.md").write_text("config")
    (base / "home/.claude/CLAUDE.md").write_text("global")
    (project / "AGENTS.md").write_text("root")
    (project / "pkg/CLAUDE.md").write_text("package")
    (project / "extra.md").write_text("extra")

    instructions = instruction_files(
        project, project / "pkg", extra_paths=["extra.md"], urls=["http://x/"], fetch=lambda url, _: "web"
    )

    assert instructions == [
        ("config/AGENTS.md", "config"),
        ("home/.claude/CLAUDE.md", "global"),
        ("home/app/AGENTS.md", "root"),
        ("home/app/pkg/CLAUDE.md", "package"),
        ("home/app/extra.md", "extra"),
        ("http://x/", "web"),
    ]


def test_only_the_first_name_in_a_directory_is_used_unless_all_are_requested(project: Path) -> None:
    for name in ("CONTEXT.md", "CLAUDE.md", "AGENTS.md"):
        (project / name).write_text(name)

    assert [text for _, text in instruction_files(project)] == ["AGENTS.md"]
    assert [text for _, text in instruction_files(project, rule="all")] == ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"]


def test_nothing_above_the_project_is_read(project: Path) -> None:
    (project.parent / "AGENTS.md").write_text("above")
    skipped: list[str] = []

    assert instruction_files(project, project / "pkg", report=lambda source, _: skipped.append(source)) == []
    assert skipped == []


def test_outside_a_project_only_the_directory_itself_is_read(project: Path) -> None:
    """Anyone can write to a shared parent."""
    folder = project.parent.parent / "tmp" / "work"
    folder.mkdir(parents=True)
    (folder.parent / "AGENTS.md").write_text("planted")
    (folder / "AGENTS.md").write_text("mine")

    assert [text for _, text in instruction_files(project, folder)] == ["mine"]


def test_a_link_out_of_the_project_is_refused_and_reported(project: Path) -> None:
    secret = project.parent / ".netrc"
    secret.write_text("password")
    (project / "AGENTS.md").symlink_to(secret)
    skipped: list[tuple[str, str]] = []

    assert instruction_files(project, report=lambda *problem: skipped.append(problem)) == []
    assert skipped == [(str(project / "AGENTS.md"), "a link leads out of the project")]


def test_a_link_inside_the_project_is_followed_and_read_once(project: Path) -> None:
    (project / "CLAUDE.md").write_text("rules")
    (project / "AGENTS.md").symlink_to("CLAUDE.md")

    assert [text for _, text in instruction_files(project, rule="all")] == ["rules"]


@pytest.mark.parametrize("pattern", ["../.netrc", "out/.netrc", "../*"])
def test_a_relative_pattern_stays_in_the_project(project: Path, pattern: str) -> None:
    (project.parent / ".netrc").write_text("password")
    (project.parent / "visible").write_text("password")
    (project / "out").symlink_to(project.parent)

    assert instruction_files(project, extra_paths=[pattern], report=lambda *_: None) == []


def test_absolute_patterns_match_only_the_users_own_files(project: Path) -> None:
    (project.parent / "mine.md").write_text("mine")
    (project.parent.parent / "theirs.md").write_text("theirs")
    skipped: list[str] = []
    patterns = ["~/mine.md", str(project.parent.parent / "theirs.md"), "missing.md"]

    instructions = instruction_files(project, extra_paths=patterns, report=lambda source, _: skipped.append(source))

    assert [text for _, text in instructions] == ["mine"]
    assert skipped == ["missing.md", patterns[1]]


def test_a_pattern_gives_its_files_in_order_up_to_a_limit(project: Path) -> None:
    odd = project / "docs[1]"
    odd.mkdir()
    for n in range(FILES_CAP + 3):
        (odd / f"{n:03}.md").write_text(f"rule {n}")
    (odd / ".git").mkdir()
    skipped: list[str] = []

    instructions = instruction_files(
        project, odd, extra_paths=["*.md"], report=lambda _, reason: skipped.append(reason)
    )

    assert [text for _, text in instructions] == [f"rule {n}" for n in range(FILES_CAP)]
    assert len(skipped) == 1


@pytest.mark.parametrize("data", [b"a\0b", b"caf\xe9", b"x" * (FILE_CAP + 1)])
def test_a_binary_or_too_long_file_is_skipped(project: Path, data: bytes) -> None:
    (project / "AGENTS.md").write_bytes(data)
    skipped: list[str] = []

    assert instruction_files(project, report=lambda source, _: skipped.append(source)) == []
    assert len(skipped) == 1


def test_a_pipe_does_not_block_the_session(project: Path) -> None:
    pipe = project.parent.parent / "config/AGENTS.md"
    os.mkfifo(pipe)
    skipped: list[tuple[str, str]] = []

    assert instruction_files(project, report=lambda *problem: skipped.append(problem)) == []
    assert skipped == [(str(pipe), "not a regular file")]


def test_skipped_sources_are_logged_by_default(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    (project / "AGENTS.md").write_bytes(b"\0")
    with caplog.at_level(logging.WARNING):
        instruction_files(project)

    assert "AGENTS.md: binary" in caplog.text
