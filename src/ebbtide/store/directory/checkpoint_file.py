"""What a long log comes to, beside it: derived, checked before it is believed, and read instead of all that it covers.

A file of lines like those of the log, so any damage is found. Its first says which form it has and where in the log it
ends; the log must still have, just before that place, the sum that it had then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ebbtide.store.directory.safe_fs import Tree, read_chunks, replace
from ebbtide.store.log_lines import TAIL, Position, Record, encode_commit, scan, sum_at_end

SUFFIX = ".resume"


class Recollection(NamedTuple):
    form: str
    """Of the records: the reader's own business."""
    position: Position
    """Up to where in the log."""
    sums: Mapping[str, str]
    """SHA-256 by blob name."""
    records: list[Record]


def keep(tree: Tree, stem: str, folder: int, known: Recollection) -> None:
    end = known.position
    head: Record = {"type": "ebb", "kind": "resume", "form": known.form, "sums": dict(known.sums)}
    head |= {"offset": end.offset, "lines": end.lines, "sum": end.sum}
    data, _ = encode_commit([head, *known.records], Position())
    replace(tree, stem + SUFFIX, data, folder)


def recollect(tree: Tree, stem: str, folder: int, form: str) -> Recollection | None:
    """None where there is none that can be believed."""
    try:
        reading = scan(read_chunks(tree.files, stem + SUFFIX, folder), Position())
    except OSError:
        return None
    head, *records = reading.records or [{}]
    if reading.damage or reading.unchecked_lines or head.get("kind") != "resume" or head.get("form") != form:
        return None
    offset, lines, chain, sums = (head.get(name) for name in ("offset", "lines", "sum", "sums"))
    if not (isinstance(offset, int) and isinstance(lines, int) and isinstance(chain, str) and isinstance(sums, dict)):
        return None
    before = b"".join(read_chunks(tree.files, f"{stem}.jsonl", folder, offset=max(0, offset - TAIL), upto=offset))
    if sum_at_end(before) != chain:
        return None
    return Recollection(form, Position(offset=offset, lines=lines, sum=chain), sums, records)
