"""Provider bodies and items, both ways. A wire is a module with one shape (`wire.shape.Wire`); here they are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebbtide.wire.anthropic import messages as anthropic
from ebbtide.wire.openai_chat import messages as openai_chat
from ebbtide.wire.openai_responses import messages as openai_responses
from ebbtide.wire.protocol import Wire, as_word

WIRES: Mapping[str, Wire] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}


def detect(body: Mapping[str, Any]) -> Wire:
    """Which provider's shape a body has, told by what only that one has."""
    if "input" in body and "messages" not in body:
        return openai_responses
    if "system" in body or "thinking" in body or "context_management" in body:
        return anthropic
    messages = body["messages"] if isinstance(body.get("messages"), list) else []
    if messages and isinstance(messages[0], dict) and messages[0].get("role") == "system":
        return openai_chat  # Anthropic takes system messages only in the middle.
    for message in messages:
        told = _telling(message)
        if told is not None:
            return told
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            return openai_chat if tool.get("type") == "function" or "function" in tool else anthropic
    model = as_word(body.get("model"))
    openai = "max_completion_tokens" in body or "stream_options" in body or model.startswith(("gpt", "o1", "o3", "o4"))
    return openai_chat if openai else anthropic


def answered(response: Mapping[str, Any]) -> Wire:
    """The same of a response."""
    return openai_responses if "output" in response else openai_chat if "choices" in response else anthropic


def _telling(message: Any) -> Wire | None:
    """The wire a single message betrays, or None."""
    if not isinstance(message, dict):
        return None
    if message.get("role") in ("tool", "developer", "function") or "tool_calls" in message:
        return openai_chat
    content = message.get("content")
    if not isinstance(content, list):
        return None
    kinds = {as_word(block.get("type")) for block in content if isinstance(block, dict)}
    if kinds & {"tool_use", "tool_result", "thinking", "image", "document", "server_tool_use"}:
        return anthropic
    if kinds & {"image_url", "input_audio", "file"}:
        return openai_chat
    marked = any("cache_control" in block for block in content if isinstance(block, dict))
    return anthropic if marked else None
