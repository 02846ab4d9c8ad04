"""The sessions that Claude Code keeps in its own folder: `projects/<path with dashes>/<session>.jsonl`.

They are found by looking, and a name is compared with what was found: no id ever becomes a path. A listing reads the
beginning and the end of each file and nothing between, so it takes as long as there are files, however long they are.
What it says of the middle is an estimate, and says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.formats.session_file import build_usage

NEWEST = "last"
"""Names the session that changed last."""
_HEAD, _TAIL = 32_768, 32_768
"""Bytes: the first words and the folder are in the first few rows, the last bill in the last few."""
_FAR = 1 << 20
"""Bytes from the end, where the last rows are one large result."""
_LISTED = 8
"""Candidates that an error names: enough to choose from, few enough to read."""
_NO_TITLE = ("<command-", "<local-command-", "Caveat: ", "[Request interrupted", "<system-reminder>")
"""What the client put where the user's words would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeSession:
    session: str
    path: Path
    title: str
    folder: str
    """Where the agent worked, as it recorded it."""
    modified: float
    bytes: int
    messages: int
    counted: bool
    """Else the messages are estimated from the part that was read."""
    tokens: int
    """What the window held after the last answer, as billed; 0 where that is not known."""
    model: str

    @property
    def has_reply(self) -> bool:
        """A model was called: there is something to look at."""
        return bool(self.model)


def list_claude_sessions(root: Path, limit: int | None = None) -> list[ClaudeSession]:
    """The newest first. Agents that a session started, and files in which no model was called, are left out."""
    found: list[ClaudeSession] = []
    for path, modified, length in _files(root):
        if limit is not None and len(found) >= limit:
            break
        one = _described(path, modified, length)
        if one is not None and one.has_reply:
            found.append(one)
    return found


def find_claude_session(root: Path, name: str) -> Path:
    """The file of the session of that id, of the only one that begins so, or of the last one."""
    if name == NEWEST:
        newest = list_claude_sessions(root, limit=1)
        if not newest:
            raise BadRequest(f"there are no sessions of Claude Code in {root}")
        return newest[0].path
    matching = matching_claude_files(root, name)
    if len(matching) == 1:
        return matching[0]
    if matching:
        more = f", and {len(matching) - _LISTED} more" if len(matching) > _LISTED else ""
        told = ", ".join(_listed(matching)) + more
        raise BadRequest(f"{name!r} may mean {len(matching)} sessions of Claude Code: {told}. Give more of the id")
    known = ", ".join(_listed([path for path, _, _ in _files(root)]))
    raise BadRequest(f"no session of Claude Code in {root} is called {name!r}; the newest: {known or 'there are none'}")


def matching_claude_files(root: Path, name: str) -> list[Path]:
    """Files whose session is called so, or begins so. Two projects may have a copy each."""
    files = [path for path, _, _ in _files(root)]
    exact = [path for path in files if path.stem == name]
    return exact or [path for path in files if name and path.stem.startswith(name)]


def _listed(paths: Sequence[Path]) -> Iterator[str]:
    twice = len({path.stem for path in paths}) < len(paths)
    for path in paths[:_LISTED]:
        yield f"{path.stem} ({path.parent.name})" if twice else path.stem


def _files(root: Path) -> list[tuple[Path, float, int]]:
    """Path, time of change and length, the newest first. Links are not followed: a loop would never end."""
    found = []
    for folder in _entries(root / "projects"):
        if not folder.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(Path(folder.path)):
            if entry.name.endswith(".jsonl") and not entry.name.startswith("agent-") and _is_file(entry):
                told = entry.stat(follow_symlinks=False)
                found.append((Path(entry.path), told.st_mtime, told.st_size))
    return sorted(found, key=lambda one: (-one[1], one[0]))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # not there, or not ours to read
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _described(path: Path, modified: float, length: int) -> ClaudeSession | None:
    """None for a file that cannot be read, or that is an agent's own."""
    try:
        head, tail = _ends(path, length)
    except OSError:
        return None
    first, last = _rows(head), _rows(tail)
    if any(row.get("isSidechain") is True for row in first[:3]):
        return None
    answer = _last_answer(last) or (_last_answer(_rows(_end(path, length, _FAR))) if length > _HEAD + _TAIL else None)
    answer = answer or _last_answer(first)
    read, messages = len(head) + len(tail), _messages(first) + _messages(last)
    whole = read >= length
    return ClaudeSession(
        session=path.stem,
        path=path,
        title=_title(first, last),
        folder=next((_text(row.get("cwd")) for row in first if _text(row.get("cwd"))), ""),
        modified=modified,
        bytes=length,
        messages=messages if whole else round(messages * length / max(read, 1)),
        counted=whole,
        tokens=_tokens(answer.get("usage")) if answer else 0,
        model=_text(answer.get("model")) if answer else "",
    )


def _ends(path: Path, length: int) -> tuple[bytes, bytes]:
    """The beginning and the end; of a short file all of it, and nothing twice."""
    with path.open("rb") as file:
        if length <= _HEAD + _TAIL:
            return file.read(_HEAD + _TAIL), b""
        head = file.read(_HEAD)
        file.seek(length - _TAIL)
        return head, file.read(_TAIL)


def _end(path: Path, length: int, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, length - most))
            return file.read(most)
    except OSError:
        return b""


def _rows(part: bytes) -> list[dict[str, Any]]:
    """Whole rows only: where a part was cut, its first and last row are not JSON."""
    rows = []
    for line in part.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _messages(rows: Sequence[dict[str, Any]]) -> int:
    return sum(row.get("type") in ("user", "assistant") for row in rows)


def _last_answer(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    for row in reversed(rows):
        message = row.get("message")
        if row.get("type") != "assistant" or not isinstance(message, dict):
            continue
        # Words that the client wrote itself carry a model in brackets.
        if _text(message.get("model")) and not message["model"].startswith("<"):
            return message
    return None


def _tokens(bill: object) -> int:
    if not isinstance(bill, dict):
        return 0
    names = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens")
    usage, _ = build_usage(*(bill.get(name) for name in names))
    return usage.total if usage else 0


def _title(first: Sequence[dict[str, Any]], last: Sequence[dict[str, Any]]) -> str:
    """The name that a person or a model gave it, the newest first; else the user's first words."""
    for row in (*reversed(last), *reversed(first)):
        for key in ("customTitle", "aiTitle", "summary"):
            if _text(row.get(key)):
                return str(row[key])
    return next((words for row in first if (words := _said(row))), "")


def _said(row: dict[str, Any]) -> str:
    message = row.get("message")
    if row.get("type") != "user" or row.get("isMeta") or not isinstance(message, dict):
        return ""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (_text(block.get("text")).strip() for block in blocks if isinstance(block, dict))
    return next((text for text in texts if text and not text.startswith(_NO_TITLE)), "")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
