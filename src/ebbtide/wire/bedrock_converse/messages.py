"""Messages of the Converse API: tool calls are blocks of assistant messages, results of user messages.

A cache point is a block behind the one that it caches. Clients move cache points, so they belong to no item: they are
written again behind the block that they followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.text.media import base64_pixels
from ebbtide.core.types import Item, Role
from ebbtide.wire.bedrock_converse.blocks import blocks_of, is_cache_point, with_cache_points
from ebbtide.wire.blocks import (
    Block,
    as_mapping,
    as_str,
    as_text,
    canonical_json,
    describe_call,
    document_block,
    find_role,
    image_block,
    inserted_call_follows,
    is_original,
    text_block,
    user_text_for_log,
)
from ebbtide.wire.claude import binds_thinking_to_prefix

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant"}
_FOREIGN = ("type", "cache_control")
"""Fields of the blocks of other providers."""


def split(message: Any, path: str) -> list[Block]:
    if not isinstance(message, dict):
        raise BadRequest("a message must be an object", path=path)
    role = find_role(message, _ROLES, path)
    content = message.get("content")
    if isinstance(content, str):
        return [text_block(role, content, content)]
    if not isinstance(content, list):
        return [Block(role, "opaque", "", content, canonical_json(content))]
    blocks: list[Block] = []
    for n, block in enumerate(content):
        if not isinstance(block, dict):
            raise BadRequest("a block must be an object", path=f"{path}.content.{n}")
        if not is_cache_point(block):
            blocks.append(_block(role, block))
    return blocks or [Block(role, "opaque", "", content, canonical_json([]))]


def _block(role: Role, block: Mapping[str, Any]) -> Block:
    for name, value in block.items():
        read = _READERS.get(name)
        if read is not None and value is not None:
            return read(role, block, value)
    return Block(role, "opaque", as_text(block), block, canonical_json(block))


def _text(role: Role, block: Mapping[str, Any], value: Any) -> Block:
    return text_block(role, as_text(value), block)


def _call(_role: Role, block: Mapping[str, Any], value: Any) -> Block:
    call = as_mapping(value)
    identity, name = call.get("toolUseId"), call.get("name")
    text, canonical = describe_call(identity, name, call.get("input"))
    return Block("assistant", "call", text, block, canonical, as_text(name), as_text(identity))


def _result(_role: Role, block: Mapping[str, Any], value: Any) -> Block:
    result = as_mapping(value)
    content = result.get("content")
    parts = content if isinstance(content, list) else []
    texts, others = [], 0
    images: list[tuple[int, int] | None] = []
    for part in parts:
        if isinstance(part, dict) and "image" in part:
            images.append(_pixels(part["image"]))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            others += 1
            texts.append(as_text(part.get("json", part) if isinstance(part, dict) else part))
    text = "\n".join(texts)
    is_failed = result.get("status") == "error"
    call_id, flag = as_text(result.get("toolUseId")), "error" if is_failed else "ok"
    is_words = len(texts) == 1 and not images and not others
    return Block(
        "tool", "result", text, block, f"{call_id}\0{flag}\0{text if is_words else canonical_json(content)}",
        call_id=call_id, source="tool", media=len(images), pixels=tuple(images), is_failed=is_failed,
    )  # fmt: skip


def _reasoning(role: Role, block: Mapping[str, Any], value: Any) -> Block:
    fields = as_mapping(value)
    reasoning = as_mapping(fields.get("reasoningText"))
    signature = as_text(reasoning.get("signature") or fields.get("redactedContent"))
    words = as_text(reasoning.get("text"))
    return Block(role, "thinking", words, block, canonical_json(block), source="assistant", signature=signature)


def _image(role: Role, block: Mapping[str, Any], value: Any) -> Block:
    return image_block(role, block, _bytes(value))


def _document(role: Role, block: Mapping[str, Any], value: Any) -> Block:
    """A document or a video. One at an address counts as the smallest that there is."""
    source = as_mapping(as_mapping(value).get("source"))
    parts = source.get("content")
    texts = [as_text(as_mapping(part).get("text")) for part in parts] if isinstance(parts, list) else []
    text = as_text(source.get("text")) or "\n".join(texts)
    return document_block(role, block, text=text, pages=0 if text else max(1, len(_bytes(value))))


def _pixels(image: Any) -> tuple[int, int] | None:
    return base64_pixels(_bytes(image))


def _bytes(media: Any) -> str:
    return as_str(as_mapping(as_mapping(media).get("source")).get("bytes"))


_READERS: Mapping[str, Callable[[Role, Mapping[str, Any], Any], Block]] = {
    "text": _text,
    "toolUse": _call,
    "toolResult": _result,
    "reasoningContent": _reasoning,
    "image": _image,
    "document": _document,
    "video": _document,
    "audio": _document,
}
"""By the field that says what a block is. Others travel whole: guarded text, citations, new kinds."""


def system_and_tools(body: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return system prompt and tools without cache points."""
    return _without_cache_points(body.get("system")), _without_cache_points(
        as_mapping(body.get("toolConfig")).get("tools")
    )


def _without_cache_points(section: Any) -> Any:
    if not isinstance(section, list) or not any(map(is_cache_point, section)):
        return section
    return [entry for entry in section if not is_cache_point(entry)]


def max_output(body: Mapping[str, Any]) -> int:
    limit = as_mapping(body.get("inferenceConfig")).get("maxTokens")
    return limit if isinstance(limit, int) else 0


def partial_history_reason(body: Mapping[str, Any]) -> str:
    """A body may name a prompt in Bedrock's own store: the messages come before and after what is written there."""
    if body.get("promptVariables") is not None:
        return "promptVariables: the prompt is kept by Bedrock"
    return ""


def thinking_bound_to_prefix(body: Mapping[str, Any]) -> bool:
    return binds_thinking_to_prefix(as_text(body.get("modelId") or body.get("model")))


def join(original: Any, entries: Sequence[Item]) -> list[Any]:
    role = "assistant" if entries[0].role == "assistant" else "user"
    if len(entries) == 1 and is_original(entries[0]) and not isinstance(entries[0].raw, str | dict):
        return [original]  # a message without content
    points = {id(block): point for _, block, point in with_cache_points(blocks_of(original)) if point is not None}
    content: list[Any] = []
    for entry in entries:
        content.append(_write(entry))
        if id(entry.raw) in points:
            content.append(points[id(entry.raw)])
    return [{**(original or {}), "role": role, "content": content}]


def _write(entry: Item) -> Any:
    raw = entry.raw
    if is_original(entry):
        return {"text": raw} if isinstance(raw, str) else raw
    if entry.kind == "result":
        fields = as_mapping(as_mapping(raw).get("toolResult")) or {"toolUseId": entry.call_id}
        return {"toolResult": {**fields, "content": [{"text": entry.text}]}}
    if entry.kind == "call" and isinstance(raw, dict):
        # An inserted call has its new id beside the one that it came with.
        fields = {name: value for name, value in raw.items() if name != "id"}
        return raw if "toolUse" in raw else {"toolUse": {**fields, "toolUseId": entry.call_id}}
    if entry.kind == "call":
        return {"toolUse": {"toolUseId": entry.call_id, "name": entry.name, "input": json.loads(entry.text)}}
    return {"text": entry.text}


def must_join(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Roles alternate, and a call that an edit inserted belongs to what the model said before it."""
    return after[0].message > before[-1].message + 1 or inserted_call_follows(before, after)


def replacement_forms(item: Item) -> Sequence[Item]:
    """If the result it replaces was an error, the replacement says so too."""
    if item.kind != "result":
        return [item]
    return [item, replace(item, raw={"toolResult": {"toolUseId": item.call_id, "status": "error"}})]


def count_breakpoints(message: Any) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    return sum(map(is_cache_point, content)) if isinstance(content, list) else 0


def for_log(message: Any) -> Any:
    return user_text_for_log(message, split(message, "messages"))


def is_foreign(block: Any) -> bool:
    """Tell whether a block is written in another provider's format."""
    return isinstance(block, dict) and any(name in block for name in _FOREIGN)
