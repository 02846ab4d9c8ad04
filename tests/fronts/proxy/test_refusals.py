"""Refusals for size, in the words and the manners of providers: folded and sent again once, or told as they came."""

from __future__ import annotations

import gzip
import json

import pytest

from fronts.proxy.proxy_runner import beside, exchange, get
from fronts.proxy.raw_upstream import END, STREAM, answer, chunks

OK = answer(
    b'{"choices":[{"message":{"role":"assistant","content":"yo"},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":1}}',
    headers=[("Content-Type", "application/json")],
)
STREAMED = b"".join(
    [
        STREAM,
        *chunks(
            b'data: {"choices":[{"index":0,"delta":{"content":"yo"},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"
        ),
        END,
    ]
)


def history(steps=30):
    """Large enough that a tenth less can be found in it."""
    talk = [{"role": "user", "content": "go"}]
    for n in range(steps):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path":"f{n}"}}'}}
        talk += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n} of it\n" * 200},
        ]
    return talk


def asking(**more):
    return json.dumps(
        {"model": "m", "messages": history(), "tools": [{"type": "function", "function": {"name": "read"}}], **more}
    ).encode()


JSON = [("Content-Type", "application/json")]
WORDS = b'{"error":{"message":"This model\'s maximum context length is 12000 tokens. However, your messages resulted in 30000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}'
LLAMA = b'{"error":{"code":400,"message":"request (30000 tokens) exceeds the available context size (12000 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":30000,"n_ctx":12000}}'
STUDIO = b'{"error":"The number of tokens to keep from the initial prompt is greater than the context length."}'
MANNERS = {
    "openai": answer(WORDS, "400 Bad Request", JSON),
    "llama.cpp": answer(LLAMA, "400 Bad Request", JSON),
    "compressed": answer(gzip.compress(WORDS), "400 Bad Request", [*JSON, ("Content-Encoding", "gzip")]),
    "413 without words": answer(b"<html>413</html>", "413 Payload Too Large"),
    "in a 200": answer(STUDIO, headers=JSON),
    "the first event of a stream": b"".join([STREAM, *chunks(b"data: " + WORDS + b"\n\n"), END]),
    "with 500": answer(WORDS, "500 Internal Server Error", JSON),
}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_request_refused_for_its_size_is_compacted_and_sent_again_unnoticed(manner, tmp_path):
    streams = "stream" in manner
    then = STREAMED if streams else OK
    with beside(lambda n, seen: [then if n else MANNERS[manner]], tmp_path, window=200_000) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/chat/completions", asking(stream=streams))
        summary = get(running.port, "/ebb/summary")[1]

    first, second = upstream.seen
    assert (status, b"yo" in response) == (200, True)
    assert first.body == asking(stream=streams)
    assert len(second.body) < len(first.body) * 9 // 10
    assert [name for name, _ in second.headers] == [name for name, _ in first.headers]
    assert (summary["overflows"], summary["fallbacks"]) == (1, 0)
    assert summary["edits"] > 0


@pytest.mark.parametrize("manner", MANNERS)
def test_a_second_refusal_is_passed_on_unchanged(manner, tmp_path):
    streams = "stream" in manner
    with beside(lambda n, seen: [MANNERS[manner]], tmp_path, window=200_000) as (upstream, running):
        through = exchange(running.port, "POST", "/v1/chat/completions", asking(stream=streams))
        direct = exchange(upstream.port, "POST", "/v1/chat/completions", asking(stream=streams))

    assert through[0] == direct[0]
    assert through[2] == direct[2]
    assert len(upstream.seen) == 3, "sent twice by the proxy, once directly"


def told_twice(n, seen):
    return [STREAMED if n else STREAM + END]


@pytest.mark.parametrize("model", ["gpt-5", "of-nobody"])
def test_an_empty_stream_is_about_size_when_the_request_may_be_over_the_window_or_none_is_known(model, tmp_path):
    """Sent once more, smaller; and the next request is as large as if nothing had been."""
    # `region` counts low: it sends 37,000 tokens by our upper bound and takes nothing out of them.
    terms = {"window": 36_000, "policy": "region"} if model == "gpt-5" else {}
    first = json.loads(asking(stream=True, model=model))
    more = {
        **first,
        "messages": [*first["messages"], {"role": "assistant", "content": "yo"}, {"role": "user", "content": "on"}],
    }
    with beside(told_twice, tmp_path, **terms) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/chat/completions", json.dumps(first).encode())
        running.settle()
        after = exchange(running.port, "POST", "/v1/chat/completions", json.dumps(more).encode())
        running.settle()
        summary = get(running.port, "/ebb/summary")[1]

    sizes = [len(request.body) for request in upstream.seen]
    assert (status, b"yo" in response, after[0]) == (200, True, 200)
    assert len(sizes) == 3
    assert sizes[1] < sizes[0] * 9 // 10
    assert sizes[2] > sizes[0], "the session was cut for good"
    assert (summary["overflows"], summary["edits"]) == (1, 0)
    assert '"kind":"limit"' not in "".join(log.read_text() for log in tmp_path.rglob("*.jsonl"))


def test_an_empty_stream_of_a_request_that_surely_fits_is_an_empty_stream(tmp_path):
    with beside(told_twice, tmp_path, window=200_000) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/chat/completions", asking(stream=True))
        summary = get(running.port, "/ebb/summary")[1]

    assert (status, response) == (200, b"")
    assert [request.body for request in upstream.seen] == [asking(stream=True)]
    assert (summary["overflows"], summary["edits"]) == (0, 0)


def test_an_empty_stream_is_sent_again_once_and_no_more(tmp_path):
    with beside(lambda n, seen: [STREAM + END], tmp_path) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/chat/completions", asking(stream=True))

    assert (status, response, len(upstream.seen)) == (200, b"", 2)


OTHERS = {
    "another 400": answer(b'{"error":{"message":"tools.0: too long a name"}}', "400 Bad Request", JSON),
    "a rate": answer(
        b'{"error":{"message":"Request too large for gpt-5: limit 30000 tokens per min (TPM)"}}',
        "429 Too Many Requests",
        JSON,
    ),
    "an answer about it": answer(
        json.dumps({"choices": [{"message": {"content": WORDS.decode()}}]}).encode(), headers=JSON
    ),
    "no key": answer(WORDS, "401 Unauthorized", JSON),
}


@pytest.mark.parametrize("other", OTHERS)
def test_nothing_else_is_ever_sent_again(other, tmp_path):
    with beside(lambda n, seen: [OTHERS[other]], tmp_path) as (upstream, running):
        through = exchange(running.port, "POST", "/v1/chat/completions", asking())

    assert len(upstream.seen) == 1
    assert OTHERS[other].endswith(through[2])


def test_a_refused_count_is_passed_on_at_once(tmp_path):
    talk = [{"role": ("user", "assistant")[n % 2], "content": f"line {n} of it\n" * 200} for n in range(61)]
    body = json.dumps({"model": "claude-sonnet-5", "messages": talk}).encode()
    with beside(lambda n, seen: [MANNERS["openai"]], tmp_path) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/messages/count_tokens", body)

    assert (status, response) == (400, WORDS)
    assert [seen.body for seen in upstream.seen] == [body]


def test_in_shadow_a_refusal_is_the_clients(tmp_path):
    with beside(lambda n, seen: [MANNERS["openai"]], tmp_path, shadow=True) as (upstream, running):
        status, _, response = exchange(running.port, "POST", "/v1/chat/completions", asking())

    assert (status, response) == (400, WORDS)
    assert [seen.body for seen in upstream.seen] == [asking()]


def test_a_compressed_request_that_is_edited_is_forwarded_uncompressed(tmp_path):
    sent = {"Content-Encoding": "gzip", "Content-MD5": "of-the-old-body"}
    with beside(lambda n, seen: [OK], tmp_path, window=12_000) as (upstream, running):
        assert exchange(running.port, "POST", "/v1/chat/completions", gzip.compress(asking()), sent)[0] == 200

    (seen,) = upstream.seen
    assert not {name.lower() for name, _ in seen.headers} & {"content-encoding", "content-md5"}
    assert len(seen.body) < len(asking())
    assert json.loads(seen.body)["model"] == "m"
