"""An item of a Responses body, as the rules read it. Readers here accept any shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ebbtide.wire.findings import Json, as_text

Item = Mapping[str, Json]

CALL_ID = re.compile(r".{1,64}", re.DOTALL)
ITEM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
UNANSWERED = "No result: the call was interrupted before a result was recorded."
PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
"""R8: the types whose id prefix was seen enforced."""
OUTPUTS = {
    "function_call": ("function_call_output",),
    "custom_tool_call": ("custom_tool_call_output",),
    "local_shell_call": ("function_call_output", "local_shell_call_output"),
    "shell_call": ("shell_call_output",),
    "apply_patch_call": ("apply_patch_call_output",),
    "computer_call": ("computer_call_output",),
    "tool_search_call": ("tool_search_output",),
    "mcp_approval_request": ("mcp_approval_response",),
}
"""R11: which output answers which call."""
OUTPUT_TYPES = frozenset(name for names in OUTPUTS.values() for name in names)
TEXT_OUTPUTS = ("function_call_output", "custom_tool_call_output")
"""Outputs that differ in name only."""
NEEDS_ITS_ID = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
)
"""R4: provider-run items that cannot go back without their id; they go with their reasoning."""


VOID: Item = {"type": "reasoning"}
"""Stands where a reasoning item was that cannot stay, until `regrouped` takes the ids off its followers."""


@dataclass(frozen=True, slots=True)
class At:
    """An item on its way out, and where it stood in the client's body."""

    at: int
    item: Item


def kind(item: Json) -> str:
    """The type; a bare role and content is a message."""
    if not isinstance(item, dict):
        return ""
    value = item.get("type")
    return value if isinstance(value, str) else "message" if value is None and "role" in item else ""


def is_models(item: Json) -> bool:
    """Made by the model: whatever is neither an output nor said by someone else."""
    name = kind(item)
    if name == "message":
        return bool(item.get("role") == "assistant")
    return bool(name) and name not in OUTPUT_TYPES


def call_id(item: Json) -> str:
    """Approvals pair by the request's own id, and shell outputs of older clients by the call's."""
    fields = {"mcp_approval_request": "id", "mcp_approval_response": "approval_request_id"}
    field = fields.get(kind(item), "call_id")
    value = item.get(field)
    return as_text(item.get("id") if value is None and kind(item) == "local_shell_call_output" else value)


def pairs_by_call_id(item: Item) -> bool:
    """Searches the provider runs itself have no `call_id` and no output to wait for."""
    return kind(item) in OUTPUTS and not (kind(item) == "tool_search_call" and item.get("call_id") is None)


def anonymous(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "id"}
