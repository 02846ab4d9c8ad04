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
from ebbtide.fronts.proxy.encoding import inflated
from ebbtide.wire.overflow import find_overflow
from ebbtide.wire.sse import EventReader

_MOST = 256 << 10
"""Bytes of a failure that are read. One that echoes the request is longer, and its beginning tells."""
_PATIENCE = 1.0
"""Seconds that headers wait for the first chunk behind them. A refusal comes at once; who thinks is let through."""
_NEVER = frozenset({401, 402, 403, 404, 429})
"""Never about size: not held back for a moment."""


class Refused(Exception):
    """What the provider said, for the engine, which knows such errors by these names."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(body[:2000])
        self.status_code, self.body = status, body


class Held(NamedTuple):
    chunks: list[bytes]
    """Read already, and still owed to the client."""
    refused: Refused | None
    is_empty: bool = False
    """A stream that ended before it said anything."""


async def held(answer: aiohttp.ClientResponse) -> Held:
    """The beginning of an answer, and whether it is a refusal for size."""
    if answer.status in _NEVER:
        return Held([], None)
    encoding, kind = answer.headers.get("content-encoding", ""), answer.headers.get("content-type", "")
    if 200 <= answer.status < 300:
        chunk = await _first(answer)
        if chunk is None:
            return Held([], None)
        if "event-stream" in kind:
            return _streamed(chunk, encoding)
        if not chunk.lstrip().startswith(b'{"error"'):
            return Held([chunk] if chunk else [], None)
        chunks = [chunk, *await _rest(answer)]
    else:
        chunks = await _rest(answer)
    told = _clear(b"".join(chunks), encoding)
    found = find_overflow(answer.status, told) if told else None
    return Held(chunks, Refused(answer.status, told) if found else None)


async def _first(answer: aiohttp.ClientResponse) -> bytes | None:
    """Empty where the answer is; None where there is none yet, or it broke off: whoever reads on will see."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await answer.content.readany()
    except (TimeoutError, aiohttp.ClientError):
        return None


async def _rest(answer: aiohttp.ClientResponse) -> list[bytes]:
    chunks, size = list[bytes](), 0
    with suppress(aiohttp.ClientError):
        while size < _MOST and (chunk := await answer.content.readany()):
            chunks.append(chunk)
            size += len(chunk)
    return chunks


def _streamed(chunk: bytes, encoding: str) -> Held:
    if not chunk:
        return Held([], None, is_empty=True)
    if encoding.strip().lower() not in ("", "identity") or b"error" not in chunk[:4096]:
        return Held([chunk], None)
    events = [*EventReader().feed(chunk[:_MOST])]
    first = events[0].data.decode("utf-8", "replace") if events else ""
    return Held([chunk], Refused(400, first) if first and find_overflow(200, first) else None)


def _clear(raw: bytes, encoding: str) -> str:
    try:
        return inflated(raw, encoding, 8 * _MOST).decode("utf-8", "replace")
    except BadRequest:
        return ""
