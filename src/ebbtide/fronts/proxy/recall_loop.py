"""`--recall tool`: answer the model's calls of the recall tools inside the one answer that the client gets.

What comes before such a call is streamed to the client unchanged. From the call on the answer is held back: it is read
to its end, the calls are answered and recorded, and the upstream is asked to go on. If the client has calls of its own
in the same answer it gets them first, and the recall results are added to its next request.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import NamedTuple

import aiohttp
from aiohttp import web

from ebbtide.fronts.proxy import upstream_client
from ebbtide.fronts.proxy.answers import ObservedResponse, ResponseCopy
from ebbtide.fronts.proxy.encoding import Decompressor, is_readable
from ebbtide.fronts.proxy.guarded_engine import GuardedEngine
from ebbtide.fronts.proxy.sessions import OutgoingRequest, RecallCalls
from ebbtide.wire import WIRES
from ebbtide.wire.body import read_body
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

MAX_ROUNDS = 4
"""Answers with recall calls that are answered for one request. A model that needs more searches for the wrong words."""
_NO_MORE_CALLS = "No more of this tool in this turn. Go on with what you have."
_MAX_BYTES = 8 << 20
"""Bytes of an answer that is no stream, and of one event. More is passed on unread."""
_MAX_STREAM_BYTES = 1 << 30
_FRAME_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
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
        return "event-stream" in self.response.headers.get("content-type", "")

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
        self._answers: list[dict[str, object]] = []
        self._held_frames: list[tuple[bool, bytes]] = []
        """What follows a recall call, each with whether it belongs to the end of the answer."""

    async def run(self, answer: OpenAnswer) -> web.StreamResponse:
        self._merger = WIRES[answer.outgoing.incoming.wire].replies.response_merger()
        self._first_request = answer.outgoing.original
        if not is_readable(answer.encoding):
            return await answer.relay_and_record(self._request, self._engine)
        async with AsyncExitStack() as stack:
            return await (self._run_stream if answer.is_stream else self._run_single)(answer, stack)

    # --- streams -------------------------------------------------------------------------------------------------

    async def _run_stream(self, answer: OpenAnswer, stack: AsyncExitStack) -> web.StreamResponse:
        response = upstream_client.copy_response(answer.response, *_REWRITTEN)
        await response.prepare(self._request)
        while True:
            try:
                observed = await self._relay(answer, response)
            except aiohttp.ClientError:
                return upstream_client.break_off(self._request, response)
            follow_up = await self._next_request(answer.outgoing, observed)
            frames = [frame for is_end, frame in self._held_frames if follow_up is None or not is_end]
            await response.write(b"".join(frames))
            if follow_up is None:
                break
            self._merger.start_next()
            self._held_frames = []
            answer = await stack.enter_async_context(self._send(follow_up))
            if not answer.is_usable(as_stream=True):
                await response.write(await _error_frame(answer))
                break
        await response.write_eof()
        return response

    async def _relay(self, answer: OpenAnswer, response: web.StreamResponse) -> ObservedResponse:
        """Send one answer's events to the client, as far as it may see them yet. Return what they add up to."""
        copy, splitter = answer.new_copy(), _FrameSplitter()
        decompressor = Decompressor(answer.encoding, _MAX_STREAM_BYTES)
        try:
            async for chunk in answer.iter_chunks():
                copy.feed(chunk)
                frames = splitter.feed(decompressor.feed(chunk))
                await _write_nonempty(response, b"".join(map(self._frame_to_send, frames)))
            await _write_nonempty(response, b"".join(map(self._frame_to_send, splitter.rest())))
            return copy.read()
        finally:
            # Even if the client disconnects: the answer was billed.
            is_unchanged = not self._answers and not self._merger.is_hiding
            self._record(answer.outgoing, copy.read(), is_unchanged=is_unchanged)

    def _frame_to_send(self, frame: bytes) -> bytes:
        """Return the frame as the client may see it now; empty if it is held back or dropped."""
        event = next(iter(EventReader(_MAX_BYTES).feed(frame)), None)
        if event is None:
            return self._send_or_hold(frame, False)
        original = parse_event(event)
        rewritten = self._merger.convert(original)
        if rewritten is None:
            return b""
        if rewritten is not original:
            frame = _frame(event.name, rewritten)
        return self._send_or_hold(frame, self._merger.is_end(original))

    def _send_or_hold(self, frame: bytes, is_end: bool) -> bytes:
        if not self._merger.is_hiding:
            return frame
        self._held_frames.append((is_end, frame))
        return b""

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
            follow_up = await self._next_request(answer.outgoing, observed)
            is_unchanged = len(self._answers) == 1 and not self._merger.read(observed.response).recalls
            self._record(answer.outgoing, observed, is_unchanged=is_unchanged)
            if follow_up is None:
                body = b"".join(chunks) if is_unchanged else _json(self._merger.merge(self._answers))
                response = upstream_client.copy_response(first_response, *(() if is_unchanged else _REWRITTEN))
                await self._start(response, body)
                await response.write_eof()
                return response
            answer = await stack.enter_async_context(self._send(follow_up))
            if not answer.is_usable(as_stream=False):
                # The client has nothing yet, so the failure is its answer.
                return await upstream_client.relay(self._request, answer.response, answer.first_chunks)

    async def _start(self, response: upstream_client.RelayedResponse, body: bytes) -> None:
        await response.prepare(self._request)
        await _write_nonempty(response, body)

    # --- between two answers -------------------------------------------------------------------------------------

    def _record(self, outgoing: OutgoingRequest, observed: ObservedResponse, *, is_unchanged: bool) -> None:
        """Record an answer. If the client gets it changed, record its usage only: the next request has the rest."""
        recorded = observed if is_unchanged else observed._replace(is_complete=False)
        self._engine.record_answer(outgoing, lambda: recorded)

    async def _next_request(self, outgoing: OutgoingRequest, observed: ObservedResponse) -> OutgoingRequest | None:
        """Return the request that asks the upstream to go on; None if the client's answer is complete."""
        self._answers.append(observed.response)
        if not observed.is_complete:
            return None
        content = self._merger.read(observed.response)
        if not content.recalls or len(self._answers) > MAX_ROUNDS + 1:
            return None
        calls = RecallCalls(
            batches=content.recalls,
            assistant_text=content.hidden_text,
            body=self._continued_body(outgoing.incoming.wire),
            client_goes_first=content.has_client_calls,
            refusal=_NO_MORE_CALLS if len(self._answers) > MAX_ROUNDS else "",
        )
        return await self._engine.answer_recall(outgoing, calls)

    def _continued_body(self, wire: str) -> bytes:
        visible = self._merger.visible(self._answers)
        if not visible:
            return self._first_request
        parsed, list_key = read_body(self._first_request), WIRES[wire].list_key
        body = parsed.emit({**parsed.tree, list_key: [*parsed.messages, *visible]})
        assert isinstance(body, bytes), "a body read from bytes is emitted as bytes"
        return body


class _FrameSplitter:
    """Splits a stream into events, each with its blank line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        search_from, self._rest = max(0, len(self._rest) - 3), self._rest + chunk
        frames, start = list[bytes](), 0
        for end in _FRAME_END.finditer(self._rest, search_from):
            frames.append(self._rest[start : end.end()])
            start = end.end()
        self._rest = self._rest[start:]
        if len(self._rest) > _MAX_BYTES:
            frames.append(self._rest)
            self._rest = b""
        return frames

    def rest(self) -> list[bytes]:
        return [self._rest] if self._rest else []


async def _write_nonempty(response: web.StreamResponse, raw: bytes) -> None:
    if raw:
        await response.write(raw)


async def _error_frame(answer: OpenAnswer) -> bytes:
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
    return _frame(*WIRES[answer.outgoing.incoming.wire].replies.error_event(error))


def _frame(name: str, event: object) -> bytes:
    first_line = f"event: {name}\n".encode() if name else b""
    return first_line + b"data: " + _json(event) + b"\n\n"


def _json(value: object) -> bytes:
    # As escapes: half a surrogate pair, which the next event completes, cannot be written otherwise.
    return json.dumps(value).encode()
