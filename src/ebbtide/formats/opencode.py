"""Reads OpenCode's storage directory (a file a message and a file a part), or the JSON that its export writes.

A tool part holds the call and its result, so the parts of a reply become the reply and the message after it. Output
that the client pruned is only marked with a time; the calls before that time still had it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Usage
from ebbtide.formats.anthropic_blocks import (
    REQUEST_FIELDS,
    assistant_message,
    reply_content,
    user_content,
    user_message,
)
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import SessionFile, build_usage, dict_or_empty, open_session_file, parse_time
from ebbtide.formats.steps import AddMessages, ClearResults, Compact, Episode, ModelReply, Problem, Step

_CLEARED = "[Old tool result content cleared]"
"""What OpenCode writes in place of output that it pruned."""

_SUMMARY_REQUEST = "What did we do so far?"
"""Used for the request for a summary, whose text is not stored."""


def recognises(file: SessionFile) -> bool:
    messages = dict_or_empty(file.document).get("messages")
    return isinstance(messages, list) and any(_is_message(message) for message in messages)


def read(file: SessionFile) -> Recording:
    reader, value = _Reader(file), file.document
    for row, message in enumerate(value["messages"], 1):
        if _is_message(message):
            reader.read_message(row, message["info"], message["parts"])
        else:
            reader.add_problem(row, "not a message with its parts", repr(message))
    session = str(dict_or_empty(value.get("info")).get("id") or "")
    return reader.recording("opencode", "anthropic", session, [reader.episode("")])


def read_directory(path: str | os.PathLike[str]) -> Recording:
    """Read every session of a storage directory, or one session's message directory; each is an episode."""
    root, sessions = _find_sessions(Path(path))
    # Only listed directories are opened: an id from a record never becomes a path.
    part_folders = {entry.name: entry for entry in _list_folders(root / "part")}
    collected = SessionReader(SessionFile(path=os.fspath(path), rows=(), problems=(), is_document=False))
    episodes = []
    for session in sessions:
        reader = _Reader(collected.file)
        for row, message in enumerate(reader.read_folder(session), 1):
            folder = part_folders.get(str(message.get("id")))
            parts = list(reader.read_folder(folder)) if folder else []
            if _is_message({"info": message, "parts": parts}):
                reader.read_message(row, message, parts)
            else:
                reader.add_problem(row, "not a message", repr(message))
        episodes.append(reader.episode("" if len(sessions) == 1 else session.name))
        collected.problems += reader.problems
    name = sessions[0].name if len(sessions) == 1 else Path(path).name
    return collected.recording("opencode", "anthropic", name, episodes)


def _find_sessions(path: Path) -> tuple[Path, list[Path]]:
    """Return the storage root, and the message directories to read."""
    for root in (path, path / "storage"):
        if folders := _list_folders(root / "message"):
            return root, folders
    if path.parent.name == "message" and any(path.glob("*.json")):
        return path.parent.parent, [path]
    raise BadRequest(f"{path} is a folder, and not one of OpenCode's (message/<session>/*.json): name a file in it")


def _list_folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return False
    return dict_or_empty(message.get("info")).get("role") in ("user", "assistant")


class _Reader(SessionReader):
    """Turns one session's messages into steps."""

    def __init__(self, file: SessionFile) -> None:
        super().__init__(file)
        self.steps: list[Step] = []
        self.pruned: list[tuple[float, str]] = []
        """When each pruned result was pruned, and the id of its call."""

    def add_problem(self, row: int, reason: str, raw: str = "") -> None:
        self.problems.append(Problem(row=row, reason=reason, raw=raw))

    def episode(self, name: str) -> Episode:
        return Episode(name=name, steps=_insert_prunes(self.steps, self.pruned), request_fields=REQUEST_FIELDS)

    def read_folder(self, folder: Path) -> Iterator[dict[str, Any]]:
        """Yield the records of a folder. Names sort by time, as OpenCode's ids do."""
        for row, path in enumerate(sorted(folder.glob("*.json")), 1):
            try:
                file = open_session_file(path)
            except BadRequest as error:
                self.add_problem(row, str(error))
                continue
            value = file.rows[0].value if file.rows else None
            if isinstance(value, dict):
                yield value
            else:
                self.add_problem(row, f"{path.name} is not a record")

    def read_message(self, row: int, info: dict[str, Any], parts: list[Any]) -> None:
        records = [part for part in parts if isinstance(part, dict) and isinstance(part.get("type"), str)]
        if len(records) < len(parts):
            self.add_problem(row, "a part that is not a record", repr(parts))
        if info["role"] == "user":
            for_compaction = any(part["type"] == "compaction" for part in records)
            self.add_user([block for part in records for block in _user_blocks(part)], for_compaction=for_compaction)
            return
        calls = list(_split_calls(records))
        for n, call in enumerate(calls, 1):
            self.add_reply(row, info, call, is_only=len(calls) == 1, is_last=n == len(calls))

    def add_reply(
        self, row: int, info: dict[str, Any], parts: list[dict[str, Any]], *, is_only: bool, is_last: bool
    ) -> None:
        blocks = [block for part in parts for block in _reply_blocks(part)]
        content, content_problem = reply_content(blocks)
        end = next((part for part in parts if part["type"] == "step-finish"), {})
        usage, usage_problem = _read_usage(info.get("tokens") if is_only else end.get("tokens"))
        for reason in filter(None, (content_problem, usage_problem)):
            self.add_problem(row, reason, repr(info))
        self.steps.append(
            ModelReply(
                row=row,
                messages=assistant_message(content),
                response={"role": "assistant", "content": blocks},
                model=str(info.get("modelID") or ""),
                usage=usage,
                at=parse_time(dict_or_empty(info.get("time")).get("created")),
                for_compaction=bool(info.get("summary")),
            )
        )
        if info.get("summary") and not info.get("error") and is_last:
            # The history now begins with the summary. It is a reply, so a request goes before it.
            self.steps.append(Compact(messages=user_message(_SUMMARY_REQUEST), kept_steps=(len(self.steps) - 1,)))
        self.add_user([result for part in parts for result in self.read_results(part)])

    def add_user(self, recorded: list[dict[str, Any]], *, for_compaction: bool = False) -> None:
        content, _ = user_content(recorded)
        if content:
            self.steps.append(AddMessages(messages=user_message(content), for_compaction=for_compaction))

    def read_results(self, part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        state = dict_or_empty(part.get("state"))
        if part["type"] != "tool" or state.get("status") not in ("completed", "error"):
            return
        call_id = str(part.get("callID"))
        is_error = state["status"] == "error"
        output = state.get("error") if is_error else state.get("output")
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output if isinstance(output, str) else ""}
        yield {**result, "is_error": True} if is_error else result
        when = parse_time(dict_or_empty(state.get("time")).get("compacted"))
        if when is not None:
            self.pruned.append((when, call_id))


def _insert_prunes(steps: list[Step], pruned: list[tuple[float, str]]) -> tuple[Step, ...]:
    """Insert each prune before the first call that no longer had the output."""
    prunes: dict[int, set[str]] = {}
    for when, call_id in pruned:
        later = (n for n, step in enumerate(steps) if isinstance(step, ModelReply) and (step.at or 0) >= when)
        prunes.setdefault(next(later, len(steps)), set()).add(call_id)
    new_index: list[int] = []
    new_steps: list[Step] = []
    for n, step in enumerate(steps):
        if n in prunes:
            new_steps.append(ClearResults(call_ids=frozenset(prunes[n]), placeholder=_CLEARED))
        new_index.append(len(new_steps))
        if isinstance(step, Compact):
            step = replace(step, kept_steps=tuple(new_index[kept] for kept in step.kept_steps))
        new_steps.append(step)
    return tuple(new_steps)


def _split_calls(parts: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Old versions wrote all calls of a turn into one message, each after a `step-start`."""
    call: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "step-start" and call:
            yield call
            call = []
        call.append(part)
    yield call


def _user_blocks(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if part["type"] == "text" and not part.get("ignored"):
        yield {"type": "text", "text": str(part.get("text") or "")}
    elif part["type"] == "compaction":
        yield {"type": "text", "text": _SUMMARY_REQUEST}
    elif part["type"] == "file":
        head, _, data = str(part.get("url")).partition(";base64,")
        if data and str(part.get("mime")).startswith("image/") and head.startswith("data:"):
            yield {"type": "image", "source": {"type": "base64", "media_type": part["mime"], "data": data}}


def _reply_blocks(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if part["type"] == "text":
        yield {"type": "text", "text": str(part.get("text") or "")}
    elif part["type"] == "reasoning":
        signature = dict_or_empty(dict_or_empty(part.get("metadata")).get("anthropic")).get("signature")
        yield {"type": "thinking", "thinking": str(part.get("text") or ""), "signature": signature or ""}
    elif part["type"] == "tool":
        arguments = dict_or_empty(dict_or_empty(part.get("state")).get("input"))
        yield {"type": "tool_use", "id": str(part.get("callID")), "name": str(part.get("tool")), "input": arguments}


def _read_usage(tokens: Any) -> tuple[Usage | None, str]:
    """Reasoning is billed as output."""
    if not isinstance(tokens, dict):
        return None, ""
    cache = dict_or_empty(tokens.get("cache"))
    output, reasoning = tokens.get("output") or 0, tokens.get("reasoning") or 0
    if not isinstance(output, int) or not isinstance(reasoning, int):
        return None, "the usage is not made of numbers"
    return build_usage(cache.get("read"), cache.get("write"), tokens.get("input"), output + reasoning)
