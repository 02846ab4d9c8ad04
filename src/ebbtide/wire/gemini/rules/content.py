"""Rules about one content: its role, and parts that are parts (G7, G8, G9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ebbtide.wire.gemini.fields import (
    call_of,
    find,
    find_name,
    is_thought,
    remove_fields,
    replace_field,
    response_of,
    signature_of,
    snake_case,
)
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Json, as_text

ROLES = ("user", "model", "function")
_BESIDE_DATA = frozenset(
    {
        *("thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata"),
        *("partMetadata", "part_metadata", "mediaResolution", "media_resolution"),
    }
)
"""Fields of a part that say something about it, and are not what it is."""
_DATA = (
    *("text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult"),
    *("toolCall", "toolResponse"),
)
"""Of these a part has one."""
_TWO_SPELLINGS = tuple((name, snake_case(name)) for name in (*_DATA, "thoughtSignature") if name != "text")
_ADDRESSES = {"inlineData": "data", "fileData": "fileUri"}
"""Of media, the field without which there is nothing."""
NO_DATA = "required oneof field 'data' must have one initialized field"
NOT_AN_OBJECT = "Invalid value: expected an object (google.protobuf.Struct)"


def clean_content(content: Json, index: int, log: Log) -> Mapping[str, Json] | None:
    """Apply the rules about one content; None if nothing of it can be sent."""
    path = f"contents.{index}"
    if not isinstance(content, dict) or not ("role" in content or "parts" in content):
        log.note(SHAPE, path, "expected an object with parts", "dropped")
        return None
    role = content.get("role")
    if role not in (None, "") and role not in ROLES:
        log.note(SHAPE, f"{path}.role", "Please use a valid role: user, model.")
        return None
    if content.get("parts") is None and content.get("content") is not None:
        log.note(SHAPE, f"{path}.content", "a content has `parts`; `content` is a field of other providers")
        return None
    parts = content.get("parts")
    if isinstance(parts, str | dict) and parts:
        log.note(SHAPE, f"{path}.parts", "expected a list of parts", "made a list")
        content, parts = {**content, "parts": [parts]}, [parts]
    given = parts if isinstance(parts, list) else []
    kept = [_clean_part(part, f"{path}.parts.{n}", role, log) for n, part in enumerate(given)]
    valid = [part for part in kept if part is not None]
    if not valid:
        log.note("G7", path, "contents.parts must not be empty.", "dropped")
        return None
    is_same = all(new is old for new, old in zip(kept, given, strict=True))
    fixed: Mapping[str, Json] = content if is_same else {**content, "parts": valid}
    return fixed


def _clean_part(part: Json, path: str, role: Json, log: Log) -> Mapping[str, Json] | None:
    if isinstance(part, str) and part:
        log.note(SHAPE, path, "expected a part", "made text")
        return {"text": part}
    if not isinstance(part, dict):
        log.note(SHAPE, path, "expected a part", "dropped")
        return None
    if len(part) == 1 and isinstance(part.get("text"), str) and part["text"]:
        return part  # nearly all parts
    part = _clean_fields(part, path, log)
    call, response = call_of(part), response_of(part)
    if call is None and response is None:
        return _clean_plain(part, path, log)
    part = _one_kind(part, path, log)
    if is_thought(part) and not signature_of(part):
        log.note("G8", f"{path}.thought", "a thought without its thought_signature", "dropped")
        part = remove_fields(part, "thought")
    if call is not None:
        return _clean_call(part, call, path, role, log)
    assert response is not None
    return _clean_response(part, response, path, role, log)


def _clean_fields(part: Mapping[str, Json], path: str, log: Log) -> Mapping[str, Json]:
    """Fields of any part: each in one spelling, a signature that is text, a flag that is a flag, and no `type`."""
    for name, snake in _TWO_SPELLINGS:
        if part.get(name) is not None and part.get(snake) is not None:
            is_same = part[name] == part[snake]
            log.note(SHAPE, f"{path}.{snake}", f"{name} is there in two spellings", "dropped" if is_same else "")
            part = {field: value for field, value in part.items() if field != snake}
    signature, thought = find(part, "thoughtSignature"), part.get("thought")
    if not isinstance(signature, str | None):
        log.note("G5", f"{path}.{find_name(part, 'thoughtSignature')}", "Base64 decoding failed", "dropped")
        part = remove_fields(part, "thoughtSignature")
    if not isinstance(thought, bool | None):
        log.note(SHAPE, f"{path}.thought", "Invalid value: expected a boolean", "made a boolean")
        part = {**part, "thought": thought == "true"}
    answer = find(part, "functionResponse")
    if answer is not None and not isinstance(answer, dict):
        name = find_name(part, "functionResponse")
        log.note("G9", f"{path}.{name}", NOT_AN_OBJECT, "made an object")
        part = {**part, name: {"response": {"output": answer}}}
    if isinstance(part.get("type"), str):
        has_data = any(find(part, name) is not None for name in _DATA)
        log.note(SHAPE, f"{path}.type", "`type` is a field of other providers' blocks", "dropped" if has_data else "")
        part = remove_fields(part, "type")
    return part


def _clean_plain(part: Mapping[str, Json], path: str, log: Log) -> Mapping[str, Json] | None:
    """A part without a call or a response."""
    if is_thought(part) and not signature_of(part):
        log.note("G8", path, "a thought without its thought_signature", "dropped")
        return None
    text = part.get("text")
    kinds = [name for name, value in part.items() if value is not None and name not in _BESIDE_DATA]
    if not kinds or (kinds == ["text"] and text == "" and not signature_of(part)):
        log.note("G7", path, NO_DATA, "dropped")
        return None
    if "text" in kinds and not isinstance(text, str):
        log.note(SHAPE, f"{path}.text", "Invalid value: expected a string", "made text")
        return {**part, "text": as_text(text)}
    for name in ("functionCall", "functionResponse"):
        if find(part, name) is not None:
            log.note(SHAPE, f"{path}.{find_name(part, name)}", NOT_AN_OBJECT, "dropped")
            return None
    for name, address in _ADDRESSES.items():
        media = find(part, name)
        if media is not None and not has_address(media, address):
            log.note(SHAPE, f"{path}.{find_name(part, name)}", f"expected an object with {address}", "dropped")
            return None
    return _one_kind(part, path, log)


def has_address(media: Json, address: str = "data") -> bool:
    """Tell whether a file has its content, or the address where that is."""
    value = find(media, address)
    return isinstance(value, str) and value != ""


def _one_kind(part: Mapping[str, Json], path: str, log: Log) -> Mapping[str, Json]:
    """A part is one thing. An empty text beside another goes; two things have no repair."""
    kinds = [name for name in _DATA if find(part, name) is not None]
    if len(kinds) > 1 and "text" in kinds and part.get("text") == "":
        log.note(SHAPE, f"{path}.text", "oneof field 'data' is already set", "dropped")
        return remove_fields(part, "text")
    if len(kinds) > 1:
        log.note(SHAPE, path, f"oneof field 'data' is already set: {' and '.join(kinds)}")
    return part


def _clean_call(
    part: Mapping[str, Json], call: Mapping[str, Json], path: str, role: Json, log: Log
) -> Mapping[str, Json] | None:
    """A call has a name and an object of arguments, and is the model's."""
    path = f"{path}.{find_name(part, 'functionCall')}"
    if role != "model" or not isinstance(call.get("name"), str) or not call["name"]:
        log.note(
            SHAPE, path, "Name cannot be empty." if role == "model" else "a function call is the model's", "dropped"
        )
        return None
    arguments = call.get("args")
    if arguments is None or isinstance(arguments, dict):
        return _with_valid_id(part, "functionCall", call, path, log)
    log.note(SHAPE, f"{path}.args", NOT_AN_OBJECT, "made an object")
    fixed = {**call, "args": _as_object(arguments, "args")}
    return _with_valid_id(replace_field(part, "functionCall", fixed), "functionCall", fixed, path, log)


def _clean_response(
    part: Mapping[str, Json], response: Mapping[str, Json], path: str, role: Json, log: Log
) -> Mapping[str, Json] | None:
    """G9: a response is an object. Its name is compared with its call's later."""
    path = f"{path}.{find_name(part, 'functionResponse')}"
    if role == "model":
        log.note("G2", path, "a function response is the user's", "dropped")
        return None
    if not is_list_of_parts(response.get("parts")):
        log.note(SHAPE, f"{path}.parts", "expected a list of parts", "dropped")
        response = remove_fields(response, "parts")
        part = replace_field(part, "functionResponse", response)
    value = response.get("response")
    if isinstance(value, dict):
        return _with_valid_id(part, "functionResponse", response, path, log)
    log.note("G9", f"{path}.response", NOT_AN_OBJECT, "made an object")
    fixed = {**response, "response": {"output": ""} if value is None else _as_object(value, "output")}
    return _with_valid_id(replace_field(part, "functionResponse", fixed), "functionResponse", fixed, path, log)


def is_list_of_parts(media: Json) -> bool:
    """Tell whether the media of a function response may be sent; there may be none."""
    return media is None or (isinstance(media, list) and all(isinstance(part, dict) for part in media))


def _with_valid_id(
    part: Mapping[str, Json], field: str, fields: Mapping[str, Json], path: str, log: Log
) -> Mapping[str, Json]:
    identity = fields.get("id")
    if identity is None or isinstance(identity, str):
        return part
    log.note("G4", f"{path}.id", "Invalid value: expected a string", "made text")
    return replace_field(part, field, {**fields, "id": as_text(identity)})


def _as_object(value: Any, field: str) -> dict[str, Any]:
    """Return an object that says the same. Some clients write arguments as JSON in a string."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return parsed
    return {field: value}
