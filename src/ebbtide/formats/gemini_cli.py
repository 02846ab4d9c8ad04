"""Reads the chats of gemini-cli: JSON lines, or one document of older versions. Seen in @google/gemini-cli 0.61.0.

A line is a message, or the same message again with its tool calls; `$rewindTo` removes a message and all after it, and
`$set` may replace the whole list. After a compaction that list has new ids, so what it kept is found by content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.core.types import Usage
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, dict_or_empty, parse_time, str_or_empty
from ebbtide.formats.steps import AddMessages, Compact, Episode, Message, ModelReply, Rewind, Step

_NOTICES = frozenset({"info", "error", "warning"})
"""Types of messages that the client shows to the user. An `info` with parts holds a file, which the model gets."""


def recognises(file: SessionFile) -> bool:
    if file.is_document:
        return _is_chat(file.document) and isinstance(file.document.get("messages"), list)
    return any(_is_chat(row.value) or _is_change(row.value) for row in file.rows)


def _is_chat(value: Any) -> bool:
    return isinstance(value, dict) and "sessionId" in value and "projectHash" in value


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and ("$set" in value or "$rewindTo" in value)


def read(file: SessionFile) -> Recording:
    rows: Sequence[JsonRow] = file.rows
    if file.is_document:
        messages = enumerate(file.document["messages"], 1)
        rows = [JsonRow(line=1, value={**file.document, "messages": None}, raw="")]
        rows += [JsonRow(line=line, value=message, raw="") for line, message in messages]
    reader = _Reader(file, rows)
    for row in rows:
        reader.read_row(row)
    return reader.recording("gemini-cli", "gemini", reader.session, [Episode(steps=tuple(reader.steps))])


@dataclass(slots=True)
class _Turn:
    """A message of the history and the steps that it became."""

    id: str
    steps: tuple[int, ...]
    fingerprint: str


class _Reader(SessionReader):
    def __init__(self, file: SessionFile, rows: Sequence[JsonRow]) -> None:
        super().__init__(file)
        self.session = ""
        self.steps: list[Step] = []
        self.history: list[_Turn] = []
        self.newest = _merge_by_id(rows)
        """Each message with all that was recorded of it."""
        parts = [part for message in self.newest.values() for part in _parts(message.get("content"))]
        self.answered = {dict_or_empty(part.get("functionResponse")).get("id") for part in parts}
        """Calls whose results were recorded as a message of their own."""

    def read_row(self, row: JsonRow) -> None:
        value = row.value
        if not isinstance(value, dict):
            self.report(row, "not a record")
        elif isinstance(value.get("$rewindTo"), str):
            ids = [turn.id for turn in self.history]
            self.rewind(ids.index(value["$rewindTo"]) if value["$rewindTo"] in ids else 0)
        elif isinstance(dict_or_empty(value.get("$set")).get("messages"), list):
            self.replace_history(row, value["$set"]["messages"])
        elif _is_message(value):
            if all(turn.id != value["id"] for turn in self.history):
                self.add(row, value)
        else:
            self.session = self.session or str_or_empty(value.get("sessionId"))
            self.others.append(value)

    def rewind(self, length: int) -> None:
        self.history = self.history[:length]
        self.steps.append(Rewind(kept_steps=_steps_of(self.history)))

    def add(self, row: JsonRow, message: dict[str, Any]) -> None:
        steps = list(self.build_steps(row, message))
        if not steps:
            self.others.append(message)
            return
        places = tuple(range(len(self.steps), len(self.steps) + len(steps)))
        self.steps += steps
        self.history.append(_Turn(message["id"], places, _fingerprint(self.newest[message["id"]])))

    def build_steps(self, row: JsonRow, message: dict[str, Any]) -> Iterator[Step]:
        if message.get("type") != "gemini":
            if content := _content(message):
                yield AddMessages(messages=(content,))
            return
        message = self.newest[message["id"]]
        if not message.get("model"):
            return  # The client wrote it itself.
        content, tokens = _content(message), dict_or_empty(message.get("tokens"))
        usage, reason = _read_usage(tokens) if tokens else (None, "")
        self.report(row, reason)
        thoughts = [{"text": _thought(thought), "thought": True} for thought in _dicts(message.get("thoughts"))]
        yield ModelReply(
            row=row.line,
            messages=(content,) if content else (),
            response={"role": "model", "parts": [*thoughts, *(content["parts"] if content else ())]},
            model=str_or_empty(message.get("model")),
            usage=usage,
            at=parse_time(message.get("timestamp")),
        )
        calls = [call for call in _dicts(message.get("toolCalls")) if call.get("id") not in self.answered]
        if results := [part for call in calls for part in _result_parts(call)]:
            yield AddMessages(messages=({"role": "user", "parts": results},))

    def replace_history(self, row: JsonRow, recorded: list[Any]) -> None:
        """Find out what the client did to its history from the list that it has now."""
        messages = [message for message in recorded if _is_message(message) and _content(message)]
        new, old = list(map(_fingerprint, messages)), [turn.fingerprint for turn in self.history]
        same = _count_equal(old, new)
        if same < len(old) and same < len(new):
            self.compact(messages, _count_equal(old[::-1], new[::-1]))
            return
        for turn, message in zip(self.history, messages, strict=False):
            turn.id = message["id"]
        if same < len(old):
            self.rewind(same)
        for message in messages[same:]:
            self.add(row, message)

    def compact(self, messages: list[dict[str, Any]], kept: int) -> None:
        """Replace the history, except its last `kept` turns. What the client wrote in the model's name is left out."""
        before, tail = _steps_of(self.history), self.history[len(self.history) - kept :]
        head = messages[: len(messages) - kept]
        added = tuple(content for message in head if (content := _content(message)) and content["role"] == "user")
        compaction = (*before, len(self.steps))
        self.steps.append(Compact(messages=added, kept_steps=_steps_of(tail)))
        # If the history is rewound, all steps before the compaction stay too: it may be read without compactions.
        steps = [compaction, *[()] * len(messages)]
        turns = [*(_Turn("", (), "") for _ in head), *tail]
        self.history = [
            _Turn(message["id"], (*more, *turn.steps), _fingerprint(message))
            for message, turn, more in zip(messages, turns, steps, strict=False)
        ]


def _steps_of(turns: Iterable[_Turn]) -> tuple[int, ...]:
    return tuple(sorted({step for turn in turns for step in turn.steps}))


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    """Count the equal strings at the start of both."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)


def _merge_by_id(rows: Sequence[JsonRow]) -> dict[str, dict[str, Any]]:
    """Later records of a message add its tool calls, its usage, and its parts as they were sent back."""
    merged: dict[str, dict[str, Any]] = {}
    for row in rows:
        replaced = dict_or_empty(dict_or_empty(row.value).get("$set")).get("messages")
        for message in filter(_is_message, [row.value, *(replaced if isinstance(replaced, list) else ())]):
            known = merged.setdefault(message["id"], {})
            changes = {key: value for key, value in message.items() if value}
            if "content" in known and not any("functionCall" in part for part in _parts(message.get("content"))):
                changes.pop("content", None)
            known.update(changes)
    return merged


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _parts(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a recorded content, which may be a text, a part or a list of both."""
    entries = content if isinstance(content, list) else [content]
    parts = [{"text": entry} if isinstance(entry, str) else entry for entry in entries if entry]
    return [part for part in parts if isinstance(part, dict)]


def _content(message: dict[str, Any]) -> Message | None:
    """Return a recorded message as a content of the API; None if the model does not get it."""
    parts, type = _parts(message.get("content")), message.get("type")
    if type in _NOTICES and all("text" in part for part in parts):
        return None
    if type == "gemini" and not any("functionCall" in part for part in parts):
        calls = _dicts(message.get("toolCalls"))
        parts += [{"functionCall": {name: call.get(name) for name in ("id", "name", "args")}} for call in calls]
    return {"role": "model" if type == "gemini" else "user", "parts": parts} if parts else None


def _result_parts(call: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of a call, without those of other calls that some versions record beside them."""
    result, id = call.get("result"), call.get("id")
    if isinstance(result, str):
        return [{"functionResponse": {"id": id, "name": call.get("name"), "response": {"output": result}}}]
    return [part for part in _parts(result) if dict_or_empty(part.get("functionResponse", {"id": id})).get("id") == id]


def _fingerprint(message: dict[str, Any]) -> str:
    """What stays the same of a message however it is recorded: no ids, no signatures, no thoughts."""
    content = _content(message) or {"role": "", "parts": []}
    parts = [part for part in content["parts"] if not part.get("thought")]
    text = "".join(str_or_empty(part.get("text")) for part in parts).strip()
    calls = [dict_or_empty(part.get("functionCall")) for part in parts if "functionCall" in part]
    results = [dict_or_empty(part.get("functionResponse")) for part in parts if "functionResponse" in part]
    return json.dumps(
        [content["role"], text, [call.get("args") for call in calls], [result.get("response") for result in results]],
        sort_keys=True,
        default=str,
    )


def _thought(thought: dict[str, Any]) -> str:
    subject, description = str_or_empty(thought.get("subject")), str_or_empty(thought.get("description"))
    return f"**{subject}** {description}" if subject else description


def _read_usage(tokens: dict[str, Any]) -> tuple[Usage | None, str]:
    """Cached tokens are part of the input, and thoughts are billed as output."""
    counts = [tokens.get(name) or 0 for name in ("input", "tool", "cached", "output", "thoughts")]
    if not all(isinstance(count, int) for count in counts):
        return None, "the usage is not made of numbers"
    input, tool, cached, output, thoughts = counts
    return build_usage(cached, 0, input + tool - cached, output + thoughts)
