"""Fields of the Gemini API. Clients write them as `functionCall` or as `function_call`, and the API reads both.

Names are asked for in camel case. What we add to an object is written in the case that the object uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ebbtide.wire.blocks import as_mapping, as_str

PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator"
"""Google's documented signature for a call that the model did not make here (G5)."""
FRONT_FIELDS = frozenset(("systemInstruction", "system_instruction", "tools"))
"""Where the system prompt and the tools are."""
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=256)
def snake_case(name: str) -> str:
    return _HUMP.sub("_", name).lower()


def find(fields: Any, name: str) -> Any:
    """Return a field in either case; None if it is missing."""
    if not isinstance(fields, dict):
        return None
    value = fields.get(name)
    return fields.get(snake_case(name)) if value is None else value


def find_name(fields: Mapping[str, Any], name: str) -> str:
    """Return the name under which a field is there, or the one in camel case."""
    snake = snake_case(name)
    return snake if snake in fields and fields.get(name) is None else name


def replace_field(fields: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**fields, find_name(fields, name): value}


def remove_fields(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    removed = {*names, *map(snake_case, names)}
    return {name: value for name, value in fields.items() if name not in removed}


def parts_of(content: Any) -> list[Any]:
    """Return the parts of a content; one for a bare text or a single part."""
    parts = content.get("parts") if isinstance(content, dict) else None
    if isinstance(parts, list):
        return parts
    return [parts] if isinstance(parts, str | dict) and parts else []


def call_of(part: Any) -> Mapping[str, Any] | None:
    """Return the function call of a part, or None."""
    if not isinstance(part, dict):
        return None
    call = part.get("functionCall")
    call = part.get("function_call") if call is None else call
    return call if isinstance(call, dict) else None


def response_of(part: Any) -> Mapping[str, Any] | None:
    """Return the function response of a part, or None."""
    if not isinstance(part, dict):
        return None
    response = part.get("functionResponse")
    response = part.get("function_response") if response is None else response
    return response if isinstance(response, dict) else None


def signature_of(part: Any) -> str:
    return as_str(find(part, "thoughtSignature"))


def sign(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's part with the placeholder signature (G5)."""
    name = "thought_signature" if "function_call" in part else "thoughtSignature"
    return {**part, name: PLACEHOLDER_SIGNATURE}


def is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("thought") is True


def is_model_content(content: Any) -> bool:
    return isinstance(content, dict) and content.get("role") == "model"


def config_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `config`, in which the SDK for Python has everything but model and contents: a dict or its own object."""
    config = body.get("config")
    dump = getattr(config, "model_dump", None)
    return as_mapping(dump(mode="json", exclude_none=True) if callable(dump) else config)


def request_field(body: Mapping[str, Any], name: str) -> Any:
    """Return a field of the request, or of its `config`."""
    value = find(body, name)
    return find(config_of(body), name) if value is None and "config" in body else value


def settings_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `generationConfig`, or the `config` that has the same fields."""
    settings = find(body, "generationConfig")
    return as_mapping(settings) if settings is not None else config_of(body)


def replace_settings(body: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    name = "config" if "config" in body and find(body, "generationConfig") is None else "generationConfig"
    return replace_field(body, name, settings)


def text_field(response: Any) -> str:
    """Return the name of a function response's only field if that is a text, else ''."""
    if not isinstance(response, dict) or len(response) != 1:
        return ""
    name, value = next(iter(response.items()))
    return name if isinstance(value, str) else ""


def make_response(name: str, call_id: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    """Write the part of a function response. A call without an id is answered without one."""
    fields: dict[str, Any] = {"id": call_id} if call_id else {}
    return {"functionResponse": {**fields, "name": name, "response": {"error" if is_error else "output": text}}}
