"""Which recorded Anthropic blocks may be sent back. A block is never changed; what no provider takes is left out."""

from __future__ import annotations

from typing import Any


def user_content(content: Any) -> tuple[str | list[dict[str, Any]], str]:
    """What of a user's recorded content can be sent, and what was wrong with the rest."""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        return "", "a message without content"
    sound = [block for block in content if _is_user_block(block)]
    reason = "" if len(sound) == len(content) else "a content block that cannot be sent, left out"
    return (content if len(sound) == len(content) else sound), reason


def answer_blocks(content: list[Any]) -> tuple[list[dict[str, Any]], str]:
    """What of a recorded answer goes back, and what was wrong with the rest; blank text and bare thinking are no fault."""
    known = [block for block in content if isinstance(block, dict) and isinstance(block.get("type"), str)]
    broken = [block for block in known if block["type"] == "tool_use" and not _is_call(block)]
    reason = "a content block that cannot be sent, left out" if broken or len(known) < len(content) else ""
    sound = [block for block in known if block not in broken and not _is_nothing(block)]
    return (content if len(sound) == len(content) else sound), reason


def _is_user_block(block: Any) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    if block["type"] == "tool_result":
        return isinstance(block.get("tool_use_id"), str)
    return not _is_nothing(block)


def _is_call(block: dict[str, Any]) -> bool:
    return isinstance(block.get("id"), str) and bool(block.get("name")) and isinstance(block.get("input"), dict)


def _is_nothing(block: dict[str, Any]) -> bool:
    """Providers refuse blank text, and thinking that they did not sign."""
    if block["type"] == "text":
        return not str(block.get("text") or "").strip()
    return block["type"] == "thinking" and not block.get("signature")
