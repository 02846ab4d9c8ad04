"""Which sessions are open somewhere, so that `gc` leaves them alone: each is one byte of a file, locked by who has it.

The byte follows from the session's place. The system drops the lock when its process dies, and the file stays empty.
A session that nobody can mark, on a system without such locks or a disk without leave to write, begins anew where `gc`
removed it: see `LogGone`.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import weakref
from contextlib import suppress
from hashlib import blake2b

from ebbtide.store.directory.files import LOCK, Files
from ebbtide.store.directory.safe_fs import Tree, open_regular

NAME = "open-sessions"
_HAS_LOCKS = sys.platform == "linux" and struct.calcsize("P") == 8
"""Locks that belong to an open file and not to a process, in the form that a 64-bit Linux takes them."""


class Leases:
    """Those of one store in one process; see `leases_of`."""

    def __init__(self, tree: Tree) -> None:
        self._tree, self._guard, self._fd, self._process = tree, threading.RLock(), -1, os.getpid()
        # Re-entrant: a holder may be found gone, and dropped, while another is taken.
        self._counts: dict[int, int] = {}

    def take(self, place: tuple[str, ...], holder: object) -> None:
        """Until `holder` is gone. That it cannot be taken is no fault of the session's."""
        if not _HAS_LOCKS:
            return
        byte = _byte(place)
        with suppress(OSError), self._guard:
            if self._fd < 0:
                self._open()
            self._tree.files.share_byte(self._fd, byte)
            self._counts[byte] = self._counts.get(byte, 0) + 1
            weakref.finalize(holder, self._drop, byte)

    @property
    def is_inherited(self) -> bool:
        return os.getpid() != self._process

    def is_open(self, place: tuple[str, ...]) -> bool:
        """Whether a process has it, this one included."""
        if not _HAS_LOCKS:
            return False
        with suppress(FileNotFoundError), self._tree.folder() as root:
            fd = open_regular(self._tree.files, NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, root)
            try:
                return self._tree.files.is_shared(fd, _byte(place))
            finally:
                self._tree.files.close(fd)
        return False

    def _open(self) -> None:
        with self._tree.made(sync=False) as root:
            self._fd = open_regular(self._tree.files, NAME, LOCK, root)
        weakref.finalize(self, _close, self._tree.files, self._fd)

    def _drop(self, byte: int) -> None:
        if self.is_inherited:
            return  # a forked child shares the mark, and must not take it from its parent
        with suppress(OSError), self._guard:
            self._counts[byte] -= 1
            if not self._counts[byte]:
                del self._counts[byte]
                self._tree.files.unshare_byte(self._fd, byte)


_KNOWN: weakref.WeakValueDictionary[str, Leases] = weakref.WeakValueDictionary()
_GUARD = threading.RLock()


def leases_of(tree: Tree) -> Leases:
    """The same for all who open this store in this process: it takes one descriptor, however many sessions."""
    if type(tree.files) is not Files:
        return Leases(tree)
    with _GUARD:
        found = _KNOWN.get(tree.root)
        if found is None or found.is_inherited:
            found = _KNOWN[tree.root] = Leases(tree)
        return found


def _byte(place: tuple[str, ...]) -> int:
    """Below 2**56. Two sessions that share one are both left alone while either is open."""
    return int.from_bytes(blake2b("/".join(place).encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")


def _close(files: Files, fd: int) -> None:
    with suppress(OSError):
        files.close(fd)
