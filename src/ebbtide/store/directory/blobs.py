"""The folder with one session's blobs: a file each, written once and never changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.safe_fs import Folder, StoreRoot
from ebbtide.store.log_lines import check_blob_name
from ebbtide.store.protocol import BlobInfo

RESULTS = "tool-results"


class NameTaken(StoreError):
    """The name belongs to another text."""


class BlobFolder:
    def __init__(self, root: StoreRoot, *session: str) -> None:
        self._root, self._parts = root, (*session, RESULTS)
        self.is_durable = False
        """Whether the folder and its parents are known to be durable."""

    def path(self, name: str) -> str:
        return os.path.join(self._root.path, *self._parts, check_blob_name(name))

    def save(self, name: str, data: bytes) -> None:
        """Write a new blob. Raise `NameTaken` if the name belongs to another text."""
        with self._root.create_folder(*self._parts, sync=not self.is_durable) as folder:
            try:
                self._confirm(name, data, folder)
            except FileNotFoundError:
                if not folder.write_new(name, data):
                    self._confirm(name, data, folder)
        self.is_durable = True

    def replace(self, name: str, data: bytes) -> None:
        with self._root.folder(*self._parts) as folder:
            folder.replace(name, data)
            folder.sync()

    def read(self, name: str) -> bytes:
        with self._root.folder(*self._parts) as folder:
            return folder.read(name)

    def list(self) -> list[BlobInfo]:
        try:
            with self._root.folder(*self._parts) as folder:
                return [*blobs_in(folder)]
        except FileNotFoundError:
            return []

    def _confirm(self, name: str, data: bytes, folder: Folder) -> None:
        """Check that the stored text is this one, and make it durable."""
        if folder.read(name) != data:
            raise NameTaken(f"{self.path(name)} is already stored with another text")
        with suppress(OSError):
            # `gc` removes old blobs that no record names. This one will be named soon.
            folder.fs.touch(name, at=folder.fd)
        folder.sync()


def blobs_in(folder: Folder) -> Iterator[BlobInfo]:
    for name in folder.names():
        with suppress(StoreError, FileNotFoundError):
            info = folder.stat(check_blob_name(name))
            if stat.S_ISREG(info.st_mode):
                yield BlobInfo(name=name, bytes=info.st_size, modified=info.st_mtime)
