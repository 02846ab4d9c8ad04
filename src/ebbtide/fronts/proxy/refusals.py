"""Whether an answer says that the request was too large. Only then is anything of it held back.

An answer that goes on is never delayed: of a stream only the first chunk is looked at before it is passed on, of a
failure the few hundred bytes that it has.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import aiohttp

from ebbtide.core.errors import BadRequest
from ebbtide.fronts.proxy.encoding import decompress
from ebbtide.wire.overflow import find_overflow
from ebbtide.wire.sse import EventReader

_MAX_ERROR_BYTES = 256 << 10
"""Bytes of a failure that are read. One that echoes the request is longer, and its beginning tells."""
_FIRST_CHUNK_SECONDS = 1.0
"""Seconds that headers wait for the first chunk behind them. A refusal comes at once; who thinks is let through."""
_NEVER_ABOUT_SIZE = frozenset({401, 402, 403, 404, 429})
"""Never about size: not held back for a moment."""


class ProviderRefusal(Exception):
    """What the provider said, for the engine, which knows such errors by these names."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(body[:2000])
        self.status_code, self.body = status, body


class AnswerStart(NamedTuple):
    chunks: list[bytes]
    """Read already, and still owed to the client."""
    refusal: ProviderRefusal | None
    is_empty: bool = False
    """A stream that ended before it said anything."""


async def read_start(answer: aiohttp.ClientResponse) -> AnswerStart:
    """The beginning of an answer, and whether it is a refusal for size."""
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
    is_overflow = find_overflow(answer.status, text) if text else None
    return AnswerStart(chunks, ProviderRefusal(answer.status, text) if is_overflow else None)


async def _first_chunk(answer: aiohttp.ClientResponse) -> bytes | None:
    """Empty where the answer is; None where there is none yet, or it broke off: whoever reads on will see."""
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
    if encoding.strip().lower() not in ("", "identity") or b"error" not in chunk[:4096]:
        return AnswerStart([chunk], None)
    events = [*EventReader().feed(chunk[:_MAX_ERROR_BYTES])]
    first = events[0].data.decode("utf-8", "replace") if events else ""
    return AnswerStart([chunk], ProviderRefusal(400, first) if first and find_overflow(200, first) else None)


def _decompressed_text(raw: bytes, encoding: str) -> str:
    try:
        return decompress(raw, encoding, 8 * _MAX_ERROR_BYTES).decode("utf-8", "replace")
    except BadRequest:
        return ""
