"""Cache marks, images, documents and what needs a beta (A45 to A49, A54 to A62)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upstream.anthropic_request import THINKING, Block, Request, within
from upstream.finding import Json, Rules, Said, text_of
from upstream.pixels import decode, sniff

MOST_MARKS = 4
LARGEST_SIDE, MANY_SIDE, MANY_IMAGES = 8000, 2000, 20
REFUSED_BASE64, WARNED_BYTES = 10_000_000, 5_000_000
"""The two figures reported for an image: 10 MB of base64 is refused for certain, 5 MB of image by older endpoints."""
MOST_PAGES, PAGES_ON_SMALL_MODELS = 600, 100
PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
COMPACTION_BETA, EDITING_BETA = "compact-2026-01-12", "context-management-2025-06-27"
EXTRA = "Extra inputs are not permitted"
TTL_ORDER = (
    "{path}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
    "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
)


def marks(request: Request) -> Iterator[tuple[Block, Json]]:
    """Blocks that carry a mark, in the order the provider processes them."""
    for block in (*request.tools, *request.system):
        if block.data.get("cache_control") is not None:
            yield block, block.data["cache_control"]
    for block in request.blocks():
        for each in (*within(block), block):
            if each.data.get("cache_control") is not None:
                yield each, each.data["cache_control"]


def _few_marks(request: Request) -> Iterator[Said]:
    found = len(list(marks(request)))
    if found > MOST_MARKS:
        yield "", f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}."


def _markable(request: Request) -> Iterator[Said]:
    nested = {part.path for part in request.parts()}
    for block, _ in marks(request):
        if block.type in (*THINKING, "fallback") or block.path in nested:
            yield f"{block.typed}.cache_control", f"{block.typed}.cache_control: {EXTRA}"


def _mark_on_empty(request: Request) -> Iterator[Said]:
    for block, _ in marks(request):
        if block.type == "text" and not text_of(block.data.get("text")):
            yield block.path, f"{block.typed}: cache_control cannot be set for empty text blocks"


def _ttl_order(request: Request) -> Iterator[Said]:
    short = False
    for block, mark in marks(request):
        long = isinstance(mark, dict) and mark.get("ttl") == "1h"
        if long and short:
            yield f"{block.path}.cache_control.ttl", TTL_ORDER.format(path=block.path)
        short = short or not long


def _mark_shape(request: Request) -> Iterator[Said]:
    top = request.body.get("cache_control")
    for path, mark in [("", top)] * (top is not None) + [(f"{block.path}.", mark) for block, mark in marks(request)]:
        good = isinstance(mark, dict) and mark.get("type") == "ephemeral" and mark.get("ttl") in (None, "5m", "1h")
        if not good:
            yield f"{path}cache_control", f"{path}cache_control: Input should be 'ephemeral' with a ttl of '5m' or '1h'"


def _sides(request: Request) -> Iterator[Said]:
    images = list(request.deep("image"))
    many = len(images) > MANY_IMAGES
    limit = MANY_SIDE if many else LARGEST_SIDE
    for block, data, found in _pictures(images):
        if data and found and max(found[1:]) > limit:
            path = f"{block.typed}.source.base64.data"
            scope = " for many-image requests" if many else ""
            text = f"At least one of the image dimensions exceed max allowed size{scope}: {limit} pixels"
            yield path, f"{path}: {text}"


def _pictures(images: list[Block]) -> Iterator[tuple[Block, str, tuple[str, int, int] | None]]:
    for block in images:
        source = block.data.get("source")
        if isinstance(source, dict) and source.get("type") == "base64":
            raw = decode(source.get("data"))
            yield block, text_of(source.get("data")), sniff(raw) if raw else None


def _image_bytes(request: Request) -> Iterator[Said]:
    for block, data, _ in _pictures(list(request.deep("image"))):
        if len(data) > REFUSED_BASE64:
            path = f"{block.typed}.source.base64.data"
            yield path, f"{path}: image exceeds 10 MB maximum"


def _pdf(request: Request) -> Iterator[Said]:
    for block, data in _pdfs(request):
        path = f"{block.typed}.source.base64.data"
        if "\n" in data or "\r" in data:
            yield path, f"{path}: base64 data must not contain newlines"
        elif _pages(data) > MOST_PAGES:
            yield path, f"{path}: A maximum of {MOST_PAGES} PDF pages may be provided."


def _pdfs(request: Request) -> Iterator[tuple[Block, str]]:
    for block in request.deep("document"):
        source = block.data.get("source")
        if isinstance(source, dict) and source.get("type") == "base64":
            yield block, text_of(source.get("data"))


def _pages(data: str) -> int:
    return len(PAGE.findall(decode(data) or b""))


def _cited(block: Block) -> bool:
    citations = block.data.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _citations_or_format(request: Request) -> Iterator[Said]:
    if request.output_format and any(_cited(block) for block in request.deep("document", "search_result")):
        yield "output_config.format", "citations cannot be enabled together with `output_config.format`"


def _compaction(request: Request) -> Iterator[Said]:
    for block in request.blocks("compaction"):
        if block.data.get("content") == "":
            yield f"{block.typed}.content", f"{block.typed}.content: compaction content must be null or non-empty"
        if request.betas is not None and COMPACTION_BETA not in request.betas:
            yield block.path, f"{block.path}: `compaction` blocks need the beta {COMPACTION_BETA}"


def _editing_beta(request: Request) -> Iterator[Said]:
    needed = EDITING_BETA, COMPACTION_BETA
    if "context_management" in request.body and request.betas is not None and request.betas.isdisjoint(needed):
        yield "context_management", f"context_management: {EXTRA}"


RULES: Rules[Request] = {
    "A45": _few_marks,
    "A46": _markable,
    "A47": _mark_on_empty,
    "A48": _ttl_order,
    "A49": _mark_shape,
    "A54": _sides,
    "A55": _image_bytes,
    "A57": _pdf,
    "A58": _citations_or_format,
    "A61": _compaction,
    "A62": _editing_beta,
}


def auto_mark_counts(request: Request) -> Iterator[Said]:
    found = len(list(marks(request))) + 1
    if request.body.get("cache_control") is not None and found == MOST_MARKS + 1:
        yield "cache_control", f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}."


def large_image(request: Request) -> Iterator[Said]:
    for block, data, _ in _pictures(list(request.deep("image"))):
        if len(data) * 3 // 4 > WARNED_BYTES:
            yield block.path, f"{block.typed}.source.base64.data: image exceeds 5 MB maximum"


def unreadable_image(request: Request) -> Iterator[Said]:
    for block, _, found in _pictures(list(request.deep("image"))):
        if found is None or found[0] != block.data["source"].get("media_type"):
            yield block.path, f"{block.path}: Could not process image"


def many_pages(request: Request) -> Iterator[Said]:
    for block, data in _pdfs(request):
        if PAGES_ON_SMALL_MODELS < _pages(data) <= MOST_PAGES:
            yield block.path, f"{block.path}: A maximum of {PAGES_ON_SMALL_MODELS} PDF pages may be provided."


def citations_all_or_none(request: Request) -> Iterator[Said]:
    if len({_cited(block) for block in request.deep("document")}) > 1:
        yield "messages", "citations must be enabled on all documents or on none"


def citation_of_nothing(request: Request) -> Iterator[Said]:
    documents = len(list(request.deep("document", "search_result")))
    for block in request.blocks("text"):
        for citation in block.data.get("citations") or []:
            at = citation.get("document_index") if isinstance(citation, dict) else None
            if isinstance(at, int) and at >= documents:
                yield block.path, f"{block.path}.citations: document_index {at} names no document"
