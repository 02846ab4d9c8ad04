"""A compact boundary is known by its metadata, never by its text: a tool may print the text (D8).

It stands in a list of messages where everything before it was folded (R021, R203-R206). Nothing before it is taken out:
who wants what still counts asks for the slice after it. Providers refuse fields they do not know (A10), so `metadata`
belongs in a kept list, and not in a request.
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
    """R182, R203. `at` in seconds since the epoch, written as RFC 3339 in UTC; `id` a UUID of the caller's making."""
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
    """R204. True itself, and nothing that only counts as true."""
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get(COMPACT_BOUNDARY) is True


def find_last_compact_boundary_index(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """R205: the rightmost."""
    return next((at for at in range(len(messages) - 1, -1, -1) if is_compact_boundary(messages[at])), None)


def slice_from_last_compact_boundary(messages: Sequence[_Message]) -> Sequence[_Message]:
    """R205, R206: what came after the last boundary; all of it where there is none."""
    last = find_last_compact_boundary_index(messages)
    return messages if last is None else messages[last + 1 :]
