"""Record what an SDK returns and attach the report to it as `_ebbtide`.

A response that is not read yet is copied while the caller reads it, chunk by chunk, and never read ahead. The copy
hangs on the HTTP response's own stream, so it sees every way of reading (events, lines, text, raw bytes) and closing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Protocol, cast

from ebbtide.fronts.sdk.call_gate import GatedCall
from ebbtide.runtime import Report
from ebbtide.wire.amazon_stream import CONTENT_TYPE, to_server_sent_events

OnBytes = Callable[[bytes], None]

_MAX_COPY_BYTES = 64 << 20
"""No answer of a model is a hundredth of this; anything larger is not copied."""
_ABOUT_BYTES = frozenset({"content-length", "content-encoding", "transfer-encoding", "content-md5", "etag"})
"""Headers that are about the bytes of a response."""
_PARSED_FIELDS = frozenset({"parsed", "parsed_arguments"})
"""Fields that the SDK's own parsing adds to an answer."""


class Response(Protocol):
    """What the HTTP responses of httpx and httpx2 share."""

    status_code: int
    headers: object
    stream: object

    @property
    def content(self) -> bytes: ...


def accept_answer(gated: GatedCall, answer: object) -> None:
    """The provider accepted the request: record the answer, now or once it is read."""
    record = _start_recording(gated, answer)
    if record is not None:
        record()


async def aaccept_answer(gated: GatedCall, answer: object) -> None:
    record = _start_recording(gated, answer)
    if record is not None:
        await asyncio.to_thread(record)  # it may write to a disk


def _start_recording(gated: GatedCall, answer: object) -> Callable[[], None] | None:
    """Return what must be done now; None if the answer is still to be read."""
    gated.accept()
    attach_report(answer, gated.report)
    response = _http_response(answer)
    if response is None:
        return lambda: gated.record(_as_mapping(answer))
    attach_report(response, gated.report)
    with suppress(Exception):
        raw = copy_when_read(cast(Response, response), _reader_of_bytes(response, gated.record_bytes))
        return (lambda: gated.record_bytes(raw)) if raw else None
    return None


def _reader_of_bytes(response: object, record: OnBytes) -> OnBytes:
    content_type = getattr(response, "headers", {}).get("content-type", "")
    if content_type.partition(";")[0] != CONTENT_TYPE:
        return record
    return lambda raw: record(to_server_sent_events(raw))


def attach_report(value: object, report: Report | None) -> None:
    """Set `_ebbtide` where the object allows it. Models forbid unknown fields but not attributes."""
    with suppress(Exception):
        object.__setattr__(value, "_ebbtide", report)


def _http_response(answer: object) -> object | None:
    """Return the HTTP response below a raw response or a stream; None for a parsed answer."""
    if hasattr(answer, "iter_raw"):
        return answer
    response = getattr(answer, "http_response", None) or getattr(answer, "response", None)
    return response if hasattr(response, "iter_raw") else None


def _as_mapping(answer: object) -> object:
    dump = getattr(answer, "model_dump", None)
    if dump is None:
        return answer
    # Without `warnings=False` the SDK's generic models warn about the caller's own types.
    return _without_parsed(dump(mode="json", exclude_unset=True, by_alias=True, warnings=False))


def _without_parsed(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_parsed(part) for name, part in value.items() if name not in _PARSED_FIELDS}
    return [_without_parsed(part) for part in value] if isinstance(value, list) else value


def copy_when_read(response: Response, on_bytes: OnBytes) -> bytes:
    """Return the body if it was read already; else nothing, and `on_bytes` gets it once it is read or closed."""
    try:
        return response.content
    except RuntimeError:  # ResponseNotRead, of either library
        response.stream = _copied_stream(response, on_bytes)
        return b""


def _copied_stream(response: Response, on_bytes: OnBytes) -> object:
    get_header = cast(Callable[[str, str], str], getattr(response.headers, "get", lambda _, default: default))
    encoding = get_header("content-encoding", "")
    plain_class = _plain_class(response)

    def on_end(raw: bytes) -> None:
        # A compressed stream that was cut cannot be read: it was no complete response.
        with suppress(Exception):
            headers = {"content-encoding": encoding}
            on_bytes(plain_class(200, headers=headers, content=raw).content if encoding else raw)

    return derive_stream_class(_StreamCopy, response.stream)(response.stream, on_end)


def make_response(response: Response, **content: object) -> Response:
    """Make a response with other content, read or to be read, that is otherwise like this one."""
    headers = cast(Mapping[str, str], response.headers)
    plain_headers = {name: value for name, value in headers.items() if name.lower() not in _ABOUT_BYTES}
    request, extensions = getattr(response, "request", None), dict(getattr(response, "extensions", {}))
    options = {"headers": plain_headers, "request": request, "extensions": extensions, **content}
    new = _plain_class(response)(response.status_code, **options)
    with suppress(Exception):  # it is known only of a response that was read
        new.elapsed = response.elapsed  # type: ignore[attr-defined]
    return new


def _plain_class(response: Response) -> Callable[..., Response]:
    """Return the library's own class, below any that was derived from it: it knows how to decompress."""
    plain_class = next(kind for kind in reversed(type(response).__mro__) if kind.__name__ == "Response")
    return cast(Callable[..., Response], plain_class)


class _StreamCopy:
    """A byte stream that passes everything on, and calls `on_end` with all of it at the end."""

    def __init__(self, inner: object, on_end: OnBytes) -> None:
        self._inner, self._on_end = inner, on_end
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
        if self._bytes > _MAX_COPY_BYTES:
            self._parts = None
        if self._parts is not None:
            self._parts.append(part)

    async def _aend(self) -> None:
        if self._parts:
            await asyncio.to_thread(self._end)  # it may write to a disk

    def _end(self) -> None:
        parts, self._parts = self._parts, None
        if parts:
            self._on_end(b"".join(parts))


def derive_stream_class(stream_class: type, inner: object) -> Callable[..., object]:
    """Derive a class that the HTTP library accepts as its own stream, such as `inner`: it checks the class."""
    return _derive_stream_class(cast(Hashable, stream_class), cast(Hashable, type(inner)))


@lru_cache(maxsize=16)
def _derive_stream_class(stream_class: type, inner: type) -> Callable[..., object]:
    bases = tuple(kind for kind in inner.__mro__ if kind.__name__ in ("SyncByteStream", "AsyncByteStream"))
    return cast(Callable[..., object], type("Stream", (stream_class, *bases), {}))
