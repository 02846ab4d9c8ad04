"""Messages of OpenAI Responses: each input item is a message; reasoning stays with what follows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.text.media import base64_pixels
from ebbtide.core.types import Item, Role
from ebbtide.wire.blocks import (
    Block,
    as_mapping,
    as_str,
    as_text,
    canonical_json,
    document_block,
    find_role,
    image_block,
    is_original,
    shorten,
    text_block,
    user_text_for_log,
)

_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
    "tool_search_call": "arguments",
}
"""Client-side calls, and where their arguments stand. Each is answered by `<type>_output` with the same `call_id`."""
_OUTPUTS = {f"{call}_output" for call in _CALLS} | {"tool_search_output"}
_PARTS = {"input_text", "output_text", "text"}


def split(message: Any, path: str) -> list[Block]:
    if not isinstance(message, dict):
        raise BadRequest("an input item must be an object", path=path)
    kind = message.get("type", "message")
    if not isinstance(kind, str):
        raise BadRequest(f"type must be a text, not {shorten(kind)}", path=f"{path}.type")
    if kind == "message":
        return _message(message, path)
    if kind in _CALLS:
        arguments = message.get(_CALLS[kind])
        call_id = as_text(message.get("call_id") or message.get("id"))
        canonical = canonical_json([kind, call_id, message.get("name"), arguments])
        return [Block("assistant", "call", as_text(arguments), message, canonical, _name(message), call_id)]
    if kind in _OUTPUTS:
        return [_output(message)]
    # Reasoning and server tools leave whole with their run, or stay.
    words = as_text(message.get("summary") or message.get("content") or "")
    hidden = as_text(message.get("encrypted_content"))
    return [
        Block("assistant", "opaque", words, message, _identity(message), locked=kind == "compaction", signature=hidden)
    ]


def _identity(message: Mapping[str, Any]) -> str:
    return canonical_json({k: v for k, v in message.items() if k not in ("status",)})


def _name(message: Mapping[str, Any]) -> str:
    return as_text(message.get("name")) or as_text(message.get("type")).removesuffix("_call")


def _message(message: Mapping[str, Any], path: str) -> list[Block]:
    role = find_role(message, _ROLES, path)
    content = message.get("content")
    if isinstance(content, str):
        return [text_block(role, content, content, locked=role == "system")]
    if not isinstance(content, list) or not content:
        return [Block(role, "opaque", "", message, canonical_json(message))]
    return [_part(role, part) for part in content]


def _part(role: Role, part: Any) -> Block:
    fields = as_mapping(part)
    kind = as_str(fields.get("type"))
    if kind in _PARTS:
        return text_block(role, as_text(fields.get("text")), part, locked=role == "system")
    if kind == "input_image":
        return image_block(role, part, fields.get("image_url"))
    if kind == "input_file":
        return document_block(role, part, pages=len(as_text(fields.get("file_data"))))
    return Block(role, "opaque", as_text(part), part, canonical_json(part))


def _output(message: Mapping[str, Any]) -> Block:
    output = message.get("output", message.get("tools"))
    parts = output if isinstance(output, list) else []
    mappings = [as_mapping(part) for part in parts]
    images = [base64_pixels(as_str(part.get("image_url"))) for part in mappings if part.get("type") == "input_image"]
    texts = [as_text(part["text"]) for part in mappings if as_str(part.get("type")) in _PARTS and "text" in part]
    text = "\n".join(texts) if texts or images else as_text(output)
    call_id = as_text(message.get("call_id"))
    canonical = f"{call_id}\0{text if not images else canonical_json(output)}"
    return Block(
        "tool", "result", text, message, canonical,
        call_id=call_id, source="tool", media=len(images), pixels=tuple(images),
    )  # fmt: skip


def system_and_tools(body: Mapping[str, Any]) -> tuple[Any, Any]:
    return body.get("instructions"), body.get("tools")


def max_output(body: Mapping[str, Any]) -> int:
    limit = body.get("max_output_tokens")
    return limit if isinstance(limit, int) else 0


def partial_history_reason(body: Mapping[str, Any]) -> str:
    for field in ("previous_response_id", "conversation"):
        if body.get(field):
            return f"{field} is set: the server keeps the history, and only the new turn is here"
    return ""


def thinking_bound_to_prefix(_body: Mapping[str, Any]) -> bool:
    return False


def join(original: Any, entries: Sequence[Item]) -> list[Any]:
    out: list[Any] = []
    words: list[Item] = []
    for entry in entries:
        if entry.kind in ("call", "result") or (
            is_original(entry) and as_str(as_mapping(entry.raw).get("type")) not in _MESSAGE_PARTS
        ):
            out += [*_compose_words(original, words), _compose_item(entry)]
            words = []
        else:
            words.append(entry)
    return out + _compose_words(original, words)


_MESSAGE_PARTS = _PARTS | {"input_image", "input_file", "refusal", ""}


def _compose_item(entry: Item) -> Any:
    if is_original(entry) or (entry.kind == "call" and isinstance(entry.raw, dict)):
        return entry.raw
    if entry.kind == "call":
        return {"type": "function_call", "call_id": entry.call_id, "name": entry.name, "arguments": entry.text}
    if isinstance(entry.raw, dict):
        return {**entry.raw, "output": entry.text}
    return {"type": "function_call_output", "call_id": entry.call_id, "output": entry.text}


def _compose_words(original: Any, words: Sequence[Item]) -> list[Any]:
    if not words:
        return []
    if as_mapping(original).get("type", "message") != "message":
        original = None  # A note where a call or a result stood is neither.
    fields = {k: v for k, v in as_mapping(original).items() if k not in ("id", "content")}
    role = as_mapping(original).get("role") or words[0].role
    kind = "output_text" if role == "assistant" else "input_text"
    content = [
        entry.raw if is_original(entry) and isinstance(entry.raw, dict) else {"type": kind, "text": entry.text}
        for entry in words
    ]
    # An id names what the server stored. What we changed is no longer that; what stays whole beside its reasoning is.
    if as_mapping(original).get("id") and content == original["content"]:
        return [original]
    return [{"type": "message", **fields, "role": role, "content": content}]


def must_join(_before: Sequence[Item], _after: Sequence[Item]) -> bool:
    return False


def replacement_forms(item: Item) -> Sequence[Item]:
    return [item]


def count_breakpoints(_message: Any) -> int:
    return 0


def for_log(message: Any) -> Any:
    return user_text_for_log(message, split(message, "input"))
