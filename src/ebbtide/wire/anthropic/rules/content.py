"""Rules that one block keeps by itself. Each mends the block or returns None to drop it, and notes why.

The validator runs the same functions and reports their notes. Fields and block types we do not know pass untouched
(A10, A13): providers add them faster than we learn them. Only what is known to be refused is taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.wire.anthropic.rules.blocks import (
    NO_OUTPUT,
    SERVER_USE,
    THINKING,
    Block,
    Message,
    Request,
    Turn,
    kind,
    role,
    same_parts,
    text,
    with_blocks,
    without,
)
from ebbtide.wire.anthropic.rules.media import document, image
from ebbtide.wire.findings import SHAPE, Json, Log, Note, as_text, safe_id

CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
RESULT_PARTS = ("text", "image", "search_result", "document", "tool_reference")
NO_MARK = (*THINKING, "fallback")
"""A46: block types that carry no `cache_control`."""
REFUSED_FIELDS = {"tool_use": ("text",)}
"""A10: fields seen refused, by block type. Streaming clients merge a text delta into a call."""
BAD_ID = "String should match pattern '^[a-zA-Z0-9_-]+$'"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands, and whom to tell."""

    path: str
    role: str
    request: Request
    note: Note


def cleaned(turn: Turn, request: Request, log: Log) -> Turn | None:
    """The turn with every block mended; None if it was no message at all. A note without a repair means: refuse."""
    path, message = f"messages.{turn.at}", turn.message
    if not isinstance(message, dict) or not ("role" in message or "content" in message):
        log.note(SHAPE, path, "Input should be a valid dictionary", "dropped")
        return None
    if role(message) not in ("user", "assistant", "system"):
        log.note("A2", f"{path}.role", "Input should be 'user' or 'assistant'")
        return None
    message = _listed(message, path, log)
    content = message["content"]
    if isinstance(content, str):
        return Turn(turn.at, _spoken(message, path, log))
    blocks = []
    for index, part in enumerate(content):
        place = Place(f"{path}.content.{index}", role(message), request, log.note)
        block = _told(part, place) if place.role == "system" else cleaned_block(part, place)
        if block is not None:
            blocks.append(block)
    return Turn(turn.at, _signed_or_none(with_blocks(message, blocks), path, log))


def _told(part: Json, place: Place) -> Block | None:
    """A3: an operator's turn is text."""
    block = cleaned_block(part, place)
    if block is None or kind(block) == "text":
        return block
    place.note("A3", place.path, "a system message may contain only text", "block dropped")
    return None


def cleaned_block(part: Json, place: Place) -> Block | None:
    block = _blockish(part, place)
    if block is None:
        return None
    block = _known_fields(_eligible_mark(block, place), place)
    return _RULES[kind(block)](block, place) if kind(block) in _RULES else block


def _listed(message: Message, path: str, log: Log) -> Message:
    """Content is a string or a list; nothing at all is an empty string (A8 decides what becomes of it)."""
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


def _spoken(message: Message, path: str, log: Log) -> Message:
    """A9: words that are only white space are none."""
    if not message["content"] or message["content"].strip():
        return message
    log.note("A9", f"{path}.content", "text content blocks must contain non-whitespace text", "dropped")
    return {**message, "content": ""}


def _signed_or_none(message: Message, path: str, log: Log) -> Message:
    """A34, A40 with A39: thinking goes back signed and whole, or all of the message's thinking stays behind."""
    content = message["content"]
    bad = [index for index, block in enumerate(content) if kind(block) in THINKING and not _is_signed(block)]
    if not bad:
        return message
    for index in bad:
        rule, field = ("A34", "signature") if kind(content[index]) == "thinking" else ("A40", "data")
        log.note(rule, f"{path}.content.{index}.{kind(content[index])}.{field}", "Field required", "dropped")
    return with_blocks(message, [block for block in content if kind(block) not in THINKING])


def _is_signed(block: Block) -> bool:
    if kind(block) == "redacted_thinking":
        return bool(block.get("data")) and isinstance(block["data"], str)
    signature = block.get("signature")
    return isinstance(signature, str) and bool(signature) and isinstance(block.get("thinking"), str)


def _blockish(part: Json, place: Place) -> Block | None:
    if isinstance(part, dict) and kind(part):
        return part
    if isinstance(part, str) and part:
        place.note(SHAPE, place.path, "Input should be a valid dictionary", "string made a text block")
        return text(part)
    place.note(SHAPE, place.path, "Input should be a content block", "dropped")
    return None


def _eligible_mark(block: Block, place: Place) -> Block:
    """A46, A49: a breakpoint is `ephemeral`, 5m or 1h, and not on thinking."""
    mark = block.get("cache_control")
    if mark is None:
        return block
    if kind(block) in NO_MARK:
        where = f"{place.path}.{kind(block)}.cache_control"
        place.note("A46", where, "Extra inputs are not permitted", "mark dropped")
        return without(block, "cache_control")
    return block if is_mark(mark) else unmarked(block, f"{place.path}.cache_control", place.note)


def is_mark(mark: Json) -> bool:
    return isinstance(mark, dict) and mark.get("type") == "ephemeral" and mark.get("ttl") in (None, "5m", "1h")


def unmarked(block: Block, path: str, note: Note) -> Block:
    note("A49", path, "cache_control: Input should be 'ephemeral' with ttl '5m' or '1h'", "mark dropped")
    return without(block, "cache_control")


def _known_fields(block: Block, place: Place) -> Block:
    """A10: fields known to be refused."""
    extra = [field for field in REFUSED_FIELDS.get(kind(block), ()) if field in block]
    for field in extra:
        place.note("A10", f"{place.path}.{kind(block)}.{field}", "Extra inputs are not permitted", "field dropped")
    return without(block, *extra) if extra else block


def spoken_text(block: Block, path: str, note: Note) -> Block | None:
    """A9, A47: a text block has words in it, all the more if it carries a breakpoint."""
    words = block.get("text")
    if isinstance(words, str) and words.strip():
        return block
    if block.get("cache_control") is not None:
        note("A47", f"{path}.text", "cache_control cannot be set for empty text blocks", "dropped")
    else:
        note("A9", path, "text content blocks must be non-empty", "dropped")
    return None


def _assistants_own(block: Block, place: Place) -> Block | None:
    """A20: only the assistant thinks."""
    if place.role == "assistant":
        return block
    place.note("A20", place.path, f"`{kind(block)}` blocks can only be in `assistant` messages", "dropped")
    return None


def _call(block: Block, place: Place) -> Block:
    """A14, A21, A25: a call has a plain id, a plain name and an object for input."""
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
        fixed["input"] = _object(block.get("input"))
    return block if fixed == block else fixed


def _matches(pattern: re.Pattern[str], value: Json) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _object(value: Json) -> Json:
    """Arguments kept as JSON text, as OpenAI does, are the object they encode; anything else is none."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {}


def _result(block: Block, place: Place) -> Block:
    """A14, A22: a result names its call plainly and holds text or a list of known parts."""
    fixed = dict(block)
    identity = block.get("tool_use_id")
    if not _matches(CALL_ID, identity) and as_text(identity) not in place.request.open_ids:
        place.note("A14", f"{place.path}.tool_result.tool_use_id", BAD_ID, "id mapped")
        fixed["tool_use_id"] = safe_id(identity, "toolu_", CALL_ID)
    content = block.get("content")
    if isinstance(content, list):
        fixed["content"] = _parts(content, place)
    elif content is not None and not isinstance(content, str):
        place.note("A22", f"{place.path}.content", "Input should be a valid string or list", "made text")
        fixed["content"] = as_text(content)
    if block.get("is_error") and not fixed.get("content"):
        # Bedrock's K3, and Anthropic's own: an error has something to say.
        place.note("A22", f"{place.path}.tool_result", "content cannot be empty if `is_error` is true", "placeholder")
        fixed["content"] = NO_OUTPUT
    same = all(fixed.get(key) is block.get(key) for key in ("tool_use_id", "content"))
    return block if same else fixed


def _parts(content: list[Json], place: Place) -> list[Json]:
    """The list itself if all its parts are fine; a placeholder if none of them could stay."""
    parts = []
    for index, part in enumerate(content):
        inner = Place(f"{place.path}.content.{index}", place.role, place.request, place.note)
        block = _part(part, inner)
        if block is not None:
            parts.append(block)
    return content if same_parts(content, parts) else parts or [text(NO_OUTPUT)]


def _part(part: Json, place: Place) -> Block | None:
    """A9, A22, A23, A46 inside a result."""
    block = _blockish(part, place)
    if block is None:
        return None
    if block.get("cache_control") is not None:
        place.note("A46", f"{place.path}.cache_control", "Extra inputs are not permitted", "mark dropped")
        block = without(block, "cache_control")
    if kind(block) == "tool_reference" and as_text(block.get("tool_name")) not in place.request.tool_names:
        message = f"Tool reference '{as_text(block.get('tool_name'))}' not found in available tools"
        place.note("A23", place.path, message, "reference dropped")
        return None
    if kind(block) not in RESULT_PARTS:
        place.note("A22", place.path, f"Input tag '{kind(block)}' is not allowed in a tool result", "made text")
        return text(as_text(block))
    return _RULES[kind(block)](block, place) if kind(block) in _RULES else block


def _compaction(block: Block, place: Place) -> Block:
    """A61: null is a no-op, an empty string is refused."""
    if block.get("content") != "":
        return block
    place.note("A61", f"{place.path}.content", "compaction content must not be empty", "made null")
    return {**block, "content": None}


def _text(block: Block, place: Place) -> Block | None:
    return spoken_text(block, place.path, place.note)


def _image(block: Block, place: Place) -> Block:
    return image(block, place.path, place.note)


def _document(block: Block, place: Place) -> Block:
    return document(block, place.path, place.note)


_RULES: dict[str, Callable[[Block, Place], Block | None]] = {
    "text": _text,
    "thinking": _assistants_own,
    "redacted_thinking": _assistants_own,
    "tool_use": _call,
    "tool_result": _result,
    "image": _image,
    "document": _document,
    "compaction": _compaction,
    **dict.fromkeys(SERVER_USE, _assistants_own),
}
