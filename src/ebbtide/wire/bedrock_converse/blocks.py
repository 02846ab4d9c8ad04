"""Content blocks of the Converse API. A block has one field, which says what it is: `{"text": ...}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Block = Mapping[str, Any]

CACHE_POINT = "cachePoint"
"""A block of its own behind what it caches. It is no content, so it is no item."""
FRONT_FIELDS = frozenset(("system", "toolConfig"))
"""Where the system prompt and the tools are."""
KINDS = frozenset(
    {
        *("text", "image", "document", "video", "audio", "toolUse", "toolResult", "guardContent", CACHE_POINT),
        *("reasoningContent", "citationsContent", "searchResult"),
    }
)


def blocks_of(message: Any) -> list[Any]:
    """Return the blocks of a message; one for a bare text."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        return content
    return [{"text": content}] if isinstance(content, str) and content else []


def is_cache_point(block: Any) -> bool:
    return isinstance(block, dict) and CACHE_POINT in block


def field(block: Any, name: str) -> dict[str, Any] | None:
    """Return what is in this field of a block if it is an object, or None."""
    value = block.get(name) if isinstance(block, dict) else None
    return value if isinstance(value, dict) else None


def calls_of(message: Any) -> list[dict[str, Any]]:
    return [call for block in blocks_of(message) if (call := field(block, "toolUse")) is not None]


def with_cache_points(content: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Yield each block that is no cache point, with its index and the cache point behind it or None."""
    for n, block in enumerate(content):
        if is_cache_point(block):
            continue
        after = content[n + 1] if n + 1 < len(content) else None
        yield n, block, after if is_cache_point(after) else None
