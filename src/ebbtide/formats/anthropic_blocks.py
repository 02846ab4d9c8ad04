"""Recorded content as Anthropic takes it. Blocks are left out rather than changed if a provider would refuse them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

from ebbtide.core.tokens.usage import written_for_an_hour
from ebbtide.core.types import Usage
from ebbtide.formats.session_file import build_usage
from ebbtide.formats.steps import Message

REQUEST_FIELDS = {"max_tokens": 32_000}
"""Anthropic refuses a body without `max_tokens`, and sessions do not record it: this is the clients' own default."""
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_LEFT_OUT = "a content block that cannot be sent, left out"

Content = str | list[dict[str, Any]]


def user_message(content: Content) -> tuple[Message, ...]:
    return ({"role": "user", "content": content},) if content else ()


def assistant_message(content: Content) -> tuple[Message, ...]:
    return ({"role": "assistant", "content": content},) if content else ()


def has_only_results(content: Content) -> bool:
    return isinstance(content, list) and all(block["type"] == "tool_result" for block in content)


def read_usage(usage: dict[str, Any]) -> tuple[Usage | None, str]:
    names = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens")
    billed, reason = build_usage(*(usage.get(name) for name in names))
    if billed is None:
        return None, reason
    return replace(billed, cache_write_1h=min(billed.cache_write, written_for_an_hour(usage))), reason


def user_content(content: Any) -> tuple[Content, str]:
    """Return what can be sent of a user's recorded content, and what was wrong with the rest."""
    if isinstance(content, str):
        return content if content.strip() else "", ""
    if not isinstance(content, list):
        return "", "a message without content"
    blocks = [_sendable_block(block) for block in content if _is_user_block(block)]
    return blocks, "" if len(blocks) == len(content) else _LEFT_OUT


def reply_content(content: list[Any]) -> tuple[list[dict[str, Any]], str]:
    """Return what a client sends back of a recorded reply, and what was wrong with it.

    Blank text and unsigned thinking are left out without a reason: they are no fault of the recording.
    """
    blocks = [block for block in content if isinstance(block, dict) and isinstance(block.get("type"), str)]
    broken = [block for block in blocks if block["type"] in ("tool_use", "tool_result") and not _is_call(block)]
    reason = _LEFT_OUT if broken or len(blocks) < len(content) else ""
    return [_with_valid_id(block, "id") for block in blocks if block not in broken and _is_accepted(block)], reason


def _with_valid_id(block: dict[str, Any], key: str) -> dict[str, Any]:
    """Replace characters that Anthropic does not allow in a call's id. Ids that differ stay different."""
    id = block.get(key)
    if not isinstance(id, str) or _CALL_ID.fullmatch(id):
        return block
    digest = hashlib.blake2b(id.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return {**block, key: "_".join([*_CALL_ID.findall(id)[:1], digest])}


def _sendable_block(block: dict[str, Any]) -> dict[str, Any]:
    """Return the same object, unless it is a result with parts that would be refused."""
    if block["type"] != "tool_result":
        return block
    block = _with_valid_id(block, "tool_use_id")
    if isinstance(block.get("content", ""), str):
        return block
    parts = block["content"]
    if not isinstance(parts, list):
        return {**block, "content": json.dumps(parts, ensure_ascii=False)}
    sendable = [_without_reference(part) for part in parts if isinstance(part, dict) and _is_accepted(part)]
    is_same = len(sendable) == len(parts) and all(new is old for new, old in zip(sendable, parts, strict=True))
    return block if is_same else {**block, "content": sendable}


def _without_reference(part: dict[str, Any]) -> dict[str, Any]:
    """A reference to a tool is refused unless the request has the tool, and sessions do not record their tools."""
    if part.get("type") != "tool_reference":
        return part
    return {"type": "text", "text": f"[tool {part.get('tool_name')}]"}


def _is_user_block(block: Any) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    if block["type"] == "tool_result":
        return isinstance(block.get("tool_use_id"), str)
    return block["type"] not in ("tool_use", "thinking", "redacted_thinking") and _is_accepted(block)


def _is_call(block: dict[str, Any]) -> bool:
    has_names = isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
    return block["type"] == "tool_use" and has_names and isinstance(block.get("input"), dict)


def _is_accepted(block: dict[str, Any]) -> bool:
    """Whether providers take it: they refuse blank text, and thinking without their signature."""
    if block.get("type") == "text":
        return isinstance(block.get("text"), str) and bool(block["text"].strip())
    return block.get("type") != "thinking" or bool(block.get("signature"))
