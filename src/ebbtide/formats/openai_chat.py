"""Lists of chat messages: one conversation, a list of episodes, or one list a line. Every assistant message was a call.

A line that begins with all of an earlier line's messages is that conversation, written down again later: only what is
new in it is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.core.types import Usage
from ebbtide.formats.client_history import arguments_of
from ebbtide.formats.recording import Recording
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, parse_time, str_or_empty
from ebbtide.formats.steps import AddMessages, Episode, Message, ModelReply, Problem, Step

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_LISTS = ("messages", "traj", "trajectory", "conversation", "conversations")
_FIELDS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content"}
)


def recognises(source: SessionFile) -> bool:
    return any(_conversations(row.value) or is_message(row.value) for row in source.rows)


def is_message(value: Any) -> bool:
    if not isinstance(value, dict) or str_or_empty(value.get("role")) not in _ROLES:
        return False
    return "content" in value or "tool_calls" in value


def read(source: SessionFile) -> Recording:
    reader = _Reader(source)
    if not source.document and any(is_message(row.value) for row in source.rows):
        reader.messages_a_line()
    else:
        reader.conversations()
    return Recording(
        path=source.path,
        format="openai-chat",
        wire="openai_chat",
        session=source.name,
        episodes=tuple(reader.episodes()),
        problems=tuple(reader.problems),
        others=tuple(reader.others),
    )


class _Reader:
    def __init__(self, source: SessionFile) -> None:
        self.source = source
        self.problems = list(source.problems)
        self.others: list[dict[str, Any]] = []
        self.talks: dict[str, list[tuple[int, Any, str]]] = {}
        """Name to rows, messages, and their raw text."""
        self.ends: dict[int, str] = {}
        """Chained hash of a whole conversation to its name."""

    def messages_a_line(self) -> None:
        self.talks[""] = [(row.line, row.value, row.raw) for row in self.source.rows]

    def conversations(self) -> None:
        for row in self.source.rows:
            found = _conversations(row.value)
            if not found:
                self.problems.append(Problem(row=row.line, reason="no list of messages", raw=row.raw))
            for name, messages in found:
                only = self.source.document and len(found) == 1
                self.talk("" if only else name or str(len(self.talks) + 1), row, messages)

    def talk(self, name: str, row: JsonRow, messages: list[Any]) -> None:
        """A conversation, or the continuation of one that an earlier line holds."""
        hashes = list(_chained(messages))
        known = next((at for at in range(len(hashes) - 1, -1, -1) if hashes[at] in self.ends), -1)
        if known >= 0 and not self.source.document:
            name = self.ends.pop(hashes[known])
        else:
            known = -1
            name = name if name not in self.talks else f"{name}#{len(self.talks) + 1}"
        first = 1 if self.source.document else row.line
        place = enumerate(messages, 1) if self.source.document else ((first, message) for message in messages)
        rows = [(at, message, "") for at, message in place][known + 1 :]
        self.talks.setdefault(name, []).extend(rows)
        if hashes:
            self.ends[hashes[-1]] = name

    def episodes(self) -> Iterator[Episode]:
        for name, rows in self.talks.items():
            steps: list[Step] = []
            for line, message, raw in rows:
                if is_message(message):
                    steps.append(_step(line, message, first=not steps))
                else:
                    self.problems.append(Problem(row=line, reason="not a chat message", raw=raw or repr(message)))
            if steps and not any(isinstance(step, ModelReply) for step in steps):
                # Nobody has answered yet: the list is a request in the making.
                steps.append(ModelReply(row=rows[-1][0], messages=(), response=None))
            yield Episode(name=name, steps=tuple(steps))


def _conversations(value: Any) -> list[tuple[str, list[Any]]]:
    """Every list of messages in a document or a line, with its name where it has one."""
    if isinstance(value, dict):
        held = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        return [(_name(value), held)] if held and is_message(held[0]) else []
    if not isinstance(value, list) or not value:
        return []
    if is_message(value[0]):
        return [("", value)]
    if isinstance(value[0], list) and all(isinstance(turn, list) for turn in value):
        flat = [message for turn in value for message in turn]
        return [("", flat)] if flat and is_message(flat[0]) else []
    return [found for part in value if isinstance(part, dict) for found in _conversations(part)]


def _name(value: dict[str, Any]) -> str:
    names = (value.get("task_id", value.get("id")), value.get("trial"))
    return "/".join(str(name) for name in names if name is not None)


def _chained(messages: list[Any]) -> Iterator[int]:
    at = 0
    for message in messages:
        at = hash((at, repr(message)))
        yield at


def _step(line: int, recorded: dict[str, Any], *, first: bool) -> Step:
    message = chat_message(recorded)
    if recorded["role"] != "assistant" or first:
        # A greeting that stands before everything answers nobody.
        return AddMessages(messages=(message,))
    empty = not (message.get("content") or message.get("tool_calls") or message.get("function_call"))
    return ModelReply(
        row=line,
        messages=() if empty and not message.get("refusal") else (message,),
        response=message,
        model=str(recorded.get("model") or ""),
        usage=_usage(recorded.get("usage")),
        at=parse_time(recorded.get("timestamp", recorded.get("created"))),
    )


def chat_message(recorded: dict[str, Any]) -> Message:
    """The message with the API's own fields; the very object where it has no others."""
    message = {key: part for key, part in recorded.items() if key in _FIELDS}
    calls = message.get("tool_calls")
    if "tool_calls" in message and not (isinstance(calls, list) and calls):
        del message["tool_calls"]
    elif calls and not all(_is_call(call) for call in calls):
        message["tool_calls"] = [_call(call, at) for at, call in enumerate(calls) if isinstance(call, dict)]
    if message.get("content", "") is None and message["role"] != "assistant":
        message["content"] = ""
    if message.get("function_call", ...) is None:
        del message["function_call"]
    return recorded if message == recorded else message


def _is_call(call: Any) -> bool:
    held = call.get("function") if isinstance(call, dict) else None
    return isinstance(held, dict) and isinstance(held.get("arguments"), str) and isinstance(call.get("id"), str)


def _call(call: dict[str, Any], at: int) -> dict[str, Any]:
    held = call.get("function")
    function = held if isinstance(held, dict) else {"name": call.get("name"), "arguments": call.get("arguments")}
    arguments = arguments_of(function.get("arguments"))
    name = str(call.get("id") or f"call_{at}")
    return {"id": name, "type": "function", "function": {"name": str(function.get("name")), "arguments": arguments}}


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    given = usage.get("prompt_tokens")
    if not isinstance(given, int) or not isinstance(cached, int | None):
        return None
    return build_usage(cached, 0, given - (cached or 0), usage.get("completion_tokens"))[0]
