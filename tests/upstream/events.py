"""An answer as the stream of events that spells it. What the events add up to is the answer itself, to the byte."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from upstream.event_stream import frame
from upstream.finding import Body, Json

PIECE = 24
"""Characters per delta: a few deltas for a sentence, and words are cut in the middle."""


def stream(wire: str, body: Body, response: Body) -> list[bytes]:
    if wire == "anthropic":
        return [_named(event) for event in _anthropic(response)]
    if wire == "gemini":
        return [_data(chunk) for chunk in gemini_chunks(response)]
    if wire == "bedrock_converse":
        return [frame(event) for event in converse_events(response)]
    if wire == "openai_chat":
        return [*(_data(chunk) for chunk in _chat(body, response)), b"data: [DONE]\n\n"]
    numbered = ({**event, "sequence_number": at} for at, event in enumerate(_responses(response)))
    return [_named(event) for event in numbered]


def array(chunks: Iterable[Body]) -> list[bytes]:
    """A stream as one JSON array, which grows as it is sent: Gemini's without `alt=sse`."""
    spelled = [as_json(chunk).encode() for chunk in chunks]
    return [(b"[" if not at else b",\r\n") + chunk for at, chunk in enumerate(spelled)] + [b"]"]


def failed(wire: str, response: Body, error: Body) -> list[bytes]:
    """A stream that opens with HTTP 200 and then breaks. `error` is the wire's own envelope."""
    if wire == "anthropic":
        return [_named(next(_anthropic(response))), _named(error)]
    if wire in ("openai_chat", "gemini"):
        return [_data(error)]
    if wire == "bedrock_converse":
        opening = frame({"messageStart": {"role": "assistant"}})
        return [opening, frame({"modelStreamErrorException": {"message": error["message"]}})]
    broken = {**response, "status": "failed", "output": [], "usage": None, "error": error["error"]}
    opening = {"type": "response.created", "response": {**broken, "status": "in_progress"}, "sequence_number": 0}
    return [_named(opening), _named({"type": "response.failed", "response": broken, "sequence_number": 1})]


def as_json(value: Json) -> str:
    """With letters as they are; half of a surrogate pair, which no UTF-8 has, as the escape that providers send."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if any("\ud800" <= letter <= "\udfff" for letter in text) else text


def _named(event: Body) -> bytes:
    return f"event: {event['type']}\n".encode() + _data(event)


def _data(value: Json) -> bytes:
    return b"data: " + as_json(value).encode() + b"\n\n"


def _pieces(text: str) -> Iterator[str]:
    for at in range(0, len(text), PIECE):
        yield text[at : at + PIECE]


def _anthropic(response: Body) -> Iterator[Body]:
    opening = {**response["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**response, "content": [], "stop_reason": None, "usage": opening}}
    yield {"type": "ping"}
    for at, block in enumerate(response["content"]):
        empty, deltas = _deltas(block)
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ending = {"stop_reason": response["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": response["usage"]}
    yield {"type": "message_stop"}


def _deltas(block: Body) -> tuple[Body, list[Body]]:
    """What the block starts as, and what is added."""
    kind = block["type"]
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
    if kind == "tool_use":
        pieces = _pieces(as_json(block["input"]))
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []


def _chat(body: Body, response: Body) -> Iterator[Body]:
    head = {"id": response["id"], "object": "chat.completion.chunk", "created": 0, "model": response["model"]}
    choice = response["choices"][0]
    for delta in _chat_deltas(choice["message"]):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": response["usage"]}


def _chat_deltas(message: Body) -> Iterator[Body]:
    yield {"role": "assistant", "content": None if message["content"] is None else ""}
    for field in ("reasoning_content", "content"):
        for piece in _pieces(message.get(field) or ""):
            yield {field: piece}
    for at, call in enumerate(message.get("tool_calls", [])):
        kind = call["type"]
        field = "arguments" if kind == "function" else "input"
        yield {"tool_calls": [{"index": at, **call, kind: {**call[kind], field: ""}}]}
        for piece in _pieces(call[kind][field]):
            yield {"tool_calls": [{"index": at, kind: {field: piece}}]}


def gemini_chunks(response: Body) -> Iterator[Body]:
    """Texts in pieces, everything else whole; only the last chunk says why it ended and what it cost."""
    head = {name: response[name] for name in ("modelVersion", "responseId")}
    counts = response["usageMetadata"]
    begun = {name: counts[name] for name in counts if name.startswith(("prompt", "cached"))}
    candidate = response["candidates"][0]
    for part in candidate["content"]["parts"]:
        pieces = [{"text": piece} for piece in _pieces(part["text"])] if part.keys() == {"text"} else [part]
        for piece in pieces:
            content = {"role": "model", "parts": [piece]}
            yield {"candidates": [{"content": content, "index": 0}], "usageMetadata": begun, **head}
    ending = {**candidate, "content": {"role": "model", "parts": [{"text": ""}]}}
    yield {"candidates": [ending], "usageMetadata": counts, **head}


def converse_events(response: Body) -> Iterator[Body]:
    """Only a call has an event that begins it."""
    message = response["output"]["message"]
    yield {"messageStart": {"role": message["role"]}}
    for at, block in enumerate(message["content"]):
        for kind, value in _converse_block(block):
            yield {kind: {**value, "contentBlockIndex": at}}
        yield {"contentBlockStop": {"contentBlockIndex": at}}
    yield {"messageStop": {"stopReason": response["stopReason"]}}
    yield {"metadata": {"usage": response["usage"], "metrics": response["metrics"]}}


def _converse_block(block: Body) -> Iterator[tuple[str, Body]]:
    if "toolUse" in block:
        call = block["toolUse"]
        yield "contentBlockStart", {"start": {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}}
        for piece in _pieces(as_json(call["input"])):
            yield "contentBlockDelta", {"delta": {"toolUse": {"input": piece}}}
        return
    reasoning = block.get("reasoningContent", {})
    for name, text in (("text", block.get("text", "")), *reasoning.get("reasoningText", {}).items()):
        for piece in _pieces(text) if name == "text" else [text]:
            delta = {"reasoningContent": {name: piece}} if reasoning else {"text": piece}
            yield "contentBlockDelta", {"delta": delta}
    if "redactedContent" in reasoning:
        yield "contentBlockDelta", {"delta": {"reasoningContent": {"redactedContent": reasoning["redactedContent"]}}}


def _responses(response: Body) -> Iterator[Body]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(response["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": at, "item": _begun(item)}
        yield from ({**event, **place} for event in _item_events(item))
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": response}


def _begun(item: Body) -> Body:
    blank: dict[str, Body] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "custom_tool_call": {"input": ""},
    }
    started = {"status": "in_progress"} if "status" in item else {}
    return {**item, **started, **blank.get(item["type"], {})}


def _item_events(item: Body) -> Iterator[Body]:
    if item["type"] == "message":
        for at, part in enumerate(item["content"]):
            where = {"content_index": at}
            yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
            for piece in _pieces(part["text"]):
                yield {"type": "response.output_text.delta", **where, "delta": piece}
            yield {"type": "response.output_text.done", **where, "text": part["text"]}
            yield {"type": "response.content_part.done", **where, "part": part}
    elif item["type"] in ("function_call", "custom_tool_call"):
        function = item["type"] == "function_call"
        event = "response.function_call_arguments" if function else "response.custom_tool_call_input"
        field = "arguments" if function else "input"
        for piece in _pieces(item[field]):
            yield {"type": f"{event}.delta", "delta": piece}
        yield {"type": f"{event}.done", field: item[field]}
