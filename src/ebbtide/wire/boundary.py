"""Compact boundaries: messages that say that everything before them was summarized (R021, R203-R206).

A boundary is recognized by its metadata, never by its text, which a tool may print (D8). The messages before it stay
in the list; take the slice after the last boundary to get those that still count. Do not send `metadata` in a request:
providers refuse unknown fields (A10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

COMPACT_BOUNDARY = "compact_boundary"
COMPACT_SUMMARY = "compact_summary"
COMPACT_TIMESTAMP = "compact_timestamp"
COMPACT_ID = "compact_id"

_Message = TypeVar("_Message", bound=Mapping[str, Any])


def create_compact_boundary(summary: str, *, at: float, id: str) -> dict[str, Any]:
    """R182, R203: `at` is in seconds since the epoch, and written as RFC 3339 in UTC; `id` is a UUID that you make."""
    return {
        "role": "assistant",
        "content": f"[Previous conversation summary]\n\n{summary}\n\n[End of summary]",
        "metadata": {
            COMPACT_BOUNDARY: True,
            COMPACT_SUMMARY: summary,
            COMPACT_TIMESTAMP: datetime.fromtimestamp(at, UTC).isoformat(),
            COMPACT_ID: id,
        },
    }


def is_compact_boundary(message: Mapping[str, Any]) -> bool:
    """R204: only `True` itself counts, no other truthy value."""
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get(COMPACT_BOUNDARY) is True


def find_last_compact_boundary_index(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """R205: return the index of the last boundary."""
    return next((at for at in range(len(messages) - 1, -1, -1) if is_compact_boundary(messages[at])), None)


def slice_from_last_compact_boundary(messages: Sequence[_Message]) -> Sequence[_Message]:
    """R205, R206: return the messages after the last boundary; all of them if there is none."""
    last = find_last_compact_boundary_index(messages)
    return messages if last is None else messages[last + 1 :]
