"""`wrap(recall="tool")`: answers the model's recall calls, and shows the caller one answer without them.

The HTTP response that the SDK reads is replaced by one of ours. Of a stream it passes on what comes before a recall
call, and then what the model says when it was asked to go on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol, cast

from ebbtide.fronts.sdk.answers import Response, attach_report, derive_stream_class, make_response
from ebbtide.fronts.sdk.call_gate import GatedCall, read_response
from ebbtide.runtime.recall_rounds import RecallCalls, RecallRounds, event_frame
from ebbtide.wire import WIRES


class Received(Protocol):
    """An answer of a model: its bytes, read or to be read."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> object: ...
    def iter_bytes(self) -> Iterator[bytes]: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    def read(self) -> bytes: ...
    async def aread(self) -> bytes: ...
    def close(self) -> None: ...
    async def aclose(self) -> None: ...


class ReadableResponse(Response, Protocol):
    """What the HTTP responses of httpx and httpx2 share, as far as it is needed here."""

    is_closed: bool

    def iter_bytes(self) -> Iterator[bytes]: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    def read(self) -> bytes: ...
    async def aread(self) -> bytes: ...
    def close(self) -> None: ...
    async def aclose(self) -> None: ...


Send = Callable[[GatedCall], Received]
AsyncSend = Callable[[GatedCall], Awaitable[Received]]


class RecallAnswer:
    """One answer to the caller, made of one or more answers of the model."""

    def __init__(self, gated: GatedCall) -> None:
        self.gated = gated
        """The newest request."""
        self._wire = WIRES[gated.call.wire]
        self._rounds = RecallRounds(self._wire)
        self._chunks: list[bytes] = []
        self._is_stream: bool | None = None
        self._failure: Received | None = None
        """What came instead of an answer when the model was asked to go on."""
        self._shown: object = None
        """The response that the caller gets."""

    # --- sync ----------------------------------------------------------------------------------------------------

    def show(self, response: ReadableResponse, send: Send) -> ReadableResponse:
        """Return the response that the caller gets for this one. `send` sends the next request."""
        self.begin(response)
        if not response.is_closed:
            return self._replace(response, stream=_shown_stream(response, self.parts(response, send)))
        content = b"".join(self.parts(response, send))
        return cast(ReadableResponse, self._failure) if self._failure else self._replace(response, content=content)

    def parts(self, response: Received, send: Send) -> Iterator[bytes]:
        while True:
            try:
                for chunk in response.iter_bytes():
                    yield self._take(chunk)
            except GeneratorExit:
                self._end()  # the SDK closes a stream at its last event
                raise
            finally:
                response.close()
            calls = self._end()
            gated = self.gated.next_round(calls) if calls else None
            yield self._rest(is_last=gated is None)
            if gated is None:
                return
            response = send(gated)
            self.gated = gated
            if not self.begin(response):
                yield self._error(response.read())
                return

    # --- async ---------------------------------------------------------------------------------------------------

    async def ashow(self, response: ReadableResponse, send: AsyncSend) -> ReadableResponse:
        self.begin(response)
        if not response.is_closed:
            return self._replace(response, stream=_shown_stream(response, self.aparts(response, send)))
        content = b"".join([part async for part in self.aparts(response, send)])
        return cast(ReadableResponse, self._failure) if self._failure else self._replace(response, content=content)

    async def aparts(self, response: Received, send: AsyncSend) -> AsyncIterator[bytes]:
        while True:
            try:
                async for chunk in response.aiter_bytes():
                    yield self._take(chunk)
            except GeneratorExit:
                await asyncio.to_thread(self._end)
                raise
            finally:
                await response.aclose()
            calls = await asyncio.to_thread(self._end)  # it may write to a disk
            gated = await self.gated.anext_round(calls) if calls else None
            yield self._rest(is_last=gated is None)
            if gated is None:
                return
            response = await send(gated)
            self.gated = gated
            if not self.begin(response):
                yield self._error(await response.aread())
                return

    # --- one answer of the model -----------------------------------------------------------------------------------

    def begin(self, response: Received) -> bool:
        """Begin to read an answer of the model. Return whether it is one."""
        is_stream, self._chunks = "event-stream" in _header(response, "content-type"), []
        if response.status_code >= 400 or self._is_stream not in (None, is_stream):
            self._failure = response
            return False
        self._is_stream = is_stream
        self.gated.accept()
        attach_report(self._shown, self.gated.report)
        return True

    def _take(self, chunk: bytes) -> bytes:
        """Take a part of the model's answer. Return what the caller may see now."""
        self._chunks.append(chunk)
        return self._rounds.feed(chunk) if self._is_stream else b""

    def _end(self) -> RecallCalls | None:
        """The model's answer has ended: record it. Return the calls to answer.

        Of one that the caller does not get as it is only the usage is recorded: the next request has the rest.
        """
        raw = b"".join(self._chunks)
        response = read_response(self._wire.name, raw)
        self._flushed = self._rounds.flush()
        self._is_whole = self._rounds.is_shown_whole(response or {})
        if response is not None:
            (self.gated.record if self._is_whole else self.gated.record_usage)(response)
        return self._rounds.next_calls(response or {}, is_complete=response is not None)

    def _rest(self, *, is_last: bool) -> bytes:
        """Return what the caller sees of the answer besides what it has seen."""
        if self._is_stream:
            return self._flushed + self._rounds.held_frames(is_last=is_last)
        if not is_last:
            return b""
        return b"".join(self._chunks) if self._is_whole else self._rounds.merge()

    def _error(self, raw: bytes) -> bytes:
        """Return the provider's error, to a caller that may have half an answer already."""
        if not self._is_stream:
            return raw
        error: object = None
        with suppress(ValueError, RecursionError):
            body = json.loads(raw)
            error = body.get("error") if isinstance(body, Mapping) else None
        status = getattr(self._failure, "status_code", 0)
        error = error if isinstance(error, Mapping) else {"type": "api_error", "message": f"status {status}"}
        return event_frame(*self._wire.replies.error_event(error))

    def _replace(self, response: ReadableResponse, **content: object) -> ReadableResponse:
        """Make a response with other content that the SDK takes for the one it has received."""
        shown = cast(ReadableResponse, make_response(response, **content))
        attach_report(shown, self.gated.report)
        self._shown = shown
        return shown


def _header(response: object, name: str) -> str:
    headers = getattr(response, "headers", None)
    value = headers.get(name, "") if headers is not None else ""
    return str(value).lower()


class _ShownStream:
    """The byte stream of a response that we write."""

    def __init__(self, inner: ReadableResponse, parts: Iterator[bytes] | AsyncIterator[bytes]) -> None:
        self._inner, self._parts = inner, parts

    def __iter__(self) -> Iterator[bytes]:
        yield from (part for part in cast(Iterator[bytes], self._parts) if part)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in cast(AsyncIterator[bytes], self._parts):
            if part:
                yield part

    def close(self) -> None:
        cast(Callable[[], None], getattr(self._parts, "close"))()  # noqa: B009 - only generators have it
        self._inner.close()

    async def aclose(self) -> None:
        await cast(Callable[[], Awaitable[None]], getattr(self._parts, "aclose"))()  # noqa: B009
        await self._inner.aclose()


def _shown_stream(response: ReadableResponse, parts: Iterator[bytes] | AsyncIterator[bytes]) -> object:
    return derive_stream_class(_ShownStream, response.stream)(response, parts)
