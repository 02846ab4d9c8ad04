"""Fuzz targets that send bytes to servers over real sockets: `ebb proxy` and `ebb ui`."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.fuzz_places import stored_session
from benchmarks.fuzz_targets import Check, Target, requests

from fronts.proxy.proxy_runner import proxied
from fronts.proxy.raw_upstream import RawUpstream, answer
from fronts.ui.inspector import library
from fronts.ui.inspector import running as inspector

_PATIENCE = 0.25
"""Seconds to wait for an answer: most inputs complete a request and close the connection, others would wait forever."""


class _Complaints(logging.Handler):
    """What a server's library logs when a handler raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException | str] = []

    def emit(self, record: logging.LogRecord) -> None:
        failed = record.exc_info[1] if record.exc_info else None
        # If aiohttp cannot parse a request, it answers 400 and logs it.
        if failed is not None and "BadHttpMessage" in [one.__name__ for one in type(failed).__mro__]:
            return
        self.found.append(failed or record.getMessage())


@contextmanager
def _listening() -> Iterator[_Complaints]:
    complaints = _Complaints()
    names = ("aiohttp.server", "asyncio")
    for name in names:
        logging.getLogger(name).addHandler(complaints)
        logging.getLogger(name).propagate = False
    yield complaints
    for name in names:
        logging.getLogger(name).removeHandler(complaints)


def _spoken(port: int, data: bytes) -> bytes:
    """Return the server's answer to these bytes. If it waits for more of them, stop waiting."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        got = b""
        with suppress(ConnectionError, TimeoutError):
            line.sendall(data)
            line.settimeout(_PATIENCE)
            while (more := line.recv(1 << 16)) and len(got) < 4 << 20:
                got += more
        return got


def _said(port: int, data: bytes, complaints: _Complaints) -> bytes:
    got = _spoken(port, data)
    if complaints.found:
        failed = complaints.found.pop()
        complaints.found.clear()
        raise failed if isinstance(failed, BaseException) else AssertionError(failed)
    assert not got.startswith(b"HTTP/1.1 500"), "the server failed: " + got[:300].decode("latin-1")
    return got


def _ended(data: bytes) -> bytes:
    """Mostly complete requests: a server waits for the rest of an incomplete one, and the next inputs wait with it."""
    if zlib.crc32(data) % 16 == 0:
        return data
    head, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return head + b"\r\n\r\n"
    return re.sub(rb"(?i)\r\nContent-Length: *\d*", b"\r\nContent-Length: %d" % len(body), head) + blank + body


_BODY = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}
_REPLY = answer(
    b'{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],'
    b'"usage":{"input_tokens":3,"output_tokens":1}}',
    headers=[("Content-Type", "application/json")],
)
_JSON = {"Content-Type": "application/json"}


def _http(line: str, body: bytes = b"", **fields: str) -> bytes:
    """Return a request that asks to close the connection."""
    told = {"Host": "127.0.0.1", "Connection": "close", **fields}
    told |= {"Content-Length": str(len(body))} if body else {}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body


def _http_requests() -> list[bytes]:
    known = {"Authorization": "Bearer k", "x-session-id": "abcdefgh", "Cookie": "a=b", **_JSON}
    seeds = [_http(f"POST {path}", body, **known) for wire, path in _BODY.items() for body in requests(wire)[:6]]
    seeds.append(_http("POST /v1/messages", gzip.compress(requests("anthropic")[0]), **{"Content-Encoding": "gzip"}))
    chunked = b'5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n'
    seeds.append(_http("POST /v1/messages", **{"Transfer-Encoding": "chunked"}) + chunked)
    paths = (
        "/metrics",
        "/ebb/summary",
        "/v1/models?x=%00",
        "/ebb/t/token/v1/models",
        "http://evil.example/",
        "//evil/x",
    )
    for path in paths:
        seeds.append(_http(f"GET {path}"))
        seeds.append(_http(f"GET {path}", Origin="http://evil.example", Connection="close, host"))
    return seeds


_FIELDS = (
    b"\r\n",
    b"Host: ",
    b"Origin: ",
    b"Transfer-Encoding: chunked",
    b"Content-Encoding: deflate",
    b"Connection: close",
    b"Cookie: ",
    b"Expect: 100-continue",
    b"Content-Length: ",
    b"%0d%0a",
    b"HTTP/1.0",
    b"x-session-id: ",
    b"Upgrade: websocket",
)


@contextmanager
def _proxy() -> Iterator[Check]:
    """Check that a request is answered or refused without a failure, and nothing is sent to a host that it names."""
    with (
        _listening() as complaints,
        tempfile.TemporaryDirectory() as folder,
        RawUpstream(lambda _, __: [_REPLY]) as upstream,
        proxied(upstream.url, store=folder, window=9_000, durable=False, drain=0.5) as running,
    ):

        def check(data: bytes) -> None:
            _said(running.port, _ended(data), complaints)
            for seen in upstream.seen:
                told = [value for name, value in seen.headers if name.lower() == "host"]
                assert told == [f"127.0.0.1:{upstream.port}"], f"a request went out for {told}"
            upstream.seen.clear()

        yield check


def _ui_requests() -> list[bytes]:
    paths = (
        "/",
        "/api/sessions?q=x",
        "/api/session/KEY",
        "/api/session/KEY/calls?from=0&to=9",
        "/api/session/KEY/request?call=1&first=0",
        "/api/session/KEY/under?call=2",
        "/api/session/KEY/edits",
        "/api/session/KEY/edit?batch=p1",
        "/api/session/KEY/cache",
        "/api/session/KEY/ledger?call=3",
        "/api/session/KEY/recall?q=tide",
        "/api/session/KEY/read?handle=x&start=0",
        "/api/session/KEY/compare?policies=default,raw&window=9000",
    )
    origin = {"Host": "HOST", "Origin": "http://HOST", "Cookie": "COOKIE", **_JSON}
    posts = ("/api/login", "/api/session/KEY/undo")
    return [
        *(_http(f"POST {path}", b'{"token": "x", "batch": "p1"}', **origin) for path in posts),
        *(_http(f"GET {path}", Host="HOST", Cookie="COOKIE") for path in paths),
    ]


_QUERY = (b"9" * 30, b"&window=", b"&policy=", b"%ff")


@contextmanager
def _ui() -> Iterator[Check]:
    """Check that answers have an error message, a status and the strict headers. Key and cookie are filled in."""
    with _listening() as complaints, tempfile.TemporaryDirectory() as folder:
        stored_session(Path(folder))
        with inspector(library(Path(folder), window=9_000)) as address:
            base, _, token = address.partition("/#token=")
            host = base.removeprefix("http://")
            port = int(host.rpartition(":")[2])
            login = _http("POST /api/login", json.dumps({"token": token}).encode(), Host=host, Origin=base, **_JSON)
            cookie = _spoken(port, login).partition(b"Set-Cookie: ")[2].partition(b";")[0]
            listed = _spoken(port, _http("GET /api/sessions", Host=host, Cookie=cookie.decode()))
            key = json.loads(listed.partition(b"\r\n\r\n")[2])["sessions"][0]["key"].encode()

            def check(data: bytes) -> None:
                if b"/events" in data:  # a stream that continues as long as a client listens
                    return
                data = data.replace(b"KEY", key).replace(b"HOST", host.encode()).replace(b"COOKIE", cookie)
                got = _said(port, _ended(data), complaints)
                first = got.partition(b"\r\n\r\n")[0]
                ours = first.startswith((b"HTTP/1.1 2", b"HTTP/1.1 401", b"HTTP/1.1 403", b"HTTP/1.1 404"))
                assert not ours or b"Content-Security-Policy: default-src 'none'" in first, (
                    "an answer without the strict headers"
                )

            yield check


def targets() -> list[Target]:
    return [
        Target(name="proxy", reads="requests to `ebb proxy`", seeds=_http_requests, check=_proxy, words=_FIELDS),
        Target(name="ui", reads="requests to `ebb ui`", seeds=_ui_requests, check=_ui, words=(*_FIELDS, *_QUERY)),
    ]
