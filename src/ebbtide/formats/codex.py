"""Reads Codex rollouts (JSONL). A model call ends with the token count of its completion.

Token counts are also written at other times (the end of a turn, a rate limit, a compaction): a count that does not
raise the running total is no call. An interrupted call has no count; the client's next message ends it.
"""

from __future__ import annotations

from typing import Any

from ebbtide.core.types import Usage
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, dict_or_empty, parse_time, str_or_empty
from ebbtide.formats.steps import AddMessages, Compact, Episode, Message, ModelReply, Step

_ROW_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_FROM_MODEL = frozenset(
    {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"}
)
_CLIENT_FIELDS = frozenset({"internal_chat_message_metadata_passthrough", "metadata"})
"""The client's own notes on an item; not fields of the API."""


def recognises(file: SessionFile) -> bool:
    return any(
        isinstance(row.value, dict)
        and str_or_empty(row.value.get("type")) in _ROW_TYPES
        and isinstance(row.value.get("payload"), dict)
        for row in file.rows
    )


def read(file: SessionFile) -> Recording:
    reader = _Reader(file)
    for row in file.rows:
        reader.read_row(row)
    reader.end_call()
    episode = Episode(steps=tuple(reader.steps), request_fields=reader.request_fields)
    return reader.recording("codex", "openai_responses", reader.session, [episode])


class _Reader(SessionReader):
    def __init__(self, file: SessionFile) -> None:
        super().__init__(file)
        self.steps: list[Step] = []
        self.session = self.model = ""
        self.request_fields: dict[str, Any] = {}
        self.total: Any = None
        """The running total of tokens at the last call."""
        self.reply: list[tuple[JsonRow, Message]] = []
        """The model's items of the current call."""
        self.outputs: list[Message] = []
        """What the client added during the current call: results of tools that ran early."""

    def read_row(self, row: JsonRow) -> None:
        value = row.value
        payload = value.get("payload") if isinstance(value, dict) else None
        if not isinstance(payload, dict):
            self.report(row, "not a rollout record")
        elif value.get("type") == "response_item":
            self.read_item(row, payload)
        elif value.get("type") == "compacted":
            self.end_call()
            self.steps.append(Compact(messages=self.compacted_history(payload)))
        elif payload.get("type") == "token_count":
            self.read_count(row, dict_or_empty(payload.get("info")))
        else:
            self.others.append(value)
            self.read_settings(value.get("type"), payload)

    def read_settings(self, kind: Any, payload: dict[str, Any]) -> None:
        """Read what other records say about the calls that follow."""
        if kind == "turn_context" and isinstance(payload.get("model"), str):
            self.end_call()
            self.model = payload["model"]
        elif payload.get("type") == "turn_aborted":
            self.end_call()
        elif kind == "session_meta" and not self.session:
            self.session = str(payload.get("id") or "")
            base = payload.get("base_instructions", payload.get("instructions"))
            text = str_or_empty(base.get("text") if isinstance(base, dict) else base)
            self.request_fields = {"instructions": text} if text else {}

    def read_item(self, row: JsonRow, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if not isinstance(kind, str) or (kind == "message" and not isinstance(payload.get("content"), list)):
            self.report(row, "not an item of the Responses API")
            return
        item = _api_item(payload)
        if kind in _FROM_MODEL or (kind == "message" and payload.get("role") == "assistant"):
            self.reply.append((row, item))
            return
        if not kind.endswith("_output"):
            self.end_call()
        self.outputs.append(item)
        if not self.reply:
            self.add_outputs()

    def read_count(self, row: JsonRow, info: dict[str, Any]) -> None:
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        if total is None or total == self.total or not isinstance(last, dict):
            return
        self.total = total
        usage, reason = _read_usage(last, info.get("model_context_window"))
        self.report(row, reason)
        self.end_call(usage)

    def end_call(self, usage: Usage | None = None) -> None:
        """Add the current call, and then what the client added meanwhile."""
        if self.reply:
            row = self.reply[0][0]
            items = [item for _, item in self.reply]
            self.steps.append(
                ModelReply(
                    row=row.line,
                    messages=_sendable_items(items),
                    response={"output": items},
                    model=self.model,
                    usage=usage,
                    at=parse_time(row.value.get("timestamp")),
                )
            )
            self.reply = []
        self.add_outputs()

    def add_outputs(self) -> None:
        if self.outputs:
            self.steps.append(AddMessages(messages=tuple(self.outputs)))
            self.outputs = []

    def compacted_history(self, payload: dict[str, Any]) -> tuple[Message, ...]:
        """Return the history after a compaction. Old versions recorded only the summary, and kept user messages."""
        history = payload.get("replacement_history")
        if isinstance(history, list):
            items = [item for item in history if isinstance(item, dict) and isinstance(item.get("type"), str)]
            return tuple(map(_api_item, items))
        added = [item for step in self.steps if isinstance(step, AddMessages) for item in step.messages]
        kept = [item for item in added if item.get("type") == "message"]
        summary = {"type": "input_text", "text": str(payload.get("message") or "(no summary was recorded)")}
        return (*kept, {"type": "message", "role": "user", "content": [summary]})


def _api_item(recorded: dict[str, Any]) -> Message:
    return {key: value for key, value in recorded.items() if key not in _CLIENT_FIELDS}


def _read_usage(last: dict[str, Any], window: Any) -> tuple[Usage | None, str]:
    """Codex counts cached tokens as part of the input."""
    total, cached = last.get("input_tokens"), last.get("cached_input_tokens") or 0
    if isinstance(total, int) and isinstance(window, int) and 0 < window < total:
        return None, f"the usage claims {total} tokens in a window of {window}"
    if not isinstance(total, int) or not isinstance(cached, int):
        return None, "the usage is not made of numbers"
    return build_usage(cached, 0, total - cached, last.get("output_tokens"))


def _sendable_items(items: list[Message]) -> tuple[Message, ...]:
    """Leave out reasoning that is not encrypted. What followed it must then not have an id that belongs to it."""
    sendable: list[Message] = []
    drop_id = False
    for item in items:
        if item["type"] == "reasoning":
            drop_id = not item.get("encrypted_content")
            if not drop_id:
                sendable.append(item)
        elif drop_id and "id" in item:
            sendable.append({key: value for key, value in item.items() if key != "id"})
        else:
            sendable.append(item)
    return tuple(sendable)
