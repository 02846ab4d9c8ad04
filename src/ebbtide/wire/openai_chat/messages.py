"""Messages of OpenAI Chat Completions: an assistant message has text and tool calls, each result is a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.core.errors import BadRequest
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
    inserted_call_follows,
    is_original,
    text_block,
    user_text_for_log,
)

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def split(message: Any, path: str) -> list[Block]:
    if not isinstance(message, dict):
        raise BadRequest("a message must be an object", path=path)
    role = find_role(message, _ROLES, path)
    if role == "tool":
        return [_result(message)]
    blocks = _content(role, message)
    if role == "assistant":
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise BadRequest("must be a list of calls", path=f"{path}.tool_calls")
        blocks += [_call(call) for call in calls if isinstance(call, dict)]
        if isinstance(legacy := message.get("function_call"), dict):
            blocks.append(_legacy_call(legacy))
    return blocks or [Block(role, "opaque", as_text(message.get("refusal")), message, canonical_json(message))]


def _content(role: Role, message: Mapping[str, Any]) -> list[Block]:
    content = message.get("content")
    if isinstance(content, str) and content:
        return [text_block(role, content, content, locked=role == "system")]
    if not isinstance(content, list):
        return []
    return [_part(role, part) for part in content]


def _part(role: Role, part: Any) -> Block:
    fields = as_mapping(part)
    if fields.get("type") == "text":
        return text_block(role, as_text(fields.get("text")), part, locked=role == "system")
    if fields.get("type") == "image_url":
        return image_block(role, part, as_mapping(fields.get("image_url")).get("url"))
    if fields.get("type") in ("file", "input_audio"):
        return document_block(role, part, pages=len(as_text(as_mapping(fields.get("file")).get("file_data"))))
    return Block(role, "opaque", as_text(part), part, canonical_json(part))


def _call(call: Mapping[str, Any]) -> Block:
    function = as_mapping(call.get("function") or call.get("custom"))
    args = as_text(function.get("arguments", function.get("input")))
    canonical = canonical_json([call.get("id"), function.get("name"), args])
    return Block("assistant", "call", args, call, canonical, as_text(function.get("name")), as_text(call.get("id")))


def _legacy_call(call: Mapping[str, Any]) -> Block:
    """The old `function_call` has no id; it is paired by name with the `function` message that follows."""
    name = as_text(call.get("name"))
    return Block(
        "assistant", "call", as_text(call.get("arguments")), call, canonical_json(call), name, f"function:{name}"
    )


def _result(message: Mapping[str, Any]) -> Block:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    texts = [as_text(as_mapping(part).get("text", part)) for part in parts] if parts else [as_text(content)]
    text = "\n".join(texts)
    name = as_text(message.get("name"))
    call_id = as_text(message.get("tool_call_id")) or f"function:{name}"
    return Block("tool", "result", text, message, f"{call_id}\0{text}", name=name, call_id=call_id, source="tool")


def system_and_tools(body: Mapping[str, Any]) -> tuple[Any, Any]:
    """The system prompt is among the messages here: message 0, kept verbatim (R279)."""
    return None, body.get("tools") or body.get("functions")


def max_output(body: Mapping[str, Any]) -> int:
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return limit if isinstance(limit, int) else 0


def partial_history_reason(_body: Mapping[str, Any]) -> str:
    return ""


def thinking_bound_to_prefix(_body: Mapping[str, Any]) -> bool:
    return False


def join(original: Any, entries: Sequence[Item]) -> list[Any]:
    if entries[0].role == "tool":
        return [_compose_result(entry) for entry in entries]
    if len(entries) == 1 and entries[0].kind == "opaque" and "role" in as_mapping(entries[0].raw):
        return [entries[0].raw]  # A message of no parts, as a refusal is, stays as it is.
    role = entries[0].role
    if _ROLES.get(as_str(as_mapping(original).get("role"))) != role:
        original = None  # A note where a result stood is no result.
    fields = {k: v for k, v in (original or {}).items() if k not in ("content", "tool_calls", "function_call")}
    contents = [entry for entry in entries if entry.kind != "call"]
    calls = [entry for entry in entries if entry.kind == "call"]
    out: dict[str, Any] = {"role": role, **fields, "content": _compose_content(original, contents)}
    modern = [_compose_call(entry) for entry in calls if not entry.call_id.startswith("function:")]
    if modern:
        out["tool_calls"] = modern
    if len(modern) < len(calls):
        out["function_call"] = (original or {}).get("function_call")
    return [out]


def _compose_content(original: Any, words: Sequence[Item]) -> Any:
    content = as_mapping(original).get("content")
    parts = content if isinstance(content, list) else [content]
    if len(words) == len(parts) and all(map(_is_part, words, parts)):
        return content
    if len(words) == 1 and not isinstance(content, list):
        return words[0].text
    if not words:
        return None
    return [entry.raw if is_original(entry) and isinstance(entry.raw, dict) else _text_part(entry) for entry in words]


def _is_part(entry: Item, part: Any) -> bool:
    return is_original(entry) and (entry.raw is part or entry.raw == part)


def _text_part(entry: Item) -> dict[str, Any]:
    return {"type": "text", "text": entry.text}


def _compose_call(entry: Item) -> Any:
    if is_original(entry) or isinstance(entry.raw, dict):
        return entry.raw
    return {"id": entry.call_id, "type": "function", "function": {"name": entry.name, "arguments": entry.text}}


def _compose_result(entry: Item) -> Any:
    if is_original(entry):
        return entry.raw
    if isinstance(entry.raw, dict):
        return {**entry.raw, "content": entry.text}
    return {"role": "tool", "tool_call_id": entry.call_id, "content": entry.text}


def must_join(before: Sequence[Item], after: Sequence[Item]) -> bool:
    return inserted_call_follows(before, after)


def replacement_forms(item: Item) -> Sequence[Item]:
    return [item]


def count_breakpoints(_message: Any) -> int:
    return 0


def for_log(message: Any) -> Any:
    return user_text_for_log(message, split(message, "messages"))
