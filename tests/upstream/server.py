"""The scripted provider on a real socket, so that clients, proxies and streams are tested as they run.

    with Upstream(["Hello."], window=200_000) as upstream:
        ...  # POST to upstream.url + "/v1/messages"
    assert upstream.requests[0].usage.read == 0

It binds to loopback, on a port of the system's choice, and leaves no thread behind when the block ends, whatever its
clients do.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from upstream import signing
from upstream.event_stream import CONTENT_TYPE
from upstream.finding import Body, Refusal
from upstream.provider import Exchange, Provider, Reply, envelope, wire_of
from upstream.script import Script

LARGEST = 64 * 1024 * 1024
"""Bytes read from one request: twice what a rule allows, so that a body that is too large is refused by rule."""
PATIENCE = 240.0
"""Seconds a silent client may hold a thread."""
ERROR_TYPES = {
    400: "ValidationException",
    403: "AccessDeniedException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
"""What Bedrock calls its errors."""
PIECE = 97
"""Bytes per chunk: prime and small, so that events and characters are cut anywhere."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, provider: Provider, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.provider = provider
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        with self._guard:
            self._open.add(connection)
        return connection, address

    def close_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with self._guard:
            self._open.discard(request)
        super().close_request(request)

    def hang_up(self) -> None:
        """Idle kept-alive connections would hold their threads until they time out."""
        with self._guard:
            for connection in self._open:
                _shut(connection)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # The client was faster.


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    server: _Listener

    def do_POST(self) -> None:
        path = self.path
        raw = self._read()
        if raw is None:
            self.close_connection = True
            return self._json(411, envelope("anthropic", 411, "Content-Length is required, and has a limit"))
        if wire_of(path) is None:
            return self._json(404, envelope("anthropic", 404, f"no such path: {path}"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = path if wire_of(path) == "gemini" else path.partition("?")[0]
        return self._send(self.server.provider.answer(path, headers, raw))

    def do_GET(self) -> None:
        self._json(404, envelope("anthropic", 404, f"no such path: {self.path}"))

    def _read(self) -> bytes | None:
        length = self.headers.get("content-length", "")
        return self.rfile.read(int(length)) if length.isdigit() and int(length) <= LARGEST else None

    def _send(self, reply: Reply) -> None:
        if reply.stream is None:
            return self._json(reply.status, reply.body)
        if wire_of(self.path) == "bedrock_converse":
            return self._chunks(CONTENT_TYPE, reply.stream)
        is_array = reply.stream[:1] and reply.stream[0].startswith(b"[")
        return self._chunks("application/json" if is_array else "text/event-stream; charset=utf-8", reply.stream)

    def _chunks(self, content_type: str, events: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        spelled = b"".join(events)
        for at in range(0, len(spelled), PIECE):
            piece = spelled[at : at + PIECE]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        return

    def _json(self, status: int, body: Body) -> None:
        raw = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.send_header("request-id", "req_ebb")
        if status >= 400 and wire_of(self.path) == "bedrock_converse":
            self.send_header("x-amzn-errortype", ERROR_TYPES.get(status, "InternalServerException"))
        self.end_headers()
        self.wfile.write(raw)

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True  # A client may leave in the middle of a stream.

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `requests`, not a log."""


class Upstream:
    handler = Handler
    """Reads requests and writes answers; a cloud that serves the same models has its own."""

    def __init__(
        self,
        script: Script = (),
        *,
        window: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        issuer: Callable[[str, Body], list[Refusal]] = signing.refusals,
    ) -> None:
        self.provider = Provider(script, window, clock, issuer)

    @property
    def requests(self) -> list[Exchange]:
        return self.provider.requests

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._listener.server_address[1])

    def __enter__(self) -> Upstream:
        self._listener = _Listener(self.provider, self.handler)
        # The default poll of half a second is what closing would cost each test.
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), name="upstream")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.hang_up()
        self._listener.server_close()
