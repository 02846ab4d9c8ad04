"""Lists the sessions of a folder, with the help of `sessions-index.json`.

The index is derived from the logs: it may be deleted, and is rewritten when it is out of date. A log is read again only
if it changed after the index was written.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress

from ebbtide.core.records import Record
from ebbtide.core.text.prompt import user_words
from ebbtide.store.directory.safe_fs import Folder, StoreRoot
from ebbtide.store.log_lines import Position, scan
from ebbtide.store.protocol import SessionInfo
from ebbtide.store.sessions import NO_PROMPT, describe_session

NAME = "sessions-index.json"
_SMALL_INDEX = 1 << 15
"""Bytes: about forty sessions. An index up to this size is rewritten for each new session."""
_BYTES_PER_SECOND = 100_000
"""A larger index is rewritten at most once in this many bytes' worth of seconds: a fiftieth of the time."""
# Two writes within one tick of the file system's clock have the same time, so an entry that young is read again.
_CLOCK_TICK_MS = 50


def add_session(root: StoreRoot, parts: tuple[str, ...]) -> None:
    """Update the index after a session was created, unless it is large and was written just now."""
    with suppress(OSError), root.folder(*parts) as folder:
        info = folder.stat(NAME)
        if info.st_size > _SMALL_INDEX and time.time() - info.st_mtime < info.st_size / _BYTES_PER_SECOND:
            return
    refresh_index(root, parts)


def refresh_index(root: StoreRoot, parts: tuple[str, ...]) -> list[SessionInfo]:
    """List the sessions of a folder. Rewrite its index if it is out of date and can be written."""
    with root.folder(*parts) as folder:
        old, written_ms = _load(folder)
        entries: list[Record] = []
        sessions: list[SessionInfo] = []
        for name in folder.names():
            if not name.endswith(".jsonl"):
                continue
            path = os.path.join(root.path, *parts, name)
            with suppress(FileNotFoundError):  # `gc` removed it meanwhile
                file = folder.stat(name)
                if not stat.S_ISREG(file.st_mode):
                    continue
                entry = old.get(path)
                changed_ms = file.st_mtime_ns // 1_000_000
                if not entry or not _is_current(entry, changed_ms, written_ms):
                    entry = _read_entry(folder, path, file, entry)
                entries.append(entry)
                sessions.append(_session_info(entry, path=path, length=file.st_size))
        if entries != list(old.values()):
            with suppress(OSError):
                folder.replace(NAME, _dump(entries))
    return sessions


def remove_empty_index(root: StoreRoot, parts: tuple[str, ...]) -> None:
    """Remove the index of a folder that holds nothing else."""
    with root.folder(*parts) as folder:
        if folder.names() == [NAME]:
            folder.unlink(NAME)


def _is_current(entry: Record, changed_ms: int, written_ms: int) -> bool:
    title = str(entry.get("summary") or "")
    # Earlier versions took a program's reminder for the user's words.
    has_title = not title or bool(user_words(title))
    return has_title and entry.get("fileMtime") == changed_ms and changed_ms + _CLOCK_TICK_MS < written_ms


def _read_entry(folder: Folder, path: str, file: os.stat_result, old: Record | None) -> Record:
    name = os.path.basename(path)
    log = scan(folder.read_chunks(name), Position())
    info = describe_session(log, session=name.removesuffix(".jsonl"), path=path, changed=file.st_mtime)
    first = next((record for record in log.records if "gitBranch" in record), {})
    old_title = str((old or {}).get("summary") or "")
    return {
        "sessionId": info.session,
        "fullPath": info.path,
        "fileMtime": file.st_mtime_ns // 1_000_000,
        "firstPrompt": info.first_prompt,
        # Another program's title cost a model call; ours is only the first line of the prompt.
        "summary": old_title if user_words(old_title) else info.title,
        "messageCount": info.messages,
        "created": info.created,
        "modified": info.modified,
        "gitBranch": first.get("gitBranch", ""),
        "projectPath": info.project,
        "isSidechain": first.get("isSidechain", False),
    }


def _session_info(entry: Mapping[str, object], *, path: str, length: int) -> SessionInfo:
    count = entry.get("messageCount")
    return SessionInfo(
        session=str(entry.get("sessionId", "")),
        project=str(entry.get("projectPath", "")),
        path=path,
        title=str(entry.get("summary", "")),
        first_prompt=str(entry.get("firstPrompt", NO_PROMPT)),
        messages=count if isinstance(count, int) else 0,
        created=str(entry.get("created", "")),
        modified=str(entry.get("modified", "")),
        bytes=length,
    )


def _dump(entries: list[Record]) -> bytes:
    project = next((entry["projectPath"] for entry in entries if entry.get("projectPath")), "")
    return json.dumps({"version": 1, "entries": entries, "originalPath": project}, indent=2).encode()


def _load(folder: Folder) -> tuple[dict[str, Record], int]:
    """Return the entries by path, and when they were written, in milliseconds. Empty if they cannot be read."""
    try:
        written_ms = folder.stat(NAME).st_mtime_ns // 1_000_000
        entries = json.loads(folder.read(NAME))["entries"]
        return {str(entry["fullPath"]): entry for entry in entries}, written_ms
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}, 0
