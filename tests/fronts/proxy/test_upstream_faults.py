"""Upstreams that break, at every phase: the client gets the bytes that a direct call gives, and nothing is left open."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading

import pytest

from fronts.proxy.proxy_runner import WAIT, beside, exchange, get, proxied, until
from fronts.proxy.raw_upstream import END, STREAM, answer, chunks

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":9}'
START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":1}}}\n\n'
)
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n'
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"


def streamed(*pieces: bytes, end: bool = True):
    return [STREAM, *chunks(*pieces), *([END] if end else [])]


def seen_by(port, body=BODY, path="/v1/messages"):
    """Everything that a client hears until the other side is done: status and bytes, and whether it ended well."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    got, ended = b"", True
    try:
        connection.request("POST", path, body)
        reply = connection.getresponse()
        while piece := reply.read1(1 << 16):
            got += piece
        ended = not reply.length
    except http.client.IncompleteRead as cut:
        got, ended = got + cut.partial, False
    except ConnectionError:
        ended = False
    finally:
        connection.close()
    return reply.status, got, ended


FAULTS = {
    "reset mid-stream": [STREAM, *chunks(START), 0.05, "reset"],
    "closed mid-stream": [STREAM, *chunks(START), "close"],
    "closed in a chunk": [STREAM, b"40\r\nhalf of it", "close"],
    "closed in a sized body": [SIZED + b'{"half', "close"],
    "closed after the headers": [SIZED, "close"],
    "cr only": streamed(START.replace(b"\n", b"\r"), DELTA.replace(b"\n", b"\r"), STOP.replace(b"\n", b"\r")),
    "split utf-8": streamed(b"data: \xe6\x96", b"\x87\xe4", b"\xbb\xb6\n\n"),
    "no blank line at the end": streamed(START, STOP.rstrip()),
    "missing end": streamed(START, DELTA),
    "error after 200": streamed(START, b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'),
    "not events at all": streamed(b"\x00\xff\xfe", b"<html>"),
    "a byte order mark": streamed(b"\xef\xbb\xbf" + START, STOP),
    "twice the end": streamed(START, STOP, STOP),
    "unknown events": streamed(b'event: odd\ndata: {"type":"odd"}\n\n', b"data: [DONE]\n\n", b"data: {{{\n\n"),
    "indices out of order": streamed(DELTA.replace(b'"index":0', b'"index":7'), DELTA, STOP),
    "html with 502": [answer(b"<html>bad gateway</html>", "502 Bad Gateway", [("Content-Type", "text/html")])],
    "an empty failure": [answer(b"", "503 Service Unavailable")],
    "a failure cut short": [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 90\r\n\r\n{\"err", "close"],
    "no length at all": [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"a\":1}", "close"],
    "gzip that is none": [answer(b"not gzip", headers=[("Content-Encoding", "gzip"), ("Content-Type", "text/event-stream")])],
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_client_gets_what_a_direct_call_gives(fault, tmp_path):
    with beside(lambda n, seen: FAULTS[fault], tmp_path) as (upstream, running):
        direct = seen_by(upstream.port)
        through = seen_by(running.port)
        running.settle()
        assert get(running.port, "/healthz")[0] == 200
        # A reset may overtake bytes that were sent before it, on either way.
        assert through[1:] == direct[1:] or "reset" in fault
        assert through[0] == direct[0]
        assert through[2] == direct[2]
    assert upstream.closed()


@pytest.mark.parametrize("steps", [["close"], ["reset"], [b"HTTP/1.1 2"], [b"garbage\r\n\r\n", "close"]], ids=str)
def test_an_upstream_that_disconnects_before_it_answers_is_a_502_with_a_message(steps, tmp_path):
    with beside(lambda n, seen: [*steps, "close"], tmp_path) as (upstream, running):
        status, headers, response = exchange(running.port, "POST", "/v1/messages", BODY)

        assert (status, headers["x-ebb-proxy"]) == (502, "refused")
        assert "gave no answer" in json.loads(response)["error"]["message"]
        assert len(upstream.seen) == 1, "nothing is retried that the client would retry"
    assert upstream.closed()


def test_an_upstream_that_is_not_there_is_a_502(tmp_path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # ours, so that nobody else comes to listen there
        port = deaf.getsockname()[1]
        with proxied(f"http://127.0.0.1:{port}", store=str(tmp_path)) as running:
            assert exchange(running.port, "POST", "/v1/messages", BODY)[0] == 502
            assert exchange(running.port, "GET", "/v1/models")[0] == 502


def test_a_line_of_a_hundred_megabytes_passes_in_bounded_memory(tmp_path):
    piece, count = b"x" * (1 << 20), 100

    def script(n, seen):
        yield STREAM + chunks(START + b"data: ")[0]
        for _ in range(count):
            yield chunks(piece)[0]
        yield chunks(b"\n\n" + STOP)[0] + END

    with beside(script, tmp_path) as (_, running):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
        connection.request("POST", "/v1/messages", BODY)
        reply, got, before = connection.getresponse(), 0, _resident()
        while found := len(reply.read1(1 << 20)):
            got += found
        grown = _resident() - before
        connection.close()
        running.settle()
        assert got == len(START + b"data: ") + count * len(piece) + len(b"\n\n" + STOP)
        assert grown < 48 << 20
        assert running.proxy.meters.total.input_tokens == 7


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def leaving(port, body, read=0):
    """A client that sends its request, reads so much, and goes."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
    head = f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    connection.sendall(head + body)
    if read:
        connection.recv(read)
    return connection


PHASES = {
    "before the first byte": (["hang"], 0),
    "after the headers": ([STREAM, "hang"], 10),
    "mid-stream": ([STREAM, *chunks(START), "hang"], 300),
    "of an answer that is no stream": ([SIZED, "hang"], 10),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_disconnects_ends_the_request_to_the_upstream(phase, tmp_path):
    steps, read = PHASES[phase]
    with beside(lambda n, seen: steps, tmp_path) as (upstream, running):
        connection = leaving(running.port, BODY, read)
        until(lambda: upstream.seen)
        connection.close()
        assert upstream.left.wait(WAIT)
        running.settle()
        assert running.proxy.meters.in_flight == 0
        assert get(running.port, "/healthz")[0] == 200
    assert upstream.closed()


def test_a_call_that_its_client_abandoned_is_still_billed(tmp_path):
    with beside(lambda n, seen: [STREAM, *chunks(START), "hang"], tmp_path) as (_, running):
        connection = leaving(running.port, BODY)
        got = b""
        while START not in got:
            got += connection.recv(1 << 16)
        connection.close()
        until(lambda: running.proxy.meters.total.input_tokens == 7)


def test_a_slow_client_slows_the_upstream(tmp_path):
    """Its bytes wait on the other side of the connection, not in our memory."""
    sent = [0]

    def script(n, seen):
        yield STREAM
        for _ in range(400):
            yield chunks(b"x" * (1 << 18))[0]
            sent[0] += 1 << 18
        yield END

    with beside(script, tmp_path) as (_, running):
        connection = leaving(running.port, BODY, 10)
        until(lambda: sent[0])
        held, stalled = sent[0], 0
        while stalled < 20:  # until nothing moves any more
            threading.Event().wait(0.05)
            held, stalled = sent[0], stalled + 1 if sent[0] == held else 0
        assert 0 < held < 64 << 20
        connection.close()


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files?key=secret"])
def test_an_upstream_that_breaks_off_is_logged_and_counted_once(path, tmp_path):
    with beside(lambda n, seen: FAULTS["closed mid-stream"], tmp_path) as (_, running):
        seen_by(running.port, path=path)
        running.settle()
        told = [one for one in running.lines if one["event"] == "upstream"]

        assert [(one["error"], one["path"]) for one in told] == [("BrokenOff", path.partition("?")[0])]
        assert running.proxy.meters.value("ebb_upstream_failures_total", kind="BrokenOff") == 1
        assert "secret" not in running.log.getvalue()


def test_an_answer_that_ended_is_no_failure_of_the_upstream(tmp_path):
    with beside(lambda n, seen: streamed(START, DELTA, STOP), tmp_path) as (_, running):
        seen_by(running.port)
        running.settle()

        assert [line["event"] for line in running.lines] == ["request"]


def test_the_address_that_gave_no_answer_is_named(tmp_path):
    with beside(lambda n, seen: ["close"], tmp_path) as (upstream, running):
        _, _, response = exchange(running.port, "POST", "/v1/messages", BODY)

        assert upstream.url in json.loads(response)["error"]["message"]
