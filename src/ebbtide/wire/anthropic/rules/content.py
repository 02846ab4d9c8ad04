"""Rules about single blocks, and about images and documents (A54 to A57).

Each rule repairs the block or returns None to drop it, and notes why. The check runs the same functions and reports
their notes. Fields and block types we do not know pass untouched (A10, A13): providers add them faster than we learn
them. More than twenty images lower the size limit of all of them, so a new image can invalidate an old one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.core.cache.prefix import are_same_objects
from ebbtide.core.text.media import HEAD, base64_head, image_pixels, media_type
from ebbtide.core.texts import NO_OUTPUT, image_removed
from ebbtide.wire.anthropic.rules.structure import (
    SERVER_USE,
    THINKING,
    Block,
    BodyFacts,
    Message,
    blocks,
    drop_fields,
    kind,
    replace_blocks,
    role,
    text_block,
)
from ebbtide.wire.protocol import Finding, Log
from ebbtide.wire.validity import SHAPE, Indexed, Json, Note, as_text, safe_id

CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
RESULT_PARTS = ("text", "image", "search_result", "document", "tool_reference")
NO_BREAKPOINT = (*THINKING, "fallback")
"""A46: block types that carry no `cache_control`."""
REFUSED_FIELDS = {"tool_use": ("text",)}
"""A10: fields seen refused, by block type. Streaming clients merge a text delta into a call."""
BAD_ID = "String should match pattern '^[a-zA-Z0-9_-]+$'"


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Where a block is, and where to note findings."""

    path: str
    role: str
    facts: BodyFacts
    note: Note


def clean_message(entry: Indexed, facts: BodyFacts, log: Log) -> Indexed | None:
    """Repair every block of a message; None if it was no message. A note without a repair refuses the request."""
    path, message = f"messages.{entry.index}", entry.message
    if not isinstance(message, dict) or not ("role" in message or "content" in message):
        log.note(SHAPE, path, "Input should be a valid dictionary", "dropped")
        return None
    if role(message) not in ("user", "assistant", "system"):
        log.note("A2", f"{path}.role", "Input should be 'user' or 'assistant'")
        return None
    message = _fix_content_type(message, path, log)
    content = message["content"]
    if isinstance(content, str):
        return Indexed(entry.index, _drop_blank_string(message, path, log))
    blocks = []
    for index, part in enumerate(content):
        place = BlockPlace(f"{path}.content.{index}", role(message), facts, log.note)
        block = _clean_system_block(part, place) if place.role == "system" else clean_block(part, place)
        if block is not None:
            blocks.append(block)
    return Indexed(entry.index, _drop_unsigned_thinking(replace_blocks(message, blocks), path, log))


def _clean_system_block(part: Json, place: BlockPlace) -> Block | None:
    """A3: a system turn holds only text."""
    block = clean_block(part, place)
    if block is None or kind(block) == "text":
        return block
    place.note("A3", place.path, "a system message may contain only text", "block dropped")
    return None


def clean_block(part: Json, place: BlockPlace) -> Block | None:
    block = _as_block(part, place)
    if block is None:
        return None
    block = _drop_refused_fields(_fix_breakpoint(block, place), place)
    return _RULES[kind(block)](block, place) if kind(block) in _RULES else block


def _fix_content_type(message: Message, path: str, log: Log) -> Message:
    """Make content a string or a list; missing content becomes an empty string, which A8 handles."""
    content = message.get("content")
    if isinstance(content, str | list):
        return message
    if content is None:
        log.note("A8", path, "all messages must have non-empty content", "content made empty")
        return {**message, "content": ""}
    if isinstance(content, dict):
        log.note(SHAPE, f"{path}.content", "Input should be a valid list", "one block wrapped")
        return {**message, "content": [content]}
    log.note(SHAPE, f"{path}.content", "Input should be a valid string or list")
    return {**message, "content": ""}


def _drop_blank_string(message: Message, path: str, log: Log) -> Message:
    """A9: drop text that is only white space."""
    if not message["content"] or message["content"].strip():
        return message
    log.note("A9", f"{path}.content", "text content blocks must contain non-whitespace text", "dropped")
    return {**message, "content": ""}


def _drop_unsigned_thinking(message: Message, path: str, log: Log) -> Message:
    """A34, A40 with A39: if one thinking block is unsigned, drop all thinking of the message."""
    content = message["content"]
    unsigned = [index for index, block in enumerate(content) if kind(block) in THINKING and not _is_signed(block)]
    if not unsigned:
        return message
    for index in unsigned:
        rule, field = ("A34", "signature") if kind(content[index]) == "thinking" else ("A40", "data")
        log.note(rule, f"{path}.content.{index}.{kind(content[index])}.{field}", "Field required", "dropped")
    return replace_blocks(message, [block for block in content if kind(block) not in THINKING])


def _is_signed(block: Block) -> bool:
    if kind(block) == "redacted_thinking":
        return bool(block.get("data")) and isinstance(block["data"], str)
    signature = block.get("signature")
    return isinstance(signature, str) and bool(signature) and isinstance(block.get("thinking"), str)


def _as_block(part: Json, place: BlockPlace) -> Block | None:
    if isinstance(part, dict) and kind(part):
        return part
    if isinstance(part, str) and part:
        place.note(SHAPE, place.path, "Input should be a valid dictionary", "string made a text block")
        return text_block(part)
    place.note(SHAPE, place.path, "Input should be a content block", "dropped")
    return None


def _fix_breakpoint(block: Block, place: BlockPlace) -> Block:
    """A46, A49: a breakpoint is `ephemeral`, 5m or 1h, and not on thinking."""
    breakpoint = block.get("cache_control")
    if breakpoint is None:
        return block
    if kind(block) in NO_BREAKPOINT:
        where = f"{place.path}.{kind(block)}.cache_control"
        place.note("A46", where, "Extra inputs are not permitted", "mark dropped")
        return drop_fields(block, "cache_control")
    return block if is_breakpoint(breakpoint) else drop_breakpoint(block, f"{place.path}.cache_control", place.note)


def is_breakpoint(breakpoint: Json) -> bool:
    return (
        isinstance(breakpoint, dict)
        and breakpoint.get("type") == "ephemeral"
        and breakpoint.get("ttl") in (None, "5m", "1h")
    )


def drop_breakpoint(block: Block, path: str, note: Note) -> Block:
    note("A49", path, "cache_control: Input should be 'ephemeral' with ttl '5m' or '1h'", "mark dropped")
    return drop_fields(block, "cache_control")


def _drop_refused_fields(block: Block, place: BlockPlace) -> Block:
    """A10: fields known to be refused."""
    extra = [field for field in REFUSED_FIELDS.get(kind(block), ()) if field in block]
    for field in extra:
        place.note("A10", f"{place.path}.{kind(block)}.{field}", "Extra inputs are not permitted", "field dropped")
    return drop_fields(block, *extra) if extra else block


def drop_blank_text(block: Block, path: str, note: Note) -> Block | None:
    """A9, A47: drop a text block without text."""
    words = block.get("text")
    if isinstance(words, str) and words.strip():
        return block
    if block.get("cache_control") is not None:
        note("A47", f"{path}.text", "cache_control cannot be set for empty text blocks", "dropped")
    else:
        note("A9", path, "text content blocks must be non-empty", "dropped")
    return None


def _require_assistant(block: Block, place: BlockPlace) -> Block | None:
    """A20: only the assistant thinks."""
    if place.role == "assistant":
        return block
    place.note("A20", place.path, f"`{kind(block)}` blocks can only be in `assistant` messages", "dropped")
    return None


def _fix_call(block: Block, place: BlockPlace) -> Block:
    """A14, A21, A25: a call has a plain id, a plain name and an object for input. A20: it is the assistant's."""
    if place.role == "user":
        place.note("A20", place.path, "`tool_use` blocks can only be in `assistant` messages")
    fixed = dict(block)
    if not _matches(CALL_ID, block.get("id")):
        place.note("A14", f"{place.path}.tool_use.id", BAD_ID, "id mapped")
        fixed["id"] = safe_id(block.get("id"), "toolu_", CALL_ID)
    if not _matches(TOOL_NAME, block.get("name")):
        message = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
        place.note("A25", f"{place.path}.tool_use.name", message, "name mapped")
        fixed["name"] = re.sub(r"[^a-zA-Z0-9_-]", "_", as_text(block.get("name") or "unknown_tool"))[:128]
    if not isinstance(block.get("input"), dict):
        place.note("A21", f"{place.path}.tool_use.input", "Input should be a valid dictionary", "made an object")
        fixed["input"] = _parse_object(block.get("input"))
    return block if fixed == block else fixed


def _matches(pattern: re.Pattern[str], value: Json) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _parse_object(value: Json) -> Json:
    """Parse arguments in JSON text, as OpenAI has them; anything else becomes an empty object."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {}


def _fix_result(block: Block, place: BlockPlace) -> Block:
    """A14, A22: a result has a plain call id, and text or a list of known parts."""
    fixed = dict(block)
    identity = block.get("tool_use_id")
    if not _matches(CALL_ID, identity) and as_text(identity) not in place.facts.open_call_ids:
        place.note("A14", f"{place.path}.tool_result.tool_use_id", BAD_ID, "id mapped")
        fixed["tool_use_id"] = safe_id(identity, "toolu_", CALL_ID)
    content = block.get("content")
    if isinstance(content, list):
        fixed["content"] = _fix_result_parts(content, place)
    elif content is not None and not isinstance(content, str):
        place.note("A22", f"{place.path}.content", "Input should be a valid string or list", "made text")
        fixed["content"] = as_text(content)
    if block.get("is_error") and not fixed.get("content"):
        # Bedrock's K3, and Anthropic's own: an error has something to say.
        place.note("A22", f"{place.path}.tool_result", "content cannot be empty if `is_error` is true", "placeholder")
        fixed["content"] = NO_OUTPUT
    same = all(fixed.get(key) is block.get(key) for key in ("tool_use_id", "content"))
    return block if same else fixed


def _fix_result_parts(content: list[Json], place: BlockPlace) -> list[Json]:
    """Return the same list if all its parts are valid; a placeholder if none is."""
    parts = []
    for index, part in enumerate(content):
        inner = BlockPlace(f"{place.path}.content.{index}", place.role, place.facts, place.note)
        block = _fix_result_part(part, inner)
        if block is not None:
            parts.append(block)
    return content if are_same_objects(content, parts) else parts or [text_block(NO_OUTPUT)]


def _fix_result_part(part: Json, place: BlockPlace) -> Block | None:
    """A9, A22, A23, A46 inside a result."""
    block = _as_block(part, place)
    if block is None:
        return None
    if block.get("cache_control") is not None:
        place.note("A46", f"{place.path}.cache_control", "Extra inputs are not permitted", "mark dropped")
        block = drop_fields(block, "cache_control")
    if kind(block) == "tool_reference" and as_text(block.get("tool_name")) not in place.facts.tool_names:
        message = f"Tool reference '{as_text(block.get('tool_name'))}' not found in available tools"
        place.note("A23", place.path, message, "reference dropped")
        return None
    if kind(block) not in RESULT_PARTS:
        place.note("A22", place.path, f"Input tag '{kind(block)}' is not allowed in a tool result", "made text")
        return text_block(as_text(block))
    return _RULES[kind(block)](block, place) if kind(block) in _RULES else block


def _fix_compaction(block: Block, place: BlockPlace) -> Block:
    """A61: null is a no-op, an empty string is refused."""
    if block.get("content") != "":
        return block
    place.note("A61", f"{place.path}.content", "compaction content must not be empty", "made null")
    return {**block, "content": None}


def _fix_text(block: Block, place: BlockPlace) -> Block | None:
    return drop_blank_text(block, place.path, place.note)


MAX_SIDE, MANY_MAX_SIDE, MANY = 8000, 2000, 20
"""Pixels allowed on a side; pixels allowed once there are more than `MANY` images."""
STEP = 10
"""Images are removed ten at a time: one at a time would change the cached prefix with every screenshot."""
MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""A55, the older and lower limit: 10 MB was reported too, but a refusal would block the session."""
TOO_LARGE = f"At least one of the image dimensions exceed max allowed size: {MAX_SIDE} pixels"
TOO_LARGE_AMONG_MANY = (
    f"At least one of the image dimensions exceed max allowed size for many-image requests: {MANY_MAX_SIDE} pixels"
)
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def _fix_image(block: Block, place: BlockPlace) -> Block:
    """A54 (one image), A55, A56: an image is small enough, and of the type it states."""
    path, note = place.path, place.note
    source = block.get("source")
    if not isinstance(source, dict):
        note("A56", path, "Could not process image", "replaced by a line of text")
        return text_block(image_removed("it had no data"))
    if source.get("type") != "base64":
        return block
    data, declared = source.get("data"), source.get("media_type")
    head = _head(data)
    actual = media_type(head)
    if not isinstance(data, str) or not head or (actual is None and declared not in IMAGE_TYPES):
        note("A56", path, "Could not process image", "replaced by a line of text")
        return text_block(image_removed("it could not be read"))
    if len(data) * 3 // 4 > MAX_IMAGE_BYTES:
        note("A55", f"{path}.image.source.base64.data", "image exceeds 5 MB maximum", "replaced by a line of text")
        return text_block(
            image_removed(f"{len(data) * 3 // 4 / 1_000_000:.1f} MB is over the provider's limit of 5 MB")
        )
    if (pixels := image_pixels(head)) and max(pixels) > MAX_SIDE:
        note("A54", f"{path}.image.source.base64.data", TOO_LARGE, "replaced by a line of text")
        return _describe_removed(pixels, MAX_SIDE)
    if actual in IMAGE_TYPES and declared != actual:
        note("A56", f"{path}.image.source.base64.media_type", "Could not process image", f"media type is {actual}")
        return {**block, "source": {**source, "media_type": actual}}
    return block


def _fix_document(block: Block, place: BlockPlace) -> Block:
    """A57: base64 without newlines."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) and source.get("type") == "base64" else None
    if not isinstance(source, dict) or not isinstance(data, str) or not any(space in data for space in "\r\n"):
        return block
    place.note(
        "A57", f"{place.path}.document.source.base64.data", "base64 must not contain newlines", "newlines removed"
    )
    return {**block, "source": {**source, "data": data.replace("\r", "").replace("\n", "")}}


_RULES: dict[str, Callable[[Block, BlockPlace], Block | None]] = {
    "text": _fix_text,
    "thinking": _require_assistant,
    "redacted_thinking": _require_assistant,
    "tool_use": _fix_call,
    "tool_result": _fix_result,
    "image": _fix_image,
    "document": _fix_document,
    "compaction": _fix_compaction,
    **dict.fromkeys(SERVER_USE, _require_assistant),
}


def find_crowded_images(messages: Sequence[Json], since: int) -> list[tuple[int, Finding, Block, Block]]:
    """A54 (many images): message index, finding, image, and its replacement. Oldest first, only as many as help.

    Read only if something new holds an image: without one, the old images were accepted together.
    """
    if not any(True for index in range(since, len(messages)) for _ in _images(messages[index])):
        return []
    images = [(index, path, block) for index, message in enumerate(messages) for path, block in _images(message)]
    surplus = len(images) - MANY
    if surplus <= 0:
        return []
    changes = []
    for index, path, block in images:
        pixels = _read_pixels(block)
        if pixels and max(pixels) > MANY_MAX_SIDE:
            where = f"messages.{index}.content.{path}.image.source.base64.data"
            finding = Finding("A54", where, TOO_LARGE_AMONG_MANY, "replaced by a line of text")
            changes.append((index, finding, block, _describe_removed(pixels, MANY_MAX_SIDE)))
    return changes[: -(-surplus // STEP) * STEP]


def replace_image(message: Message, old: Block, new: Block) -> Message:
    """Replace one image of a message, at any depth, by another block."""
    parts = []
    for block in blocks(message):
        inner = block.get("content")
        if block is old:
            parts.append(new)
        elif isinstance(inner, list) and any(part is old for part in inner):
            parts.append({**block, "content": [new if part is old else part for part in inner]})
        else:
            parts.append(block)
    return replace_blocks(message, parts)


def _images(message: Json) -> Iterator[tuple[str, Block]]:
    for index, block in enumerate(blocks(message)):
        if kind(block) == "image":
            yield str(index), block
        inner = block.get("content")
        if kind(block) == "tool_result" and isinstance(inner, list):
            yield from ((f"{index}.content.{at}", part) for at, part in enumerate(inner) if kind(part) == "image")


def _read_pixels(block: Block) -> tuple[int, int] | None:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        return None
    return image_pixels(_head(source.get("data")))


def _head(data: Json) -> bytes:
    """Decode the first bytes; more for JPEG, whose size comes after its metadata."""
    if not isinstance(data, str):
        return b""
    head = base64_head(data, 64)
    return base64_head(data, HEAD) if media_type(head) == "image/jpeg" else head


def _describe_removed(pixels: tuple[int, int], limit: int) -> Block:
    return text_block(image_removed(f"{pixels[0]}x{pixels[1]} px is over the provider's limit of {limit} px"))
