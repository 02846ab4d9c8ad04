"""A checkpoint of a long log, in a file next to it. It is verified before use, and safe to delete.

The file has lines like those of the log, so any damage is detected. Its first line says which format the records have
and where in the log they end; the log must still have the same checksum just before that place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ebbtide.core.records import Record
from ebbtide.store.directory.safe_fs import Folder
from ebbtide.store.log_lines import TAIL, LineEnd, Position, encode_commit, last_commit_sum, scan

SUFFIX = ".resume"


class Checkpoint(NamedTuple):
    snapshot_format: str
    """Of the records; only their writer knows what it means."""
    position: Position
    """The end of the part of the log that the records replace."""
    blob_sums: Mapping[str, str]
    """SHA-256 by blob name."""
    records: list[Record]


def write_checkpoint(folder: Folder, stem: str, checkpoint: Checkpoint) -> None:
    end = LineEnd.at(checkpoint.position)
    header: Record = {"type": "ebb", "kind": "resume", "form": checkpoint.snapshot_format}
    header |= {"sums": dict(checkpoint.blob_sums), "offset": end.offset, "lines": end.lines, "sum": end.sum}
    data, _ = encode_commit([header, *checkpoint.records], Position())
    folder.replace(stem + SUFFIX, data)


def read_checkpoint(folder: Folder, stem: str, snapshot_format: str) -> Checkpoint | None:
    """Read the checkpoint. Return None if it is missing, damaged, of another format or not of this log."""
    try:
        file = scan(folder.read_chunks(stem + SUFFIX), Position())
    except OSError:
        return None
    header, *records = file.records or [{}]
    if file.damage or file.unchecked_lines or header.get("kind") != "resume" or header.get("form") != snapshot_format:
        return None
    offset, lines, end_sum, sums = (header.get(name) for name in ("offset", "lines", "sum", "sums"))
    if not (isinstance(offset, int) and isinstance(lines, int) and isinstance(end_sum, str) and isinstance(sums, dict)):
        return None
    if last_commit_sum(folder.read(f"{stem}.jsonl", offset=max(0, offset - TAIL), end=offset)) != end_sum:
        return None
    return Checkpoint(snapshot_format, LineEnd(offset, lines, end_sum).position, sums, records)
