"""A scripted turn in the shape of the wire it answers on, with ids, signatures and usage as a provider issues them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence

from upstream import signing
from upstream.bedrock_rules import model_of
from upstream.caching import CacheBill
from upstream.events import as_json
from upstream.finding import Body
from upstream.group_ids import item_id
from upstream.prefix import CHARACTERS_PER_TOKEN, chain, message_unit, serial
from upstream.script import Part, Redacted, Say, Think, Use

REASONS_ALOUD = ("deepseek", "kimi")
"""Compatibles whose thinking travels in `reasoning_content`."""


def answer(wire: str, body: Body, parts: Sequence[Part], billed: CacheBill, number: int) -> Body:
    """`number` is the exchange's place in the upstream's life; ids follow from it alone."""
    return SHAPES[wire](body, parts, billed, number)


def as_base64(text: str) -> str:
    """What is bytes to Amazon's SDKs."""
    return base64.b64encode(text.encode()).decode()


def name(prefix: str, *salt: object) -> str:
    return f"{prefix}{hashlib.sha256(repr(salt).encode()).hexdigest()[:24]}"


def _output_tokens(value: object) -> int:
    return max(1, len(serial(value)) // CHARACTERS_PER_TOKEN)


def _anthropic(body: Body, parts: Sequence[Part], billed: CacheBill, number: int) -> Body:
    content = list(_blocks(body, parts, number))
    return {
        "id": name("msg_", number),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if any(isinstance(part, Use) for part in parts) else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": billed.fresh,
            "cache_creation_input_tokens": billed.written,
            "cache_read_input_tokens": billed.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": billed.written_5m,
                "ephemeral_1h_input_tokens": billed.written_1h,
            },
            "output_tokens": _output_tokens(content),
        },
    }


def _blocks(body: Body, parts: Sequence[Part], number: int) -> Iterator[Body]:
    digest, index = signing.bound_to(body), len(body["messages"])
    for at, part in enumerate(parts):
        block = _block(body["model"], part, digest, name("toolu_", number, at))
        digest = chain(digest, message_unit("assistant", index, at, block))
        yield block


def _block(model: str, part: Part, digest: str, use_id: str) -> Body:
    if isinstance(part, Think):
        return {"type": "thinking", "thinking": part.text, "signature": signing.sign(model, part.text, digest)}
    if isinstance(part, Redacted):
        return {"type": "redacted_thinking", "data": signing.redact(model, digest)}
    if isinstance(part, Use):
        return {"type": "tool_use", "id": use_id, "name": part.name, "input": part.input}
    return {"type": "text", "text": part.text}


def _chat(body: Body, parts: Sequence[Part], billed: CacheBill, number: int) -> Body:
    said = "".join(part.text for part in parts if isinstance(part, Say))
    thought = "".join(part.text for part in parts if isinstance(part, Think))
    calls = [_chat_call(part, name("call_", number, at)) for at, part in enumerate(parts) if isinstance(part, Use)]
    message: Body = {"role": "assistant", "content": said or None, "refusal": None}
    if thought and any(maker in body["model"] for maker in REASONS_ALOUD):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    output = _output_tokens(message)
    return {
        "id": name("chatcmpl-", number),
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": billed.prompt,
            "completion_tokens": output,
            "total_tokens": billed.prompt + output,
            "prompt_tokens_details": {"cached_tokens": billed.read},
        },
    }


def _chat_call(part: Use, call_id: str) -> Body:
    if isinstance(part.input, str):
        return {"id": call_id, "type": "custom", "custom": {"name": part.name, "input": part.input}}
    function = {"name": part.name, "arguments": as_json(part.input)}
    return {"id": call_id, "type": "function", "function": function}


def _responses(body: Body, parts: Sequence[Part], billed: CacheBill, number: int) -> Body:
    output = items(parts, name("", number)[:12])
    tokens = _output_tokens(output)
    return {
        "id": name("resp_", number),
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": body["model"],
        "output": output,
        "error": None,
        "incomplete_details": None,
        "store": body.get("store", True),
        "usage": {
            "input_tokens": billed.prompt,
            "input_tokens_details": {"cached_tokens": billed.read},
            "output_tokens": tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": billed.prompt + tokens,
        },
    }


def _gemini(body: Body, parts: Sequence[Part], billed: CacheBill, number: int) -> Body:
    """The first call of a step is signed, and a thought is shown only if the client asked for it."""
    made: list[Body] = []
    signed = False
    for at, part in enumerate(parts):
        if isinstance(part, Say):
            made.append({"text": part.text})
        elif isinstance(part, Use):
            call: Body = {"id": name("", number, at)[:12], "name": part.name, "args": part.input}
            signature = (
                {} if signed else {"thoughtSignature": signing.sign_part(body["model"], signing.call_words(call))}
            )
            made.append({"functionCall": call, **signature})
            signed = True
    output = _output_tokens(made)
    thoughts = sum(len(part.text) // CHARACTERS_PER_TOKEN for part in parts if isinstance(part, Think))
    return {
        "candidates": [{"content": {"role": "model", "parts": made}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": billed.prompt,
            **({"cachedContentTokenCount": billed.read} if billed.read else {}),
            "candidatesTokenCount": output,
            **({"thoughtsTokenCount": thoughts} if thoughts else {}),
            "totalTokenCount": billed.prompt + output + thoughts,
        },
        "modelVersion": body["model"],
        "responseId": name("", number),
    }


def _converse(body: Body, parts: Sequence[Part], billed: CacheBill, number: int) -> Body:
    """Claude's thinking is signed; other models do not show theirs."""
    content = list(_converse_blocks(body, parts, number))
    output = _output_tokens(content)
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if any(isinstance(part, Use) for part in parts) else "end_turn",
        "usage": {
            "inputTokens": billed.fresh,
            "outputTokens": output,
            "totalTokens": billed.prompt + output,
            "cacheReadInputTokens": billed.read,
            "cacheWriteInputTokens": billed.written,
        },
        "metrics": {"latencyMs": 1},
    }


def _converse_blocks(body: Body, parts: Sequence[Part], number: int) -> Iterator[Body]:
    model = model_of(body)
    digest, index = signing.bound_to(body, "bedrock_converse"), len(body["messages"])
    for at, part in enumerate(parts):
        if isinstance(part, (Think, Redacted)) and "claude" not in model:
            continue
        block: Body = {"text": part.text} if isinstance(part, Say) else {}
        if isinstance(part, Think):
            text = {"text": part.text, "signature": signing.sign(model, part.text, digest)}
            block = {"reasoningContent": {"reasoningText": text}}
        elif isinstance(part, Redacted):
            block = {"reasoningContent": {"redactedContent": as_base64(signing.redact(model, digest))}}
        elif isinstance(part, Use):
            call = {"toolUseId": name("tooluse_", number, at), "name": part.name, "input": part.input}
            block = {"toolUse": call}
        digest = chain(digest, message_unit("assistant", index, at, block))
        yield block


def items(parts: Sequence[Part], salt: str) -> list[Body]:
    return numbered([item_of(part, name("call_", salt, at)) for at, part in enumerate(parts)], salt)


def numbered(found: Sequence[tuple[str, Body]], salt: str) -> list[Body]:
    """Output items of one turn with their ids. Each reasoning item opens a group that reaches up to the next one."""
    starts = [at for at, (prefix, _) in enumerate(found) if prefix == "rs"]
    named: list[Body] = []
    for at, (prefix, item) in enumerate(found):
        start = max((each for each in starts if each <= at), default=None)
        end = min((each for each in starts if each > at), default=len(found))
        alone = f"{prefix}_{salt}{at}"
        named.append(
            {"id": alone if start is None else item_id(prefix, f"{salt}{start}", at - start, end - start), **item}
        )
    return named


def item_of(part: Part, call_id: str) -> tuple[str, Body]:
    """Prefix of the item's id, and the item."""
    if isinstance(part, (Think, Redacted)):
        thought = part.text if isinstance(part, Think) else ""
        return "rs", {"type": "reasoning", "summary": [], "encrypted_content": signing.seal(thought + call_id)}
    if isinstance(part, Say):
        said = {"type": "output_text", "text": part.text, "annotations": []}
        return "msg", {"type": "message", "role": "assistant", "status": "completed", "content": [said]}
    call = {"call_id": call_id, "name": part.name, "status": "completed"}
    if isinstance(part.input, str):
        return "ctc", {"type": "custom_tool_call", **call, "input": part.input}
    return "fc", {"type": "function_call", **call, "arguments": as_json(part.input)}


SHAPES = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
    "bedrock_converse": _converse,
}
