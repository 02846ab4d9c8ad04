"""Contents of the Gemini API: parts of the user and of the model. Results are parts of the user's contents.

Many clients send calls and results without ids; the reader then pairs them in order (`BY_ORDER`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.core.errors import BadRequest
from ebbtide.core.text.media import base64_head, image_pixels
from ebbtide.core.types import USER, Item, Role
from ebbtide.wire.blocks import (
    BY_ORDER,
    SCHEME,
    Block,
    as_mapping,
    as_str,
    as_text,
    canonical_json,
    describe_call,
    inserted_call_follows,
    is_original,
    shorten,
    text_block,
)
from ebbtide.wire.gemini.fields import (
    call_of,
    find,
    is_thought,
    make_response,
    parts_of,
    remove_fields,
    replace_field,
    request_field,
    response_of,
    settings_of,
    sign,
    signature_of,
    text_field,
)

_ROLES: Mapping[Any, Role] = {"user": "user", "model": "assistant", "function": "user", None: "user", "": "user"}
"""A content without a role is the user's; old clients send results with the role `function`."""


def split(message: Any, path: str) -> list[Block]:
    if not isinstance(message, dict):
        raise BadRequest("a content must be an object", path=path)
    role = message.get("role")
    side = _ROLES.get(role) if role is None or isinstance(role, str) else None
    if side is None:
        raise BadRequest(f"role must be user or model, not {shorten(role)}", path=f"{path}.role")
    if message.get("parts") is None and message.get("content") is not None:
        raise BadRequest("a content has `parts`; `content` is a field of other providers", path=f"{path}.content")
    parts = parts_of(message)
    if not parts:
        return [Block(side, "opaque", "", message.get("parts"), canonical_json(message.get("parts")))]
    return [_part(side, part, path, n) for n, part in enumerate(parts)]


def _part(role: Role, part: Any, path: str, number: int) -> Block:
    if isinstance(part, str):
        return text_block(role, part, part)
    if not isinstance(part, dict):
        raise BadRequest("a part must be an object", path=f"{path}.parts.{number}")
    for name, value in part.items():
        read = _READERS.get(name)
        if read is not None and value is not None and (value != "" or _has_only_text(part)):
            return read(role, part, value)
    return Block(role, "opaque", as_text(part), part, canonical_json(part))


def _has_only_text(part: Mapping[str, Any]) -> bool:
    return not any(name in _READERS and name != "text" and value is not None for name, value in part.items())


def _text(role: Role, part: Mapping[str, Any], value: Any) -> Block:
    text = as_text(value)
    # A stream may send a signature with an empty text.
    if is_thought(part) or not text:
        signature = signature_of(part)
        if signature or is_thought(part):
            # The SDK for Python writes a signature again, in the other alphabet of base64.
            canonical = f"{text}\0{signature.replace('-', '+').replace('_', '/')}"
            return Block(role, "thinking", text, part, canonical, source="assistant", signature=signature)
    return text_block(role, text, part)


def _call(_role: Role, part: Mapping[str, Any], value: Any) -> Block:
    call = as_mapping(value)
    arguments = call.get("args")
    call_id, name = as_str(call.get("id")), as_text(call.get("name"))
    text, canonical = describe_call(call_id, name, {} if arguments is None else arguments)
    return Block("assistant", "call", text, part, canonical, name, call_id or BY_ORDER)


def _result(_role: Role, part: Mapping[str, Any], value: Any) -> Block:
    result = as_mapping(value)
    response, media = result.get("response"), result.get("parts")
    name = text_field(response)
    text = as_text(response.get(name) if name and isinstance(response, dict) else response)
    call_id = as_str(result.get("id"))
    flag = "error" if _is_error(response) else "ok"
    canonical = f"{call_id}\0{flag}\0{text if name or response is None else canonical_json(response)}"
    images = [_media("user", inner) for inner in media if isinstance(inner, dict)] if isinstance(media, list) else []
    if images:
        canonical += canonical_json(media)
    return Block(
        "tool", "result", text, part, canonical, as_text(result.get("name")), call_id or BY_ORDER,
        source="tool", media=len(images), pixels=tuple(size for image in images for size in image.pixels),
        pages=sum(image.pages for image in images), is_failed=flag == "error",
    )  # fmt: skip


def _is_error(response: Any) -> bool:
    return isinstance(response, dict) and response.get("error") is not None


def _media(role: Role, part: Mapping[str, Any], _value: Any = None) -> Block:
    """A picture, or anything else in bytes or at an address."""
    inline = as_mapping(find(part, "inlineData"))
    file = inline or as_mapping(find(part, "fileData"))
    kind, data = as_str(find(file, "mimeType")), as_text(inline.get("data"))
    trust: dict[str, Any] = {"tier": USER, "source": "user"} if role == "user" else {"source": "assistant"}
    if kind.startswith("image/"):
        pixels = (image_pixels(base64_head(data, 4096)) if data else None,)
        return Block(role, "image", "", part, canonical_json(part), media=1, pixels=pixels, **trust)
    return Block(role, "document", "", part, canonical_json(part), media=1, pages=_pages(kind, len(data)), **trust)


def _pages(kind: str, size: int) -> int:
    """Return what a file counts as, in characters of a PDF in base64.

    Sound and video cost about a thirtieth of that: 32 and 258 tokens a second, by Google's documentation. Text costs
    four times as much. A file at an address counts as the smallest that there is.
    """
    if kind.startswith(("audio/", "video/")):
        return max(1, size // 30)
    return max(1, 4 * size if kind.startswith("text/") else size)


_Read = Callable[[Role, Mapping[str, Any], Any], Block]
_READERS: Mapping[str, _Read] = {
    "text": _text,
    **dict.fromkeys(("functionCall", "function_call"), _call),
    **dict.fromkeys(("functionResponse", "function_response"), _result),
    **dict.fromkeys(("inlineData", "inline_data", "fileData", "file_data"), _media),
}
"""By the field that says what a part is. Others travel whole: code that Google ran, its own tools, new kinds."""


def system_and_tools(body: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the parts of the system prompt, and the function declarations beside Google's own tools."""
    system = request_field(body, "systemInstruction")
    tools = request_field(body, "tools")
    if not isinstance(tools, list):
        return (parts_of(system) or system, tools)
    declared: list[Any] = []
    for tool in tools:
        functions = find(tool, "functionDeclarations")
        declared += functions if isinstance(functions, list) else [tool]
    return parts_of(system) or system, declared


def max_output(body: Mapping[str, Any]) -> int:
    limit = find(settings_of(body), "maxOutputTokens")
    return limit if isinstance(limit, int) else 0


def partial_history_reason(_body: Mapping[str, Any]) -> str:
    """What `cachedContent` names comes before the contents of the body, which are complete after it."""
    return ""


def thinking_bound_to_prefix(_body: Mapping[str, Any]) -> bool:
    """A signature is bound to its part, not to what comes before it."""
    return False


def join(original: Any, entries: Sequence[Item]) -> list[Any]:
    is_model = entries[0].role == "assistant"
    if len(entries) == 1 and is_original(entries[0]) and not isinstance(entries[0].raw, str | dict):
        return [original]  # a content without parts
    if original is not None and (_ROLES.get(original.get("role")) == "assistant") != is_model:
        original = None  # A note where a call stood is no call.
    parts = [_write(entry) for entry in entries]
    if is_model and original is not None:
        parts = _keep_signed(parts_of(original), parts)
    fields = original or {"role": "model" if is_model else "user"}
    if fields.get("role") == "function" and not all(entry.kind == "result" for entry in entries):
        fields = {**fields, "role": "user"}
    return [{**fields, "parts": parts}]


def _keep_signed(before: Sequence[Any], parts: list[Any]) -> list[Any]:
    """G5: of parallel calls only the first is signed. If it has gone, the next one gets the placeholder."""
    had_signature = any(call_of(part) is not None and signature_of(part) for part in before)
    first = next((n for n, part in enumerate(parts) if call_of(part) is not None), None)
    if not had_signature or first is None or signature_of(parts[first]):
        return parts
    return [*parts[:first], sign(parts[first]), *parts[first + 1 :]]


def _write(entry: Item) -> Any:
    raw = entry.raw
    if is_original(entry):
        return {"text": raw} if isinstance(raw, str) else raw
    if entry.kind == "result":
        return _write_result(entry)
    if entry.kind == "call":
        return _write_call(entry)
    return {"text": entry.text}


def _write_result(entry: Item) -> dict[str, Any]:
    """Write a text in place of a result: in the field that had the text before, and without its media."""
    part = as_mapping(entry.raw)
    result = response_of(part)
    if result is None:
        return make_response(entry.name, sent_id(entry.call_id), entry.text)
    response = result.get("response")
    name = "error" if _is_error(response) else text_field(response) or "output"
    return replace_field(part, "functionResponse", {**remove_fields(result, "parts"), "response": {name: entry.text}})


def _write_call(entry: Item) -> dict[str, Any]:
    """Write a call that an edit inserted. Its raw form is the function call with the signature of its part."""
    if call_of(entry.raw) is not None:
        return dict(as_mapping(entry.raw))
    raw = dict(as_mapping(entry.raw)) or {"name": entry.name, "args": json.loads(entry.text)}
    signature = raw.pop("thoughtSignature", "")
    call_id = sent_id(entry.call_id)
    call = {"id": call_id, **remove_fields(raw, "id")} if call_id else remove_fields(raw, "id")
    return {"functionCall": call, **({"thoughtSignature": signature} if signature else {})}


def sent_id(call_id: str) -> str:
    """Return the id to send; '' for one that we made, which no provider has seen."""
    return "" if call_id.startswith((f"{SCHEME}-", "ebb_")) else call_id


def must_join(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Roles alternate (G7), and a call that an edit inserted belongs to what the model said before it."""
    return after[0].message > before[-1].message + 1 or inserted_call_follows(before, after)


def replacement_forms(item: Item) -> Sequence[Item]:
    """If the result it replaces was an error, the replacement says so too."""
    if item.kind != "result":
        return [item]
    return [item, replace(item, raw=make_response(item.name, sent_id(item.call_id), "", is_error=True))]


def count_breakpoints(_message: Any) -> int:
    return 0


def for_log(message: Any) -> Any:
    if message.get("role") == "model":
        return {"role": "assistant", "content": ""}
    texts = [part if isinstance(part, str) else as_text(as_mapping(part).get("text")) for part in parts_of(message)]
    return {"role": "user", "content": "\n".join(filter(None, texts))}
