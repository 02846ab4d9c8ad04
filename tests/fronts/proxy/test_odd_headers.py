"""Headers that no client should send and some do: passed on, or refused with a sentence. Never a fault of ours."""

from __future__ import annotations

import socket

import pytest

from fronts.proxy.proxy_runner import WAIT, beside
from fronts.proxy.raw_upstream import answer

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
COOKIES = [
    b"a=\xff",
    b"a=\xed\xa0\x80; b",
    b";;;=",
    b'a="b; c',
    b"=" * 9000,
    b"caf\xe9=1",
    b"$Version=1",
    b"\xe2\x80\xae",
]


def send(port: int, *headers: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    """The whole answer to a request, bytes as they stood on the wire."""
    head = [b"POST " + path + b" HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close", *headers]
    head.append(b"Content-Length: %d" % len(BODY))
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + BODY)
        received = b""
        while chunk := connection.recv(1 << 16):
            received += chunk
        return received


def status(received: bytes) -> int:
    return int(received.split(b" ", 2)[1])


@pytest.mark.parametrize("value", COOKIES)
@pytest.mark.parametrize("name", [b"Cookie", b"X-Session-Id", b"Expect", b"X-Api-Key"])
def test_an_odd_value_is_passed_on_and_the_request_is_answered(name, value, tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running):
        received = send(running.port, name + b": " + value)

    assert status(received) == 200
    (seen,) = upstream.seen
    assert seen.body == BODY
    told = dict(seen.headers).get(name.decode(), "").encode("latin-1")
    # What is no UTF-8 is written in UTF-8; an expectation is between the client and us.
    try:
        value.decode()
    except UnicodeDecodeError:
        value = value.decode("latin-1").encode()
    assert told == (b"" if name == b"Expect" else value)


def test_a_client_that_waits_for_permission_to_send_its_body_gets_it(tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running):
        received = send(running.port, b"Expect: 100-continue")

    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert upstream.seen[0].body == BODY


@pytest.mark.parametrize("value", [b"a=\x01b", b"a=\x7f", b"a=\xff"])
def test_an_odd_cookie_of_the_upstream_does_not_lose_the_answer(value, tmp_path):
    raw = b"HTTP/1.1 200 OK\r\nSet-Cookie: " + value + b"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with beside(lambda n, seen: [raw], tmp_path) as (_, running):
        received = send(running.port)

    assert status(received) == 200
    assert received.endswith(b"\r\n\r\n{}")
    assert b"Set-Cookie: a=" in received


@pytest.mark.parametrize("path", [b"/%00", b"/v1/%ff/chat/completions", b"/v1/chat/completions?%", b"//x"])
def test_an_odd_path_is_passed_on_unchanged(path, tmp_path):
    with beside(lambda n, seen: [answer(b"{}")], tmp_path) as (upstream, running):
        received = send(running.port, path=path)

    assert status(received) == 200
    assert upstream.seen[0].target == path.decode()
