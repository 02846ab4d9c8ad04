"""Providers' request formats: bodies to items and back. `wire.protocol` says what a wire provides.

`WIRES` lists the wires by name; `detect` recognizes a body's wire, `detect_response` a response's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.wire import anthropic, bedrock_converse, gemini, openai_chat, openai_responses
from ebbtide.wire.bedrock_converse.blocks import KINDS as CONVERSE_KINDS
from ebbtide.wire.blocks import as_mapping, as_str
from ebbtide.wire.protocol import Wire

_ANTHROPIC, _CHAT, _CONVERSE = anthropic.WIRE, openai_chat.WIRE, bedrock_converse.WIRE

WIRES: Mapping[str, Wire] = {
    wire.name: wire for wire in (_ANTHROPIC, _CHAT, openai_responses.WIRE, gemini.WIRE, _CONVERSE)
}
LIST_KEYS = tuple(dict.fromkeys(wire.list_key for wire in WIRES.values()))
"""Where providers keep the conversation. If a body has several, the first counts."""
FRONT_FIELDS = frozenset().union(*(wire.front_fields for wire in WIRES.values()))
"""Where any of them may have system prompt and tools."""
DEFAULT_WIRE = "anthropic"
"""The wire of whatever names none: a log, a conversation of one's own, a body that fits several."""


def find_wire(name: str) -> Wire:
    if name not in WIRES:
        raise BadRequest(f"no wire is called {name!r}; there are {', '.join(WIRES)}")
    return WIRES[name]


def wire_of_record(record: Mapping[str, object]) -> Wire | None:
    """Return the wire of a logged message: Anthropic's unless the record names another; None if we have no such."""
    return WIRES.get(str(record.get("ebbwire", DEFAULT_WIRE)))


def detect(body: Mapping[str, Any], fallback: str = DEFAULT_WIRE) -> Wire:
    return recognize(body) or guess(body, fallback)


def recognize(body: Mapping[str, Any]) -> Wire | None:
    """Recognize the wire by what only its bodies have; None if the body fits several."""
    key = next((key for key in LIST_KEYS if key in body), "messages")
    if key != "messages":
        return next(wire for wire in WIRES.values() if wire.list_key == key)
    if any(name in body for name in _CONVERSE_FIELDS):
        return _CONVERSE
    messages = body["messages"] if isinstance(body.get("messages"), list) else []
    if any(map(_is_converse_message, messages[:_FIRST_MESSAGES])):
        return _CONVERSE
    if "system" in body or "thinking" in body or "context_management" in body:
        return _ANTHROPIC
    if messages and isinstance(messages[0], dict) and messages[0].get("role") == "system":
        return _CHAT  # Anthropic accepts system messages only in the middle.
    for message in messages:
        wire = _recognize_message(message)
        if wire is not None:
            return wire
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            return _CHAT if tool.get("type") == "function" or "function" in tool else _ANTHROPIC
    return None


_CONVERSE_FIELDS = ("modelId", "toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig")
_FIRST_MESSAGES = 3


def _is_converse_message(message: Any) -> bool:
    """Tell whether a message has a block of the Converse API: it has no `type`, but a field that is one."""
    content = as_mapping(message).get("content")
    blocks = content if isinstance(content, list) else ()
    return any("type" not in block and not CONVERSE_KINDS.isdisjoint(block) for block in map(as_mapping, blocks))


def guess(body: Mapping[str, Any], fallback: str = DEFAULT_WIRE) -> Wire:
    """Judge a body that fits several wires by its model, or take it for the fallback's."""
    model = as_str(body.get("model"))
    has_openai_field = "max_completion_tokens" in body or "stream_options" in body
    if has_openai_field or model.startswith(("gpt", "o1", "o3", "o4")):
        return _CHAT
    return _ANTHROPIC if "claude" in model else WIRES[fallback]


def detect_response(response: Mapping[str, Any]) -> Wire:
    return next((wire for wire in WIRES.values() if wire.response_key in response), WIRES[DEFAULT_WIRE])


def _recognize_message(message: Any) -> Wire | None:
    """Recognize the wire by one message, or return None."""
    if not isinstance(message, dict):
        return None
    if message.get("role") in ("tool", "developer", "function") or "tool_calls" in message:
        return _CHAT
    content = message.get("content")
    if not isinstance(content, list):
        return None
    types = {as_str(block.get("type")) for block in content if isinstance(block, dict)}
    if types & {"tool_use", "tool_result", "thinking", "image", "document", "server_tool_use"}:
        return _ANTHROPIC
    if types & {"image_url", "input_audio", "file"}:
        return _CHAT
    has_breakpoint = any("cache_control" in block for block in content if isinstance(block, dict))
    return _ANTHROPIC if has_breakpoint else None
