"""Reads a plain request body as a recording of one call without a reply. The body is used unchanged."""

from __future__ import annotations

from typing import Any

from ebbtide.formats.openai_chat import is_message
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import SessionFile
from ebbtide.formats.steps import Episode, ModelReply

_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image", "document"}
)


def recognises(file: SessionFile) -> bool:
    value = file.document
    if not isinstance(value, dict):
        return False
    messages = value.get("messages")
    if isinstance(messages, list) and messages:
        return is_message(messages[0]) and ("model" in value or _wire(value) == "anthropic")
    return "model" in value and isinstance(value.get("input"), str | list)


def read(file: SessionFile) -> Recording:
    body = file.document
    call = ModelReply(row=1, messages=(), response=None, model=str(body.get("model") or ""), body=body)
    return SessionReader(file).recording("request", _wire(body), "", [Episode(steps=(call,))])


def _wire(body: dict[str, Any]) -> str:
    if "messages" not in body:
        return "openai_responses"
    return "anthropic" if _is_anthropic(body) else "openai_chat"


def _is_anthropic(body: dict[str, Any]) -> bool:
    messages = [message for message in body["messages"] if isinstance(message, dict)]
    if any(message.get("role") in ("system", "developer", "tool") or message.get("tool_calls") for message in messages):
        return False
    tools = body.get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools):
        return True
    contents = [message.get("content") for message in messages]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    if any(isinstance(block, dict) and block.get("type") in _ANTHROPIC_BLOCKS for block in blocks):
        return True
    return "system" in body or "claude" in str(body.get("model"))
