"""The lock of one session: one writer at a time, across threads and processes."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.safe_fs import LOCK, FileSystem, Folder, StoreRoot
from ebbtide.store.log_lines import LineEnd, Position
from ebbtide.store.protocol import LOCK_TIMEOUT, LockLost

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds: a commit takes a few milliseconds
_COMMITTED_END = re.compile(rb"([0-9]{20}) ([0-9]{12}) ([0-9a-f]{16})\n")
_FENCE = re.compile(rb"([0-9]{20})\n")
_END_BYTES, _FENCE_BYTES = 51, 21


class SessionLock:
    """Lets one writer in at a time, across threads and processes. Re-entrant within a thread.

    The lock file also holds the end of the last commit, since the chain in the log cannot tell that its end was cut
    off, and the number of whoever planned last.
    """

    def __init__(self, root: StoreRoot, parts: tuple[str, ...], stem: str) -> None:
        self._root, self._parts, self._name = root, parts, f"{stem}.lock"
        self._path = os.path.join(root.path, *parts, self._name)
        self._mutex, self._depth, self._fd, self._fence = threading.RLock(), 0, -1, 0

    def acquire(self, timeout: float) -> bool:
        """Raise OSError if the lock file cannot be created."""
        deadline = self._root.fs.ticks() + timeout
        if not self._mutex.acquire(timeout=max(0.0, timeout)):
            return False
        try:
            if not self._depth:
                self._fd = self._wait_for_file(deadline)
        except BaseException:
            self._mutex.release()
            raise
        if self._fd < 0:
            self._mutex.release()
            return False
        self._depth += 1
        return True

    @contextmanager
    def hold(self, action: str) -> Iterator[None]:
        """Hold the lock, or raise `StoreError` if it cannot be had in time."""
        if not self.acquire(LOCK_TIMEOUT):
            raise StoreError(f"cannot {action}: another process has held its lock for {LOCK_TIMEOUT:.0f} seconds")
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        self._depth -= 1
        try:
            if not self._depth:
                fd, self._fd, self._fence = self._fd, -1, 0
                self._root.fs.close_unwritten(fd)
        finally:
            self._mutex.release()

    def take_fence(self) -> int:
        """Return a number that only this holder has, or 0 if it cannot be written. The lock must be held."""
        with suppress(OSError):
            if not self._fence:
                # A random start: the file of a session that was deleted and begun again must not repeat a number.
                fence = (self._read_fence() or int.from_bytes(os.urandom(6), "big")) + 1
                self._root.fs.write_at(self._fd, b"%020d\n" % fence, _END_BYTES)
                self._fence = fence
        return self._fence

    def check_fence(self, fence: int) -> None:
        """Raise `LockLost` if anybody has taken the lock since. Call it only while the lock is held."""
        fs = self._root.fs
        try:
            is_current = fs.stat(self._path).st_ino == fs.fstat(self._fd).st_ino
        except FileNotFoundError:
            is_current = False
        if not is_current or self._read_fence() != fence:
            raise LockLost("another process has taken the session's lock since: what was planned is out of date")

    def write_end(self, end: Position) -> None:
        """Note how far the log goes. It is written after the log, so it may be behind it, but never ahead."""
        with suppress(OSError):
            offset, lines, chain = LineEnd.at(end)
            self._root.fs.write_at(self._fd, b"%020d %012d %s\n" % (offset, lines, chain.encode()), 0)

    def read_end(self) -> Position | None:
        """Return where the last commit of any process ended. Call it only while the lock is held."""
        with suppress(OSError):
            return read_committed_end(self._root.fs, self._fd)
        return None

    def _read_fence(self) -> int:
        match = _FENCE.fullmatch(self._root.fs.read(self._fd, _FENCE_BYTES, _END_BYTES))
        return int(match[1]) if match else 0

    def _wait_for_file(self, deadline: float) -> int:
        fs, pause = self._root.fs, _FIRST_PAUSE
        while True:
            fd = self._lock_file()
            remaining = deadline - fs.ticks()
            if fd >= 0 or remaining <= 0:
                return fd
            fs.wait(min(pause, remaining))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _lock_file(self) -> int:
        fs = self._root.fs
        with self._root.create_folder(*self._parts, sync=False) as folder:
            fd = folder.open(self._name, LOCK)
            try:
                if fs.flock(fd) and self._is_current(fd, folder):
                    return fd
            except OSError:
                fs.close_unwritten(fd)
                raise
        fs.close_unwritten(fd)
        return -1

    def _is_current(self, fd: int, folder: Folder) -> bool:
        """False if `gc` has removed the file: other processes then lock a new one."""
        try:
            return folder.stat(self._name).st_ino == self._root.fs.fstat(fd).st_ino
        except FileNotFoundError:
            return False


def read_committed_end(fs: FileSystem, fd: int) -> Position | None:
    """Read from a lock file where the last commit ended."""
    match = _COMMITTED_END.fullmatch(fs.read(fd, _END_BYTES, 0))
    return LineEnd(int(match[1]), int(match[2]), match[3].decode()).position if match else None
