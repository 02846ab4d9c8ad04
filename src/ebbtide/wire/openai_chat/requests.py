"""Requests that we write for OpenAI Chat Completions: summary requests and tool definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.wire.blocks import as_mapping
from ebbtide.wire.openai_chat.rules import role
from ebbtide.wire.requests import NEWER_OPENAI, SharedRequests


class Requests(SharedRequests):
    routes: Sequence[str] = ("/chat/completions",)
    side_routes: Mapping[str, str] = {}

    def tool_definition(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}

    def limit_output(self, body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        is_newer = bool(NEWER_OPENAI.search(str(body.get("model", ""))))
        if "max_completion_tokens" in body or ("max_tokens" not in body and is_newer):
            return {**body, "max_completion_tokens": tokens}
        return {**body, "max_tokens": tokens}

    def count_before_user_text(self, messages: Sequence[Any]) -> int:
        """C1: either the last calls are all answered, or they are left out with the answers they have."""
        index = len(messages) - 1
        while index >= 0 and role(messages[index]) in ("tool", "function"):
            index -= 1
        caller = as_mapping(messages[index]) if index >= 0 else {}
        answered = {as_mapping(message).get("tool_call_id") for message in messages[index + 1 :]}
        calls = caller.get("tool_calls")
        called = {as_mapping(call).get("id") for call in calls} if isinstance(calls, list) else set()
        is_waiting = caller.get("function_call") is not None and index == len(messages) - 1
        return index if is_waiting or called - answered else len(messages)

    def add_user_text(self, body: Mapping[str, Any], text: str) -> list[Any]:
        """Join a last user message: many templates of open models refuse two in a row."""
        *before, last = body["messages"]
        content = as_mapping(last).get("content")
        if role(last) == "user" and isinstance(content, str):
            return [*before, {**last, "content": f"{content}\n\n{text}"}]
        if role(last) == "user" and isinstance(content, list):
            return [*before, {**last, "content": [*content, {"type": "text", "text": text}]}]
        return [*before, last, {"role": "user", "content": text}]
