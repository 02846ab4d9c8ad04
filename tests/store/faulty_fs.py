"""File systems that fail on purpose. None of them syncs for real: what a sync promises is checked by `Volatile`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ebbtide.store import FileSystem


class Killed(BaseException):
    """The process is gone; no `except Exception` and no clean-up may bring it back."""


class Quick(FileSystem):
    """The real one without the waiting for the disk."""

    def sync(self, fd):
        pass

    def sync_folder(self, fd):
        pass


class Faulty(Quick):
    """Fails the Nth call: `kill` before it, `died` after it, `short` writes half, an errno's name raises it.

    A kill during a write leaves half of it behind. `sticky` goes on failing.
    """

    def __init__(self, fault: str, when: int, *, sticky: bool = False, only: tuple[str, ...] = ()) -> None:
        self.fault, self.when, self.sticky, self.only = fault, when, sticky, only
        self.calls, self.fired, self.dead, self.ended = 0, False, False, False
        self.held: set[int] = set()

    def due(self, name: str) -> bool:
        if self.only and name not in self.only:
            return False
        self.calls += 1
        now = self.calls == self.when or (self.sticky and self.calls > self.when)
        self.fired = self.fired or now
        return now

    def end(self) -> None:
        """What the kernel does when a process dies."""
        for fd in list(self.held):
            os.close(fd)
        self.held.clear()
        self.ended = True


def _failing(name):
    real = getattr(Quick, name)

    def call(self, *args, **kwargs):
        if self.dead:
            raise Killed
        if not self.due(name):
            result = real(self, *args, **kwargs)
        elif self.fault in ("kill", "died"):
            self.dead = True
            if self.fault == "died":
                real(self, *args, **kwargs)
            elif name == "write":
                os.write(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise Killed
        elif self.fault == "short":
            result = os.write(args[0], bytes(args[1])[: max(1, len(args[1]) // 2)])
        else:
            code = getattr(errno, self.fault)
            raise OSError(code, os.strerror(code))
        if name == "open":
            self.held.add(result)
        return result

    return call


CALLS = [
    "open",
    "read",
    "write",
    "write_at",
    "truncate",
    "sync",
    "sync_folder",
    "fstat",
    "stat",
    "mkdir",
    "list",
    "link",
    "rename",
    "unlink",
    "touch",
    "share_byte",
    "is_shared",
]
for _name in CALLS:
    setattr(Faulty, _name, _failing(_name))


def _close(self, fd):
    if self.dead or self.ended:
        return  # what a dead process had open is closed by `end`
    self.held.discard(fd)
    os.close(fd)


Faulty.close = _close


class Volatile(FileSystem):
    """Remembers only what was synced: a file's bytes at its last sync, a directory's entries at its last sync."""

    def __init__(self) -> None:
        self.contents: dict[int, bytes] = {}
        self.entries: dict[int, dict[str, tuple[int, bool]]] = {}

    def sync(self, fd):
        found = os.fstat(fd)
        reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        try:
            self.contents[found.st_ino] = os.pread(reader, found.st_size, 0)
        finally:
            os.close(reader)

    def sync_folder(self, fd):
        with os.scandir(fd) as entries:
            self.entries[os.fstat(fd).st_ino] = {e.name: (e.inode(), e.is_dir()) for e in entries}

    def power_cut(self, root: Path, survivor: Path) -> None:
        """What another machine would find on the disk."""
        survivor.mkdir()
        self._restore(root.stat().st_ino, survivor)

    def _restore(self, inode: int, into: Path) -> None:
        for name, (child, is_folder) in self.entries.get(inode, {}).items():
            if is_folder:
                (into / name).mkdir()
                self._restore(child, into / name)
            else:
                (into / name).write_bytes(self.contents.get(child, b""))
