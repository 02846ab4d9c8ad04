"""Rules about the fields beside the contents: each has its type."""

from __future__ import annotations

from collections.abc import Mapping

from ebbtide.wire.gemini.fields import find, find_name, remove_fields, replace_field
from ebbtide.wire.protocol import Log
from ebbtide.wire.validity import SHAPE, Json


def clean_fields(body: Mapping[str, Json], log: Log) -> Mapping[str, Json]:
    """Write a system prompt as a content and a single tool as a list. For other wrong types there is no repair."""
    system, tools = find(body, "systemInstruction"), body.get("tools")
    if isinstance(system, str | list):
        log.note(SHAPE, find_name(body, "systemInstruction"), "expected a content", "made a content")
        parts = [{"text": part} if isinstance(part, str) else part for part in system]
        content = {"parts": [{"text": system}] if isinstance(system, str) else parts}
        body = replace_field(body, "systemInstruction", content) if system else remove_fields(body, "systemInstruction")
    if isinstance(tools, dict):
        log.note(SHAPE, "tools", "expected a list of tools", "made a list")
        body = {**body, "tools": [tools]}
    for name, kind in (("generationConfig", dict), ("cachedContent", str)):
        value = find(body, name)
        if value is not None and not isinstance(value, kind):
            log.note(SHAPE, find_name(body, name), f"expected {'an object' if kind is dict else 'a name'}")
    return body
