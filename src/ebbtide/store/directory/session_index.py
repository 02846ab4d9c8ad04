"""`sessions-index.json` is derived: it can be deleted, and is rebuilt from the logs where it is behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ebbtide.store.log_lines import ReadResult, Record
from ebbtide.store.message_records import first_words, timestamp
from ebbtide.store.protocol import SessionInfo

NAME = "sessions-index.json"
NO_PROMPT = "No prompt"
_TITLE = 80  # characters: one line of a terminal
_PROMPT = 500  # characters: enough to recognise a session, and a pasted file does not fill the index
# Two writes within one tick of the file system's clock give one time; an entry that young is read again.
RACY_MS = 50


def describe(reading: ReadResult, *, session: str, path: str, changed: float) -> SessionInfo:
    """`session` is what to call it where the file itself does not say."""
    head = reading.header or {}
    messages = [record for record in reading.records if record.get("type") in ("user", "assistant")]
    times = [time for record in messages if (time := str(record.get("timestamp") or ""))]
    prompt = next((words for record in messages if (words := _prompt(record))), "")
    return SessionInfo(
        session=str(head.get("sessionId", session)),
        project=str(head.get("cwd") or next((r["cwd"] for r in messages if r.get("cwd")), "")),
        path=path,
        title=_title(reading, prompt),
        first_prompt=prompt[:_PROMPT] or NO_PROMPT,
        messages=len(messages),
        created=str(head.get("timestamp") or (times[0] if times else timestamp(changed))),
        modified=times[-1] if times else timestamp(changed),
        bytes=reading.position.offset,
    )


def entry(reading: ReadResult, info: SessionInfo, mtime_ms: int) -> Record:
    first = next((record for record in reading.records if "gitBranch" in record), {})
    return {
        "sessionId": info.session,
        "fullPath": info.path,
        "fileMtime": mtime_ms,
        "firstPrompt": info.first_prompt,
        "summary": info.title,
        "messageCount": info.messages,
        "created": info.created,
        "modified": info.modified,
        "gitBranch": first.get("gitBranch", ""),
        "projectPath": info.project,
        "isSidechain": first.get("isSidechain", False),
    }


def info_of(entry: Mapping[str, object], *, path: str, length: int) -> SessionInfo:
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


def dump(entries: list[Record]) -> bytes:
    project = next((entry["projectPath"] for entry in entries if entry.get("projectPath")), "")
    text = json.dumps({"version": 1, "entries": entries, "originalPath": project}, indent=2)
    return text.encode()


def load(data: bytes) -> dict[str, Record]:
    """Entries by path. Whatever cannot be read is derived again."""
    try:
        entries = json.loads(data)["entries"]
        return {str(entry["fullPath"]): entry for entry in entries}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}


def _title(reading: ReadResult, prompt: str) -> str:
    """The other program's own title where the file has one, else the first line of the first prompt."""
    titles = (str(r["summary"]) for r in reading.records if r.get("type") == "summary" and r.get("summary"))
    title = next(titles, "") or next(iter(prompt.strip().splitlines()), "")
    return title[:_TITLE]


def _prompt(record: Record) -> str:
    message = record.get("message")
    if record.get("type") != "user" or record.get("isMeta") or not isinstance(message, dict):
        return ""
    # For people and terminals, which cannot show half a character.
    return first_words(message.get("content")).strip().encode("utf-8", "replace").decode()
