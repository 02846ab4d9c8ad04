"""Replies of OpenAI Responses: responses, streams, merged responses and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.types import Usage
from ebbtide.wire.blocks import as_mapping, as_text
from ebbtide.wire.protocol import AnswerParts, Json, ReadResponse, RecallBatch, RecallCall
from ebbtide.wire.replies import (
    NumberedMerger,
    as_dicts,
    is_recall_call,
    merge_openai_usage,
    openai_error_body,
    openai_usage,
    read_usage,
)

usage, error_body = read_usage, openai_error_body


_END_EVENTS = ("response.completed", "response.incomplete", "response.failed")


def as_messages(response: Mapping[str, Any]) -> list[Any]:
    return as_dicts(response.get("output"))


def from_recording(reply: Mapping[str, Any], usage: Usage | None) -> dict[str, Any]:
    return {**reply, **openai_usage(usage, "input", "output")}


def read_answer(response: Mapping[str, Any]) -> AnswerParts:
    items = as_dicts(response.get("output"))
    parts = [part for item in items if item.get("type") == "message" for part in as_dicts(item.get("content"))]
    texts = [as_text(part.get("text")) for part in parts if part.get("type") == "output_text"]
    has_calls = any(as_text(item.get("type")).endswith("_call") for item in items)
    stop_reason = as_text(response.get("status"))
    if stop_reason == "incomplete":
        stop_reason = as_text(as_mapping(response.get("incomplete_details")).get("reason"))
    return AnswerParts(texts, stop_reason, has_calls, any(part.get("type") == "refusal" for part in parts))


def error_event(error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "error", {"type": "error", "error": error}


class _StreamAssembler:
    """The last event carries the whole response."""

    def __init__(self) -> None:
        self.is_complete = False
        self._response: dict[str, Any] = {}

    def add(self, event: dict[str, Any]) -> str:
        kind = event.get("type")
        if kind in _END_EVENTS:
            self._response = dict(as_mapping(event.get("response")))
            self.is_complete = kind != "response.failed"
        return as_text(event.get("delta")) if kind == "response.output_text.delta" else ""

    def response(self) -> dict[str, Any]:
        return self._response


class _ResponseMerger(NumberedMerger):
    def __init__(self) -> None:
        super().__init__()
        self._next_number = 0
        self._ended: list[Json] = []

    def convert(self, event: Json) -> Json | None:
        if self.is_end(event):
            self._ended.append(as_mapping(event.get("response")))
            if not self._responses and not self.is_hiding:
                return event
            return {**self._count_events(event, 0), "response": self.merge(self._ended)}
        if self._responses and isinstance(event.get("response"), dict):
            return None
        started = as_mapping(event.get("item")) if event.get("type") == "response.output_item.added" else None
        visible = self._renumber(event, "output_index", started)
        return visible and self._count_events(visible, 1)

    def _count_events(self, event: Json, step: int) -> Json:
        number = event.get("sequence_number")
        if not isinstance(number, int):
            return event
        if not self._responses and not self.is_hiding:
            self._next_number = number + step
            return event
        new_number, self._next_number = self._next_number, self._next_number + step
        return event if new_number == number else {**event, "sequence_number": new_number}

    def is_end(self, event: Json) -> bool:
        return event.get("type") in _END_EVENTS

    def read(self, response: Json) -> ReadResponse:
        """Each call keeps its place: reasoning and what it led to must stay complete and in order (R3, R4)."""
        recalls, visible, has_client_calls = list[RecallBatch](), list[Any](), False
        for item in as_dicts(response.get("output")):
            if not is_recall_call(item):
                visible = [*visible, item]
                is_call = as_text(item.get("type")).endswith("_call") and "call_id" in item
                has_client_calls = has_client_calls or is_call
            elif recalls and len(recalls[-1].visible) == len(visible):
                recalls[-1].calls.append(_recall_call(item))
            else:
                recalls.append(RecallBatch([_recall_call(item)], visible))
        is_open = response.get("status") == "completed"
        return ReadResponse(recalls if is_open else [], has_client_calls, hidden_text="")

    def visible(self, responses: Sequence[Json]) -> list[Any]:
        items = [item for response in responses for item in as_dicts(response.get("output"))]
        return [item for item in items if not is_recall_call(item)]

    def merge(self, responses: Sequence[Json]) -> Json:
        usage = merge_openai_usage(responses, "input", "output")
        return {**responses[-1], "output": self.visible(responses), "usage": usage}


def _recall_call(item: Json) -> RecallCall:
    return RecallCall(as_text(item.get("call_id")), item["name"], as_text(item.get("arguments")) or "{}", item)


stream_assembler, response_merger = _StreamAssembler, _ResponseMerger
