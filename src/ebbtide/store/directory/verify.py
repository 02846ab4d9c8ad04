"""Checks a log, its messages' ids and its blobs against their checksums. It trusts nothing and writes nothing."""

from __future__ import annotations

import os
from dataclasses import replace

from ebbtide.store.directory.blobs import BlobFolder
from ebbtide.store.directory.lock import read_committed_end
from ebbtide.store.directory.safe_fs import READ, FileSystem, Folder, StoreRoot, as_store_error
from ebbtide.store.log_lines import LineEnd, Position, ReadResult, scan
from ebbtide.store.protocol import VerifyResult
from ebbtide.store.sessions import check_log


def verify_log(log_path: str | os.PathLike[str], *, fs: FileSystem | None = None) -> VerifyResult:
    path = os.path.abspath(log_path)
    parent, name = os.path.split(path)
    stem = name.removesuffix(".jsonl")
    root = StoreRoot(fs=fs or FileSystem(), path=parent, durable=False)
    with as_store_error(f"verify {path}"), root.folder() as folder:
        log, end_problems = _read(folder, name, stem)
        torn = tuple(n for n in folder.names() if n.startswith(f"{stem}.torn-"))
        checked = check_log(log, BlobFolder(root, stem).read)
    return replace(checked, path=path, problems=(*end_problems, *checked.problems), torn_files=torn)


def _read(folder: Folder, name: str, stem: str) -> tuple[ReadResult, list[str]]:
    """Read the log in two parts, split where the lock file says that the last commit ended."""
    end = _committed_end(folder, stem)
    if end is None:
        return scan(folder.read_chunks(name), Position()), []
    first = scan(folder.read_chunks(name, end=end.size), Position())
    if first.position != end:
        lines = LineEnd.at(end).lines
        problem = f"the first {end.size} bytes ({lines} lines) were committed and are no longer as they were"
        return scan(folder.read_chunks(name), Position()), [problem]
    rest = scan(folder.read_chunks(name, offset=end.size), first.position)
    both = ReadResult(
        records=first.records + rest.records,
        position=rest.position,
        damage=first.damage + rest.damage,
        header=first.header,
        blob_sums={**first.blob_sums, **rest.blob_sums},
        unchecked_lines=first.unchecked_lines + rest.unchecked_lines,
        lost_ends=first.lost_ends + rest.lost_ends,
    )
    return both, []


def _committed_end(folder: Folder, stem: str) -> Position | None:
    try:
        fd = folder.open(f"{stem}.lock", READ)
    except OSError:
        return None
    try:
        return read_committed_end(folder.fs, fd)
    finally:
        folder.fs.close_unwritten(fd)
