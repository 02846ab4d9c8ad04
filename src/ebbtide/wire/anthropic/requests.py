"""Requests that we write for the Anthropic Messages API: summary requests and tool definitions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.wire.anthropic.rules.structure import blocks, calls, ends_in_server_use, is_programmatic, role
from ebbtide.wire.blocks import as_mapping
from ebbtide.wire.requests import SharedRequests

VERTEX_PATH = re.compile(r"/publishers/anthropic/models/(?P<model>[^/:]+):(?:stream)?[rR]awPredict\Z")
"""The same API at Google's address. Other publishers use these words for other APIs."""
VERTEX_COUNT = "count-tokens"
"""In place of a model there, where Anthropic has a path for counting."""
MAX_BREAKPOINTS = 4
"""A45."""


class Requests(SharedRequests):
    routes: Sequence[str] = ("/v1/messages",)
    side_routes: Mapping[str, str] = {"/v1/messages/count_tokens": "count"}

    def model(self, path: str, body: Mapping[str, Any]) -> str:
        """Vertex AI has the model in the path."""
        match = VERTEX_PATH.search(path)
        return str(body.get("model") or (match["model"] if match else ""))

    def tool_definition(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "description": description, "input_schema": schema}

    def limit_output(self, body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
        return {**body, "max_tokens": tokens}

    def count_before_user_text(self, messages: Sequence[Any]) -> int:
        count = len(messages)
        while count and not _may_user_follow(messages, count - 1):
            count -= 1
        return count

    def add_user_text(self, body: Mapping[str, Any], text: str) -> list[Any]:
        """Add a block to the last user message, because roles alternate (A5) and results come first (A19)."""
        block: dict[str, Any] = {"type": "text", "text": text}
        # A top-level `cache_control` marks the last block already.
        if body.get("cache_control") is None and _count_breakpoints(body) < MAX_BREAKPOINTS:
            block["cache_control"] = {"type": "ephemeral"}
        *before, last = body["messages"]
        if role(last) != "user":
            return [*before, last, {"role": "user", "content": [block]}]
        content = last.get("content")
        return [*before, {**last, "content": [*(content if isinstance(content, list) else blocks(last)), block]}]


def _may_user_follow(messages: Sequence[Any], index: int) -> bool:
    """Not after operator text (A3), an open call (A16), a paused turn (A30) or an empty message (A8), and not beside
    the results that code in the provider's container waits for (A27)."""
    message = messages[index]
    if role(message) == "user":
        return not (index and any(is_programmatic(call) for call in calls(messages[index - 1])))
    has_ended = not calls(message) and not ends_in_server_use(message)
    return role(message) == "assistant" and bool(blocks(message)) and has_ended


def _count_breakpoints(body: Mapping[str, Any]) -> int:
    sections = [section for name in ("tools", "system") if isinstance(section := body.get(name), list)]
    sections += map(blocks, body["messages"])
    return sum(1 for section in sections for block in section if as_mapping(block).get("cache_control") is not None)
