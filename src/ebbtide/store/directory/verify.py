"""Checks a log, its messages' ids and its blobs against their checksums. It trusts nothing and writes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ebbtide.core.errors import StoreError
from ebbtide.core.records import MESSAGE_TYPES, Record, derive_uuid, int_in, str_in
from ebbtide.store.directory.blobs import RESULTS
from ebbtide.store.directory.lock import read_committed_end
from ebbtide.store.directory.safe_fs import READ, FileSystem, Folder, StoreRoot, as_store_error
from ebbtide.store.log_lines import Damage, Position, ReadResult, blob_sum, check_blob_name, scan

_DERIVED_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""Our ids are of version 5, made from content; other programs' are random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    path: str
    lines: int
    unchecked_lines: int
    """Lines of another program, which have no checksum."""
    blobs: int
    """Blobs whose checksum was recomputed."""
    damage: tuple[Damage, ...]
    problems: tuple[str, ...]
    """Problems with ids, blobs or a missing end, which concern no single line."""
    torn_files: tuple[str, ...]
    """Unfinished writes that were moved away earlier. They are no damage: nothing in them was acknowledged."""

    @property
    def ok(self) -> bool:
        return not self.damage and not self.problems


def verify_log(log_path: str | os.PathLike[str], *, fs: FileSystem | None = None) -> VerifyResult:
    path = os.path.abspath(log_path)
    parent, name = os.path.split(path)
    stem = name.removesuffix(".jsonl")
    root = StoreRoot(fs=fs or FileSystem(), path=parent, durable=False)
    with as_store_error(f"verify {path}"), root.folder() as folder:
        log, end_problems = _read(folder, name, stem)
        blob_problems = list(_blob_problems(root, stem, log))
        torn = tuple(n for n in folder.names() if n.startswith(f"{stem}.torn-"))
    return VerifyResult(
        path=path,
        lines=log.position.lines,
        unchecked_lines=log.unchecked_lines,
        blobs=len(log.blob_sums),
        damage=log.damage,
        problems=(*end_problems, *_lost_ends(log.lost_ends), *_id_problems(log.records), *blob_problems),
        torn_files=torn,
    )


def _read(folder: Folder, name: str, stem: str) -> tuple[ReadResult, list[str]]:
    """Read the log in two parts, split where the lock file says that the last commit ended."""
    end = _committed_end(folder, stem)
    if end is None:
        return scan(folder.read_chunks(name), Position()), []
    first = scan(folder.read_chunks(name, end=end.offset), Position())
    if (first.position.offset, first.position.sum) != (end.offset, end.sum):
        problem = f"the first {end.offset} bytes ({end.lines} lines) were committed and are no longer as they were"
        return scan(folder.read_chunks(name), Position()), [problem]
    rest = scan(folder.read_chunks(name, offset=end.offset), first.position)
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


def _lost_ends(records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        lines, remaining = int_in(record, "lines"), int_in(record, "left_lines")
        when = f"before {str_in(record, 'timestamp')} the end of the log was cut off"
        yield f"{when}: of {lines:,} committed lines the first {remaining:,} were left"


def _id_problems(records: list[Record]) -> Iterator[str]:
    for record in records:
        if record.get("type") not in MESSAGE_TYPES or not _DERIVED_UUID.fullmatch(str(record.get("uuid"))):
            continue
        if derive_uuid(record) != record["uuid"]:
            yield f"message {record['uuid']} does not have the id that its content gives"


def _blob_problems(root: StoreRoot, stem: str, log: ReadResult) -> Iterator[str]:
    for name, expected in log.blob_sums.items():
        try:
            with root.folder(stem, RESULTS) as folder:
                actual = blob_sum(folder.read(check_blob_name(name)))
        except (OSError, StoreError) as error:
            yield f"{RESULTS}/{name} cannot be read: {error}"
            continue
        if actual != expected:
            yield f"{RESULTS}/{name} is not what was stored: its checksum differs"
