"""A response that is not read yet is copied while the caller reads it, chunk by chunk, and never read ahead.

The copy hangs on the HTTP response's own stream, so every way of reading it (events, lines, text, raw bytes) is seen,
and closing early is seen too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Protocol, cast

Heard = Callable[[bytes], None]

_MOST = 64 << 20
"""Bytes. No answer of a model is a hundredth of it; what is larger is something else, and is not copied."""


class Response(Protocol):
    """What the HTTP responses of httpx and httpx2 share."""

    status_code: int
    headers: object
    stream: object

    @property
    def content(self) -> bytes: ...


def listen(response: Response, heard: Heard) -> bytes:
    """The body if it was read already; else nothing, and `heard` gets it when the caller has read it or closes it."""
    try:
        return response.content
    except RuntimeError:  # ResponseNotRead, of either library
        response.stream = _tapped(response, heard)
        return b""


def _tapped(response: Response, heard: Heard) -> object:
    stream, encoding = response.stream, _encoding(response)
    make = cast(Callable[..., Response], _plain(type(response)))

    def whole(raw: bytes) -> None:
        # A broken end of a compressed stream says nothing: the response did not come to its end.
        with suppress(Exception):
            heard(make(200, headers={"content-encoding": encoding}, content=raw).content if encoding else raw)

    kind = cast(Hashable, type(stream))
    return _kind(kind)(stream, whole)


def _plain(kind: type) -> type:
    """The library's own class, whatever was made of it: the one that knows how to decode."""
    return next(one for one in reversed(kind.__mro__) if one.__name__ == "Response")


def _encoding(response: Response) -> str:
    get = cast(Callable[[str, str], str], getattr(response.headers, "get", lambda _, other: other))
    return get("content-encoding", "")


class _Tap:
    """A byte stream that passes everything on, and at its end says what it was."""

    def __init__(self, inner: object, whole: Heard) -> None:
        self._inner, self._whole = inner, whole
        self._parts: list[bytes] | None = []
        self._bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def __iter__(self) -> Iterator[bytes]:
        for part in cast(Iterator[bytes], self._inner):
            self._copy(part)
            yield part
        self._end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in cast(AsyncIterator[bytes], self._inner):
            self._copy(part)
            yield part
        await self._aend()

    def close(self) -> None:
        getattr(self._inner, "close", lambda: None)()
        self._end()

    async def aclose(self) -> None:
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()
        await self._aend()

    def _copy(self, part: bytes) -> None:
        self._bytes += len(part)
        if self._bytes > _MOST:
            self._parts = None
        if self._parts is not None:
            self._parts.append(part)

    def _end(self) -> None:
        parts, self._parts = self._parts, None
        if parts:
            self._whole(b"".join(parts))

    async def _aend(self) -> None:
        """Recording may write to a disk: off the event loop."""
        parts, self._parts = self._parts, None
        if parts:
            await asyncio.to_thread(self._whole, b"".join(parts))


@lru_cache(maxsize=16)
def _kind(inner: type) -> Callable[[object, Heard], object]:
    """A tap that the HTTP library takes for a stream of its own: it looks at the class."""
    known = tuple(one for one in inner.__mro__ if one.__name__ in ("SyncByteStream", "AsyncByteStream"))
    return cast(Callable[[object, Heard], object], type("Tap", (_Tap, *known), {}))
