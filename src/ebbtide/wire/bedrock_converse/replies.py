"""Replies of the Converse API: responses, streams, merged responses and errors.

An event of a stream is an object with one field, its kind: `{"messageStart": {...}}`, as boto3 gives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.core.types import Usage
from ebbtide.wire.bedrock_converse.blocks import blocks_of, field
from ebbtide.wire.blocks import as_mapping, as_text, dumps
from ebbtide.wire.protocol import AnswerParts, Json, ReadResponse, RecallBatch, RecallCall
from ebbtide.wire.replies import MAX_REPLY, NumberedMerger, as_dicts, as_int

_INDEX = "contentBlockIndex"
_REFUSALS = frozenset(("guardrail_intervened", "content_filtered"))
_REASONING_FIELDS = ("text", "signature", "redactedContent")


def usage(response: Mapping[str, Any]) -> Usage | None:
    """`inputTokens` are those that were neither read from the cache nor written to it."""
    counts = response.get("usage")
    if not isinstance(counts, dict) or not ("inputTokens" in counts or "outputTokens" in counts):
        return None
    written = _count(counts, "cacheWriteInputTokens")
    details = as_dicts(counts.get("cacheDetails"))
    for_an_hour = sum(_count(detail, "inputTokens") for detail in details if detail.get("ttl") == "1h")
    return Usage(
        input=_count(counts, "inputTokens"),
        cache_read=_count(counts, "cacheReadInputTokens"),
        cache_write=written,
        output=_count(counts, "outputTokens"),
        cache_write_1h=min(written, for_an_hour),
    )


def _count(counts: Json, name: str) -> int:
    return max(0, as_int(counts.get(name)))


def _usage_field(usage: Usage) -> dict[str, Any]:
    return {
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "totalTokens": usage.total,
        "cacheReadInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_write,
    }


def _content(response: Json) -> list[Any]:
    return blocks_of(as_mapping(response.get("output")).get("message"))


def as_messages(response: Mapping[str, Any]) -> list[Any]:
    content = _content(response)
    return [{"role": "assistant", "content": content}] if content else []


def from_recording(reply: Mapping[str, Any], usage: Usage | None) -> dict[str, Any]:
    response: dict[str, Any] = {"output": {"message": reply}, "stopReason": "end_turn"}
    return response if usage is None else {**response, "usage": _usage_field(usage)}


def read_answer(response: Mapping[str, Any]) -> AnswerParts:
    blocks = as_dicts(_content(response))
    texts = [as_text(block["text"]) for block in blocks if "text" in block]
    reason = as_text(response.get("stopReason"))
    has_calls = any("toolUse" in block for block in blocks)
    is_refusal = reason in _REFUSALS
    return AnswerParts(texts, "refusal" if is_refusal else reason, has_calls, is_refusal)


def error_body(reason: str, *, is_overloaded: bool) -> dict[str, Any]:
    kind = "ServiceUnavailableException" if is_overloaded else "ValidationException"
    return {"__type": kind, "message": reason}


def error_event(error: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return "", {"modelStreamErrorException": {"message": as_text(error.get("message")), **error}}


class _StreamAssembler:
    def __init__(self) -> None:
        self.is_complete = False
        self._role = "assistant"
        self._end: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        """Texts by block and field, joined at the end."""
        self._size, self._is_broken = 0, False

    def add(self, event: dict[str, Any]) -> str:
        for kind, value in event.items():
            fields = as_mapping(value)
            if kind == "messageStart":
                self._role = as_text(fields.get("role")) or self._role
            elif kind == "contentBlockStart":
                self._blocks[as_int(fields.get(_INDEX))] = dict(as_mapping(fields.get("start")))
            elif kind == "contentBlockDelta":
                return self._add_delta(as_int(fields.get(_INDEX)), as_mapping(fields.get("delta")))
            elif kind == "messageStop":
                self._end |= fields
                self.is_complete = not self._is_broken
            elif kind == "metadata":
                self._end |= fields
            elif kind.endswith("Exception"):
                self._is_broken, self.is_complete = True, False
        return ""

    def _add_delta(self, index: int, delta: Json) -> str:
        block = self._blocks.setdefault(index, {})
        for kind, piece in delta.items():
            if kind == "text" and isinstance(piece, str):
                self._add_piece(index, "text", piece)
            elif kind == "toolUse" and field(block, "toolUse") is not None:
                self._add_piece(index, "input", as_text(as_mapping(piece).get("input")))
            elif kind == "reasoningContent":
                for name in _REASONING_FIELDS:
                    self._add_piece(index, f"reasoning {name}", as_text(as_mapping(piece).get(name)))
            elif kind == "citation":
                block.setdefault("citations", []).append(piece)
            else:
                self._is_broken = True
        return as_text(delta.get("text"))

    def _add_piece(self, index: int, name: str, piece: str) -> None:
        self._size += len(piece)
        self._is_broken = self._is_broken or self._size > MAX_REPLY
        if piece and not self._is_broken:
            self._pieces.setdefault((index, name), []).append(piece)

    def response(self) -> dict[str, Any]:
        content = [self._write_block(index) for index in sorted(self._blocks)]
        message = {"role": self._role, "content": [block for block in content if block]}
        return {"output": {"message": message}, **self._end}

    def _write_block(self, index: int) -> dict[str, Any]:
        pieces = {name: "".join(texts) for (at, name), texts in self._pieces.items() if at == index}
        block = self._blocks[index]
        call = field(block, "toolUse")
        if call is not None:
            return {"toolUse": {**call, "input": _parse_input(pieces.get("input", ""))}}
        if "reasoning redactedContent" in pieces:
            return {"reasoningContent": {"redactedContent": pieces["reasoning redactedContent"]}}
        if "reasoning text" in pieces or "reasoning signature" in pieces:
            signature = {"signature": pieces["reasoning signature"]} if "reasoning signature" in pieces else {}
            return {"reasoningContent": {"reasoningText": {"text": pieces.get("reasoning text", ""), **signature}}}
        if "citations" in block:
            return {
                "citationsContent": {"content": [{"text": pieces.get("text", "")}], "citations": block["citations"]}
            }
        return {**block, "text": pieces["text"]} if "text" in pieces else block


def _parse_input(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}


class _ResponseMerger(NumberedMerger):
    def __init__(self) -> None:
        super().__init__()
        self._earlier_output = self._output = 0
        self._has_client_calls = False

    def start_next(self) -> None:
        super().start_next()
        self._earlier_output, self._output = self._earlier_output + self._output, 0
        self._has_client_calls = False

    def convert(self, event: Json) -> Json | None:
        kind, value = next(iter(event.items()), ("", None))
        fields = as_mapping(value)
        if kind == "messageStart":
            return None if self._responses else event
        if kind == "messageStop":
            return self._convert_stop(event, fields)
        if kind == "metadata":
            return self._convert_metadata(event, fields)
        index = fields.get(_INDEX)
        if not isinstance(index, int):
            return event
        call = field(fields.get("start"), "toolUse")
        # A text has no event that begins it.
        is_new = index not in self._visible and index not in self._hidden
        started = {"type": "tool_use" if call else "text", "name": (call or {}).get("name")} if is_new else None
        if call is not None and call.get("name") not in RECALL_TOOLS:
            self._has_client_calls = True
        changed = self._renumber(fields, _INDEX, started)
        return None if changed is None else event if changed is fields else {kind: changed}

    def _convert_stop(self, event: Json, fields: Json) -> Json:
        if self.is_hiding and not self._has_client_calls and fields.get("stopReason") == "tool_use":
            return {"messageStop": {**fields, "stopReason": "end_turn"}}
        return event

    def _convert_metadata(self, event: Json, fields: Json) -> Json:
        counts = as_mapping(fields.get("usage"))
        self._output = as_int(counts.get("outputTokens"))
        return (
            {"metadata": {**fields, "usage": _add_output(counts, self._earlier_output)}} if self._responses else event
        )

    def is_end(self, event: Json) -> bool:
        return "messageStop" in event or "metadata" in event

    def read(self, response: Json) -> ReadResponse:
        content = as_dicts(_content(response))
        calls = [_recall_call(block) for block in content if _is_recall(block)]
        has_client_calls = any("toolUse" in block and not _is_recall(block) for block in content)
        is_open = bool(calls) and response.get("stopReason") == "tool_use"
        recalls = [RecallBatch(calls, self.visible([response]))] if is_open else []
        return ReadResponse(recalls, has_client_calls, hidden_text="")

    def visible(self, responses: Sequence[Json]) -> list[Any]:
        # Clients drop empty texts, and the provider refuses them (K4).
        content = [block for block in self._visible_blocks(responses) if block.get("text") != ""]
        return [{"role": "assistant", "content": content}] if content else []

    def _visible_blocks(self, responses: Sequence[Json]) -> list[dict[str, Any]]:
        return [block for response in responses for block in as_dicts(_content(response)) if not _is_recall(block)]

    def merge(self, responses: Sequence[Json]) -> Json:
        last = responses[-1]
        message = {"role": "assistant", **as_mapping(as_mapping(last.get("output")).get("message"))}
        merged = {**last, "output": {"message": {**message, "content": self._visible_blocks(responses)}}}
        if isinstance(last.get("usage"), dict):
            earlier = sum(as_int(as_mapping(response.get("usage")).get("outputTokens")) for response in responses[:-1])
            merged["usage"] = _add_output(last["usage"], earlier)
        if last.get("stopReason") == "tool_use" and not self.read(last).has_client_calls:
            merged["stopReason"] = "end_turn"
        return merged


def _add_output(counts: Json, earlier: int) -> dict[str, Any]:
    total = {"totalTokens": as_int(counts["totalTokens"]) + earlier} if "totalTokens" in counts else {}
    return {**counts, "outputTokens": as_int(counts.get("outputTokens")) + earlier, **total}


def _is_recall(block: Json) -> bool:
    call = field(block, "toolUse")
    return call is not None and call.get("name") in RECALL_TOOLS


def _recall_call(block: Json) -> RecallCall:
    call = field(block, "toolUse") or {}
    return RecallCall(as_text(call.get("toolUseId")), call["name"], dumps(call.get("input") or {}), call)


stream_assembler, response_merger = _StreamAssembler, _ResponseMerger
