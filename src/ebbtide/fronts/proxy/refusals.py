"""Find out from the beginning of an answer whether the provider refused the request for its size.

Of a stream only the first chunk is read before it is passed on; of an error, the few hundred bytes that it has.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import aiohttp

from ebbtide.core.errors import BadRequest
from ebbtide.fronts.proxy.encoding import decompress, is_identity
from ebbtide.wire.overflow import find_overflow
from ebbtide.wire.sse import EventReader

_MAX_ERROR_BYTES = 256 << 10
"""Bytes of an error that are read. One that echoes the request is longer, but its beginning is enough."""
_FIRST_CHUNK_SECONDS = 1.0
"""Time to wait for the first chunk after the headers. A refusal comes at once; a model that thinks takes longer."""
_NEVER_ABOUT_SIZE = frozenset({401, 402, 403, 404, 429})
"""Statuses that are passed on without a look at the body."""


class ProviderRefusal(Exception):
    """The provider's error, in the form in which the engine looks for overflows."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(body[:2000])
        self.status_code, self.body = status, body


class AnswerStart(NamedTuple):
    chunks: list[bytes]
    """Read already, and not sent to the client yet."""
    refusal: ProviderRefusal | None
    is_empty: bool = False
    """Whether it is a stream that ended without an event."""


async def read_start(answer: aiohttp.ClientResponse) -> AnswerStart:
    """Read the beginning of an answer."""
    if answer.status in _NEVER_ABOUT_SIZE:
        return AnswerStart([], None)
    encoding, kind = answer.headers.get("content-encoding", ""), answer.headers.get("content-type", "")
    if 200 <= answer.status < 300:
        chunk = await _first_chunk(answer)
        if chunk is None:
            return AnswerStart([], None)
        if "event-stream" in kind:
            return _stream_start(chunk, encoding)
        if not chunk.lstrip().startswith(b'{"error"'):
            return AnswerStart([chunk] if chunk else [], None)
        chunks = [chunk, *await _remaining_chunks(answer)]
    else:
        chunks = await _remaining_chunks(answer)
    text = _decompressed_text(b"".join(chunks), encoding)
    is_overflow = text and find_overflow(answer.status, text)
    return AnswerStart(chunks, ProviderRefusal(answer.status, text) if is_overflow else None)


async def _first_chunk(answer: aiohttp.ClientResponse) -> bytes | None:
    """Return the first chunk; empty if the answer is empty, None if no chunk came in time."""
    try:
        async with asyncio.timeout(_FIRST_CHUNK_SECONDS):
            return await answer.content.readany()
    except (TimeoutError, aiohttp.ClientError):
        return None


async def _remaining_chunks(answer: aiohttp.ClientResponse) -> list[bytes]:
    chunks, size = list[bytes](), 0
    with suppress(aiohttp.ClientError):
        while size < _MAX_ERROR_BYTES and (chunk := await answer.content.readany()):
            chunks.append(chunk)
            size += len(chunk)
    return chunks


def _stream_start(chunk: bytes, encoding: str) -> AnswerStart:
    if not chunk:
        return AnswerStart([], None, is_empty=True)
    if not is_identity(encoding) or b"error" not in chunk[:4096]:
        return AnswerStart([chunk], None)
    events = [*EventReader().feed(chunk[:_MAX_ERROR_BYTES])]
    first = events[0].data.decode("utf-8", "replace") if events else ""
    return AnswerStart([chunk], ProviderRefusal(400, first) if first and find_overflow(200, first) else None)


def _decompressed_text(raw: bytes, encoding: str) -> str:
    try:
        return decompress(raw, encoding, 8 * _MAX_ERROR_BYTES).decode("utf-8", "replace")
    except BadRequest:
        return ""
