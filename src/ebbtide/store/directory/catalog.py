"""Lists the sessions of a folder. A log is read again only if it changed after the index was written."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from ebbtide.store.directory.safe_fs import Tree, read_chunks, read_whole, replace
from ebbtide.store.directory.session_index import NAME, RACY_MS, describe, dump, entry, info_of, load
from ebbtide.store.log_lines import Position, Record, scan
from ebbtide.store.protocol import SessionInfo

_SMALL = 1 << 15
"""Bytes of an index that is written for each new session: some forty of them."""
_A_SECOND = 100_000
"""Bytes of a larger one for each second that it is left alone: writing it takes a fiftieth of the time then."""


def enlist(tree: Tree, place: tuple[str, ...]) -> None:
    """A session is new. With thousands of others its folder is not read for each: whoever lists them sees it anyway."""
    with suppress(OSError), tree.folder(*place) as folder:
        found = tree.files.stat(NAME, at=folder)
        if found.st_size > _SMALL and time.time() - found.st_mtime < found.st_size / _A_SECOND:
            return
    refresh(tree, place)


def refresh(tree: Tree, place: tuple[str, ...]) -> list[SessionInfo]:
    """The sessions, and the index rewritten where it was behind and may be written."""
    with tree.folder(*place) as folder:
        old, written = _load(tree, folder)
        entries: list[Record] = []
        sessions: list[SessionInfo] = []
        for name in tree.files.list(folder):
            if not name.endswith(".jsonl"):
                continue
            path = os.path.join(tree.root, *place, name)
            with suppress(FileNotFoundError):  # collected meanwhile
                _list_one(tree, folder, path, (old.get(path), written), entries, sessions)
        if entries != list(old.values()):
            with suppress(OSError):
                replace(tree, NAME, dump(entries), folder)
    return sessions


def _list_one(
    tree: Tree,
    folder: int,
    path: str,
    known: tuple[Record | None, int],
    entries: list[Record],
    sessions: list[SessionInfo],
) -> None:
    name = os.path.basename(path)
    found = tree.files.stat(name, at=folder)
    if not stat.S_ISREG(found.st_mode):
        return
    (was, written), changed_ms = known, found.st_mtime_ns // 1_000_000
    if was is not None and was.get("fileMtime") == changed_ms and changed_ms + RACY_MS < written:
        entries.append(was)
        sessions.append(info_of(was, path=path, length=found.st_size))
        return
    reading = scan(read_chunks(tree.files, name, folder), Position())
    info = describe(reading, session=name.removesuffix(".jsonl"), path=path, changed=found.st_mtime)
    fresh = entry(reading, info, changed_ms)
    # A title that another program gave costs a model call; ours is only the first words.
    fresh["summary"] = (was or {}).get("summary") or info.title
    entries.append(fresh)
    sessions.append(info_of(fresh, path=path, length=found.st_size))


def _load(tree: Tree, folder: int) -> tuple[dict[str, Record], int]:
    """The entries as they stand, and when they were written, in milliseconds."""
    try:
        found = tree.files.stat(NAME, at=folder)
        return load(read_whole(tree.files, NAME, folder)), found.st_mtime_ns // 1_000_000
    except OSError:
        return {}, 0
