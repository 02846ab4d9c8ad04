"""`--recall tool`: the model's calls of our tools are answered here, inside the one answer that the client gets.

What stands before such a call streams through as it came. From its beginning on the answer is held back: it is read to
its end, the calls are answered and written down, and the upstream is asked to go on. Where the client has calls of its
own in the same answer it gets them, and ours stand with its results in the next request.
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
from ebbtide.fronts.proxy.encoding import Inflating, readable
from ebbtide.fronts.proxy.guarded_engine import Engine, Outgoing, Recalls
from ebbtide.fronts.proxy.usage_tap import Copy, Heard
from ebbtide.wire import WIRES
from ebbtide.wire.body import read_body
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

ROUNDS = 4
"""Answers with calls that are answered for one request: who has not found it by then is looking for the wrong words."""
_ENOUGH = "No more of this tool in this turn. Go on with what you have."
_MOST = 8 << 20
"""Bytes of an answer without a stream, and of one event. More is passed on unread."""
_STREAM = 1 << 30
_FRAME = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_REWRITTEN = ("Content-Length", "Content-Encoding", "Content-MD5", "Digest", "Content-Digest", "ETag")


class Begun(NamedTuple):
    """An answer under way."""

    outgoing: Outgoing
    answer: aiohttp.ClientResponse
    chunks: list[bytes]
    """Read already, and still owed to the client."""

    @property
    def encoding(self) -> str:
        return self.answer.headers.get("content-encoding", "")

    @property
    def streams(self) -> bool:
        return "event-stream" in self.answer.headers.get("content-type", "")

    @property
    def copy(self) -> Copy:
        return Copy(self.outgoing.asked.wire, self.answer.headers.get("content-type", ""), self.encoding)

    async def arriving(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        async for chunk in self.answer.content.iter_any():
            yield chunk


Asking = Callable[[Outgoing], AbstractAsyncContextManager[Begun]]


class Recalling:
    """One answer to one client."""

    def __init__(self, request: web.BaseRequest, engine: Engine, ask: Asking) -> None:
        self._request, self._engine, self._ask = request, engine, ask
        self._answers: list[dict[str, object]] = []
        self._held: list[tuple[bool, bytes]] = []
        """What follows a call of ours, and whether it is the end of its answer."""

    async def told(self, begun: Begun) -> web.StreamResponse:
        self._merger = WIRES[begun.outgoing.asked.wire].replies.response_merger()
        self._first = begun.outgoing.plain
        if not readable(begun.encoding):
            copy = begun.copy
            try:
                return await upstream_client.pump(self._request, begun.answer, begun.chunks, copy.feed)
            finally:
                self._engine.heard(begun.outgoing, copy.heard)
        async with AsyncExitStack() as stack:
            return await (self._streamed if begun.streams else self._whole)(begun, stack)

    # --- streams -------------------------------------------------------------------------------------------------

    async def _streamed(self, begun: Begun, stack: AsyncExitStack) -> web.StreamResponse:
        response = upstream_client.relayed(begun.answer, *_REWRITTEN)
        await response.prepare(self._request)
        while True:
            try:
                heard = await self._relay(begun, response)
            except aiohttp.ClientError:
                return upstream_client.break_off(self._request, response)
            again = await self._next(begun.outgoing, heard)
            await response.write(b"".join(raw for ends, raw in self._held if again is None or not ends))
            if again is None:
                break
            self._merger.start_next()
            self._held = []
            begun = await stack.enter_async_context(self._ask(again))
            if begun.answer.status != 200 or not begun.streams or not readable(begun.encoding):
                await response.write(_failure(begun, await _body(begun)))
                break
        await response.write_eof()
        return response

    async def _relay(self, begun: Begun, response: web.StreamResponse) -> Heard:
        """One answer's events to the client, and what they come to."""
        copy, frames, inflating = begun.copy, _Frames(), Inflating(begun.encoding, _STREAM)
        heard: Heard | None = None
        try:
            async for chunk in begun.arriving():
                copy.feed(chunk)
                await _write(response, b"".join(map(self._shown, frames.feed(inflating.feed(chunk)))))
            await _write(response, b"".join(map(self._shown, frames.rest())))
            heard = copy.heard()
            return heard
        finally:
            # Also of a client that left: what came was billed.
            self._log(begun.outgoing, heard or copy.heard(), plain=not self._answers and not self._merger.is_hiding)

    def _shown(self, frame: bytes) -> bytes:
        """A frame as the client gets it now; empty where it does not, or not yet."""
        event = next(iter(EventReader(_MOST).feed(frame)), None)
        if event is None:
            return self._kept(frame, False)
        told = parse_event(event)
        made = self._merger.convert(told)
        if made is None:
            return b""
        if made is not told:
            name = f"event: {event.name}\n" if event.name else ""
            frame = name.encode() + b"data: " + _json(made) + b"\n\n"
        return self._kept(frame, self._merger.is_end(told))

    def _kept(self, frame: bytes, ends: bool) -> bytes:
        if not self._merger.is_hiding:
            return frame
        self._held.append((ends, frame))
        return b""

    # --- without a stream ----------------------------------------------------------------------------------------

    async def _whole(self, begun: Begun, stack: AsyncExitStack) -> web.StreamResponse:
        first = begun
        while True:
            copy, raw = begun.copy, list[bytes]()
            try:
                async for chunk in begun.arriving():
                    copy.feed(chunk)
                    raw.append(chunk)
            except aiohttp.ClientError:
                return await self._broken(begun, b"".join(raw))
            heard = copy.heard()
            again = await self._next(begun.outgoing, heard)
            plain = len(self._answers) == 1 and not self._ours(heard)
            self._log(begun.outgoing, heard, plain=plain)
            if again is None:
                body = b"".join(raw) if plain else _json(self._merger.merge(self._answers))
                return await self._sent(upstream_client.relayed(first.answer, *(() if plain else _REWRITTEN)), body)
            begun = await stack.enter_async_context(self._ask(again))
            if begun.answer.status != 200 or begun.streams or not readable(begun.encoding):
                # Nothing was told yet: the failure is the answer, and the client knows what to do with it.
                return await upstream_client.pump(self._request, begun.answer, begun.chunks, lambda _: None)

    async def _broken(self, begun: Begun, came: bytes) -> web.StreamResponse:
        response = upstream_client.relayed(begun.answer)
        await response.prepare(self._request)
        await _write(response, came)
        return upstream_client.break_off(self._request, response)

    async def _sent(self, response: upstream_client.Relayed, body: bytes) -> web.StreamResponse:
        await response.prepare(self._request)
        await _write(response, body)
        await response.write_eof()
        return response

    # --- between two answers -------------------------------------------------------------------------------------

    def _log(self, outgoing: Outgoing, heard: Heard, *, plain: bool) -> None:
        """Of an answer that the client has otherwise than it came, its usage alone: the next request has the rest."""
        self._engine.heard(outgoing, lambda: heard if plain else heard._replace(whole=False))

    def _ours(self, heard: Heard) -> bool:
        return bool(self._merger.read(heard.response).recalls)

    async def _next(self, outgoing: Outgoing, heard: Heard) -> Outgoing | None:
        """The request that goes on from here; None where the client has all of its answer."""
        self._answers.append(heard.response)
        if not heard.whole:
            return None
        read = self._merger.read(heard.response)
        if not read.recalls or len(self._answers) > ROUNDS + 1:
            return None
        calls = Recalls(
            ours=read.recalls,
            said=read.hidden_text,
            body=self._going_on(outgoing.asked.wire),
            wait=read.has_client_calls,
            refused=_ENOUGH if len(self._answers) > ROUNDS else "",
        )
        return await self._engine.recalled(outgoing, calls)

    def _going_on(self, wire: str) -> bytes:
        shown = self._merger.visible(self._answers)
        if not shown:
            return self._first
        read, key = read_body(self._first), WIRES[wire].list_key
        made = read.emit({**read.tree, key: [*read.messages, *shown]})
        assert isinstance(made, bytes), "what came as bytes is bytes"
        return made


class _Frames:
    """Events as they stand in a stream, each with its blank line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        seen, self._rest = max(0, len(self._rest) - 3), self._rest + chunk
        found, at = list[bytes](), 0
        for end in _FRAME.finditer(self._rest, seen):
            found.append(self._rest[at : end.end()])
            at = end.end()
        self._rest = self._rest[at:]
        if len(self._rest) > _MOST:
            found.append(self._rest)
            self._rest = b""
        return found

    def rest(self) -> list[bytes]:
        return [self._rest] if self._rest else []


async def _write(response: web.StreamResponse, raw: bytes) -> None:
    if raw:
        await response.write(raw)


async def _body(begun: Begun) -> bytes:
    raw = b""
    async for chunk in begun.arriving():
        raw += chunk
        if len(raw) > _MOST:
            break
    return raw


def _failure(begun: Begun, raw: bytes) -> bytes:
    """An error in the middle of a stream, in the provider's own words."""
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        told = None
    error = told.get("error") if isinstance(told, dict) else None
    error = error if isinstance(error, dict) else {"type": "api_error", "message": f"status {begun.answer.status}"}
    name, event = WIRES[begun.outgoing.asked.wire].replies.error_event(error)
    first_line = f"event: {name}\n".encode() if name else b""
    return first_line + b"data: " + _json(event) + b"\n\n"


def _json(value: object) -> bytes:
    # Half a pair of surrogates in one event is completed by the next: only escapes can say it.
    return json.dumps(value).encode()
