"""Lists the sessions in Codex's own folder: `sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`.

Only the beginning and the end of each file are read, as for Claude Code's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.core.text.prompt import user_words
from ebbtide.formats.claude_folder import parse_rows, read_part
from ebbtide.formats.session_file import dict_or_empty, str_or_empty

_HEAD, _TAIL = 131_072, 65_536
"""Bytes: the first row has the instructions, which are long; the newest usage is among the last rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexSession:
    session: str
    path: Path
    title: str
    folder: str
    """The agent's working directory, as recorded."""
    modified: float
    bytes: int
    tokens: int
    """In the window after the last reply, as billed; 0 if unknown."""
    window: int
    """As Codex recorded it; 0 if unknown."""
    model: str


def list_codex_sessions(root: Path, limit: int | None = None) -> list[CodexSession]:
    """List the newest sessions first. Skip files that cannot be read or are no rollouts."""
    sessions: list[CodexSession] = []
    for path, modified, length in newest_rollouts(root):
        if limit is not None and len(sessions) >= limit:
            break
        session = describe_rollout(path, modified, length)
        if session is not None:
            sessions.append(session)
    return sessions


def newest_rollouts(root: Path) -> list[tuple[Path, float, int]]:
    """Return path, time of change and length, the newest first. Links are not followed."""
    return sorted(_rollouts(root / "sessions", depth=3), key=lambda file: (-file[1], file[0]))


def _rollouts(folder: Path, depth: int) -> Iterator[tuple[Path, float, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if depth and entry.is_dir(follow_symlinks=False):
                yield from _rollouts(Path(entry.path), depth - 1)
            elif entry.name.startswith("rollout-") and entry.name.endswith(".jsonl"):
                info = entry.stat(follow_symlinks=False)
                yield Path(entry.path), info.st_mtime, info.st_size


def describe_rollout(path: Path, modified: float, length: int) -> CodexSession | None:
    """Return None for a file that cannot be read, or in which Codex recorded no session."""
    try:
        first = parse_rows(read_part(path, 0, _HEAD))
        last = parse_rows(read_part(path, length - _TAIL, _TAIL)) if length > _HEAD else first
    except OSError:
        return None
    about = next((_payload(row) for row in first if row.get("type") == "session_meta"), None)
    if about is None:
        return None
    usage = next((info for row in reversed(last) if (info := _usage(row))), {})
    billed = dict_or_empty(usage.get("last_token_usage")).get("total_tokens")
    window = usage.get("model_context_window")
    return CodexSession(
        session=str_or_empty(about.get("id")) or path.stem,
        path=path,
        title=next((words for row in first if (words := _prompt(row))), ""),
        folder=str_or_empty(about.get("cwd")),
        modified=modified,
        bytes=length,
        tokens=billed if isinstance(billed, int) else 0,
        window=window if isinstance(window, int) else 0,
        model=_model(last) or _model(first),
    )


def _payload(row: dict[str, Any]) -> dict[str, Any]:
    return dict_or_empty(row.get("payload"))


def _model(rows: Sequence[dict[str, Any]]) -> str:
    contexts = (_payload(row) for row in reversed(rows) if row.get("type") == "turn_context")
    return next((model for context in contexts if (model := str_or_empty(context.get("model")))), "")


def _usage(row: dict[str, Any]) -> dict[str, Any]:
    payload = _payload(row)
    return dict_or_empty(payload.get("info")) if payload.get("type") == "token_count" else {}


def _prompt(row: dict[str, Any]) -> str:
    payload = _payload(row)
    if payload.get("type") != "message" or payload.get("role") != "user":
        return ""
    content = payload.get("content")
    blocks = content if isinstance(content, list) else []
    texts = (str_or_empty(block.get("text")) for block in blocks if isinstance(block, dict))
    return next((words for text in texts if (words := user_words(text))), "")
