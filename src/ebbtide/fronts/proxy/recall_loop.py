"""`--recall tool`: answer the model's calls of the recall tools inside the one answer that the client gets.

What comes before such a call is streamed to the client unchanged. From the call on the answer is held back: it is read
to its end, the calls are answered and recorded, and the upstream is asked to go on. If the answer also has calls
of the client's tools, the client gets them first, and the recall results are added to its next request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import NamedTuple

import aiohttp
from aiohttp import web

from ebbtide.fronts.proxy import upstream_client
from ebbtide.fronts.proxy.answers import ObservedResponse, ResponseCopy
from ebbtide.fronts.proxy.encoding import Decompressor, is_readable
from ebbtide.fronts.proxy.guarded_engine import GuardedEngine
from ebbtide.fronts.proxy.sessions import OutgoingRequest
from ebbtide.runtime.recall_rounds import RecallRounds, event_frame
from ebbtide.wire import WIRES
from ebbtide.wire.amazon_stream import CONTENT_TYPE, write_event
from ebbtide.wire.body import read_body

_MAX_BYTES = 8 << 20
"""Bytes of an error that ends a stream."""
_MAX_STREAM_BYTES = 1 << 30
_REWRITTEN = ("Content-Length", "Content-Encoding", "Content-MD5", "Digest", "Content-Digest", "ETag")


class OpenAnswer(NamedTuple):
    """An upstream's answer that is still to be read."""

    outgoing: OutgoingRequest
    response: aiohttp.ClientResponse
    first_chunks: list[bytes]
    """Read already, and not sent to the client yet."""

    @property
    def encoding(self) -> str:
        return self.response.headers.get("content-encoding", "")

    @property
    def is_stream(self) -> bool:
        return self.is_amazons or "event-stream" in self.response.headers.get("content-type", "")

    @property
    def is_amazons(self) -> bool:
        return CONTENT_TYPE in self.response.headers.get("content-type", "")

    def is_usable(self, *, as_stream: bool) -> bool:
        return self.response.status == 200 and self.is_stream == as_stream and is_readable(self.encoding)

    def new_copy(self) -> ResponseCopy:
        content_type = self.response.headers.get("content-type", "")
        return ResponseCopy(self.outgoing.incoming.wire, content_type, self.encoding)

    async def iter_chunks(self) -> AsyncIterator[bytes]:
        for chunk in self.first_chunks:
            yield chunk
        async for chunk in self.response.content.iter_any():
            yield chunk

    async def relay_and_record(self, request: web.BaseRequest, engine: GuardedEngine) -> web.StreamResponse:
        """Relay the answer unchanged. It is recorded even if the client disconnects: it was billed."""
        copy = self.new_copy()
        try:
            return await upstream_client.relay(request, self.response, self.first_chunks, copy.feed)
        finally:
            engine.record_answer(self.outgoing, copy.read)


SendRequest = Callable[[OutgoingRequest], AbstractAsyncContextManager[OpenAnswer]]


class RecallLoop:
    """One answer to one client, made of one or more answers of the upstream."""

    def __init__(self, request: web.BaseRequest, engine: GuardedEngine, send: SendRequest) -> None:
        self._request, self._engine, self._send = request, engine, send

    async def run(self, answer: OpenAnswer) -> web.StreamResponse:
        self._rounds = RecallRounds(WIRES[answer.outgoing.incoming.wire], has_amazons_frames=answer.is_amazons)
        self._first_request = answer.outgoing.original
        if not is_readable(answer.encoding):
            return await answer.relay_and_record(self._request, self._engine)
        async with AsyncExitStack() as stack:
            return await (self._run_stream if answer.is_stream else self._run_single)(answer, stack)

    # --- streams -------------------------------------------------------------------------------------------------

    async def _run_stream(self, answer: OpenAnswer, stack: AsyncExitStack) -> web.StreamResponse:
        response = upstream_client.copy_response(answer.response, *_REWRITTEN)
        has_amazons_frames = answer.is_amazons
        await response.start(self._request, has_body=False)
        while True:
            try:
                observed = await self._relay(answer, response)
            except aiohttp.ClientError:
                return upstream_client.break_off(self._request, response)
            follow_up = await self._next_request(answer.outgoing, observed)
            await response.write(self._rounds.held_frames(is_last=follow_up is None))
            if follow_up is None:
                break
            answer = await stack.enter_async_context(self._send(follow_up))
            if not answer.is_usable(as_stream=True):
                await response.write(await _error_frame(answer, has_amazons_frames=has_amazons_frames))
                break
        await response.write_eof()
        return response

    async def _relay(self, answer: OpenAnswer, response: web.StreamResponse) -> ObservedResponse:
        """Send one answer's events to the client, as far as it may see them yet. Return what they add up to."""
        copy, decompressor = answer.new_copy(), Decompressor(answer.encoding, _MAX_STREAM_BYTES)
        try:
            async for chunk in answer.iter_chunks():
                copy.feed(chunk)
                await response.write(self._rounds.feed(decompressor.feed(chunk)))
            await response.write(self._rounds.flush())
            return copy.read()
        finally:
            # Even if the client disconnects: the answer was billed.
            self._record(answer.outgoing, copy.read())

    # --- without a stream ----------------------------------------------------------------------------------------

    async def _run_single(self, answer: OpenAnswer, stack: AsyncExitStack) -> web.StreamResponse:
        first_response = answer.response
        while True:
            copy, chunks = answer.new_copy(), list[bytes]()
            try:
                async for chunk in answer.iter_chunks():
                    copy.feed(chunk)
                    chunks.append(chunk)
            except aiohttp.ClientError:
                response = upstream_client.copy_response(answer.response)
                await self._start(response, b"".join(chunks))
                return upstream_client.break_off(self._request, response)
            observed = copy.read()
            is_unchanged = self._record(answer.outgoing, observed)
            follow_up = await self._next_request(answer.outgoing, observed)
            if follow_up is None:
                body = b"".join(chunks) if is_unchanged else self._rounds.merge()
                body = b"[%b]" % body if observed.is_list and not is_unchanged else body
                response = upstream_client.copy_response(first_response, *(() if is_unchanged else _REWRITTEN))
                await self._start(response, body)
                await response.write_eof()
                return response
            answer = await stack.enter_async_context(self._send(follow_up))
            if not answer.is_usable(as_stream=False):
                # The client has nothing yet, so the failure is its answer.
                return await upstream_client.relay(self._request, answer.response, answer.first_chunks)

    async def _start(self, response: upstream_client.RelayedResponse, body: bytes) -> None:
        await response.start(self._request, has_body=bool(body))
        await response.write(body)

    # --- between two answers -------------------------------------------------------------------------------------

    def _record(self, outgoing: OutgoingRequest, observed: ObservedResponse) -> bool:
        """Record an answer. If the client gets it changed, record its usage only: the next request has the rest."""
        is_unchanged = self._rounds.is_shown_whole(observed.response)
        recorded = observed if is_unchanged else observed._replace(is_complete=False)
        self._engine.record_answer(outgoing, lambda: recorded)
        return is_unchanged

    async def _next_request(self, outgoing: OutgoingRequest, observed: ObservedResponse) -> OutgoingRequest | None:
        """Return the request that asks the upstream to go on; None if the client's answer is complete."""
        calls = self._rounds.next_calls(observed.response, is_complete=observed.is_complete)
        if calls is None:
            return None
        body = self._continued_body(outgoing.incoming.wire, calls.visible)
        return await self._engine.answer_recall(outgoing, calls, body)

    def _continued_body(self, wire: str, visible: list[object]) -> bytes:
        """Return the next request, as the client would send it if it had the answer so far."""
        if not visible:
            return self._first_request
        parsed, list_key = read_body(self._first_request), WIRES[wire].list_key
        body = parsed.emit({**parsed.tree, list_key: [*parsed.messages, *visible]})
        assert isinstance(body, bytes), "a body read from bytes is emitted as bytes"
        return body


async def _error_frame(answer: OpenAnswer, *, has_amazons_frames: bool) -> bytes:
    """Write the provider's own error as an event, for a client in the middle of a stream."""
    raw = b""
    async for chunk in answer.iter_chunks():
        raw += chunk
        if len(raw) > _MAX_BYTES:
            break
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {"type": "api_error", "message": f"status {answer.response.status}"}
    name, event = WIRES[answer.outgoing.incoming.wire].replies.error_event(error)
    return write_event(event) if has_amazons_frames else event_frame(name, event)
