"""How bytes reach the disk whole, below the root and nowhere else."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.files import FOLDER, NEW, READ, Files

CHUNK = 1 << 20  # 1 MiB: large enough to be fast, small enough to be nothing beside the records themselves
TEMPORARY = ".new-"
"""How a half-written file begins; no checked name does."""


@contextmanager
def telling(doing: str) -> Iterator[None]:
    """The disk's refusal in our words."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {doing}: {error.strerror or error}") from error


def let_go(files: Files, fd: int) -> None:
    """Close what was only read, listed or locked. The descriptor is gone whatever the system says, and nothing with it.

    A descriptor that was written to is closed by its writer, who has to hear of an error.
    """
    with suppress(OSError):
        files.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The directories of one store."""

    files: Files
    root: str
    """Absolute. The root itself may be a link, its owner's choice; nothing below it may."""
    durable: bool

    @contextmanager
    def folder(self, *parts: str) -> Iterator[int]:
        """An open directory that must exist."""
        fd = self.files.open(self.root, FOLDER)
        try:
            for part in parts:
                fd = self._enter(fd, part)
            yield fd
        finally:
            let_go(self.files, fd)

    @contextmanager
    def made(self, *parts: str, sync: bool) -> Iterator[int]:
        """The same, made where missing, mode 0700. `sync` makes the entries on the way durable."""
        self._make_root()
        fd = self.files.open(self.root, FOLDER)
        try:
            for part in parts:
                with suppress(FileExistsError):
                    self.files.mkdir(part, at=fd)
                if sync and self.durable:
                    self.files.sync_folder(fd)
                fd = self._enter(fd, part)
            yield fd
        finally:
            let_go(self.files, fd)

    def _enter(self, fd: int, part: str) -> int:
        inner = self.files.open(part, FOLDER | os.O_NOFOLLOW, at=fd)
        let_go(self.files, fd)
        return inner

    def _make_root(self) -> None:
        missing, path = [], self.root
        while not self._exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            with suppress(FileExistsError):
                self.files.mkdir(path)
            if self.durable:
                self._sync_path(os.path.dirname(path))

    def _sync_path(self, path: str) -> None:
        fd = self.files.open(path, FOLDER)
        try:
            self.files.sync_folder(fd)
        finally:
            let_go(self.files, fd)

    def _exists(self, path: str) -> bool:
        try:
            self.files.stat(path)
        except FileNotFoundError:
            return False
        return True


def open_regular(files: Files, name: str, flags: int, folder: int) -> int:
    """A planted pipe, device or directory is refused, not read."""
    fd = files.open(name, flags, at=folder)
    try:
        regular = stat.S_ISREG(files.fstat(fd).st_mode)
    except OSError:
        let_go(files, fd)
        raise
    if not regular:
        let_go(files, fd)
        raise OSError(errno.EINVAL, f"{name} is not a regular file")
    return fd


def read_chunks(files: Files, name: str, folder: int, *, offset: int = 0, upto: int | None = None) -> Iterator[bytes]:
    """The file's bytes from `offset`."""
    fd = open_regular(files, name, READ, folder)
    try:
        while upto is None or offset < upto:
            chunk = files.read(fd, CHUNK if upto is None else min(CHUNK, upto - offset), offset)
            if not chunk:
                return
            offset += len(chunk)
            yield chunk
    finally:
        let_go(files, fd)


def read_whole(files: Files, name: str, folder: int) -> bytes:
    return b"".join(read_chunks(files, name, folder))


def write_all(files: Files, fd: int, data: bytes) -> None:
    """What the system wrote is what it says it wrote: a short write is carried on."""
    rest = memoryview(data)
    while rest:
        done = files.write(fd, rest)
        if done <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[done:]


def write_temporary(tree: Tree, data: bytes, folder: int) -> str:
    """A whole file under a name that nobody reads yet."""
    files, name = tree.files, TEMPORARY + os.urandom(8).hex()
    fd = files.open(name, NEW, at=folder)
    try:
        try:
            write_all(files, fd, data)
            if tree.durable:
                files.sync(fd)
        finally:
            files.close(fd)
    except OSError:
        with suppress(OSError):
            files.unlink(name, at=folder)
        raise
    return name


def write_new(tree: Tree, name: str, data: bytes, folder: int) -> bool:
    """All of it or nothing, never in place of another. False where the name is taken."""
    files = tree.files
    temporary = write_temporary(tree, data, folder)
    try:
        _name_it(files, temporary, name, folder)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            files.unlink(temporary, at=folder)
    if tree.durable:
        files.sync_folder(folder)
    return True


def replace(tree: Tree, name: str, data: bytes, folder: int) -> None:
    """For what is derived: readers see the old file or the new one."""
    temporary = write_temporary(tree, data, folder)
    try:
        tree.files.rename(temporary, name, at=folder)
    except OSError:
        with suppress(OSError):
            tree.files.unlink(temporary, at=folder)
        raise


def _name_it(files: Files, temporary: str, name: str, folder: int) -> None:
    try:
        files.link(temporary, name, at=folder)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
    else:
        return
    # A file system without hard links. Names come from contents, so two writers of one name write the same.
    with suppress(FileNotFoundError):
        files.stat(name, at=folder)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    files.rename(temporary, name, at=folder)
