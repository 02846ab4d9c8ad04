"""One writer at a time, across threads and processes, for as long as a commit takes.

The lock file also holds the head: how far the log went at the last commit. A chain alone cannot tell that its end was
cut off.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress

from ebbtide.store.directory.files import LOCK, Files
from ebbtide.store.directory.safe_fs import Tree, let_go, open_regular
from ebbtide.store.log_lines import Position

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds: a commit takes some milliseconds
_HEAD = re.compile(rb"([0-9]{20}) ([0-9]{12}) ([0-9a-f]{16})\n")


class SessionLock:
    """Re-entrant within a thread."""

    def __init__(self, tree: Tree, place: tuple[str, ...], name: str) -> None:
        self._tree, self._place, self._name = tree, place, name
        self._mutex, self._depth, self._fd = threading.RLock(), 0, -1

    def take(self, timeout: float) -> bool:
        """OSError where the lock file cannot be made."""
        files = self._tree.files
        deadline = files.ticks() + timeout
        if not self._mutex.acquire(timeout=max(0.0, timeout)):
            return False
        try:
            if not self._depth:
                self._fd = self._acquire(deadline)
        except BaseException:
            self._mutex.release()
            raise
        if self._fd < 0:
            self._mutex.release()
            return False
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        try:
            if not self._depth:
                fd, self._fd = self._fd, -1
                let_go(self._tree.files, fd)
        finally:
            self._mutex.release()

    def note(self, end: Position) -> None:
        """Remember how far the log goes. Written after the log, so a stale head is behind it and no false alarm."""
        with suppress(OSError):
            self._tree.files.write_at(self._fd, b"%020d %012d %s\n" % (end.offset, end.lines, end.sum.encode()), 0)

    def head(self) -> Position | None:
        """How far the log went at the last commit, whoever made it. Only while the lock is held."""
        with suppress(OSError):
            return read_head(self._tree.files, self._fd)
        return None

    def _acquire(self, deadline: float) -> int:
        files, pause = self._tree.files, _FIRST_PAUSE
        while True:
            fd = self._try()
            left = deadline - files.ticks()
            if fd >= 0 or left <= 0:
                return fd
            files.wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _try(self) -> int:
        files = self._tree.files
        with self._tree.made(*self._place, sync=False) as folder:
            fd = open_regular(files, self._name, LOCK, folder)
            try:
                if files.flock(fd) and self._is_current(fd, folder):
                    return fd
            except OSError:
                let_go(files, fd)
                raise
        let_go(files, fd)
        return -1

    def _is_current(self, fd: int, folder: int) -> bool:
        """False for a lock on a file that `gc` has removed: others lock the new one."""
        try:
            there = self._tree.files.stat(self._name, at=folder)
        except FileNotFoundError:
            return False
        return there.st_ino == self._tree.files.fstat(fd).st_ino


def read_head(files: Files, fd: int) -> Position | None:
    found = _HEAD.fullmatch(files.read(fd, 64, 0))
    if not found:
        return None
    return Position(offset=int(found[1]), lines=int(found[2]), sum=found[3].decode())
