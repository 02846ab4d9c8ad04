"""What was not edited leaves as it came, to the byte, on every path and both ways."""

from __future__ import annotations

import gzip
import http.client
import json
import threading

import pytest

from fronts.proxy.proxy_runner import WAIT, beside, exchange, proxied
from fronts.proxy.raw_upstream import END, STREAM, RawUpstream, answer, chunks

BODIES = {
    "/v1/messages?beta=true": b'{ "max_tokens":64,"model":"claude-sonnet-5",\n "messages":[{"role":"user","content":"\\u00e9 1.10 \xc3\xa9"}], "x":1E5}',
    "/v1/chat/completions": b'{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"temperature":1.0}',
    "/v1/responses": b'{"model":"gpt-5","input":"hi", "store":false }',
    "/v1/messages/count_tokens": b'{"model":"claude-sonnet-5","messages":[{"role":"user","content":"hi"}]}',
    "/v1/embeddings?a=%2F&b=c+d": b'{"input":["x"],"model":"e"}',
    "/v1/messages/batches": b'{"requests":[]}',
    "/any/where%20else": b"\x00\xff no JSON at all",
    "/v1/messages": b'{"messages": "no list"',
    "/openai/v1/chat/completions": b"[1,2]",
}
SENT = {
    "Host": "localhost",
    "X-Api-Key": "sk-ant-canary",
    "anthropic-Beta": "a,b",
    "X-Thing": "\u00e9",
    "Connection": "keep-alive, x-hop",
    "X-Hop": "drop me",
    "Proxy-Authorization": "Basic drop",
    "TE": "trailers",
}
GIVEN = (("Content-Type", "application/json"), ("Request-Id", "req_1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))


RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
KEPT = {
    "/v1/messages": {
        "model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": [RESULT]}],
        "thread": {"type": "continue", "previous_message_id": "msg_1"},
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
    },
    "/v1/responses": {
        "model": "gpt-5", "previous_response_id": "resp_1", "tools": [{"type": "function", "name": "read"}],
        "input": [{"type": "function_call_output", "call_id": "c1", "output": "x"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("path", BODIES)
def test_a_body_and_its_answer_pass_to_the_byte(path, tmp_path):
    body, told = BODIES[path], b'{"id": "x",  "usage":{"input_tokens":5,"output_tokens":1}}'
    with beside(lambda n, seen: [answer(told, headers=GIVEN)], tmp_path) as (upstream, running):
        status, headers, response = exchange(running.port, "POST", path, body, SENT)

    (seen,) = upstream.seen
    assert (status, response) == (200, told)
    assert (seen.target, seen.body) == (path, body)
    names = [name for name, _ in seen.headers]
    assert ("X-Api-Key", "sk-ant-canary") in seen.headers
    assert ("anthropic-Beta", "a,b") in seen.headers
    assert ("Host", f"127.0.0.1:{upstream.port}") in seen.headers
    assert not {name.lower() for name in names} & {"x-hop", "te", "proxy-authorization", "user-agent", "accept"}
    assert names.count("Content-Length") == 1
    assert headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert {name.lower() for name in headers} == {"content-type", "request-id", "set-cookie", "content-length"}


@pytest.mark.parametrize("path", KEPT)
def test_requests_with_server_side_history_pass_unchanged(path, tmp_path):
    """Results stand alone there: taken for a whole conversation they would be broken, and mended."""
    body = json.dumps(KEPT[path], indent=1).encode()
    with beside(lambda n, seen: [answer(b"{}")], tmp_path, recall="tool") as (upstream, running):
        exchange(running.port, "POST", path, body, {"x-session-id": "the-same-id"})

    assert upstream.seen[0].body == body


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_other_methods_pass_without_a_body(method, tmp_path):
    def script(n, seen):
        return [b"HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"]

    with beside(script, tmp_path) as (upstream, running):
        status, headers, response = exchange(running.port, method, "/v1/models/a%2Fb?x=1")

    assert (status, response, headers["x-a"]) == (204, b"", "b")
    assert upstream.seen[0].target == "/v1/models/a%2Fb?x=1"
    assert upstream.seen[0].body == b""


def test_a_large_upload_to_another_path_streams_through(tmp_path):
    body = bytes(range(256)) * 4096 * 3  # more than aiohttp's own limit for a body that is read
    with beside(lambda n, seen: [answer(b"ok")], tmp_path, max_body_bytes=1000) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/files", body)

    assert (status, response) == (200, b"ok")
    assert upstream.seen[0].body == body


def test_a_body_over_the_limit_is_refused_before_it_is_sent_on(tmp_path):
    with beside(lambda n, seen: [answer(b"ok")], tmp_path, max_body_bytes=1000) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/messages", b"x" * 2000)

    assert status == 413
    assert "larger than 1000 bytes" in json.loads(response)["error"]["message"]
    assert not upstream.seen


def test_a_compressed_body_is_forwarded_compressed(tmp_path):
    raw = gzip.compress(BODIES["/v1/chat/completions"])
    told = gzip.compress(b'{"usage":{"prompt_tokens":9,"completion_tokens":2}}')
    headers = (("Content-Encoding", "gzip"), ("Content-Type", "application/json"))
    with beside(lambda n, seen: [answer(told, headers=headers)], tmp_path) as (upstream, running):
        sent = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
        _, got_headers, response = exchange(running.port, "POST", "/v1/chat/completions", raw, sent)
        running.settle()
        summary = running.proxy.meters.total

    assert upstream.seen[0].body == raw
    assert ("Content-Encoding", "gzip") in upstream.seen[0].headers
    assert (response, got_headers["content-encoding"]) == (told, "gzip")
    assert (summary.requests, summary.input_tokens) == (1, 9)


def test_chunks_arrive_one_by_one_as_they_are_sent(tmp_path):
    """The second event is only sent once the client has the first."""

    first_seen = threading.Event()

    def script(n, seen):
        yield STREAM + chunks(b"data: {}\n\n")[0]
        assert first_seen.wait(WAIT)
        yield chunks(b"data: [DONE]\n\n")[0] + END

    with beside(script, tmp_path) as (_, running):
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
        connection.request("POST", "/v1/chat/completions", BODIES["/v1/chat/completions"])
        reply = connection.getresponse()
        assert reply.read1(4096) == b"data: {}\n\n"
        first_seen.set()
        assert reply.read() == b"data: [DONE]\n\n"
        connection.close()
    assert reply.headers["content-type"] == "text/event-stream"
    assert "content-length" not in reply.headers


def test_a_kept_alive_connection_serves_several_requests(tmp_path):
    """And the proxy's own, to the provider, ends with the proxy."""
    with RawUpstream(lambda n, seen: [answer(str(n).encode())]) as upstream:
        with proxied(upstream.url, store=str(tmp_path)) as running:
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
            for n in range(3):
                connection.request("GET", "/v1/models")
                assert connection.getresponse().read() == str(n).encode()
            connection.close()
        assert upstream.closed()


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("401 Unauthorized", [("WWW-Authenticate", "Bearer")]),
        ("429 Too Many Requests", [("Retry-After", "7"), ("anthropic-ratelimit-requests-remaining", "0")]),
        ("500 Internal Server Error", []),
        ("529 Overloaded", [("x-should-retry", "true")]),
        ("307 Temporary Redirect", [("Location", "http://evil.example/v1/messages")]),
    ],
)
def test_failures_are_returned_with_their_headers_and_are_not_retried(status, headers, tmp_path):
    told = b'{"type":"error","error":{"type":"x","message":"rate limit: too many tokens"}}'
    with beside(lambda n, seen: [answer(told, status, headers)], tmp_path) as (upstream, running):
        code, got_headers, response = exchange(running.port, "POST", "/v1/messages", BODIES["/v1/messages?beta=true"])

    assert (f"{code}", response) == (status.partition(" ")[0], told)
    assert [got_headers[name] for name, _ in headers] == [value for _, value in headers]
    assert len(upstream.seen) == 1
