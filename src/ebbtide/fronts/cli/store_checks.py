"""The store's directory from outside: names, lengths, modes and last bytes. Nothing is opened to write."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.core.errors import BadConfig
from ebbtide.store import open_store

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_OTHERS = 0o077
_PATIENCE = 0.3
"""Seconds: a commit takes milliseconds, so whoever holds a lock before and after hangs."""
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    root: str
    there: bool = False
    problem: str = ""
    cure: str = ""
    sessions: int = 0
    bytes: int = 0
    newest: float = 0.0
    """When the last log changed."""
    wide: int = 0
    """Files and folders that others may open."""
    torn: tuple[str, ...] = ()
    """Logs that do not end with a line's end."""
    stuck: tuple[str, ...] = ()
    """Locks that are held for too long."""
    free: int = 0


def holdings(store: str) -> Holdings:
    root = Path(store).expanduser()
    try:
        open_store(store)
    except BadConfig as wrong:
        return Holdings(root=str(root), problem=str(wrong), cure="give a directory with --store or EBB_HOME")
    if not root.exists():
        return _not_there(root)
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        cure = f"chmod u+rwx {root}, or choose another directory with EBB_HOME"
        return Holdings(root=str(root), problem=f"{root} cannot be written to", cure=cure)
    found = list(_walked(root))
    logs = [(path, told) for path, told in found if _is_log(root, path)]
    locks = [path for path, _ in found if path.suffix == ".lock" and path.parent.parent == root / "projects"]
    return Holdings(
        root=str(root),
        there=True,
        sessions=len(logs),
        bytes=sum(told.st_size for _, told in found if stat.S_ISREG(told.st_mode)),
        newest=max((told.st_mtime for _, told in logs), default=0.0),
        wide=sum(bool(told.st_mode & _OTHERS) for _, told in found),
        torn=_named(path for path, told in logs if told.st_size and not _whole(path)),
        stuck=_named(_held_twice(locks)),
        free=shutil.disk_usage(root).free,
    )


def _not_there(root: Path) -> Holdings:
    """What matters then is whether it could be made."""
    above = next((folder for folder in root.parents if folder.exists()), Path("/"))
    if os.access(above, os.W_OK | os.X_OK):
        return Holdings(root=str(root))
    cure = "choose another directory with EBB_HOME"
    return Holdings(root=str(root), problem=f"{root} is not there, and {above} cannot be written to", cure=cure)


def _walked(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All below the root and the root itself; links are not followed and not judged."""
    for path in (Path(folder) / name for folder, _, files in os.walk(root) for name in ("", *files)):
        with suppress(OSError):  # gone meanwhile
            told = path.lstat()
            if not stat.S_ISLNK(told.st_mode):
                yield path, told


def _is_log(root: Path, path: Path) -> bool:
    return path.suffix == ".jsonl" and path.parent.parent == root / "projects"


def _whole(log: Path) -> bool:
    with suppress(OSError), log.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
    return True


def _held_twice(locks: list[Path]) -> list[Path]:
    held = [path for path in locks if _held(path)]
    if held:
        time.sleep(_PATIENCE)
    return [path for path in held if _held(path)]


def _held(lock: Path) -> bool:
    if fcntl is None:
        return False
    with suppress(FileNotFoundError, PermissionError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _named(paths: Iterator[Path] | list[Path]) -> tuple[str, ...]:
    names = [path.stem for path in paths]
    return tuple(names[:_NAMED]) + ((f"and {len(names) - _NAMED} more",) if len(names) > _NAMED else ())
