"""What git says of a project, without running what a repository's settings name.

`.git/config` can name programs: filters, monitors, pagers, external diffs. Some of them (`filter.NAME.clean`) cannot be
switched off from outside, because NAME is anything. So in a folder that the user has not trusted git is not run at all;
the branch is read from git's files. In a trusted one git runs as the user's own would, without monitor, hooks, pager
and signature checks.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.workspace.files import find_program
from ebbtide.workspace.parallel import OnSkip, gather, warn

STATUS_CAP = 2_000  # characters: a status that long is a generated tree, and is asked for in full if needed
_OPTIONS = (
    *("--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit", "-c", "log.showSignature=false", "-c", "protocol.allow=never"),
)
_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "User": ("config", "user.name"),
    "Status": ("status", "--short", "--ignore-submodules=all"),
    "Recent commits": ("log", "--oneline", "-n", "5"),
}
_POINTER_CAP = 4_096  # bytes of HEAD, of a ref and of a `.git` file: one line each
_BRANCH = re.compile(r"ref: refs/(?:heads|remotes/[^/\s]+)/(?P<name>[^\s\x00-\x1f\x7f~^:?*\[\\]{1,250})\s*")
_HASH = re.compile(r"(?P<hash>[0-9a-f]{40}|[0-9a-f]{64})\s*")


def project_root(cwd: Path) -> Path | None:
    """The nearest directory upwards that git calls its own; a worktree's `.git` is a file."""
    here = cwd.resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def git_status(cwd: Path, *, trusted: bool = False, timeout: float = 5.0, report: OnSkip = warn) -> str:
    """Branch, and in a trusted folder also user, status and the last commits; empty outside a repository."""
    root = project_root(cwd)
    if root is None:
        return ""
    lines = [f"{name}: {branch}" for name, branch in _read_branches(root).items() if branch]
    answers = _ask_git(cwd.resolve(), root, timeout, report) if trusted else {}
    if answers.get("User"):
        lines.append(f"User: {answers['User']}")
    if "Status" in answers:
        lines.append(f"Status:\n{_shorten(answers['Status']) or '(clean)'}")
    if answers.get("Recent commits"):
        lines.append(f"Recent commits:\n{answers['Recent commits']}")
    return "\n".join(["Git, as it was when the session began:", *lines]) if lines else ""


# --- without git -------------------------------------------------------------------------------------------------


def _read_branches(root: Path) -> Mapping[str, str]:
    folder = _find_git_folder(root)
    if folder is None:
        return {}
    return {
        "Branch": _branch_name(_read_pointer(folder / "HEAD")),
        "Default branch": _branch_name(_read_pointer(_shared_folder(folder) / "refs" / "remotes" / "origin" / "HEAD")),
    }


def _shared_folder(folder: Path) -> Path:
    """What a worktree has in common with its repository."""
    common = _read_pointer(folder / "commondir").strip()
    return folder / common if common else folder


def _find_git_folder(root: Path) -> Path | None:
    """Where git keeps its files; `.git` itself, or where a worktree's `.git` file leads."""
    at = root / ".git"
    if at.is_dir():
        return at
    words = _read_pointer(at)
    return root / words.removeprefix("gitdir:").strip() if words.startswith("gitdir:") else None


def _branch_name(head: str) -> str:
    """A branch, or the commit of a detached HEAD. Anything else in that file is not repeated."""
    if match := _BRANCH.fullmatch(head):
        return match["name"]
    match = _HASH.fullmatch(head)
    return f"none, at {match['hash'][:12]}" if match else ""


def _read_pointer(path: Path) -> str:
    """A short text file; empty where it is missing, long, a pipe or no text."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            text = file.read(_POINTER_CAP + 1).decode("utf-8")
    except (OSError, ValueError):
        return ""
    return text if len(text) <= _POINTER_CAP else ""


# --- with git ----------------------------------------------------------------------------------------------------


def _ask_git(here: Path, root: Path, timeout: float, report: OnSkip) -> Mapping[str, str]:
    program = find_program("git")
    if program is None or not _is_repository(root):
        return {}
    if bare := _find_bare_repository(here, root):
        report("git", f"{bare} is laid out as a bare repository, whose settings git would obey; git was not run")
        return {}
    work = {name: (lambda words=words: _run(program, here, words, timeout)) for name, words in _QUESTIONS.items()}
    return dict(gather(work, timeout, lambda name, reason: report(f"git: {name}", reason)))


def _is_repository(root: Path) -> bool:
    """Whether git stops here: where `.git` is incomplete it looks further up, in folders that nobody trusted."""
    folder = _find_git_folder(root)
    return (
        folder is not None
        and bool(_branch_name(_read_pointer(folder / "HEAD")))
        and all(map(Path.is_dir, _storage_folders(folder)))
    )


def _storage_folders(folder: Path) -> tuple[Path, Path]:
    shared = _shared_folder(folder)
    return shared / "objects", shared / "refs"


def _find_bare_repository(here: Path, root: Path) -> str:
    """A folder from `here` up to `root` that git would take for a repository without a `.git` in it."""
    folders = [here, *here.parents]
    for folder in folders[: folders.index(root) + 1]:
        if all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
            return str(folder)
    return ""


def _run(program: str, cwd: Path, words: Sequence[str], timeout: float) -> str:
    done = subprocess.run(  # noqa: S603  # Fixed words; the directory is an argument of run, not of the command.
        [program, *_OPTIONS, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace").strip("\n") if done.returncode == 0 else ""


def _shorten(status: str) -> str:
    if len(status) <= STATUS_CAP:
        return status
    whole = status[:STATUS_CAP].rpartition("\n")[0]
    return f"{whole}\n({status.count(chr(10)) - whole.count(chr(10))} more: run git status)"
