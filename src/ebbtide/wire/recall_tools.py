"""The recall tools for `tools` of a request. Their bytes never vary, because they are part of the cached prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebbtide.core import texts
from ebbtide.core.tool_calls import PAGE, READ_TOOL, RECALL_TOOLS, SEARCH_TOOL
from ebbtide.wire import find_wire
from ebbtide.wire.protocol import Wire

_TOOLS: Mapping[str, tuple[str, Mapping[str, tuple[str, str]], str]] = {
    SEARCH_TOOL: (texts.search_description(READ_TOOL), {"query": ("string", texts.QUERY_FIELD)}, "query"),
    READ_TOOL: (
        texts.read_description(SEARCH_TOOL, PAGE),
        {
            "handle": ("string", texts.HANDLE_FIELD),
            "start": ("integer", texts.START_FIELD),
            "end": ("integer", texts.END_FIELD),
        },
        "handle",
    ),
}
"""Of each tool: its description, its fields, and the field that is required."""


def recall_definitions() -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, description and JSON schema of both tools."""
    return [(name, about, _schema(fields, required)) for name, (about, fields, required) in _TOOLS.items()]


def recall_tools(wire: Wire | str) -> list[dict[str, Any]]:
    """Return the definitions of both tools, for `tools` of every request from the first on.

    `wire` is the API format: `anthropic`, `openai_chat` and so on. Answer their calls with `Context.recall_answer`.
    """
    wire = find_wire(wire) if isinstance(wire, str) else wire
    return [wire.requests.tool_definition(*definition) for definition in recall_definitions()]


def with_recall_tools(wire: Wire, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the request with our tools behind the client's own; None if they cannot be added.

    A model without tools is not meant to call any.
    """
    tools = wire.messages.system_and_tools(body)[1]
    if not isinstance(tools, list) or not tools or set(wire.requests.tool_names(tools)) & set(RECALL_TOOLS):
        return None
    return wire.requests.add_tools(body, recall_tools(wire))


def _schema(fields: Mapping[str, tuple[str, str]], required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind, "description": about} for name, (kind, about) in fields.items()},
        "required": [required],
        "additionalProperties": False,
    }
