"""A54 to A57: pictures and documents. Adding an image can invalidate an old one.

More than twenty images lower the limit on each side for all of them. A picture that must go leaves a line of text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.core.text.media import HEAD, base64_head, image_pixels, media_type
from ebbtide.wire.anthropic.rules.blocks import Block, Message, blocks, kind, text, with_blocks
from ebbtide.wire.findings import Finding, Json, Note

SIDE, MANY_SIDE, MANY = 8000, 2000, 20
"""Pixels allowed on a side; pixels allowed once there are more than `MANY` images."""
STEP = 10
"""Images leave ten at a time: one at a time would move the cached prefix with every new screenshot."""
BYTES = 5 * 1024 * 1024
"""A55, the older and lower limit: reports of 10 MB exist, a refusal wedges the session."""
TOO_LARGE = f"At least one of the image dimensions exceed max allowed size: {SIDE} pixels"
TOO_LARGE_AMONG_MANY = (
    f"At least one of the image dimensions exceed max allowed size for many-image requests: {MANY_SIDE} pixels"
)
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def image(block: Block, path: str, note: Note) -> Block:
    """A54 (one image), A55, A56: small enough, and what it says it is."""
    source = block.get("source")
    if not isinstance(source, dict):
        note("A56", path, "Could not process image", "replaced by a line of text")
        return text("[image removed: it had no data]")
    if source.get("type") != "base64":
        return block
    data, declared = source.get("data"), source.get("media_type")
    head = _head(data)
    actual = media_type(head)
    if not isinstance(data, str) or not head or (actual is None and declared not in IMAGE_TYPES):
        note("A56", path, "Could not process image", "replaced by a line of text")
        return text("[image removed: it could not be read]")
    if len(data) * 3 // 4 > BYTES:
        note("A55", f"{path}.image.source.base64.data", "image exceeds 5 MB maximum", "replaced by a line of text")
        return text(f"[image removed: {len(data) * 3 // 4 / 1_000_000:.1f} MB is over the provider's limit of 5 MB]")
    if (pixels := image_pixels(head)) and max(pixels) > SIDE:
        note("A54", f"{path}.image.source.base64.data", TOO_LARGE, "replaced by a line of text")
        return _stub(pixels, SIDE)
    if actual in IMAGE_TYPES and declared != actual:
        note("A56", f"{path}.image.source.base64.media_type", "Could not process image", f"media type is {actual}")
        return {**block, "source": {**source, "media_type": actual}}
    return block


def document(block: Block, path: str, note: Note) -> Block:
    """A57: base64 without newlines."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) and source.get("type") == "base64" else None
    if not isinstance(source, dict) or not isinstance(data, str) or not any(space in data for space in "\r\n"):
        return block
    note("A57", f"{path}.document.source.base64.data", "base64 must not contain newlines", "newlines removed")
    return {**block, "source": {**source, "data": data.replace("\r", "").replace("\n", "")}}


def crowded(messages: Sequence[Json], since: int) -> list[tuple[int, Finding, Block, Block]]:
    """A54 (many images): message index, finding, the image, what stands in for it. Oldest first, only as many as help.

    Read only if something new holds an image: without one, the old images were accepted together.
    """
    if not any(True for index in range(since, len(messages)) for _ in _images(messages[index])):
        return []
    images = [(index, path, block) for index, message in enumerate(messages) for path, block in _images(message)]
    spare = len(images) - MANY
    if spare <= 0:
        return []
    changes = []
    for index, path, block in images:
        pixels = _pixels(block)
        if pixels and max(pixels) > MANY_SIDE:
            where = f"messages.{index}.content.{path}.image.source.base64.data"
            finding = Finding("A54", where, TOO_LARGE_AMONG_MANY, "replaced by a line of text")
            changes.append((index, finding, block, _stub(pixels, MANY_SIDE)))
    return changes[: -(-spare // STEP) * STEP]


def replaced(message: Message, old: Block, new: Block) -> Message:
    """The message with one image, at any depth, replaced by another block."""
    parts = []
    for block in blocks(message):
        inner = block.get("content")
        if block is old:
            parts.append(new)
        elif isinstance(inner, list) and any(part is old for part in inner):
            parts.append({**block, "content": [new if part is old else part for part in inner]})
        else:
            parts.append(block)
    return with_blocks(message, parts)


def _images(message: Json) -> Iterator[tuple[str, Block]]:
    for index, block in enumerate(blocks(message)):
        if kind(block) == "image":
            yield str(index), block
        inner = block.get("content")
        if kind(block) == "tool_result" and isinstance(inner, list):
            yield from ((f"{index}.content.{at}", part) for at, part in enumerate(inner) if kind(part) == "image")


def _pixels(block: Block) -> tuple[int, int] | None:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "base64":
        return None
    return image_pixels(_head(source.get("data")))


def _head(data: Json) -> bytes:
    """The first bytes; more of them only for JPEG, whose size stands behind its metadata."""
    if not isinstance(data, str):
        return b""
    head = base64_head(data, 64)
    return base64_head(data, HEAD) if media_type(head) == "image/jpeg" else head


def _stub(pixels: tuple[int, int], limit: int) -> Block:
    return text(f"[image removed: {pixels[0]}x{pixels[1]} px is over the provider's limit of {limit} px]")
