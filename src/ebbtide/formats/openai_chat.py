"""Reads lists of chat messages: one conversation, a list of them, or one a line. Each assistant message is a call.

A line that begins with all messages of an earlier line is the same conversation, written again: only the rest is new.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ebbtide.core.types import Usage
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, dict_or_empty, parse_time, str_or_empty
from ebbtide.formats.steps import AddMessages, Episode, Message, ModelReply, Problem, Step

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_LIST_KEYS = ("messages", "traj", "trajectory", "conversation", "conversations")
_FIELDS = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content"}
)


def recognises(file: SessionFile) -> bool:
    return any(_find_conversations(row.value) or is_message(row.value) for row in file.rows)


def is_message(value: Any) -> bool:
    if not isinstance(value, dict) or str_or_empty(value.get("role")) not in _ROLES:
        return False
    return "content" in value or "tool_calls" in value


def read(file: SessionFile) -> Recording:
    reader = _Reader(file)
    if not file.is_document and any(is_message(row.value) for row in file.rows):
        reader.conversations[""] = [(row.line, row.value, row.raw) for row in file.rows]
    else:
        reader.read_conversations()
    return reader.recording("openai-chat", "openai_chat", "", reader.build_episodes())


class _Reader(SessionReader):
    def __init__(self, file: SessionFile) -> None:
        super().__init__(file)
        self.conversations: dict[str, list[tuple[int, Any, str]]] = {}
        """Line, message and raw text of each message, by conversation."""
        self.name_by_hash: dict[int, str] = {}
        """Name of the conversation whose messages so far have this hash."""

    def read_conversations(self) -> None:
        for row in self.file.rows:
            conversations = _find_conversations(row.value)
            if not conversations:
                self.report(row, "no list of messages")
            for name, messages in conversations:
                is_only = self.file.is_document and len(conversations) == 1
                self.add("" if is_only else name or str(len(self.conversations) + 1), row, messages)

    def add(self, name: str, row: JsonRow, messages: list[Any]) -> None:
        """Add a conversation, or continue the one that an earlier line holds."""
        is_document = self.file.is_document
        hashes = list(_prefix_hashes(messages))
        known = next((n for n in range(len(hashes), 0, -1) if hashes[n - 1] in self.name_by_hash), 0)
        if known and not is_document:
            name = self.name_by_hash.pop(hashes[known - 1])
        else:
            known = 0
            name = name if name not in self.conversations else f"{name}#{len(self.conversations) + 1}"
        rows = [(n if is_document else row.line, message, "") for n, message in enumerate(messages, 1)]
        self.conversations.setdefault(name, []).extend(rows[known:])
        if hashes:
            self.name_by_hash[hashes[-1]] = name

    def build_episodes(self) -> list[Episode]:
        return [Episode(name=name, steps=tuple(self.build_steps(rows))) for name, rows in self.conversations.items()]

    def build_steps(self, rows: list[tuple[int, Any, str]]) -> list[Step]:
        steps: list[Step] = []
        for line, message, raw in rows:
            if is_message(message):
                steps.append(_build_step(line, message, is_first=not steps))
            else:
                self.problems.append(Problem(row=line, reason="not a chat message", raw=raw or repr(message)))
        if steps and not any(isinstance(step, ModelReply) for step in steps):
            # There is no reply yet: the list is a request that was not sent.
            steps.append(ModelReply(row=rows[-1][0], messages=(), response=None))
        return steps


def _find_conversations(value: Any) -> list[tuple[str, list[Any]]]:
    """Return every list of messages in a document or a line, with its name if it has one."""
    if isinstance(value, dict):
        messages = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), None)
        return [(_conversation_name(value), messages)] if messages and is_message(messages[0]) else []
    if not isinstance(value, list) or not value:
        return []
    if is_message(value[0]):
        return [("", value)]
    if isinstance(value[0], list) and all(isinstance(turn, list) for turn in value):
        messages = [message for turn in value for message in turn]
        return [("", messages)] if messages and is_message(messages[0]) else []
    return [conversation for part in value if isinstance(part, dict) for conversation in _find_conversations(part)]


def _conversation_name(value: dict[str, Any]) -> str:
    names = (value.get("task_id", value.get("id")), value.get("trial"))
    return "/".join(str(name) for name in names if name is not None)


def _prefix_hashes(messages: list[Any]) -> Iterator[int]:
    prefix = 0
    for message in messages:
        prefix = hash((prefix, repr(message)))
        yield prefix


def _build_step(line: int, recorded: dict[str, Any], *, is_first: bool) -> Step:
    message = chat_message(recorded)
    if recorded["role"] != "assistant" or is_first:
        # An assistant message before all others is a greeting, not a reply.
        return AddMessages(messages=(message,))
    has_content = any(message.get(key) for key in ("content", "tool_calls", "function_call", "refusal"))
    return ModelReply(
        row=line,
        messages=(message,) if has_content else (),
        response=message,
        model=str(recorded.get("model") or ""),
        usage=_read_usage(dict_or_empty(recorded.get("usage"))),
        at=parse_time(recorded.get("timestamp", recorded.get("created"))),
    )


def chat_message(recorded: dict[str, Any]) -> Message:
    """Return the message with only the API's own fields; the same object if it has no others."""
    message = {key: value for key, value in recorded.items() if key in _FIELDS}
    calls = message.get("tool_calls")
    if "tool_calls" in message and not (isinstance(calls, list) and calls):
        del message["tool_calls"]
    elif calls and not all(_is_call(call) for call in calls):
        message["tool_calls"] = [_convert_call(call, n) for n, call in enumerate(calls) if isinstance(call, dict)]
    if message.get("content", "") is None and message["role"] != "assistant":
        message["content"] = ""
    if message.get("function_call", ...) is None:
        del message["function_call"]
    return recorded if message == recorded else message


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("arguments"), str) and isinstance(call.get("id"), str)


def _convert_call(call: dict[str, Any], index: int) -> dict[str, Any]:
    function = call["function"] if isinstance(call.get("function"), dict) else call
    arguments = {"name": str(function.get("name")), "arguments": _arguments_text(function.get("arguments"))}
    return {"id": str(call.get("id") or f"call_{index}"), "type": "function", "function": arguments}


def _read_usage(usage: dict[str, Any]) -> Usage | None:
    cached = dict_or_empty(usage.get("prompt_tokens_details")).get("cached_tokens")
    prompt = usage.get("prompt_tokens")
    if not isinstance(prompt, int) or not isinstance(cached, int | None):
        return None
    return build_usage(cached, 0, prompt - (cached or 0), usage.get("completion_tokens"))[0]


def _arguments_text(value: Any) -> str:
    """Return a call's arguments as the string that the API wants, whatever was recorded."""
    return value if isinstance(value, str) else json.dumps(value if value is not None else {}, ensure_ascii=False)
