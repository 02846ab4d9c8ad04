"""A recorded history of OpenAI Chat Completions, repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.wire.blocks import as_str
from ebbtide.wire.client_history import NO_RESULT, ClientHistory, Message


class History(ClientHistory):
    """Each call is answered by a tool message directly after it, before any other message."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        for call in message.get("tool_calls") or ():
            yield call["id"], {"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT}

    def result_id(self, part: dict[str, Any]) -> str | None:
        return as_str(part.get("tool_call_id")) if part["role"] == "tool" else None

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        is_cleared = as_str(message.get("tool_call_id")) in call_ids
        return {**message, "content": placeholder} if is_cleared else message
