"""The checkpoint of a long log, in a file next to it."""

from __future__ import annotations

from ebbtide.store.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from ebbtide.store.directory.safe_fs import Folder
from ebbtide.store.log_lines import TAIL, LineEnd, last_commit_sum

SUFFIX = ".resume"


def write_checkpoint(folder: Folder, stem: str, checkpoint: Checkpoint) -> None:
    folder.replace(stem + SUFFIX, encode_checkpoint(checkpoint))


def read_checkpoint(folder: Folder, stem: str, snapshot_format: str) -> Checkpoint | None:
    """Read the checkpoint. Return None if it is missing, damaged, of another format or not of this log."""
    try:
        checkpoint = decode_checkpoint(folder.read_chunks(stem + SUFFIX), snapshot_format)
    except OSError:
        return None
    if checkpoint is None:
        return None
    end = LineEnd.at(checkpoint.position)
    tail = folder.read(f"{stem}.jsonl", offset=max(0, end.offset - TAIL), end=end.offset)
    return checkpoint if last_commit_sum(tail) == end.sum else None
