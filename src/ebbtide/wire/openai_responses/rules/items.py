"""Items of a Responses body: how the rules read them, and the rules about single items and their ids.

Readers accept any shape. Each rule repairs or drops the item, and notes why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Indexed, Json, as_text, safe_id

Item = Mapping[str, Json]

CALL_ID = re.compile(r".{1,64}", re.DOTALL)
ITEM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
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
"""R4: items of the provider's own tools, which need their id; they are dropped with their reasoning."""


REMOVED_REASONING: Item = {"type": "reasoning"}
"""Marks a removed reasoning item until `regroup` has dropped the ids of its followers."""


def kind(item: Json) -> str:
    """The type; a bare role and content is a message."""
    if not isinstance(item, dict):
        return ""
    value = item.get("type")
    return value if isinstance(value, str) else "message" if value is None and "role" in item else ""


def is_from_model(item: Json) -> bool:
    """Tell whether the model made the item: it is no output and no message of another role."""
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


def drop_id(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "id"}


NEEDS_CALL_ID = ("function_call", "custom_tool_call", *TEXT_OUTPUTS)
"""Types that are nothing without a `call_id`; the others pair by it only if they have one."""


def clean_item(item: Json, index: int, stored: bool, log: Log) -> Item | None:
    """Apply the rules about one item; None if it must go. A note without a repair refuses the request."""
    path = f"input.{index}"
    if not kind(item):
        log.note(SHAPE, path, "expected an input item", "dropped")
        return None
    fixed = _fix_content(item, path, log) if kind(item) == "message" else _fix_call(item, path, log)
    if fixed is None:
        return None
    fixed = _fix_call_id(fixed, path, log)
    if kind(fixed) == "reasoning":
        return _fix_reasoning(fixed, path, stored, log)
    return _fix_id(fixed, path, stored, log)


def _fix_content(item: Item, path: str, log: Log) -> Item | None:
    """A message has content: a string or parts."""
    content = item.get("content")
    if isinstance(content, str):
        return item
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        if len(parts) == len(content):
            return item
        log.note(SHAPE, f"{path}.content", "expected content parts", "the rest dropped")
        return {**item, "content": parts}
    if content is None:
        log.note(SHAPE, f"{path}.content", "expected a string or an array", "dropped")
        return None
    log.note(SHAPE, f"{path}.content", "expected a string or an array", "made text")
    return {**item, "content": as_text(content)}


def _fix_call(item: Item, path: str, log: Log) -> Item | None:
    """A call has a name and its arguments as text; an output has text or parts."""
    name = kind(item)
    field = {"function_call": "arguments", "custom_tool_call": "input"}.get(name)
    if field and not isinstance(item.get("name"), str):
        log.note(SHAPE, f"{path}.name", "expected a string", "dropped")
        return None
    if field and not isinstance(item.get(field), str):
        log.note(SHAPE, f"{path}.{field}", "expected a string", "made text")
        return {**item, field: "{}" if item.get(field) is None else as_text(item[field])}
    if name in TEXT_OUTPUTS and not isinstance(item.get("output"), str | list):
        log.note(SHAPE, f"{path}.output", "expected a string or an array", "made text")
        return {**item, "output": "" if item.get("output") is None else as_text(item["output"])}
    return item


def _fix_call_id(item: Item, path: str, log: Log) -> Item:
    """R10: at most 64 characters, mapped alike on both ends."""
    name = kind(item)
    if name not in NEEDS_CALL_ID and (item.get("call_id") is None or name not in {*OUTPUTS, *OUTPUT_TYPES}):
        return item
    identity = safe_id(item.get("call_id"), "call_", CALL_ID)
    if identity == item.get("call_id"):
        return item
    problem = "string too long. Expected a string with maximum length 64"
    log.note("R10", f"{path}.call_id", problem, "id mapped")
    return {**item, "call_id": identity}


def _fix_id(item: Item, path: str, stored: bool, log: Log) -> Item | None:
    """R5, R8: no reference to what was not stored, and an id that fits its type; it may also be left out."""
    name, identity = kind(item), item.get("id")
    if name == "item_reference" and not stored:
        log.note("R5", path, f"Item with id '{as_text(identity)}' not found. {_NOT_STORED}", "dropped")
        return None
    if name == "item_reference" or identity is None or _is_valid_id(name, identity):
        return item
    expected = (
        f"that begins with '{PREFIXES[name]}'" if name in PREFIXES else "of letters, numbers, underscores or dashes"
    )
    log.note("R8", f"{path}.id", f"Expected an ID {expected}.", "id dropped")
    return drop_id(item)


_NOT_STORED = "Items are not persisted when `store` is set to false."


def _fix_reasoning(item: Item, path: str, stored: bool, log: Log) -> Item:
    """R5, R8, R15 for reasoning. One that cannot stay is marked, and goes with its followers' ids."""
    if item is REMOVED_REASONING:
        return item
    identity = item.get("id")
    if identity is not None and not _is_valid_id("reasoning", identity):
        log.note("R8", f"{path}.id", "Expected an ID that begins with 'rs'.", "reasoning dropped")
        return REMOVED_REASONING
    if identity is not None and not stored and not item.get("encrypted_content"):
        log.note("R5", path, f"Item with id '{identity}' not found. {_NOT_STORED}", "reasoning dropped")
        return REMOVED_REASONING
    if not isinstance(item.get("summary"), list):
        log.note("R15", f"{path}.summary", "Missing required parameter", "made empty")
        return {**item, "summary": []}
    return item


def _is_valid_id(name: str, identity: Json) -> bool:
    prefix = PREFIXES.get(name, "")
    return isinstance(identity, str) and identity.startswith(prefix) and ITEM_ID.fullmatch(identity) is not None


def drop_duplicates(entries: list[Indexed], log: Log) -> list[Indexed]:
    """R9: a second copy goes; a different item under the same id keeps its content and loses the id."""
    items_by_id: dict[str, Item] = {}
    unique_entries = []
    for entry in entries:
        identity = entry.message.get("id")
        if not isinstance(identity, str) or identity not in items_by_id or kind(entry.message) in OUTPUT_TYPES:
            unique_entries.append(entry)
            if isinstance(identity, str):
                items_by_id.setdefault(identity, entry.message)
            continue
        problem = f"Duplicate item found with id {identity}. Remove duplicate items from your input and try again."
        copy = entry.message == items_by_id[identity] or kind(entry.message) not in PREFIXES
        log.note("R9", f"input.{entry.index}", problem, "dropped" if copy else "id dropped")
        if kind(entry.message) == "reasoning":
            unique_entries.append(Indexed(entry.index, REMOVED_REASONING))
        elif not copy:
            unique_entries.append(Indexed(entry.index, drop_id(entry.message)))
    return unique_entries
