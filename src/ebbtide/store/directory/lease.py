"""Marks sessions as open, so that `gc` does not remove them.

Each open session is one locked byte of a shared file; the byte follows from the session's folder and name. The system
drops the lock when the process dies, and the file stays empty. Where sessions cannot be marked (a system without such
locks, a read-only disk), `gc` may remove an open session, which then begins again: see `LogReplaced`.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import weakref
from contextlib import suppress
from hashlib import blake2b

from ebbtide.store.directory.safe_fs import LOCK, FileSystem, StoreRoot

NAME = "open-sessions"
_HAS_LOCKS = sys.platform == "linux" and struct.calcsize("P") == 8
"""Locks that belong to an open file and not to a process, in the form of a 64-bit Linux."""


class Leases:
    """The marks of one store in one process; see `leases_of`."""

    def __init__(self, root: StoreRoot) -> None:
        self._root, self._fd, self._process = root, -1, os.getpid()
        # Re-entrant: while one lease is taken, the garbage collector may drop another.
        self._guard = threading.RLock()
        self._counts: dict[int, int] = {}

    def take(self, session: tuple[str, ...], holder: object) -> None:
        """Mark the session for as long as `holder` exists. A failure is ignored: the session still works."""
        if not _HAS_LOCKS:
            return
        byte = _byte_of(session)
        with suppress(OSError), self._guard:
            if self._fd < 0:
                self._open()
            self._root.fs.share_byte(self._fd, byte)
            self._counts[byte] = self._counts.get(byte, 0) + 1
            weakref.finalize(holder, self._drop, byte)

    @property
    def is_inherited(self) -> bool:
        """Whether this process got the marks from its parent by `fork`."""
        return os.getpid() != self._process

    def is_open(self, session: tuple[str, ...]) -> bool:
        """Whether any process has the session open, this one included."""
        if not _HAS_LOCKS:
            return False
        with suppress(FileNotFoundError), self._root.folder() as folder:
            fd = folder.open(NAME, LOCK & ~os.O_CREAT)
            try:
                return self._root.fs.is_shared(fd, _byte_of(session))
            finally:
                self._root.fs.close(fd)
        return False

    def _open(self) -> None:
        with self._root.create_folder(sync=False) as folder:
            self._fd = folder.open(NAME, LOCK)
        weakref.finalize(self, self._root.fs.close_unwritten, self._fd)

    def _drop(self, byte: int) -> None:
        if self.is_inherited:
            return  # a forked child shares the mark, and must not take it from its parent
        with suppress(OSError), self._guard:
            self._counts[byte] -= 1
            if not self._counts[byte]:
                del self._counts[byte]
                self._root.fs.unshare_byte(self._fd, byte)


_LEASES: weakref.WeakValueDictionary[str, Leases] = weakref.WeakValueDictionary()
_GUARD = threading.RLock()


def leases_of(root: StoreRoot) -> Leases:
    """Return the leases that all users of this store in this process share: one descriptor for any number of logs."""
    if type(root.fs) is not FileSystem:
        return Leases(root)
    with _GUARD:
        leases = _LEASES.get(root.path)
        if leases is None or leases.is_inherited:
            leases = _LEASES[root.path] = Leases(root)
        return leases


def _byte_of(session: tuple[str, ...]) -> int:
    """Below 2**56. If two sessions share a byte, `gc` leaves both alone while either is open."""
    return int.from_bytes(blake2b("/".join(session).encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")
