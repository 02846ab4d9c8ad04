"""Lists and finds the sessions in Claude Code's own folder: `projects/<path with dashes>/<session>.jsonl`.

A name is compared with the files that are there; it never becomes a path. A listing reads only the beginning and the
end of each file, so its time depends on the number of files, not on their length. The number of messages is then an
estimate, and marked as such.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.text.prompt import user_words
from ebbtide.formats.anthropic_blocks import read_usage
from ebbtide.formats.session_file import dict_or_empty, str_or_empty

NEWEST = "last"
"""Names the session that changed most recently."""
_HEAD, _TAIL = 32_768, 32_768
"""Bytes: the first prompt and the folder are in the first rows, the newest usage in the last."""
_LONG_TAIL = 1 << 20
"""Bytes to read from the end if the last rows are one large result."""
_MAX_LISTED = 8  # in an error message


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeSession:
    session: str
    path: Path
    title: str
    folder: str
    """The agent's working directory, as recorded."""
    modified: float
    bytes: int
    messages: int
    counted: bool
    """Whether `messages` was counted; else it is an estimate."""
    tokens: int
    """In the window after the last reply, as billed; 0 if unknown."""
    model: str


def list_claude_sessions(root: Path, limit: int | None = None) -> list[ClaudeSession]:
    """List the newest sessions first. Skip sub-agents' files, and files in which no model was called."""
    sessions: list[ClaudeSession] = []
    for path, modified, length in newest_files(root):
        if limit is not None and len(sessions) >= limit:
            break
        session = describe_file(path, modified, length)
        if session is not None and session.model:
            sessions.append(session)
    return sessions


def find_claude_session(root: Path, name: str) -> Path:
    """Return the file of the session with this id, of the only one whose id begins so, or of the newest."""
    if name == NEWEST:
        newest = list_claude_sessions(root, limit=1)
        if not newest:
            raise BadRequest(f"there are no sessions of Claude Code in {root}")
        return newest[0].path
    matches = matching_claude_files(root, name)
    if len(matches) == 1:
        return matches[0]
    if matches:
        rest = f", and {len(matches) - _MAX_LISTED} more" if len(matches) > _MAX_LISTED else ""
        names = ", ".join(_display_names(matches)) + rest
        raise BadRequest(f"{name!r} may mean {len(matches)} sessions of Claude Code: {names}. Give more of the id")
    known = ", ".join(_display_names([path for path, _, _ in newest_files(root)]))
    raise BadRequest(f"no session of Claude Code in {root} is called {name!r}; the newest: {known or 'there are none'}")


def matching_claude_files(root: Path, name: str) -> list[Path]:
    """Return the files whose session has this id, else those whose id begins so. Two projects may have copies."""
    files = [path for path, _, _ in newest_files(root)]
    exact = [path for path in files if path.stem == name]
    return exact or [path for path in files if name and path.stem.startswith(name)]


def _display_names(paths: Sequence[Path]) -> Iterator[str]:
    has_copies = len({path.stem for path in paths}) < len(paths)
    for path in paths[:_MAX_LISTED]:
        yield f"{path.stem} ({path.parent.name})" if has_copies else path.stem


def newest_files(root: Path) -> list[tuple[Path, float, int]]:
    """Return path, time of change and length, the newest first. Links are not followed: they could form a loop."""
    files = []
    for folder in _entries(root / "projects"):
        if not folder.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(Path(folder.path)):
            is_session = entry.name.endswith(".jsonl") and not entry.name.startswith("agent-")
            if is_session and entry.is_file(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                files.append((Path(entry.path), info.st_mtime, info.st_size))
    return sorted(files, key=lambda file: (-file[1], file[0]))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # missing, or not readable
        return []


def describe_file(path: Path, modified: float, length: int) -> ClaudeSession | None:
    """Return None for a file that cannot be read, and for a sub-agent's."""
    is_short = length <= _HEAD + _TAIL
    try:
        head = read_part(path, 0, _HEAD + _TAIL if is_short else _HEAD)
        tail = b"" if is_short else read_part(path, length - _TAIL, _TAIL)
    except OSError:
        return None
    first, last = parse_rows(head), parse_rows(tail)
    if any(row.get("isSidechain") is True for row in first[:3]):
        return None
    reply = _last_reply(last)
    if not reply and not is_short:
        with suppress(OSError):
            reply = _last_reply(parse_rows(read_part(path, max(0, length - _LONG_TAIL), _LONG_TAIL)))
    reply = reply or _last_reply(first) or {}
    bytes_read = len(head) + len(tail)
    messages = sum(row.get("type") in ("user", "assistant") for row in (*first, *last))
    is_counted = bytes_read >= length
    usage, _ = read_usage(dict_or_empty(reply.get("usage")))
    return ClaudeSession(
        session=path.stem,
        path=path,
        title=_title(first, last),
        folder=next((folder for row in first if (folder := str_or_empty(row.get("cwd")))), ""),
        modified=modified,
        bytes=length,
        messages=messages if is_counted else round(messages * length / max(bytes_read, 1)),
        counted=is_counted,
        tokens=usage.total if usage else 0,
        model=str_or_empty(reply.get("model")),
    )


def read_part(path: Path, offset: int, limit: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(limit)


def parse_rows(part: bytes) -> list[dict[str, Any]]:
    """Return the complete rows: where a part was cut, its first and last line are not JSON."""
    rows = []
    for line in part.split(b"\n"):
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows


def _last_reply(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    for row in reversed(rows):
        message = row.get("message")
        if row.get("type") != "assistant" or not isinstance(message, dict):
            continue
        # Replies that the client wrote itself have a model in brackets.
        if str_or_empty(message.get("model")) and not message["model"].startswith("<"):
            return message
    return None


def _title(first: Sequence[dict[str, Any]], last: Sequence[dict[str, Any]]) -> str:
    """Return the newest title that a person or a model gave it, else the first prompt."""
    for row in (*reversed(last), *reversed(first)):
        for key in ("customTitle", "aiTitle", "summary"):
            if str_or_empty(row.get(key)):
                return str(row[key])
    return next((prompt for row in first if (prompt := _prompt(row))), "")


def _prompt(row: dict[str, Any]) -> str:
    message = row.get("message")
    if row.get("type") != "user" or row.get("isMeta") or not isinstance(message, dict):
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (str_or_empty(block.get("text")) for block in blocks if isinstance(block, dict))
    return next((words for text in texts if (words := user_words(text))), "")
