"""Reads a project's git status without running programs that the repository's settings name.

`.git/config` can name programs: filters, monitors, pagers, external diffs. Some (`filter.NAME.clean`) cannot be
switched off from outside, because NAME can be anything. So in a folder that the user does not trust, git is not run:
the branch is read from git's files. In a trusted folder git runs without monitor, hooks, pager and signature checks.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.workspace.files import find_program
from ebbtide.workspace.parallel import OnSkip, gather, log_skip

STATUS_CAP = 2_000  # characters: a longer status is a generated tree, and the model can ask for all of it
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
    """Return the nearest directory upwards with a `.git`, which is a file in a worktree."""
    start = cwd.resolve()
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)


def git_status(cwd: Path, *, trusted: bool = False, timeout: float = 5.0, on_skip: OnSkip = log_skip) -> str:
    """Return the branch, and in a trusted folder also user, status and last commits; "" outside a repository."""
    root = project_root(cwd)
    if root is None:
        return ""
    lines = [f"{name}: {branch}" for name, branch in _read_branches(root).items() if branch]
    answers = _ask_git(cwd.resolve(), root, timeout, on_skip) if trusted else {}
    if answers.get("User"):
        lines.append(f"User: {answers['User']}")
    if "Status" in answers:
        lines.append(f"Status:\n{_shorten(answers['Status']) or '(clean)'}")
    if answers.get("Recent commits"):
        lines.append(f"Recent commits:\n{answers['Recent commits']}")
    return "\n".join(["Git status when the session started:", *lines]) if lines else ""


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
    """Return the folder that a worktree shares with its repository."""
    common = _read_pointer(folder / "commondir").strip()
    return folder / common if common else folder


def _find_git_folder(root: Path) -> Path | None:
    """Return `.git`, or the folder that a worktree's `.git` file names."""
    git_path = root / ".git"
    if git_path.is_dir():
        return git_path
    pointer = _read_pointer(git_path)
    return root / pointer.removeprefix("gitdir:").strip() if pointer.startswith("gitdir:") else None


def _branch_name(head: str) -> str:
    """Return a branch, or the commit of a detached HEAD. Anything else in the file is ignored."""
    if match := _BRANCH.fullmatch(head):
        return match["name"]
    match = _HASH.fullmatch(head)
    return f"none, at {match['hash'][:12]}" if match else ""


def _read_pointer(path: Path) -> str:
    """Read a short text file; "" if it is missing, long, a pipe or not text."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            text = file.read(_POINTER_CAP + 1).decode("utf-8")
    except (OSError, ValueError):
        return ""
    return text if len(text) <= _POINTER_CAP else ""


# --- with git ----------------------------------------------------------------------------------------------------


def _ask_git(cwd: Path, root: Path, timeout: float, on_skip: OnSkip) -> Mapping[str, str]:
    program = find_program("git")
    if program is None or not _is_repository(root):
        return {}
    if bare := _find_bare_repository(cwd, root):
        on_skip("git", f"{bare} is laid out as a bare repository, whose settings git would obey; git was not run")
        return {}
    questions = {name: (lambda words=words: _run(program, cwd, words, timeout)) for name, words in _QUESTIONS.items()}
    return dict(gather(questions, timeout, lambda name, reason: on_skip(f"git: {name}", reason)))


def _is_repository(root: Path) -> bool:
    """Whether git would stop here. If `.git` is incomplete, it looks further up, in folders that are not trusted."""
    folder = _find_git_folder(root)
    if folder is None or not _branch_name(_read_pointer(folder / "HEAD")):
        return False
    shared = _shared_folder(folder)
    return (shared / "objects").is_dir() and (shared / "refs").is_dir()


def _find_bare_repository(cwd: Path, root: Path) -> str:
    """Return a folder from `cwd` up to `root` that git would take for a bare repository, or ""."""
    folders = [cwd, *cwd.parents]
    for folder in folders[: folders.index(root) + 1]:
        if all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
            return str(folder)
    return ""


def _run(program: str, cwd: Path, arguments: Sequence[str], timeout: float) -> str:
    process = subprocess.run(  # noqa: S603  # fixed arguments; the directory is not one of them
        [program, *_OPTIONS, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return process.stdout.decode("utf-8", "replace").strip("\n") if process.returncode == 0 else ""


def _shorten(status: str) -> str:
    if len(status) <= STATUS_CAP:
        return status
    complete_lines = status[:STATUS_CAP].rpartition("\n")[0]
    return f"{complete_lines}\n({status.count(chr(10)) - complete_lines.count(chr(10))} more: run git status)"
