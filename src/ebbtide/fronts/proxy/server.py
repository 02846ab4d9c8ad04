"""The proxy's HTTP server: admit a request, find its upstream, let the engine prepare it, send it, relay the answer.

`/healthz`, `/readyz`, `/metrics` and `/ebb/...` are the proxy's own pages: numbers and names of sessions, no content.
Every other path belongs to an upstream.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import aiohttp
from aiohttp import web

from ebbtide import __version__
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.core.text.redact import redact
from ebbtide.fronts.proxy import upstream_client
from ebbtide.fronts.proxy.answers import AnswerStart, read_start
from ebbtide.fronts.proxy.compressor import Compressor
from ebbtide.fronts.proxy.encoding import decompress, is_readable
from ebbtide.fronts.proxy.gateway import is_gateway_path, serve_gateway
from ebbtide.fronts.proxy.guard import admit
from ebbtide.fronts.proxy.guarded_engine import GuardedEngine
from ebbtide.fronts.proxy.identity import IncomingRequest, identify_request, sender_key, wire_for_path
from ebbtide.fronts.proxy.meters import LibraryLogHandler, Meters
from ebbtide.fronts.proxy.options import OWN_MODEL, Options
from ebbtide.fronts.proxy.otel import otel_exporter
from ebbtide.fronts.proxy.readiness import readiness_of
from ebbtide.fronts.proxy.recall_loop import OpenAnswer, RecallLoop
from ebbtide.fronts.proxy.receipts import build_receipts
from ebbtide.fronts.proxy.sessions import OutgoingRequest, ProxySession, Sessions, SummarizerFor, UpstreamRoute
from ebbtide.fronts.proxy.status import StatusBoard, announced_in
from ebbtide.fronts.proxy.upstream_summarizer import UpstreamSummarizer
from ebbtide.fronts.proxy.upstreams import Target, find_target
from ebbtide.fronts.proxy.windows import ProviderWindows
from ebbtide.store import Store
from ebbtide.wire import WIRES
from ebbtide.wire.body import ParsedBody
from ebbtide.wire.caller import identify_sender

_UPLOAD_SECONDS = 300.0
"""Time that a client has to send its body."""
_MAX_HEADER_BYTES = 64 << 10
_MAX_LOGGED_PATH = 200
"""Characters."""
_BACKLOG = 1024
"""Connections that may wait to be accepted: hundreds of agents may start at once."""
_LARGE_BODY = 256 << 10
"""Bytes. Larger JSON is parsed in a thread, so that other streams need not wait for it."""

_COLLECT_EVERY = 10_000
"""New objects: by Python's default there is a collection for nearly every request, and few requests leave cycles."""


class Arrival(NamedTuple):
    """A request that was admitted."""

    request: web.Request
    path: str
    """Raw, with its query, without a token."""
    headers: Mapping[str, str]
    """Names in lower case."""
    target: Target
    wire: str
    """Empty if the path is not one that the engine takes part in."""
    started: float


class Proxy:
    def __init__(self, options: Options, meters: Meters | None = None, store: Store | None = None) -> None:
        self.meters = meters or Meters()
        self.windows = ProviderWindows(options.settings, self.meters.log, lambda: self.client)
        self.options = options = replace(options, settings=self.windows.settings)
        self.sessions = Sessions(options, store, self._summarizer_for())
        self.engine = GuardedEngine(options, self.sessions, self.meters)
        self.status = StatusBoard(self.sessions)
        self.compressor = Compressor(self.sessions.engine)
        self.address = ""
        self.readiness = readiness_of(options.settings.store, self.sessions.store)
        self._client: aiohttp.ClientSession | None = None

    def _summarizer_for(self) -> SummarizerFor | None:
        options = self.options
        if not options.summarizer or options.shadow:
            return None  # shadow mode must not cause a bill
        model = "" if options.summarizer == OWN_MODEL else options.summarizer
        return UpstreamSummarizer(
            client=lambda: self.client, meters=self.meters, model=model, timeout=options.summary_limit
        ).for_session

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self.options.max_body_bytes)
        app.router.add_route("*", "/{path:.*}", self.handle, expect_handler=_handle_expect)
        app.on_response_prepare.append(upstream_client.drop_added_headers)
        return app

    async def close(self) -> bool:
        """False if a thread did not end."""
        is_drained = await self.engine.threads.drain()
        if self._client is not None:
            await self._client.close()
        return is_drained

    @property
    def client(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._client = upstream_client.open_client()
        return self._client

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.meters.in_flight += 1
        try:
            return await self._route(request)
        finally:
            self.meters.in_flight -= 1

    async def _route(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        admission = admit(self.options, request.raw_path, headers)
        if admission.status:
            self.meters.count("ebb_refused_total", status=admission.status)
            return self._refuse(admission.status, admission.reason)
        path = admission.path.partition("?")[0]
        page = await _own_page(request.method, path, self)
        if page is not None:
            return page
        if is_gateway_path(path):
            return await serve_gateway(request, path, self.compressor)
        target = find_target(self.options.upstreams, admission.path, headers)
        if target is None:
            return self._refuse(404, "no upstream is configured for this path: see --upstream")
        wire = wire_for_path(request.method, path)
        arrival = Arrival(request, admission.path, headers, target, wire, time.perf_counter())
        try:
            response = await (self._model_request(arrival) if wire else self._pass_through(arrival, _stream(request)))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return self._unreachable(arrival, error)
        if isinstance(response, upstream_client.RelayedResponse) and response.is_broken_off:
            self._count_upstream_failure(arrival, "BrokenOff")
        return response

    async def _pass_through(self, arrival: Arrival, body: bytes | AsyncIterator[bytes] | None) -> web.StreamResponse:
        async with upstream_client.send(self.client, arrival.request, arrival.target.url, body) as answer:
            self._log_answer(arrival, answer.status)
            return await upstream_client.relay(arrival.request, answer)

    async def _model_request(self, arrival: Arrival) -> web.StreamResponse:
        try:
            async with asyncio.timeout(_UPLOAD_SECONDS):
                raw = await arrival.request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"the body is larger than {self.options.max_body_bytes} bytes")
        except (TimeoutError, web.RequestPayloadError):
            return self._refuse(408, "the body did not arrive in time")
        parsed = await self._parse(arrival, raw)
        if parsed is None:
            return await self._pass_through(arrival, raw)
        loop, raw_headers = asyncio.get_running_loop(), arrival.request.raw_headers
        route = UpstreamRoute(arrival.target.url, raw_headers, parsed[0].wants_stream, loop)
        if self.options.asks_for_windows:
            await self.windows.learn(parsed[0].model, route.url, raw_headers)
        outgoing = await self.engine.prepare(*parsed, route)
        if outgoing.refusal is not None:
            return self._refuse_as_provider(arrival, *outgoing.refusal)
        if not outgoing.is_edited:
            outgoing = replace(outgoing, body=raw)  # still compressed, if it was
        async with self._send(arrival, outgoing) as answer:
            recall_loop = RecallLoop(arrival.request, self.engine, partial(self._send, arrival))
            if outgoing.has_recall_tools and answer.response.status == 200 and not outgoing.incoming.side_request:
                return await recall_loop.run(answer)
            return await self._relay(arrival, answer)

    async def _parse(self, arrival: Arrival, raw: bytes) -> tuple[IncomingRequest, bytes, ParsedBody] | None:
        """Return the request's identity, its body decompressed and as a tree; None if we cannot read it."""
        encoding = arrival.headers.get("content-encoding", "")
        is_signed = arrival.headers.get("authorization", "").startswith("AWS4-")
        if not raw or is_signed or not is_readable(encoding):
            return None  # a signature covers the body, so we must not change it

        def parse() -> tuple[IncomingRequest, bytes, ParsedBody]:
            original = decompress(raw, encoding, self.options.max_body_bytes)
            path, _, query = arrival.path.partition("?")
            sender = identify_sender(arrival.headers, query)
            body = self.sessions.read_request(sender_key(sender), original)
            return identify_request(arrival.wire, path, sender, body.tree), original, body

        try:
            return await asyncio.to_thread(parse) if len(raw) > _LARGE_BODY else parse()
        except BadRequest:
            return None

    @asynccontextmanager
    async def _send(self, arrival: Arrival, outgoing: OutgoingRequest) -> AsyncIterator[OpenAnswer]:
        """Send the request; if the upstream refuses it for its size, send a smaller one."""
        async with self._post(arrival, outgoing) as response:
            start = await read_start(response) if outgoing.incoming.side_request != "count" else None
            smaller = await self._make_smaller(outgoing, start) if start else None
            if smaller is None:
                self._log_answer(arrival, response.status, outgoing)
                yield OpenAnswer(outgoing, response, start.chunks if start else [])
                return
        async with self._post(arrival, smaller) as response:
            self._log_answer(arrival, response.status, smaller)
            yield OpenAnswer(smaller, response, [])

    def _post(self, arrival: Arrival, outgoing: OutgoingRequest) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return upstream_client.send(
            self.client, arrival.request, arrival.target.url, outgoing.body,
            is_edited=outgoing.is_edited, has_recall_tools=outgoing.has_recall_tools,
        )  # fmt: skip

    async def _make_smaller(self, outgoing: OutgoingRequest, start: AnswerStart) -> OutgoingRequest | None:
        if start.is_empty:
            return await self.engine.retry_after_empty_stream(outgoing)
        return await self.engine.retry_after_overflow(outgoing, start.refusal) if start.refusal else None

    async def _relay(self, arrival: Arrival, answer: OpenAnswer) -> web.StreamResponse:
        if answer.response.status != 200 or answer.outgoing.incoming.side_request == "count":
            self.meters.export(answer.outgoing.record(answer.response.status))
            return await upstream_client.relay(arrival.request, answer.response, answer.first_chunks)
        return await answer.relay_and_record(arrival.request, self.engine)

    def _log_answer(self, arrival: Arrival, code: int, outgoing: OutgoingRequest | None = None) -> None:
        seconds = time.perf_counter() - arrival.started
        self.meters.count("ebb_requests_total", wire=arrival.wire, status=code)
        if arrival.wire and code >= 400:
            self._tally_failure("refused_requests", outgoing)
        self.meters.observe("ebb_first_byte_seconds", seconds)
        fields: dict[str, object] = {"status": code, "ms": round(seconds * 1000, 1), "upstream": arrival.target.name}
        if outgoing is not None:
            session, incoming, tally = outgoing.session, outgoing.incoming, outgoing.session.tally
            fields |= {"session": session.identity.session, "wire": arrival.wire, "model": incoming.model}
            fields |= {"tokens_untouched": tally.last_before, "tokens": tally.last_after, "edited": outgoing.is_edited}
            fields |= {"fallback": outgoing.fallback, "asks": incoming.side_request}
        else:
            fields |= {"method": arrival.request.method, "path": _loggable(arrival.path)}
        self.meters.log.line("request", **fields)

    def _tally_failure(self, name: str, outgoing: OutgoingRequest | None) -> None:
        for tally in (self.meters.total, *([outgoing.session.tally] if outgoing else [])):
            setattr(tally, name, getattr(tally, name) + 1)

    def _unreachable(self, arrival: Arrival, error: BaseException) -> web.StreamResponse:
        kind, name = type(error).__name__, arrival.target.name
        self._count_upstream_failure(arrival, kind)
        code = 504 if isinstance(error, TimeoutError) else 502
        return _error_response(code, f"the upstream {name!r}, {self.options.upstreams[name]}, gave no answer: {kind}")

    def _count_upstream_failure(self, arrival: Arrival, kind: str) -> None:
        self.meters.count("ebb_upstream_failures_total", kind=kind)
        if arrival.wire:
            self._tally_failure("unanswered_requests", None)
        self.meters.log.line("upstream", upstream=arrival.target.name, error=kind, path=_loggable(arrival.path))

    def _refuse(self, code: int, reason: str) -> web.Response:
        """Refuse a request. Nothing of the request is logged: its sender chose every word of it."""
        self.meters.log.line("refused", status=code, said=reason)
        return _error_response(code, reason)

    def _refuse_as_provider(self, arrival: Arrival, code: int, reason: str) -> web.Response:
        """Refuse a request that is known to be over the window in the form that its provider would use."""
        self.meters.count("ebb_refused_total", status=code)
        self._tally_failure("refused_requests", None)
        self.meters.log.line("refused", status=code, said=reason)
        is_late = code >= 500
        body = WIRES[arrival.wire].replies.error_body(reason, is_overloaded=is_late)
        headers = {"x-ebb-proxy": "refused"} | ({"retry-after": "5"} if is_late else {})
        return web.json_response(body, status=code, headers=headers)


def _stream(request: web.Request) -> AsyncIterator[bytes] | None:
    return request.content.iter_any() if request.body_exists else None


def _loggable(path: str) -> str:
    """Return the path without its query and without what looks like a key."""
    return redact(path.partition("?")[0][:_MAX_LOGGED_PATH])[0]


async def _handle_expect(request: web.Request) -> None:
    """Answer `Expect: 100-continue`. Any other expectation is ignored, and not passed on."""
    if request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


_GOOGLE_STATUS = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 504: "DEADLINE_EXCEEDED"}


def _error_response(code: int, reason: str) -> web.Response:
    """An error of the proxy's own, in a form that the SDKs of all providers can read."""
    kind = "invalid_request_error" if code < 500 else "api_error"
    status = _GOOGLE_STATUS.get(code, "UNAVAILABLE" if code >= 500 else "INVALID_ARGUMENT")
    error = {"type": kind, "message": f"ebb proxy: {reason}", "code": code, "status": status}
    return web.json_response({"type": "error", "error": error}, status=code, headers={"x-ebb-proxy": "refused"})


async def _own_page(method: str, path: str, proxy: Proxy) -> web.Response | None:
    """Return the page at this path; None if the path belongs to an upstream."""
    names = (*_PAGES, _RECEIPTS)
    if path not in names and not path.startswith("/ebb/"):
        return None
    if path not in names:
        return web.json_response({"error": f"no such page; there are {', '.join(names)}"}, status=404)
    if method not in ("GET", "HEAD"):
        return web.json_response({"error": "GET only"}, status=405, headers={"Allow": "GET, HEAD"})
    if path == _RECEIPTS:
        return web.json_response({"receipts": await build_receipts(proxy.engine, proxy.sessions)})
    return _PAGES[path](proxy)


def _health(proxy: Proxy) -> web.Response:
    fields = {"status": "ok", "version": __version__, "in_flight": proxy.meters.in_flight}
    return web.json_response(fields | proxy.readiness.fields())


def _ready(proxy: Proxy) -> web.Response:
    fields = proxy.readiness.fields()
    return web.json_response(fields, status=200 if proxy.readiness.is_ready else 503)


def _metrics(proxy: Proxy) -> web.Response:
    gauges = {"ebb_sessions": sum(1 for _ in proxy.sessions), **proxy.readiness.gauges()}
    return web.Response(text=proxy.meters.prometheus(gauges), content_type="text/plain", charset="utf-8")


def _summary(proxy: Proxy) -> web.Response:
    totals = {
        "listening": proxy.address,
        "version": __version__,
        "upstreams": dict(proxy.options.upstreams),
        "shadow": proxy.options.shadow,
        "seconds": round(time.time() - proxy.meters.started, 1),
        "sessions": proxy.sessions.started,
        **proxy.meters.total.as_dict(),
    }
    return web.json_response(totals)


def _sessions(proxy: Proxy) -> web.Response:
    return web.json_response({"sessions": [_session_fields(session) for session in proxy.sessions]})


def _session_fields(session: ProxySession) -> dict[str, object]:
    tally = session.tally
    return {
        "session": session.identity.session,
        "project": session.identity.project,
        "wire": session.wire,
        "model": session.model,
        "window": session.context.window if session.context else session.window,
        "tokens_before": tally.last_before,
        "tokens_after": tally.last_after,
        "last_at": round(tally.last_at, 3),
        **tally.as_dict(),
    }


def _status(proxy: Proxy) -> web.Response:
    return web.json_response({"sessions": proxy.status.rows()})


_RECEIPTS = "/ebb/receipts"
_PAGES = {
    "/healthz": _health,
    "/readyz": _ready,
    "/metrics": _metrics,
    "/ebb/summary": _summary,
    "/ebb/sessions": _sessions,
    "/ebb/status": _status,
}


def runner_for(proxy: Proxy) -> web.AppRunner:
    """Build the server. If a client disconnects, its handler is cancelled, and with it the request to the upstream."""
    return web.AppRunner(
        proxy.application(),
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=proxy.options.drain,
        auto_decompress=False,
        access_log=None,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )


async def serve(options: Options) -> int:
    """Serve until SIGTERM or SIGINT; then accept no new connections and let running streams end."""
    proxy = Proxy(options, Meters(exporter=otel_exporter() if options.otel else None))
    logging.getLogger().addHandler(LibraryLogHandler(proxy.meters.log))
    runner = runner_for(proxy)
    await runner.setup()
    site = _site(runner, options)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise BadConfig(f"cannot listen on {options.host}:{options.port}: {error.strerror}") from error
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    _announce(proxy, runner.addresses[0])
    reaching = asyncio.create_task(proxy.readiness.reach(proxy.meters))
    reaching.add_done_callback(lambda task: stop.set() if not task.cancelled() and task.exception() else None)
    gc.freeze()  # what is loaded now stays
    gc.set_threshold(_COLLECT_EVERY, 20, 50)
    with announced_in(options.settings.store, proxy.address):
        await stop.wait()
    proxy.readiness.is_stopping = True
    proxy.meters.log.line("stopping", in_flight=proxy.meters.in_flight)
    await runner.cleanup()
    is_drained = await proxy.close()
    if reaching.done() and not reaching.cancelled():
        reaching.result()  # raises if the database cannot be used
    reaching.cancel()
    return 0 if is_drained else 1


def _site(runner: web.AppRunner, options: Options) -> web.BaseSite:
    """Listen at an address, or at a socket that the starting program has opened."""
    if options.listen_fd is None:
        return web.TCPSite(runner, options.host, options.port, backlog=_BACKLOG)
    return web.SockSite(runner, socket.socket(fileno=options.listen_fd), backlog=_BACKLOG)


def _announce(proxy: Proxy, address: tuple[str, int]) -> None:
    options, (host, port) = proxy.options, address[:2]
    proxy.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if options.announce:
        print(json.dumps({"listening": proxy.address}), flush=True)
    if sys.stderr.isatty():
        # For a person. Programs read only the lines of JSON.
        commands = f"ANTHROPIC_BASE_URL={proxy.address} claude   or   OPENAI_BASE_URL={proxy.address}/v1 my-agent"
        print(f"In another terminal: {commands}\nPress Ctrl-C to stop. The log follows.", file=sys.stderr, flush=True)
    upstreams = dict(options.upstreams)
    proxy.meters.log.line("listening", url=proxy.address, upstreams=upstreams, shadow=options.shadow or None)
