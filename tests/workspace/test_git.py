"""Git is asked once, and runs nothing that a repository names."""

from __future__ import annotations

from pathlib import Path

from ebbtide.workspace import git_status
from workspace.project_files import git


def test_git_status_has_branch_user_status_and_commits(repository: Path) -> None:
    (repository / "new.txt").write_text("n")

    lines = git_status(repository, trusted=True).splitlines()

    assert lines[1:5] == ["Branch: trunk", "User: Ada", "Status:", "?? new.txt"]
    assert lines[5] == "Recent commits:"
    assert lines[6].endswith(" first")


def test_a_clean_tree_says_so_and_a_large_one_is_cut_at_a_line(repository: Path) -> None:
    assert "(clean)" in git_status(repository, trusted=True)
    for n in range(400):
        (repository / f"file{n:03}.txt").write_text("")

    status = git_status(repository, trusted=True)

    kept = [line for line in status.splitlines() if line.startswith("?? ")]
    assert all(len(line) == len("?? file000.txt") for line in kept)
    assert f"({400 - len(kept)} more: run git status)" in status


def test_outside_a_repository_the_git_status_is_empty(tmp_path: Path) -> None:
    assert git_status(tmp_path) == ""


def sign(repository: Path) -> None:
    """Puts a signature on the last commit, which git checks by running a program the repository names."""
    commit = git(repository, "cat-file", "commit", "HEAD")
    head, _, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    signed = git(repository, "hash-object", "-w", "-t", "commit", "--stdin", stdin=f"{head}\n{signature}\n\n{message}")
    git(repository, "update-ref", "HEAD", signed.strip())


def test_programs_that_a_repository_names_are_not_run(repository: Path) -> None:
    sign(repository)
    trap = repository.parent / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {repository.parent}/sprung\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    git(repository, "config", "log.showSignature", "true")
    git(repository, "config", "gpg.program", str(trap))

    assert "Branch: trunk" in git_status(repository, trusted=True)
    assert not (repository.parent / "sprung").exists()
