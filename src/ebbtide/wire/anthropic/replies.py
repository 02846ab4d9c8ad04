"""Replies of the Anthropic Messages API: responses, streams, merged responses and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.types import Usage
from ebbtide.wire.blocks import as_mapping, as_text, dumps
from ebbtide.wire.protocol import AnswerParts, Json, ReadResponse, RecallBatch, RecallCall
from ebbtide.wire.replies import MAX_REPLY, NumberedMerger, as_dicts, as_int, is_recall_call, read_usage, sum_output

usage = read_usage


_DELTA_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


def as_messages(response: Mapping[str, Any]) -> list[Any]:
    return [{"role": "assistant", "content": response.get("content") or []}]


def from_recording(reply: Mapping[str, Any], usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return dict(reply)
    counts = {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_1h,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
    }
    return {**reply, "usage": counts}


def read_answer(response: Mapping[str, Any]) -> AnswerParts:
    blocks = as_dicts(response.get("content"))
    texts = [as_text(block.get("text")) for block in blocks if block.get("type") == "text"]
    has_calls = any(block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use") for block in blocks)
    return AnswerParts(texts, as_text(response.get("stop_reason")), has_calls, is_refusal=False)


def error_body(reason: str, *, is_overloaded: bool) -> dict[str, Any]:
    kind = "overloaded_error" if is_overloaded else "invalid_request_error"
    return {"type": "error", "error": {"type": kind, "message": reason}}


def error_event(error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "error", {"type": "error", "error": error}


class _StreamAssembler:
    def __init__(self) -> None:
        self.is_complete = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._size, self._is_broken = 0, False

    def add(self, event: dict[str, Any]) -> str:
        kind = event.get("type")
        if kind == "message_start":
            self._message = dict(as_mapping(event.get("message")))
            self._update_usage(self._message)
        elif kind == "content_block_start":
            self._blocks[as_int(event.get("index"))] = dict(as_mapping(event.get("content_block")))
        elif kind == "content_block_delta":
            delta = as_mapping(event.get("delta"))
            self._add_delta(as_int(event.get("index")), delta)
            return as_text(delta.get("text"))
        elif kind == "message_delta":
            self._message.update(as_mapping(event.get("delta")))
            self._update_usage(event)
        elif kind == "message_stop":
            self.is_complete = not self._is_broken and bool(self._message)
        elif kind == "error":
            self._is_broken = True
        return ""

    def _add_delta(self, index: int, delta: Json) -> None:
        field = _DELTA_FIELDS.get(as_text(delta.get("type")), "")
        piece = delta.get(field)
        if not isinstance(piece, str) or index not in self._blocks:
            self._is_broken = True
            return
        self._size += len(piece)
        if self._size > MAX_REPLY:
            self._pieces, self._is_broken = {}, True
        else:
            self._pieces.setdefault((index, field), []).append(piece)

    def _update_usage(self, source: Json) -> None:
        self._usage.update({k: v for k, v in as_mapping(source.get("usage")).items() if v is not None})

    def response(self) -> dict[str, Any]:
        for (index, field), pieces in self._pieces.items():
            text, block = "".join(pieces), self._blocks[index]
            if field == "partial_json":
                block["input"] = _parse_input(text) if text.strip() else block.get("input", {})
            else:
                block[field] = as_text(block.get(field)) + text
        self._pieces = {}
        content = [self._blocks[index] for index in sorted(self._blocks)]
        return {**self._message, "content": content, "usage": self._usage}


def _parse_input(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


class _ResponseMerger(NumberedMerger):
    def __init__(self) -> None:
        super().__init__()
        self._earlier_output = self._output = 0
        self._input: Json = {}
        self._has_client_calls = False

    def start_next(self) -> None:
        super().start_next()
        self._earlier_output, self._output = self._earlier_output + self._output, 0
        self._has_client_calls = False

    def convert(self, event: Json) -> Json | None:
        kind = event.get("type")
        if kind == "message_start":
            self._input = as_mapping(as_mapping(event.get("message")).get("usage"))
            return None if self._responses else event
        if kind == "message_delta":
            return self._convert_end(event)
        started = as_mapping(event.get("content_block")) if kind == "content_block_start" else None
        if started and started.get("type") == "tool_use" and not is_recall_call(started):
            self._has_client_calls = True
        return self._renumber(event, "index", started)

    def _convert_end(self, event: Json) -> Json:
        usage, delta = as_mapping(event.get("usage")), as_mapping(event.get("delta"))
        self._output = as_int(usage.get("output_tokens"))
        if self._responses:
            reported = {name: value for name, value in usage.items() if value is not None}
            output = self._earlier_output + self._output
            event = {**event, "usage": {**self._input, **reported, "output_tokens": output}}
        if self.is_hiding and not self._has_client_calls and delta.get("stop_reason") == "tool_use":
            event = {**event, "delta": {**delta, "stop_reason": "end_turn"}}
        return event

    def is_end(self, event: Json) -> bool:
        return event.get("type") in ("message_delta", "message_stop")

    def read(self, response: Json) -> ReadResponse:
        content = as_dicts(response.get("content"))
        calls = [_recall_call(block) for block in content if is_recall_call(block)]
        has_client_calls = any(block.get("type") == "tool_use" and not is_recall_call(block) for block in content)
        is_open = bool(calls) and response.get("stop_reason") == "tool_use"
        recalls = [RecallBatch(calls, self.visible([response]))] if is_open else []
        return ReadResponse(recalls, has_client_calls, hidden_text="")

    def visible(self, responses: Sequence[Json]) -> list[Any]:
        # Clients drop empty texts, and providers refuse them.
        content = [
            block for block in self._visible_blocks(responses) if block.get("type") != "text" or block.get("text")
        ]
        return [{"role": "assistant", "content": content}] if content else []

    def _visible_blocks(self, responses: Sequence[Json]) -> list[Any]:
        blocks = [block for response in responses for block in as_dicts(response.get("content"))]
        return [block for block in blocks if not is_recall_call(block)]

    def merge(self, responses: Sequence[Json]) -> Json:
        last = responses[-1]
        merged = {**last, "content": self._visible_blocks(responses), "usage": sum_output(responses, "output_tokens")}
        if last.get("stop_reason") == "tool_use" and not self.read(last).has_client_calls:
            merged["stop_reason"] = "end_turn"
        return merged


def _recall_call(block: Json) -> RecallCall:
    return RecallCall(as_text(block.get("id")), block["name"], dumps(block.get("input") or {}), block)


stream_assembler, response_merger = _StreamAssembler, _ResponseMerger
