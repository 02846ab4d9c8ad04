"""The proxy as one handler: let in, find out what it is, let the engine look at it, send it on, stream the answer back.

`/healthz`, `/metrics` and `/ebb/...` are ours; every other path is an upstream's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import aiohttp
from aiohttp import web

from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.core.text.redact import redact
from ebbtide.fronts.proxy import status, upstream_client
from ebbtide.fronts.proxy.encoding import inflated, readable
from ebbtide.fronts.proxy.guard import admitted
from ebbtide.fronts.proxy.guarded_engine import Engine, Outgoing
from ebbtide.fronts.proxy.identity import Asked, asked, talker, wire_of
from ebbtide.fronts.proxy.meters import Handler, Meters
from ebbtide.fronts.proxy.options import OWN, Options
from ebbtide.fronts.proxy.otel import exporting
from ebbtide.fronts.proxy.recall_loop import Begun, Recalling
from ebbtide.fronts.proxy.refusals import Held, held
from ebbtide.fronts.proxy.sessions import Advice, Line, Sessions
from ebbtide.fronts.proxy.upstream_summarizer import Summarizing
from ebbtide.fronts.proxy.upstreams import Target, target
from ebbtide.fronts.proxy.usage_tap import Copy
from ebbtide.store import Store
from ebbtide.wire import WIRES
from ebbtide.wire.body import ParsedBody

_UPLOAD = 300.0
"""Seconds that a client may take to send a body that we read."""
_FIELD = 64 << 10
"""Bytes of a header line."""
_PATH = 200
"""Characters of a path that are logged."""
_BACKLOG = 1024
"""Connections that may wait to be taken: a crowd comes at once."""
_OFF_THE_LOOP = 256 << 10
"""Bytes of JSON that are read in a thread, so that other streams do not wait: a millisecond's worth."""


class Arrived(NamedTuple):
    """A request that came in."""

    request: web.Request
    path: str
    """Raw, with its query, without a token."""
    headers: Mapping[str, str]
    """Names in lower case."""
    target: Target
    wire: str
    begun: float


class Proxy:
    def __init__(self, options: Options, meters: Meters | None = None, store: Store | None = None) -> None:
        self.options = options
        self.meters = meters or Meters()
        self.sessions = Sessions(options, store, self._advice())
        self.engine = Engine(options, self.sessions, self.meters)
        self.address = ""
        self._client: aiohttp.ClientSession | None = None

    def _advice(self) -> Advice | None:
        """Nobody in shadow: who only looks must not be billed."""
        options = self.options
        if not options.summarizer or options.shadow:
            return None
        summarizing = Summarizing(client=lambda: self.client, meters=self.meters, limit=options.summary_limit)
        model = "" if options.summarizer == OWN else options.summarizer
        return Advice(ask=summarizing.ask, model=model, limit=options.summary_limit)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self.options.most_body)
        app.router.add_route("*", "/{path:.*}", self.handle, expect_handler=_expectation)
        app.on_response_prepare.append(upstream_client.only_its_own)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.meters.in_flight += 1
        try:
            return await self._handled(request)
        finally:
            self.meters.in_flight -= 1

    def about(self) -> status.About:
        return status.About(address=self.address, options=self.options, meters=self.meters, sessions=self.sessions)

    async def close(self) -> bool:
        """False where something of ours hangs."""
        done = await self.engine.drained()
        if self._client is not None:
            await self._client.close()
        return done

    async def _handled(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        entry = admitted(self.options, request.raw_path, headers)
        if entry.status:
            self.meters.count("ebb_refused_total", status=entry.status)
            return self._refused(entry.status, entry.reason)
        own = status.page(request.method, entry.path.partition("?")[0], self.about())
        if own is not None:
            return own
        where = target(self.options.upstreams, entry.path, headers)
        if where is None:
            return self._refused(404, "no upstream is configured for this path: see --upstream")
        wire = wire_of(request.method, entry.path.partition("?")[0])
        arrived = Arrived(request, entry.path, headers, where, wire, time.perf_counter())
        try:
            response = await (self._turn(arrived) if wire else self._passed(arrived, _body(request)))
        except (aiohttp.ClientError, OSError, TimeoutError) as failed:
            return self._unreached(arrived, failed)
        if isinstance(response, upstream_client.Relayed) and response.broken_off:
            self._failed(arrived, "BrokenOff")
        return response

    async def _passed(self, arrived: Arrived, body: bytes | AsyncIterator[bytes] | None) -> web.StreamResponse:
        """Untouched."""
        async with upstream_client.send(self.client, arrived.request, arrived.target.url, body) as answer:
            self._answered(arrived, answer.status)
            return await upstream_client.pump(arrived.request, answer, [], _ignored)

    async def _turn(self, arrived: Arrived) -> web.StreamResponse:
        """A request to a model."""
        request = arrived.request
        try:
            async with asyncio.timeout(_UPLOAD):
                raw = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._refused(413, f"the body is larger than {self.options.most_body} bytes")
        except (TimeoutError, web.RequestPayloadError):
            return self._refused(408, "the body did not come")
        known = await self._known(arrived, raw)
        if known is None:
            return await self._passed(arrived, raw)
        loop = asyncio.get_running_loop()
        line = Line(arrived.target.url, request.raw_headers, known[0].streams, loop)
        outgoing = await self.engine.prepare(*known, line)
        if outgoing.refusal is not None:
            return self._not_sent(arrived, *outgoing.refusal)
        # Not edited: as it came, compressed if it was.
        return await self._exchange(arrived, outgoing if outgoing.edited else replace(outgoing, body=raw))

    async def _known(self, arrived: Arrived, raw: bytes) -> tuple[Asked, bytes, ParsedBody] | None:
        """What the request asks, and its body in the clear and as a tree; None where it is none that we can read."""
        encoding = arrived.headers.get("content-encoding", "")
        signed = arrived.headers.get("authorization", "").startswith("AWS4-")
        if not raw or signed or not readable(encoding):
            return None  # a signature covers the body: it is not ours to change

        def read() -> tuple[Asked, bytes, ParsedBody]:
            plain = inflated(raw, encoding, self.options.most_body)
            body = self.sessions.read(talker(arrived.headers), plain)
            return asked(arrived.wire, arrived.path, arrived.headers, body.tree), plain, body

        try:
            return await asyncio.to_thread(read) if len(raw) > _OFF_THE_LOOP else read()
        except BadRequest:
            return None

    async def _exchange(self, arrived: Arrived, outgoing: Outgoing) -> web.StreamResponse:
        async with self._asked(arrived, outgoing) as begun:
            if not outgoing.armed or begun.answer.status != 200 or outgoing.asked.only_replayed:
                return await self._streamed(arrived, *begun)
            return await Recalling(arrived.request, self.engine, partial(self._asked, arrived)).told(begun)

    @asynccontextmanager
    async def _asked(self, arrived: Arrived, outgoing: Outgoing) -> AsyncIterator[Begun]:
        """The upstream's answer; to a smaller request where it refused this one for its size."""
        async with self._sent(arrived, outgoing) as answer:
            begun = await held(answer) if outgoing.asked.only_replayed != "count" else None
            again = await self._smaller(outgoing, begun) if begun else None
            if again is None:
                self._answered(arrived, answer.status, outgoing)
                yield Begun(outgoing, answer, begun.chunks if begun else [])
                return
        async with self._sent(arrived, again) as answer:
            self._answered(arrived, answer.status, again)
            yield Begun(again, answer, [])

    async def _smaller(self, outgoing: Outgoing, begun: Held) -> Outgoing | None:
        if begun.is_empty:
            return await self.engine.after_empty_stream(outgoing)
        return await self.engine.refused(outgoing, begun.refused) if begun.refused else None

    def _sent(self, arrived: Arrived, outgoing: Outgoing) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        told = {"edited": outgoing.edited, "armed": outgoing.armed}
        return upstream_client.send(self.client, arrived.request, arrived.target.url, outgoing.body, **told)

    async def _streamed(
        self, arrived: Arrived, outgoing: Outgoing, answer: aiohttp.ClientResponse, chunks: list[bytes]
    ) -> web.StreamResponse:
        if answer.status != 200 or outgoing.asked.only_replayed == "count":
            self.meters.turned(outgoing.turn(answer.status))
            return await upstream_client.pump(arrived.request, answer, chunks, _ignored)
        told = answer.headers
        copy = Copy(outgoing.asked.wire, told.get("content-type", ""), told.get("content-encoding", ""))
        try:
            return await upstream_client.pump(arrived.request, answer, chunks, copy.feed)
        finally:
            # Also of a client that left: what came was billed.
            self.engine.heard(outgoing, copy.heard)

    def _answered(self, arrived: Arrived, code: int, outgoing: Outgoing | None = None) -> None:
        seconds = time.perf_counter() - arrived.begun
        self.meters.count("ebb_requests_total", wire=arrived.wire, status=code)
        self.meters.observe("ebb_first_byte_seconds", seconds)
        fields: dict[str, object] = {"status": code, "ms": round(seconds * 1000, 1), "upstream": arrived.target.name}
        if outgoing is not None:
            tally = outgoing.slot.tally
            fields |= {"session": outgoing.slot.identity.session, "wire": arrived.wire, "model": outgoing.asked.model}
            fields |= {"tokens_untouched": tally.last_before, "tokens": tally.last_after, "edited": outgoing.edited}
            fields |= {"fallback": outgoing.fallback, "asks": outgoing.asked.only_replayed}
        else:
            fields |= {"method": arrived.request.method, "path": _told(arrived.path)}
        self.meters.log.line("request", **fields)

    def _unreached(self, arrived: Arrived, failed: BaseException) -> web.StreamResponse:
        kind = type(failed).__name__
        self._failed(arrived, kind)
        name, address = arrived.target.name, self.options.upstreams[arrived.target.name]
        slow = isinstance(failed, TimeoutError)
        return _ours(504 if slow else 502, f"the upstream {name!r}, {address}, gave no answer: {kind}")

    def _failed(self, arrived: Arrived, kind: str) -> None:
        self.meters.count("ebb_upstream_failures_total", kind=kind)
        self.meters.log.line("upstream", upstream=arrived.target.name, error=kind, path=_told(arrived.path))

    def _refused(self, code: int, reason: str) -> web.Response:
        """By us. Nothing of the request is told: who was turned away chose every word of it."""
        self.meters.log.line("refused", status=code, said=reason)
        return _ours(code, reason)

    def _not_sent(self, arrived: Arrived, code: int, reason: str) -> web.Response:
        """A request that is known to be over the window, refused as its provider would refuse it."""
        self.meters.count("ebb_refused_total", status=code)
        self.meters.log.line("refused", status=code, said=reason)
        is_late = code >= 500
        body = WIRES[arrived.wire].replies.error_body(reason, is_overloaded=is_late)
        headers = {"x-ebb-proxy": "refused"} | ({"retry-after": "5"} if is_late else {})
        return web.json_response(body, status=code, headers=headers)

    @property
    def client(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = upstream_client.client()
        return self._client


def _body(request: web.Request) -> AsyncIterator[bytes] | None:
    return request.content.iter_any() if request.body_exists else None


def _told(path: str) -> str:
    """For the log: no query, and not what looks like a key."""
    words, _ = redact(path.partition("?")[0][:_PATH])
    return words


async def _expectation(request: web.Request) -> None:
    """`Expect` is between the client and us. One that asks for nothing we know is left out of what goes on."""
    if request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # nothing of the answer itself was sent yet


def _ignored(_: bytes) -> None:
    """Nobody listens."""


def _ours(code: int, reason: str) -> web.Response:
    """Our own refusals, in words that both families of SDKs can read."""
    kind = "invalid_request_error" if code < 500 else "api_error"
    error = {"type": kind, "message": f"ebb proxy: {reason}", "code": None}
    return web.json_response({"type": "error", "error": error}, status=code, headers={"x-ebb-proxy": "refused"})


def runner_for(proxy: Proxy) -> web.AppRunner:
    """The server around it. A client that leaves takes its handler along, and that the request to the upstream."""
    return web.AppRunner(
        proxy.application(),
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=proxy.options.drain,
        auto_decompress=False,
        access_log=None,
        max_line_size=_FIELD,
        max_field_size=_FIELD,
    )


async def serve(options: Options) -> int:
    """Until SIGTERM or SIGINT; then no new connections, and what is under way may end."""
    proxy = Proxy(options, Meters(watch=exporting() if options.otel else None))
    logging.getLogger().addHandler(Handler(proxy.meters.log))
    runner = runner_for(proxy)
    await runner.setup()
    site = web.TCPSite(runner, options.host, options.port, backlog=_BACKLOG)
    try:
        await site.start()
    except OSError as failed:
        await runner.cleanup()
        raise BadConfig(f"cannot listen on {options.host}:{options.port}: {failed.strerror}") from failed
    stop = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    _announce(proxy, runner.addresses[0])
    await stop.wait()
    proxy.meters.log.line("stopping", in_flight=proxy.meters.in_flight)
    await runner.cleanup()
    return 0 if await proxy.close() else 1


def _announce(proxy: Proxy, address: tuple[str, int]) -> None:
    options, (host, port) = proxy.options, address[:2]
    proxy.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if options.announce:
        print(json.dumps({"listening": proxy.address}), flush=True)
    if sys.stderr.isatty():
        # A person, who has to be told what comes next; programs read lines of JSON alone.
        told = f"ANTHROPIC_BASE_URL={proxy.address} claude   or   OPENAI_BASE_URL={proxy.address}/v1 my-agent"
        print(f"in another terminal: {told}\nCtrl-C ends it; the log follows", file=sys.stderr, flush=True)
    upstreams = dict(options.upstreams)
    proxy.meters.log.line("listening", url=proxy.address, upstreams=upstreams, shadow=options.shadow or None)
