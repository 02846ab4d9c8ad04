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
    return any(_is_chat(row.value) or _is_change(row.value) for row in file.rows)


def _is_chat(value: Any) -> bool:
    return isinstance(value, dict) and "sessionId" in value and "projectHash" in value


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and ("$set" in value or "$rewindTo" in value)


def read(file: SessionFile) -> Recording:
    rows: Sequence[JsonRow] = file.rows
    messages = dict_or_empty(file.document).get("messages")
    if isinstance(messages, list):
        head = JsonRow(line=1, value={**file.document, "messages": None}, raw="")
        rows = [head, *(JsonRow(line=line, value=message, raw="") for line, message in enumerate(messages, 1))]
    reader = _Reader(file, rows)
    for row in rows:
        reader.read_row(row)
    return reader.recording("gemini-cli", "gemini", reader.session, [Episode(steps=tuple(reader.steps))])


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A message of the history: the steps that it became, and its content."""

    steps: tuple[int, ...]
    fingerprint: str


class _Reader(SessionReader):
    def __init__(self, file: SessionFile, rows: Sequence[JsonRow]) -> None:
        super().__init__(file)
        self.session = ""
        self.steps: list[Step] = []
        self.history: list[_Turn] = []
        self.turns: dict[str, _Turn] = {}
        """By the ids of their messages."""
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
            turn = self.turns.get(value["$rewindTo"])
            self.rewind(self.history[: self.history.index(turn)] if turn in self.history else [])
        elif isinstance(dict_or_empty(value.get("$set")).get("messages"), list):
            self.replace_history(row, value["$set"]["messages"])
        elif _is_message(value):
            if self.turns.get(value["id"]) not in self.history:
                self.add(row, value)
        else:
            self.session = self.session or str_or_empty(value.get("sessionId"))
            self.others.append(value)

    def rewind(self, turns: list[_Turn]) -> None:
        if turns != self.history:
            self.history = turns
            self.steps.append(Rewind(kept_steps=_steps_of(turns)))

    def add(self, row: JsonRow, message: dict[str, Any]) -> None:
        steps = list(self.build_steps(row, message))
        if not steps:
            self.others.append(message)
            return
        places = tuple(range(len(self.steps), len(self.steps) + len(steps)))
        self.steps += steps
        turn = self.turns[message["id"]] = _Turn(places, _fingerprint(self.newest[message["id"]]))
        self.history.append(turn)

    def build_steps(self, row: JsonRow, message: dict[str, Any]) -> Iterator[Step]:
        if message.get("type") != "gemini":
            if content := _content(message):
                yield AddMessages(messages=(content,))
            return
        message = {**self.newest[message["id"]], "type": "gemini"}
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
        """Find out from the new list what the client did: go back, go on, or compact."""
        messages = [message for message in recorded if self.is_turn(message)]
        turns = [self.find_turn(message) for message in messages]
        for n, turn in enumerate(reversed(self.history), 1):
            # A compaction gives new ids to what it keeps.
            if n > len(turns) or turns[-n] not in (None, turn) or _fingerprint(messages[-n]) != turn.fingerprint:
                break
            turns[-n] = turn
        head = max((n for n, turn in enumerate(turns, 1) if turn is None), default=0)
        if not head:
            self.rewind([turn for turn in turns if turn is not None])
        elif turns[: len(self.history)] == self.history and not any(turns[len(self.history) :]):
            for message in messages[len(self.history) :]:
                self.add(row, message)
        else:
            self.compact(messages[:head], turns[:head], [turn for turn in turns[head:] if turn is not None])
        for turn, message in zip(reversed(self.history), reversed(messages), strict=False):
            self.turns[message["id"]] = turn

    def is_turn(self, message: Any) -> bool:
        """Tell whether the model gets a message of a new history.

        A resumed client adds the results of a reply a second time, as `<id of the reply>_response`.
        """
        return (
            _is_message(message)
            and bool(_content(message))
            and message["id"].removesuffix("_response") not in (self.turns.keys() - {message["id"]})
        )

    def find_turn(self, message: dict[str, Any]) -> _Turn | None:
        turn = self.turns.get(message["id"])
        return turn if turn is not None and turn.fingerprint == _fingerprint(message) else None

    def compact(self, head: list[dict[str, Any]], known: list[_Turn | None], tail: list[_Turn]) -> None:
        """The history is now `head` and `tail`. What the client wrote there in the model's name is left out."""
        before, added = _steps_of(self.history), [_content(message) for message in head]
        contents = tuple(content for content in added if content and content["role"] == "user")
        # The first new message stands for the compaction, with all steps before it: if the history is rewound, they
        # are needed to read it as if the client had never compacted.
        steps = (*before, len(self.steps))
        self.steps.append(Compact(messages=contents, kept_steps=_steps_of(tail)))
        self.history = []
        for turn, message in zip(known, head, strict=True):
            if turn is None:
                turn, steps = _Turn(steps, _fingerprint(message)), ()
            self.history.append(turn)
        self.history += tail


def _steps_of(turns: Iterable[_Turn]) -> tuple[int, ...]:
    return tuple(sorted({step for turn in turns for step in turn.steps}))


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
    # The API refuses empty parts.
    return [part for part in parts if isinstance(part, dict) and any(part.values())]


def _content(message: dict[str, Any]) -> Message | None:
    """Return a recorded message as a content of the API; None if the model does not get it."""
    parts, type = _parts(message.get("content")), message.get("type")
    if type in _NOTICES and all("text" in part for part in parts):
        return None
    if type == "gemini" and not any("functionCall" in part for part in parts):
        calls = _dicts(message.get("toolCalls"))
        parts += [{"functionCall": {name: call.get(name) for name in ("id", "name", "args")}} for call in calls]
    # Thoughts are not sent back. Calls are the model's, and results the user's.
    others = ("thought", "functionResponse") if type == "gemini" else ("functionCall",)
    parts = [part for part in parts if not any(part.get(name) for name in others)]
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
    parts = content["parts"]
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
