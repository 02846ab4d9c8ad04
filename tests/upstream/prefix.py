"""What a provider's cache and a bound signature see: the body as a run of units, in prompt order, byte for byte.

Key order and white space inside strings count. Cache marks do not, and a bare string is its text block. A token is
three characters of this run; a picture or a file counts as a fixed number of characters that its bytes determine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from upstream.finding import Body, Json

CHARACTERS_PER_TOKEN = 3
MEDIA_CHARACTERS = 4500
"""1500 tokens: about what a picture of 1.1 megapixels is billed."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One tool, one system block, or one block of one message."""

    text: str
    """Its serialisation, with its role."""
    message: int
    """-1 for tools and system."""
    block: int
    mark: Json
    """Its `cache_control`, if any."""


def serial(value: Json) -> str:
    return json.dumps(_folded(value), ensure_ascii=False, separators=(",", ":"))


def _folded(value: Json) -> Json:
    """Without marks, and with media replaced by as many characters as they are worth."""
    if isinstance(value, list):
        return [_folded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    source = value.get("type") == "base64" or "mimeType" in value or "mime_type" in value
    return {
        key: _worth(entry) if _is_media(key, entry, source) else _folded(entry)
        for key, entry in value.items()
        if key != "cache_control"
    }


def _is_media(key: str, value: Json, source: bool) -> bool:
    if not isinstance(value, str):
        return False
    return (
        key == "bytes"
        or (key == "data" and source)
        or (key in ("url", "image_url", "file_data") and value.startswith("data:"))
    )


def _worth(data: str) -> str:
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest().ljust(MEDIA_CHARACTERS, ".")


def units(wire: str, body: Body) -> list[Unit]:
    """Tools, then system, then messages. Only on Anthropic's wire are there marks; elsewhere a message is one unit."""
    if wire == "anthropic":
        return list(_anthropic(body))
    if wire == "bedrock_converse":
        return list(_converse(body))
    if wire == "gemini":
        heads = [(name, body[name]) for name in ("tools", "systemInstruction", "system_instruction") if name in body]
        turns = [Unit(serial(content), at, 0, None) for at, content in enumerate(body.get("contents") or [])]
        return [Unit(f"{name}:{serial(entry)}", -1, 0, None) for name, entry in heads] + turns
    found = [("tools", entry) for entry in body.get("tools") or []]
    found += [("instructions", entry) for entry in [body.get("instructions")] if entry]
    history = body.get("messages") if wire == "openai_chat" else body.get("input")
    turns = history if isinstance(history, list) else [{"role": "user", "content": history}]
    heads = [Unit(f"{name}:{serial(entry)}", -1, 0, None) for name, entry in found]
    return heads + [Unit(serial(entry), at, 0, None) for at, entry in enumerate(turns)]


def _anthropic(body: Body) -> Iterator[Unit]:
    for name in ("tools", "system"):
        for at, entry in enumerate(_blocks(body.get(name))):
            yield Unit(f"{name}:{serial(entry)}", -1, at, entry.get("cache_control"))
    for index, message in enumerate(body.get("messages") or []):
        yield from message_units(index, message)


def _converse(body: Body) -> Iterator[Unit]:
    """A cache point is no unit: it marks the one before it."""
    tools = (body.get("toolConfig") or {}).get("tools")
    for name, entries in (("tools", tools), ("system", body.get("system"))):
        for at, entry in enumerate(_blocks(entries)):
            if "cachePoint" not in entry:
                yield Unit(f"{name}:{serial(entry)}", -1, at, _point_after(_blocks(entries), at))
    for index, message in enumerate(body.get("messages") or []):
        yield from message_units(index, message)


def _point_after(entries: list[Body], at: int) -> Json:
    return entries[at + 1].get("cachePoint") if at + 1 < len(entries) else None


def message_units(index: int, message: Body) -> Iterator[Unit]:
    content = _blocks(message.get("content"))
    for at, block in enumerate(content):
        if "cachePoint" not in block:
            point = _point_after(content, at)
            unit = message_unit(message.get("role", ""), index, at, block)
            yield unit if point is None else replace(unit, mark=point)


def message_unit(role: str, index: int, at: int, block: Body) -> Unit:
    # The first block opens the message: two messages and one message of the same blocks are different prompts.
    opening = "|" if at == 0 else "+"
    return Unit(f"{role}{opening}{serial(block)}", index, at, block.get("cache_control"))


def _blocks(content: Json) -> list[Body]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [entry for entry in content or [] if isinstance(entry, dict)]


def tokens(run: Iterable[Unit]) -> int:
    return sum(len(unit.text) for unit in run) // CHARACTERS_PER_TOKEN


def chain(digest: str, unit: Unit) -> str:
    """The digest of a run that is one unit longer."""
    return hashlib.sha256(f"{digest}\0{unit.text}".encode("utf-8", "surrogatepass")).hexdigest()
