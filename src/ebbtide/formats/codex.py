"""Codex rollout JSONL. A call ends with the token count that its completion reports.

Token counts are written more often than calls are made (a turn's end, a rate limit, a compaction repeat the last): one
that does not raise the running total is no call. An interrupted call has none; the next thing the client says ends it.
"""

from __future__ import annotations

from typing import Any

from ebbtide.core.types import Usage
from ebbtide.formats.recording import Recording
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, parse_time, str_or_empty
from ebbtide.formats.steps import AddMessages, Compact, Episode, Message, ModelReply, Problem, Step

_ROWS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_FROM_MODEL = frozenset(
    {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"}
)
_BOOKKEEPING = frozenset({"internal_chat_message_metadata_passthrough", "metadata"})
"""The client's own notes on an item; not fields of the API."""


def recognises(source: SessionFile) -> bool:
    return any(
        isinstance(row.value, dict)
        and str_or_empty(row.value.get("type")) in _ROWS
        and isinstance(row.value.get("payload"), dict)
        for row in source.rows
    )


def read(source: SessionFile) -> Recording:
    reader = _Reader(source)
    for row in source.rows:
        reader.take(row)
    reader.close(None)
    return Recording(
        path=source.path,
        format="codex",
        wire="openai_responses",
        session=reader.session or source.name,
        episodes=(Episode(steps=tuple(reader.steps), request_fields=reader.head),),
        problems=tuple(reader.problems),
        others=tuple(reader.others),
    )


class _Reader:
    def __init__(self, source: SessionFile) -> None:
        self.problems = list(source.problems)
        self.others: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.session = self.model = ""
        self.head: dict[str, Any] = {}
        self.total: Any = None
        self.answer: list[tuple[JsonRow, Message]] = []
        """The model's items of the call that is under way."""
        self.outputs: list[Message] = []
        """What the client said while it was: results of tools that ran early."""

    def take(self, row: JsonRow) -> None:
        value = row.value
        payload = value.get("payload") if isinstance(value, dict) else None
        if not isinstance(payload, dict):
            self.problems.append(Problem(row=row.line, reason="not a rollout record", raw=row.raw))
        elif value.get("type") == "response_item":
            self.item(row, payload)
        elif value.get("type") == "compacted":
            self.close(None)
            self.steps.append(Compact(messages=self.replacement(payload)))
        elif payload.get("type") == "token_count":
            self.count(row, payload.get("info"))
        else:
            self.others.append(value)
            self.note(value.get("type"), payload)

    def note(self, kind: Any, payload: dict[str, Any]) -> None:
        """What the other records tell about the calls to come."""
        if kind == "turn_context" and isinstance(payload.get("model"), str):
            self.close(None)
            self.model = payload["model"]
        elif payload.get("type") == "turn_aborted":
            self.close(None)
        elif kind == "session_meta" and not self.session:
            self.session = str(payload.get("id") or "")
            base = payload.get("base_instructions", payload.get("instructions"))
            words = base.get("text") if isinstance(base, dict) else base
            self.head = {"instructions": words} if isinstance(words, str) and words else {}

    def item(self, row: JsonRow, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if not isinstance(kind, str) or (kind == "message" and not isinstance(payload.get("content"), list)):
            self.problems.append(Problem(row=row.line, reason="not an item of the Responses API", raw=row.raw))
            return
        item = {key: part for key, part in payload.items() if key not in _BOOKKEEPING}
        if kind in _FROM_MODEL or (kind == "message" and payload.get("role") == "assistant"):
            self.answer.append((row, item))
            return
        if not kind.endswith("_output"):
            self.close(None)
        self.outputs.append(item)
        if not self.answer:
            self.flush()

    def count(self, row: JsonRow, info: Any) -> None:
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        if total is None or total == self.total or not isinstance(last, dict):
            return
        self.total = total
        usage, reason = _usage(last, info.get("model_context_window"))
        if reason:
            self.problems.append(Problem(row=row.line, reason=reason, raw=row.raw))
        self.close(usage)

    def close(self, usage: Usage | None) -> None:
        """The call is over; what the client said meanwhile follows it."""
        if self.answer:
            row = self.answer[0][0]
            items = [item for _, item in self.answer]
            self.steps.append(
                ModelReply(
                    row=row.line,
                    messages=_sendable(items),
                    response={"output": items},
                    model=self.model,
                    usage=usage,
                    at=parse_time(row.value.get("timestamp")),
                )
            )
            self.answer = []
        self.flush()

    def flush(self) -> None:
        if self.outputs:
            self.steps.append(AddMessages(messages=tuple(self.outputs)))
            self.outputs = []

    def replacement(self, payload: dict[str, Any]) -> tuple[Message, ...]:
        """The history after a compaction. Older versions recorded the summary alone and kept the user's own words."""
        history = payload.get("replacement_history")
        if isinstance(history, list):
            items = [item for item in history if isinstance(item, dict) and isinstance(item.get("type"), str)]
            return tuple({key: part for key, part in item.items() if key not in _BOOKKEEPING} for item in items)
        said = [item for step in self.steps if isinstance(step, AddMessages) for item in step.messages]
        kept = [item for item in said if item.get("type") == "message"]
        words = {"type": "input_text", "text": str(payload.get("message") or "(no summary was recorded)")}
        return (*kept, {"type": "message", "role": "user", "content": [words]})


def _usage(last: dict[str, Any], window: Any) -> tuple[Usage | None, str]:
    """Codex counts cached tokens within the input."""
    given, cached = last.get("input_tokens"), last.get("cached_input_tokens") or 0
    if isinstance(given, int) and isinstance(window, int) and 0 < window < given:
        return None, f"the usage claims {given} tokens in a window of {window}"
    if not isinstance(given, int) or not isinstance(cached, int):
        return None, "the usage is not made of numbers"
    return build_usage(cached, 0, given - cached, last.get("output_tokens"))


def _sendable(items: list[Message]) -> tuple[Message, ...]:
    """Reasoning goes back encrypted or not at all; without it, what followed must not claim to belong to it."""
    said: list[Message] = []
    bare = False
    for item in items:
        if item["type"] == "reasoning":
            bare = not item.get("encrypted_content")
            if not bare:
                said.append(item)
        elif bare and "id" in item:
            said.append({key: part for key, part in item.items() if key != "id"})
        else:
            said.append(item)
    return tuple(said)
