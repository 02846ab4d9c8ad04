"""Requests that we write for OpenAI Responses: summary requests and tool definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.wire.openai_responses.rules.items import OUTPUT_TYPES, call_id, is_from_model, kind, pairs_by_call_id
from ebbtide.wire.requests import SharedRequests


class Requests(SharedRequests):
    routes: Sequence[str] = ("/responses",)
    side_routes: Mapping[str, str] = {"/responses/compact": "compaction"}

    def tool_definition(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        # Strict mode requires every field, and some tools have optional ones.
        return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}

    def limit_output(self, body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        return {**body, "max_output_tokens": tokens}

    def count_before_user_text(self, items: Sequence[Any]) -> int:
        """R1, R3: up to the first open call, without its reasoning and text; no reasoning at the end."""
        answered = {call_id(item) for item in items if kind(item) in OUTPUT_TYPES}
        open_calls = (n for n, item in enumerate(items) if pairs_by_call_id(item) and call_id(item) not in answered)
        count = next(open_calls, len(items))
        if count == len(items) and not (items and kind(items[-1]) == "reasoning"):
            return count
        while count and is_from_model(items[count - 1]):
            count -= 1
        return count

    def add_user_text(self, body: Mapping[str, Any], text: str) -> list[Any]:
        return [*body["input"], {"role": "user", "content": text}]
