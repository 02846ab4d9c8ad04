"""Replies of OpenAI Chat Completions: responses, streams, merged responses and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.core.types import Usage
from ebbtide.wire.blocks import as_mapping, as_text
from ebbtide.wire.protocol import AnswerParts, Json, ReadResponse, RecallBatch, RecallCall
from ebbtide.wire.replies import (
    MAX_REPLY,
    NumberedMerger,
    as_dicts,
    as_int,
    merge_openai_usage,
    openai_error_body,
    openai_usage,
    read_usage,
)

usage, error_body = read_usage, openai_error_body


def as_messages(response: Mapping[str, Any]) -> list[Any]:
    choices = response.get("choices")
    message = as_mapping(choices[0]).get("message") if isinstance(choices, list) and choices else None
    return [message] if isinstance(message, dict) else []


def from_recording(reply: Mapping[str, Any], usage: Usage | None) -> dict[str, Any]:
    return {"choices": [{"message": reply}], **openai_usage(usage, "prompt", "completion")}


def read_answer(response: Mapping[str, Any]) -> AnswerParts:
    choice = next(iter(as_dicts(response.get("choices"))), {})
    message = as_mapping(choice.get("message"))
    content = message.get("content")
    texts = [as_text(part.get("text")) for part in as_dicts(content) if part.get("type", "text") == "text"]
    has_calls = bool(message.get("tool_calls")) or message.get("function_call") is not None
    return AnswerParts(
        texts or [content if isinstance(content, str) else ""],
        as_text(choice.get("finish_reason")),
        has_calls,
        is_refusal=bool(message.get("refusal")),
    )


def error_event(error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "", {"error": error}


class _StreamAssembler:
    def __init__(self) -> None:
        self.is_complete = False
        self._head: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Any = None
        self._finish_reason: Any = None
        self._size, self._is_broken = 0, False

    def add(self, event: dict[str, Any]) -> str:
        text = ""
        self._head = self._head or {k: event.get(k) for k in ("id", "model")}
        if isinstance(event.get("usage"), dict):
            self._usage = event["usage"]
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                self._is_broken = True  # several answers: we cannot know which one the client keeps
                continue
            delta = as_mapping(choice.get("delta"))
            self._add_delta(delta)
            text += as_text(delta.get("content"))
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        self._is_broken = self._is_broken or bool(event.get("error"))
        self.is_complete = bool(self._finish_reason) and not self._is_broken
        return text

    def _add_delta(self, delta: Json) -> None:
        for field, piece in delta.items():
            if isinstance(piece, str) and field != "role":
                self._size += len(piece)
                self._pieces.setdefault(field, []).append(piece)
        calls = delta.get("tool_calls")
        for n, call in enumerate(calls if isinstance(calls, list) else ()):
            self._add_call(as_mapping(call), n)
        if self._size > MAX_REPLY:
            self._pieces, self._is_broken = {}, True

    def _add_call(self, delta: Json, place: int) -> None:
        """Some servers leave out the index of a call: then its `place` in the event counts."""
        index = as_int(delta.get("index", place))
        call = self._calls.setdefault(index, {"function": {"name": "", "arguments": []}})
        call.update({k: v for k, v in delta.items() if k in ("id", "type") and v})
        function = as_mapping(delta.get("function"))
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        piece = as_text(function.get("arguments"))
        self._size += len(piece)
        call["function"]["arguments"].append(piece)

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {field: "".join(pieces) for field, pieces in self._pieces.items()}
        if self._calls:
            message["tool_calls"] = [_join_call(self._calls[index]) for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head, "choices": [choice], "usage": self._usage}


def _join_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["function"]["name"], "arguments": "".join(call["function"]["arguments"])}
    return {"id": call.get("id", ""), "type": call.get("type", "function"), "function": function}


class _ResponseMerger(NumberedMerger):
    """Text has one place in a message here, so text before a recall call cannot be parted from what follows it.

    The hidden message says it too, and the client's own message says all of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._id = ""
        self._earlier_output = self._output = 0

    def start_next(self) -> None:
        super().start_next()
        self._earlier_output, self._output = self._earlier_output + self._output, 0

    def convert(self, event: Json) -> Json | None:
        converted = event
        self._id = self._id or as_text(event.get("id"))
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._output = as_int(usage.get("completion_tokens"))
            converted = {**converted, "usage": self._total_usage(usage)} if self._responses else converted
        choices = as_dicts(event.get("choices"))
        if choices:
            choice = self._convert_choice(choices[0])
            if choice is None and not isinstance(usage, dict):
                return None
            if choice is not choices[0]:
                converted = {**converted, "choices": [choice] if choice else []}
        return {**converted, "id": self._id} if self._responses and "id" in converted else converted

    def _total_usage(self, usage: Json) -> Json:
        output = self._earlier_output + self._output
        return {**usage, "completion_tokens": output, "total_tokens": as_int(usage.get("prompt_tokens")) + output}

    def _convert_choice(self, choice: Json) -> Json | None:
        delta = as_mapping(choice.get("delta"))
        converted = {key: value for key, value in delta.items() if not (self._responses and key == "role")}
        calls = as_dicts(delta.get("tool_calls"))
        if calls:
            visible = [call for call in map(self._convert_call, calls) if call is not None]
            converted = {key: value for key, value in converted.items() if key != "tool_calls"}
            converted |= {"tool_calls": visible} if visible else {}
        finish_reason = choice.get("finish_reason")
        if self.is_hiding and not self._visible and finish_reason == "tool_calls":
            choice, finish_reason = {**choice, "finish_reason": "stop"}, "stop"
        if converted == delta:
            return choice
        return {**choice, "delta": converted} if converted or finish_reason else None

    def _convert_call(self, call: Json) -> Json | None:
        index = as_int(call.get("index"))
        if _is_recall_call(call):
            self._hidden.add(index)
            self.is_hiding = True
        if index in self._hidden:
            return None
        number = self._visible.setdefault(index, len(self._visible))
        return call if number == index else {**call, "index": number}

    def is_end(self, event: Json) -> bool:
        choices = as_dicts(event.get("choices"))
        is_finished = bool(choices) and bool(choices[0].get("finish_reason"))
        return not event or is_finished or (not choices and isinstance(event.get("usage"), dict))

    def read(self, response: Json) -> ReadResponse:
        choice = as_mapping(next(iter(as_dicts(response.get("choices"))), {}))
        message = as_mapping(choice.get("message"))
        calls = as_dicts(message.get("tool_calls"))
        recall_calls = [_recall_call(call) for call in calls if _is_recall_call(call)]
        has_client_calls = len(recall_calls) < len(calls)
        is_open = bool(recall_calls) and choice.get("finish_reason") in ("tool_calls", "stop")
        recalls = [RecallBatch(recall_calls, self.visible([response]))] if is_open else []
        text = message.get("content") if is_open and not has_client_calls else ""
        return ReadResponse(recalls, has_client_calls, hidden_text=as_text(text))

    def visible(self, responses: Sequence[Json]) -> list[Any]:
        """Only if the client must answer calls: otherwise the hidden messages hold everything."""
        message = self._merge_messages(responses)
        return [message] if message.get("tool_calls") else []

    def _merge_messages(self, responses: Sequence[Json]) -> dict[str, Any]:
        messages = [as_mapping(as_dicts(response.get("choices"))[0].get("message")) for response in responses]
        texts = [message["content"] for message in messages if isinstance(message.get("content"), str)]
        calls = [call for call in as_dicts(messages[-1].get("tool_calls")) if not _is_recall_call(call)]
        rest = {key: value for key, value in messages[-1].items() if key != "tool_calls"}
        return {**rest, "content": "".join(texts) if texts else None, **({"tool_calls": calls} if calls else {})}

    def merge(self, responses: Sequence[Json]) -> Json:
        last = responses[-1]
        choice = {**as_dicts(last.get("choices"))[0], "message": self._merge_messages(responses)}
        if choice.get("finish_reason") == "tool_calls" and not choice["message"].get("tool_calls"):
            choice["finish_reason"] = "stop"
        return {**last, "choices": [choice], "usage": merge_openai_usage(responses, "prompt", "completion")}


def _is_recall_call(call: Json) -> bool:
    return as_mapping(call.get("function")).get("name") in RECALL_TOOLS


def _recall_call(call: Json) -> RecallCall:
    function = as_mapping(call.get("function"))
    return RecallCall(as_text(call.get("id")), function["name"], as_text(function.get("arguments")) or "{}", call)


stream_assembler, response_merger = _StreamAssembler, _ResponseMerger
