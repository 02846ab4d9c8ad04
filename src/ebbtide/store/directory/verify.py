"""Believe nothing, recompute everything, write nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ebbtide.core.errors import StoreError
from ebbtide.core.record_fields import int_in, str_in
from ebbtide.store.directory.file_names import blob_name
from ebbtide.store.directory.files import READ, Files
from ebbtide.store.directory.lock import read_head
from ebbtide.store.directory.log import RESULTS
from ebbtide.store.directory.safe_fs import Tree, let_go, open_regular, read_chunks, read_whole, telling
from ebbtide.store.log_lines import Damage, Position, ReadResult, Record, scan
from ebbtide.store.message_records import MESSAGES, derive_uuid
from ebbtide.store.protocol import blob_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    path: str
    lines: int
    unchecked_lines: int
    """Lines of another program, which carry no sum."""
    blobs: int
    """Blobs whose sum was recomputed."""
    damage: tuple[Damage, ...]
    problems: tuple[str, ...]
    """What is wrong besides single lines: ids, blobs, a missing end."""
    torn_files: tuple[str, ...]
    """Torn tails that were set aside earlier. They are no damage: nothing in them was acknowledged."""

    @property
    def ok(self) -> bool:
        return not self.damage and not self.problems


def verify_log(log_path: str | os.PathLike[str], *, files: Files | None = None) -> VerifyResult:
    path = os.path.abspath(log_path)
    place, name = os.path.split(path)
    stem = name.removesuffix(".jsonl")
    tree = Tree(files=files or Files(), root=place, durable=False)
    with telling(f"verify {path}"), tree.folder() as folder:
        reading, cut = _read(tree.files, name, stem, folder)
        blobs = _blob_problems(tree, stem, reading)
        torn = tuple(n for n in tree.files.list(folder) if n.startswith(f"{stem}.torn-"))
    return VerifyResult(
        path=path,
        lines=reading.position.lines,
        unchecked_lines=reading.unchecked_lines,
        blobs=len(reading.blob_sums),
        damage=reading.damage,
        problems=(*cut, *_lost(reading.lost_ends), *_id_problems(reading.records), *blobs),
        torn_files=torn,
    )


def _read(files: Files, name: str, stem: str, folder: int) -> tuple[ReadResult, list[str]]:
    """All of it, in two parts where the lock file says how far it once went."""
    head = _head(files, stem, folder)
    if head is None:
        return scan(read_chunks(files, name, folder), Position()), []
    first = scan(read_chunks(files, name, folder, upto=head.offset), Position())
    if (first.position.offset, first.position.sum) != (head.offset, head.sum):
        whole = scan(read_chunks(files, name, folder), Position())
        return whole, [
            f"the first {head.offset} bytes ({head.lines} lines) were committed and are no longer as they were"
        ]
    rest = scan(read_chunks(files, name, folder, offset=head.offset), first.position)
    joined = ReadResult(
        records=first.records + rest.records,
        position=rest.position,
        damage=first.damage + rest.damage,
        header=first.header,
        blob_sums={**first.blob_sums, **rest.blob_sums},
        unchecked_lines=first.unchecked_lines + rest.unchecked_lines,
        lost_ends=first.lost_ends + rest.lost_ends,
    )
    return joined, []


def _head(files: Files, stem: str, folder: int) -> Position | None:
    try:
        fd = open_regular(files, f"{stem}.lock", READ, folder)
    except OSError:
        return None
    try:
        return read_head(files, fd)
    finally:
        let_go(files, fd)


def _lost(records: Iterable[Record]) -> Iterator[str]:
    """Said from then on: what is gone does not come back, and the log went on without it."""
    for one in records:
        lines, left = int_in(one, "lines"), int_in(one, "left_lines")
        when = f"before {str_in(one, 'timestamp')} the end of the log was cut off"
        yield f"{when}: of {lines:,} committed lines the first {left:,} were left"


def _id_problems(records: list[Record]) -> Iterator[str]:
    for record in records:
        if record.get("type") not in MESSAGES or not _is_derived(record.get("uuid")):
            continue
        if derive_uuid(record) != record["uuid"]:
            yield f"message {record['uuid']} does not have the id that its content gives"


def _is_derived(value: object) -> bool:
    """Ours are version 5, made from content; other programs' are random."""
    return bool(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", str(value)))


def _blob_problems(tree: Tree, stem: str, reading: ReadResult) -> list[str]:
    problems = []
    for name, expected in reading.blob_sums.items():
        try:
            with tree.folder(stem, RESULTS) as folder:
                found = blob_sum(read_whole(tree.files, blob_name(name), folder))
        except (OSError, StoreError) as error:
            problems.append(f"{RESULTS}/{name} cannot be read: {error}")
            continue
        if found != expected:
            problems.append(f"{RESULTS}/{name} is not what was stored: its checksum differs")
    return problems
