"""Messages of the Anthropic Messages API: tool calls are blocks of assistant messages, results of user messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.text.media import base64_pixels
from ebbtide.core.types import Item, Role
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
)
from ebbtide.wire.claude import binds_thinking_to_prefix

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def split(message: Any, path: str) -> list[Block]:
    if not isinstance(message, dict):
        raise BadRequest("a message must be an object", path=path)
    role = find_role(message, _ROLES, path)
    content = message.get("content")
    if isinstance(content, str):
        return [text_block(role, content, content, locked=role == "system")]
    if not isinstance(content, list) or not content:
        return [Block(role, "opaque", "", content, canonical_json(content))]
    blocks: list[Block] = []
    for i, block in enumerate(content):
        if isinstance(block, dict):
            blocks.append(_block(role, block))
        elif isinstance(block, str):
            blocks.append(text_block(role, block, block))
        else:
            raise BadRequest("a block must be an object", path=f"{path}.content.{i}")
    return blocks


def _block(role: Role, block: dict[str, Any]) -> Block:
    kind = block.get("type")
    if kind == "text":
        return text_block(role, as_text(block.get("text")), block, locked=role == "system")
    if kind == "tool_use":
        identity, called = block.get("id"), block.get("name")
        text, canonical = describe_call(identity, called, block.get("input"))
        return Block("assistant", "call", text, block, canonical, as_text(called), as_text(identity))
    if kind == "tool_result":
        return _result(block)
    if kind in ("thinking", "redacted_thinking"):
        signature = as_text(block.get("signature") or block.get("data"))
        words = as_text(block.get("thinking"))
        return Block(role, "thinking", words, block, canonical_json(block), source="assistant", signature=signature)
    if kind == "image":
        return image_block(role, block, _image_data(block))
    if kind == "document":
        text = _document_text(block)
        pages = 0 if text else len(as_text(as_mapping(block.get("source")).get("data")))
        return document_block(role, block, text=text, pages=pages)
    return Block(role, "opaque", as_text(block), block, canonical_json(block), locked=kind == "compaction")


def _result(block: Mapping[str, Any]) -> Block:
    content = block.get("content")
    images: tuple[tuple[int, int] | None, ...] = ()
    if isinstance(content, list):
        text, canonical, images = _parts(content)
    else:
        text = canonical = as_text(content)
    flag = "error" if block.get("is_error") else "ok"
    call_id = as_text(block.get("tool_use_id"))
    return Block(
        "tool", "result", text, block, f"{call_id}\0{flag}\0{canonical}",
        call_id=call_id, source="tool", media=len(images), pixels=images, is_failed=block.get("is_error") is True,
    )  # fmt: skip


def _parts(content: list[Any]) -> tuple[str, str, tuple[tuple[int, int] | None, ...]]:
    """The text of a result in parts, what its id is made of, and the size of its images."""
    texts = [
        as_text(part.get("text")) if isinstance(part, dict) else as_text(part) for part in content if _is_text(part)
    ]
    images = tuple(base64_pixels(_image_data(part)) for part in content if _is_image(part))
    others = [part for part in content if not _is_text(part) and not _is_image(part)]
    text = "\n".join(texts + [as_text(part) for part in others])
    plain = not images and not others and len(texts) == 1
    return text, text if plain else canonical_json(content), images


def _is_text(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text")


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image"


def _image_data(block: Mapping[str, Any]) -> str:
    return as_str(as_mapping(block.get("source")).get("data"))


def _document_text(block: Mapping[str, Any]) -> str:
    source = as_mapping(block.get("source"))
    if source.get("type") == "text":
        return as_text(source.get("data"))
    return as_text(source.get("content")) if source.get("type") == "content" else ""


def system_and_tools(body: Mapping[str, Any]) -> tuple[Any, Any]:
    return body.get("system"), body.get("tools")


def max_output(body: Mapping[str, Any]) -> int:
    limit = body.get("max_tokens")
    return limit if isinstance(limit, int) else 0


def partial_history_reason(body: Mapping[str, Any]) -> str:
    if as_mapping(body.get("thread")).get("type") == "continue":
        return "thread continues: the server keeps the history, and only the new turn is here"
    return ""


def thinking_bound_to_prefix(body: Mapping[str, Any]) -> bool:
    return binds_thinking_to_prefix(as_text(body.get("model")))


def join(original: Any, entries: Sequence[Item]) -> list[Any]:
    role = "assistant" if entries[0].role == "assistant" else "system" if entries[0].role == "system" else "user"
    if original is not None and isinstance(original.get("content"), str) and len(entries) == 1:
        return [{**original, "content": entries[0].text}]
    content = [_render(entry) for entry in entries]
    return [{**(original or {}), "role": role, "content": content}]


def _render(entry: Item) -> Any:
    raw = entry.raw
    if is_original(entry):
        return {"type": "text", "text": raw} if isinstance(raw, str) else raw
    if entry.kind == "result":
        fields = raw if isinstance(raw, dict) else {"type": "tool_result", "tool_use_id": entry.call_id}
        return {**fields, "content": entry.text}
    if entry.kind == "call" and isinstance(raw, dict):
        return raw
    if entry.kind == "call":
        return {"type": "tool_use", "id": entry.call_id, "name": entry.name, "input": json.loads(entry.text)}
    return {"type": "text", "text": entry.text}


def must_join(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Roles alternate (A5), and a call that an edit inserted belongs to what the model said before it."""
    return after[0].message > before[-1].message + 1 or inserted_call_follows(before, after)


def replacement_forms(item: Item) -> Sequence[Item]:
    """If the result it replaces was an error, the replacement says so too."""
    if item.kind != "result":
        return [item]
    return [item, replace(item, raw={"type": "tool_result", "is_error": True, "tool_use_id": item.call_id})]


def count_breakpoints(message: Any) -> int:
    total, content = 0, as_mapping(message).get("content")
    # Plain loop: this runs for every message of every request.
    if isinstance(content, list):
        for block in content:
            total += "cache_control" in as_mapping(block)
    return total


def for_log(message: Any) -> Any:
    return message
