"""A checkpoint of a long log. It is verified before use, and safe to delete.

It has lines like those of the log, so any damage is detected. Its first line says which format the records have and
where in the log they end; the log must still have the same checksum just before that place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ebbtide.core.records import Record
from ebbtide.store.log_lines import LineEnd, Position, encode_commit, scan


class Checkpoint(NamedTuple):
    snapshot_format: str
    """Of the records; only their writer knows what it means."""
    position: Position
    """The end of the part of the log that the records replace."""
    blob_sums: Mapping[str, str]
    """SHA-256 by blob name."""
    records: list[Record]


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    end = LineEnd.at(checkpoint.position)
    header: Record = {"type": "ebb", "kind": "resume", "form": checkpoint.snapshot_format}
    header |= {"sums": dict(checkpoint.blob_sums), "offset": end.offset, "lines": end.lines, "sum": end.sum}
    data, _ = encode_commit([header, *checkpoint.records], Position())
    return data


def decode_checkpoint(chunks: Iterable[bytes], snapshot_format: str) -> Checkpoint | None:
    """Return None if it is damaged or of another format. Whether it is of this log is for the caller to check."""
    file = scan(chunks, Position())
    header, *records = file.records or [{}]
    if file.damage or file.unchecked_lines or header.get("kind") != "resume" or header.get("form") != snapshot_format:
        return None
    offset, lines, end_sum, sums = (header.get(name) for name in ("offset", "lines", "sum", "sums"))
    if not (isinstance(offset, int) and isinstance(lines, int) and isinstance(end_sum, str) and isinstance(sums, dict)):
        return None
    return Checkpoint(snapshot_format, LineEnd(offset, lines, end_sum).position, sums, records)
