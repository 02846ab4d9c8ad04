"""Which recorded Anthropic blocks may be sent back. A block is never changed; what no provider takes is left out."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def user_content(content: Any) -> tuple[str | list[dict[str, Any]], str]:
    """What of a user's recorded content can be sent, and what was wrong with the rest."""
    if isinstance(content, str):
        return content if content.strip() else "", ""
    if not isinstance(content, list):
        return "", "a message without content"
    sound = [_sendable(block) for block in content if _is_user_block(block)]
    reason = "" if len(sound) == len(content) else "a content block that cannot be sent, left out"
    return sound, reason


def answer_blocks(content: list[Any]) -> tuple[list[dict[str, Any]], str]:
    """What of a recorded answer goes back, and what was wrong with it. Blank text and bare thinking are no fault."""
    known = [block for block in content if isinstance(block, dict) and isinstance(block.get("type"), str)]
    broken = [block for block in known if block["type"] in ("tool_use", "tool_result") and not _is_call(block)]
    reason = "a content block that cannot be sent, left out" if broken or len(known) < len(content) else ""
    sound = [_named(block, "id") for block in known if block not in broken and _is_something(block)]
    return sound, reason


def _named(block: dict[str, Any], key: str) -> dict[str, Any]:
    """With a call's id as Anthropic takes it; others put more into theirs. Two that differ stay different."""
    name = block.get(key)
    if not isinstance(name, str) or _CALL_ID.fullmatch(name):
        return block
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return {**block, key: "_".join([*_CALL_ID.findall(name)[:1], digest])}


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    """The very block, unless it is a result with parts that would be refused."""
    if block["type"] != "tool_result":
        return block
    block = _named(block, "tool_use_id")
    if isinstance(block.get("content", ""), str):
        return block
    parts = block["content"]
    if not isinstance(parts, list):
        return {**block, "content": json.dumps(parts, ensure_ascii=False)}
    sound = [_part(part) for part in parts if isinstance(part, dict) and _is_something(part)]
    same = len(sound) == len(parts) and all(kept is part for kept, part in zip(sound, parts, strict=True))
    return block if same else {**block, "content": sound}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A reference to a tool is refused unless the tool is in the request, and sessions do not record their tools."""
    if part.get("type") != "tool_reference":
        return part
    return {"type": "text", "text": f"[tool {part.get('tool_name')}]"}


def _is_user_block(block: Any) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    if block["type"] == "tool_result":
        return isinstance(block.get("tool_use_id"), str)
    return block["type"] not in ("tool_use", "thinking", "redacted_thinking") and _is_something(block)


def _is_call(block: dict[str, Any]) -> bool:
    named = isinstance(block.get("id"), str) and isinstance(block.get("name"), str)
    return block["type"] == "tool_use" and named and isinstance(block.get("input"), dict)


def _is_something(block: dict[str, Any]) -> bool:
    """Providers refuse blank text, and thinking that they did not sign."""
    if block.get("type") == "text":
        return isinstance(block.get("text"), str) and bool(block["text"].strip())
    return block.get("type") != "thinking" or bool(block.get("signature"))
