"""What git says of a project. A repository is anybody's: no program that it names is run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.workspace.at_once import Report, together, warn

STATUS_CAP = 2_000  # characters: a status that long is a generated tree, and is asked for in full if needed
# A repository's own settings can name programs to run: no monitor, no hook, no signature check, no submodule.
_GIT = ("git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ASKED: Mapping[str, tuple[str, ...]] = {
    "Branch": ("branch", "--show-current"),
    "Default branch": ("symbolic-ref", "--short", "refs/remotes/origin/HEAD"),
    "User": ("config", "user.name"),
    "Status": ("status", "--short", "--ignore-submodules=dirty"),
    "Recent commits": ("-c", "log.showSignature=false", "log", "--oneline", "-n", "5"),
}


def project_root(cwd: Path) -> Path | None:
    """The nearest directory upwards that git calls its own; a worktree's `.git` is a file."""
    here = cwd.resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def _git(cwd: Path, words: Sequence[str], timeout: float) -> str:
    done = subprocess.run(  # noqa: S603  # Fixed words; the directory is an argument of run, not of the command.
        [*_GIT, *words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
    )
    return done.stdout.decode("utf-8", "replace").strip("\n") if done.returncode == 0 else ""


def git_status(cwd: Path, *, timeout: float = 5.0, report: Report = warn) -> str:
    """Branch, user, status and the last commits, asked for at once; empty outside a repository."""
    if project_root(cwd) is None:
        return ""
    work = {name: (lambda words=words: _git(cwd, words, timeout)) for name, words in _ASKED.items()}
    answers = dict(together(work, timeout, lambda name, reason: report(f"git: {name}", reason)))
    lines = [f"{name}: {answers[name]}" for name in ("Branch", "Default branch", "User") if answers.get(name)]
    if "Status" in answers:
        lines.append(f"Status:\n{_shortened(answers['Status']) or '(clean)'}")
    if answers.get("Recent commits"):
        lines.append(f"Recent commits:\n{answers['Recent commits']}")
    return "\n".join(["Git, as it was when the session began:", *lines]) if lines else ""


def _shortened(status: str) -> str:
    if len(status) <= STATUS_CAP:
        return status
    whole = status[:STATUS_CAP].rpartition("\n")[0]
    return f"{whole}\n({status.count(chr(10)) - whole.count(chr(10))} more: run git status)"
