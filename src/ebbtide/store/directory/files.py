"""Every call the store makes to the operating system goes through here, so that a test can fail the Nth of them.

No call follows a link in the last part of a name, and names are looked up in an open directory.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time

FOLDER = os.O_RDONLY | os.O_DIRECTORY
# O_NONBLOCK: a planted pipe must not hang us; regular files do not care.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


_OFD_GETLK, _OFD_SETLK, _FLOCK = 36, 37, "hhqqi4x"
"""Linux: `fcntl` commands, and `struct flock` on 64 bits."""


class Files:
    """The real one. Thin on purpose: no decision is taken here."""

    def open(self, name: str, flags: int, *, at: int | None = None) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=at)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, limit: int, offset: int) -> bytes:
        return os.pread(fd, limit, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def tell(self, fd: int) -> int:
        """Where this descriptor's last append ended."""
        return os.lseek(fd, 0, os.SEEK_CUR)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def sync(self, fd: int) -> None:
        """Contents and length; where the system has only the whole, the whole."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def sync_folder(self, fd: int) -> None:
        os.fsync(fd)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def stat(self, name: str, *, at: int | None = None) -> os.stat_result:
        return os.stat(name, dir_fd=at, follow_symlinks=False)

    def mkdir(self, name: str, *, at: int | None = None) -> None:
        os.mkdir(name, 0o700, dir_fd=at)

    def list(self, fd: int) -> list[str]:
        return sorted(os.listdir(fd))

    def link(self, old: str, new: str, *, at: int) -> None:
        """Fails where `new` exists: the rename that never replaces."""
        os.link(old, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)

    def rename(self, old: str, new: str, *, at: int) -> None:
        os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)

    def unlink(self, name: str, *, at: int) -> None:
        os.unlink(name, dir_fd=at)

    def rmdir(self, name: str, *, at: int) -> None:
        os.rmdir(name, dir_fd=at)

    def touch(self, name: str, *, at: int) -> None:
        os.utime(name, dir_fd=at, follow_symlinks=False)

    def flock(self, fd: int) -> bool:
        """Without waiting. The kernel frees it when the holder dies."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share_byte(self, fd: int, offset: int) -> None:
        """A mark on one byte that others see for as long as this descriptor is open."""
        self._lock_byte(_OFD_SETLK, fd, fcntl.F_RDLCK, offset)

    def unshare_byte(self, fd: int, offset: int) -> None:
        self._lock_byte(_OFD_SETLK, fd, fcntl.F_UNLCK, offset)

    def is_shared(self, fd: int, offset: int) -> bool:
        """Whether another descriptor has marked it."""
        return self._lock_byte(_OFD_GETLK, fd, fcntl.F_WRLCK, offset) != fcntl.F_UNLCK

    def _lock_byte(self, command: int, fd: int, kind: int, offset: int) -> int:
        told = fcntl.fcntl(fd, command, struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0))
        found: int = struct.unpack(_FLOCK, told)[0]
        return found

    def ticks(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
