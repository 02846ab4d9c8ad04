"""File access below the store's root that never follows a link and never leaves half a file under its final name.

Every call to the operating system goes through `FileSystem`, so that a test can make any one of them fail.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ebbtide.core.errors import StoreError

FOLDER = os.O_RDONLY | os.O_DIRECTORY
# O_NONBLOCK: a pipe in place of a file must not block us. Regular files ignore it.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

TEMPORARY = ".new-"
"""Prefix of files that are being written. No session, project or blob has such a name."""
_CHUNK = 1 << 20  # 1 MiB: large enough to be fast, small beside the records themselves
_FLOCK = "hhqqi4x"
"""`struct flock` on a 64-bit Linux."""


class LockCalls:
    """System calls for locks, and the clock to wait for one."""

    def flock(self, fd: int) -> bool:
        """Lock the file without waiting. The kernel releases the lock when the process dies."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share_byte(self, fd: int, offset: int) -> None:
        """Mark one byte. Other processes see the mark for as long as this descriptor is open."""
        self._lock_byte(fcntl.F_OFD_SETLK, fd, fcntl.F_RDLCK, offset)

    def unshare_byte(self, fd: int, offset: int) -> None:
        self._lock_byte(fcntl.F_OFD_SETLK, fd, fcntl.F_UNLCK, offset)

    def is_shared(self, fd: int, offset: int) -> bool:
        """Whether another descriptor has marked the byte."""
        return self._lock_byte(fcntl.F_OFD_GETLK, fd, fcntl.F_WRLCK, offset) != fcntl.F_UNLCK

    def _lock_byte(self, command: int, fd: int, kind: int, offset: int) -> int:
        answer = fcntl.fcntl(fd, command, struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0))
        state: int = struct.unpack(_FLOCK, answer)[0]
        return state

    def ticks(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class FileSystem(LockCalls):
    """System calls for files. `at` is an open directory in which the name is looked up."""

    def open(self, name: str, flags: int, *, at: int | None = None) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=at)

    def close(self, fd: int) -> None:
        os.close(fd)

    def close_unwritten(self, fd: int) -> None:
        """Close a descriptor that was only read, listed or locked: an error loses nothing, so it is ignored.

        Close a descriptor that was written to with `close`: there an error means lost data.
        """
        with suppress(OSError):
            self.close(fd)

    def read(self, fd: int, limit: int, offset: int) -> bytes:
        return os.pread(fd, limit, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def tell(self, fd: int) -> int:
        """Return where the last append through this descriptor ended."""
        return os.lseek(fd, 0, os.SEEK_CUR)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def sync(self, fd: int) -> None:
        """Make contents and length durable; macOS has no `fdatasync`."""
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
        """Give the file a second name. Unlike `rename`, this fails if `new` exists."""
        os.link(old, new, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)

    def rename(self, old: str, new: str, *, at: int) -> None:
        os.rename(old, new, src_dir_fd=at, dst_dir_fd=at)

    def unlink(self, name: str, *, at: int) -> None:
        os.unlink(name, dir_fd=at)

    def rmdir(self, name: str, *, at: int) -> None:
        os.rmdir(name, dir_fd=at)

    def touch(self, name: str, *, at: int) -> None:
        os.utime(name, dir_fd=at, follow_symlinks=False)


@contextmanager
def as_store_error(action: str) -> Iterator[None]:
    """Raise an error of the operating system as a `StoreError` that says what we could not do."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {action}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Folder:
    """An open directory of the store, and the files in it."""

    fs: FileSystem
    fd: int
    durable: bool

    def stat(self, name: str) -> os.stat_result:
        return self.fs.stat(name, at=self.fd)

    def names(self) -> list[str]:
        return self.fs.list(self.fd)

    def unlink(self, name: str) -> None:
        self.fs.unlink(name, at=self.fd)

    def rmdir(self, name: str) -> None:
        self.fs.rmdir(name, at=self.fd)

    def sync(self) -> None:
        """Make the directory's entries durable, if the store is."""
        if self.durable:
            self.fs.sync_folder(self.fd)

    def open(self, name: str, flags: int) -> int:
        """Open a regular file; raise OSError for a pipe, device or directory of that name."""
        fd = self.fs.open(name, flags, at=self.fd)
        try:
            is_regular = stat.S_ISREG(self.fs.fstat(fd).st_mode)
        except OSError:
            self.fs.close_unwritten(fd)
            raise
        if not is_regular:
            self.fs.close_unwritten(fd)
            raise OSError(errno.EINVAL, f"{name} is not a regular file")
        return fd

    def read_chunks(self, name: str, *, offset: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Read the file from `offset` up to `end`."""
        fd = self.open(name, READ)
        try:
            while end is None or offset < end:
                chunk = self.fs.read(fd, _CHUNK if end is None else min(_CHUNK, end - offset), offset)
                if not chunk:
                    return
                offset += len(chunk)
                yield chunk
        finally:
            self.fs.close_unwritten(fd)

    def read(self, name: str, *, offset: int = 0, end: int | None = None) -> bytes:
        return b"".join(self.read_chunks(name, offset=offset, end=end))

    def write_all(self, fd: int, data: bytes) -> None:
        """Write all of the data: the system may write less at once than it is given."""
        rest = memoryview(data)
        while rest:
            written = self.fs.write(fd, rest)
            if written <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[written:]

    def write_new(self, name: str, data: bytes) -> bool:
        """Write a new file completely or not at all. Return False if the name is taken; the other file stays."""
        temporary = self._write_temporary(data)
        try:
            self._rename_to_new(temporary, name)
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                self.unlink(temporary)
        self.sync()
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write the file, or replace it: readers see the old content or the new, never a part."""
        temporary = self._write_temporary(data)
        try:
            self.fs.rename(temporary, name, at=self.fd)
        except OSError:
            with suppress(OSError):
                self.unlink(temporary)
            raise

    def _write_temporary(self, data: bytes) -> str:
        name = TEMPORARY + os.urandom(8).hex()
        fd = self.fs.open(name, NEW, at=self.fd)
        try:
            try:
                self.write_all(fd, data)
                if self.durable:
                    self.fs.sync(fd)
            finally:
                self.fs.close(fd)
        except OSError:
            with suppress(OSError):
                self.unlink(name)
            raise
        return name

    def _rename_to_new(self, temporary: str, name: str) -> None:
        try:
            self.fs.link(temporary, name, at=self.fd)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
        else:
            return
        # A file system without hard links. Names come from contents, so two writers of one name write the same.
        with suppress(FileNotFoundError):
            self.stat(name)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        self.fs.rename(temporary, name, at=self.fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRoot:
    """The store's top directory. It may itself be a link, its owner's choice; nothing below it may."""

    fs: FileSystem
    path: str
    """Absolute."""
    durable: bool

    @contextmanager
    def folder(self, *parts: str) -> Iterator[Folder]:
        """Open an existing directory below the root."""
        fd = self.fs.open(self.path, FOLDER)
        try:
            for part in parts:
                fd = self._enter(fd, part)
            yield Folder(self.fs, fd, self.durable)
        finally:
            self.fs.close_unwritten(fd)

    @contextmanager
    def create_folder(self, *parts: str, sync: bool) -> Iterator[Folder]:
        """Open a directory and create what is missing, mode 0700. `sync` makes the new entries durable."""
        fd, must_sync = self._open_root(), sync and self.durable
        try:
            for part in parts:
                fd = self._create_and_sync(fd, part) if must_sync else self._enter_or_create(fd, part)
            yield Folder(self.fs, fd, self.durable)
        finally:
            self.fs.close_unwritten(fd)

    def _open_root(self) -> int:
        try:
            return self.fs.open(self.path, FOLDER)
        except FileNotFoundError:
            self._create_root()
            return self.fs.open(self.path, FOLDER)

    def _enter_or_create(self, fd: int, part: str) -> int:
        try:
            return self._enter(fd, part)  # nearly always: every commit comes by
        except FileNotFoundError:
            self._create(fd, part)
            return self._enter(fd, part)

    def _create_and_sync(self, fd: int, part: str) -> int:
        self._create(fd, part)
        self.fs.sync_folder(fd)
        return self._enter(fd, part)

    def _create(self, fd: int, part: str) -> None:
        with suppress(FileExistsError):
            self.fs.mkdir(part, at=fd)

    def _enter(self, fd: int, part: str) -> int:
        inner = self.fs.open(part, FOLDER | os.O_NOFOLLOW, at=fd)
        self.fs.close_unwritten(fd)
        return inner

    def _create_root(self) -> None:
        missing, path = [], self.path
        while not self._exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            with suppress(FileExistsError):
                self.fs.mkdir(path)
            if self.durable:
                self._sync_path(os.path.dirname(path))

    def _sync_path(self, path: str) -> None:
        fd = self.fs.open(path, FOLDER)
        try:
            self.fs.sync_folder(fd)
        finally:
            self.fs.close_unwritten(fd)

    def _exists(self, path: str) -> bool:
        try:
            self.fs.stat(path)
        except FileNotFoundError:
            return False
        return True
