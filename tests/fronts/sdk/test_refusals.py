"""When something goes wrong: the provider's word is the caller's, and nothing of ours ever is."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import ebbtide
from ebbtide import Summarizer
from fronts.sdk.agents import SYNC, Talk, script
from fronts.sdk.clients import WINDOW, client
from fronts.sdk.test_entry_points import CHAT, CONVERSE, GENERATE, LONG, MESSAGES, RESPONSES
from fronts.sdk.test_loops import usage_in, wire_of
from upstream.script import Cut, Failure, Say
from upstream.server import Upstream

ASK = {
    "anthropic": lambda c: c.messages.create(**MESSAGES),
    "chat": lambda c: c.chat.completions.create(**CHAT),
    "responses": lambda c: c.responses.create(**RESPONSES),
    "gemini": lambda c: c.models.generate_content(**GENERATE),
    "bedrock": lambda c: c.converse(**CONVERSE),
}


def status_of(error: Exception) -> int:
    """The status in an error of any SDK."""
    answer = getattr(error, "response", None)
    amazons = answer["ResponseMetadata"]["HTTPStatusCode"] if isinstance(answer, dict) else None
    return amazons or getattr(error, "status_code", None) or error.code


@pytest.mark.parametrize("agent", SYNC[::2], ids=lambda agent: agent.__name__)
def test_a_window_smaller_than_configured_is_learned_and_no_call_fails(agent):
    """The client believes in 64,000 tokens. The provider refuses at 16,000: the request is folded and sent once more."""
    wire = wire_of(agent)
    with Upstream(script(wire), window=WINDOW) as upstream:
        wrapped, talk = ebbtide.wrap(client(wire, upstream), window=64_000), Talk(wire)
        for _ in talk.turns(16):
            talk.took(*agent(wrapped, talk))

    refused = [exchange for exchange in upstream.requests if exchange.refused]
    assert 1 <= len(refused) <= 3
    assert {one.rule for exchange in refused for one in exchange.refused} <= {"A59", "A60", "C11", "R14"}
    assert len(upstream.requests) == 16 + len(refused)


def words(wire: str, number: int = 41):
    """Messages of words alone, some 530 tokens each: nothing can be cleared, only folded."""
    line = "Keep to the plan that we made on the first day, and mind the gauge of Brest.\n" * 20
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}: {line}"} for n in range(number)]
    if wire == "responses":
        return {"model": "gpt-5-codex", "input": messages, "store": False}
    return {"model": "gpt-5" if wire == "chat" else "claude-sonnet-5", "max_tokens": 500, "messages": messages}


async def test_so_is_every_awaited_call():
    with Upstream(["Well."], window=8_000) as upstream:
        async with ebbtide.wrap(client("anthropic", upstream, is_async=True), window=200_000) as wrapped:
            message = await wrapped.messages.create(**words("anthropic"))

    assert [exchange.status for exchange in upstream.requests] == [400, 200]
    assert message._ebbtide.edits


@pytest.mark.parametrize("wire", ASK)
def test_a_request_that_cannot_fit_is_refused_by_the_provider_and_the_caller_gets_its_error(wire):
    with Upstream(["Well."], window=50) as upstream:
        raw, own = client(wire, upstream), None
        try:
            ASK[wire](raw)
        except Exception as error:
            own = error
        with pytest.raises(type(own)) as told:
            ASK[wire](ebbtide.wrap(raw, window=50))

    assert status_of(told.value) == 400
    assert len(upstream.requests) <= 3


def test_a_policy_may_refuse():
    from ebbtide.policy.adjust import with_overflow

    strict = with_overflow(ebbtide.preset("default"), "error")
    with Upstream(["Well."]) as upstream, pytest.raises(ebbtide.WontFit):
        ASK["anthropic"](ebbtide.wrap(client("anthropic", upstream), window=8_000, policy=strict))

    assert upstream.requests == []


@pytest.mark.parametrize("wire", ASK)
@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_other_errors_reach_the_caller_and_are_not_retried_by_us(wire, status):
    with Upstream([Failure(status=status, message="no")]) as upstream, pytest.raises(Exception) as error:
        ASK[wire](ebbtide.wrap(client(wire, upstream), window=WINDOW))

    assert status_of(error.value) == status
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("wire", ASK)
def test_the_sdks_own_retries_send_the_same_bytes_and_count_once(wire, tmp_path):
    with Upstream([Failure(status=500, message="no"), "Well."]) as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream, max_retries=2), window=WINDOW, store=tmp_path, durable=False)
        ASK[wire](wrapped)

    first, second = upstream.requests
    assert first.raw == second.raw
    assert LONG not in first.raw.decode()
    assert "".join(log.read_text() for log in tmp_path.rglob("*.jsonl")).count('"kind":"turn"') == 1


def test_a_stream_that_breaks_off_is_recorded_as_no_answer(tmp_path):
    with Upstream([Cut([Say("Half of a sentence")], 4), "Well."]) as upstream:
        wrapped = ebbtide.wrap(client("anthropic", upstream), store=tmp_path, durable=False)
        body = {"model": "claude-sonnet-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello."}]}
        list(wrapped.messages.create(**body, stream=True))
        assert usage_in(tmp_path) == []
        list(wrapped.messages.create(**body, stream=True))

    assert len(usage_in(tmp_path)) == 1


def test_a_stream_that_the_caller_abandons_is_closed_and_the_next_call_continues():
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello."}], "stream": True}
    with Upstream([[Say("word " * 4_000)], "Well."]) as upstream:
        wrapped = ebbtide.wrap(client("chat", upstream))
        stream = wrapped.chat.completions.create(**body)
        next(iter(stream))
        stream.close()
        assert stream.response.is_closed
        assert list(wrapped.chat.completions.create(**body))


class _Breaking:
    """A store that opens, and then is gone for good in a way that no store should."""

    def open(self, *given, **more):
        raise ZeroDivisionError("the store is on fire")


@pytest.mark.parametrize("wire", ASK)
def test_an_internal_error_is_logged_once_and_fails_no_call(wire, caplog):
    with Upstream(["One.", "Two."]) as upstream, caplog.at_level(logging.ERROR, logger="ebbtide"):
        wrapped = ebbtide.wrap(client(wire, upstream), store=_Breaking())
        assert ASK[wire](wrapped)
        assert ASK[wire](wrapped)

    assert len(upstream.requests) == 2
    assert len(caplog.records) == 1
    assert "internal error" in caplog.text
    assert "nobody needs any more" not in caplog.text


def test_a_listener_that_fails_costs_the_caller_nothing():
    def fails(session, report):
        raise RuntimeError("of theirs")

    with Upstream(["Well."]) as upstream:
        assert ASK["chat"](ebbtide.wrap(client("chat", upstream), on_report=fails))


def test_an_unknown_client_or_option_is_refused_at_once():
    with pytest.raises(TypeError, match=r"anthropic\.Anthropic.* not dict"):
        ebbtide.wrap({})
    with Upstream() as upstream:
        raw = client("chat", upstream)
        with pytest.raises(TypeError, match="windw"):
            ebbtide.wrap(raw, windw=3)
        with pytest.raises(ebbtide.BadConfig, match="no-such"):
            ebbtide.wrap(raw, policy="no-such")
        with pytest.raises(ebbtide.BadConfig, match="coroutine"):
            ebbtide.wrap(raw, session=asyncio.sleep)


# --- summaries by the same provider -----------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses"])
def test_a_model_named_as_summarizer_is_asked_through_the_same_client_and_not_about_itself(wire):
    def said(body):
        if body["model"] == "the-small-one":
            return "<summary>\n## Intent\n- The user wants the gauge of Brest minded.\n</summary>"
        return "Well."

    asks = {
        "anthropic": lambda c: c.messages.create,
        "chat": lambda c: c.chat.completions.create,
        "responses": lambda c: c.responses.create,
    }
    with Upstream(said, window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream), window=WINDOW, summarizer="the-small-one")
        answer = asks[wire](wrapped)(**words(wire))

    *questions, request = upstream.requests
    assert questions
    assert {question.parsed["model"] for question in questions} == {"the-small-one"}
    assert {one.path for one in questions} == {request.path}
    assert request.status == 200
    assert "wants the gauge of Brest minded" in request.raw.decode()
    assert any(edit.by == "summarize" for edit in answer._ebbtide.edits)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_summarizer_that_uses_the_wrapped_client_does_not_wait_for_itself(is_async):
    asked = []

    def said(body):
        return "<summary>\n## Intent\n- The user wants the gauge of Brest minded.\n</summary>"

    with Upstream(said) as upstream:

        def sums(request):
            asked.append(request)
            return wrapped.messages.create(**request)

        async def asums(request):
            asked.append(request)
            return await wrapped.messages.create(**request)

        # Over the level where the policy acts, and with room for a question behind it: the same lane's own beginning.
        body = words("anthropic", 105)
        chosen = asums if is_async else sums
        wrapped = ebbtide.wrap(
            client("anthropic", upstream, is_async=is_async), window=62_000, summarizer=Summarizer(chosen, timeout=120)
        )
        answer = await wrapped.messages.create(**body) if is_async else wrapped.messages.create(**body)
        if is_async:
            await wrapped.close()

    assert len(asked[0]["messages"]) > 100
    assert answer._ebbtide.edits
    assert "wants the gauge of Brest minded" in upstream.requests[-1].raw.decode()


# --- compressed answers -----------------------------------------------------------------------------------------------


@contextmanager
def squeezed(body: bytes, kind: str):
    """A server that answers with gzip, in small pieces."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            packed = gzip.compress(body)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(packed)))
            self.end_headers()
            for at in range(0, len(packed), 64):
                self.wfile.write(packed[at : at + 64])

        def log_message(self, *given):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join(120)


def test_a_compressed_stream_is_decoded(tmp_path):
    chunk = (
        b'data: {"id":"c","model":"gpt-5","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    )
    usage = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":4321,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    with squeezed(chunk + usage, "text/event-stream") as url:
        sdk = pytest.importorskip("openai")
        wrapped = ebbtide.wrap(sdk.OpenAI(api_key="k", base_url=url, max_retries=0), store=tmp_path, durable=False)
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello."}]}
        heard = [
            one.choices[0].delta.content for one in wrapped.chat.completions.create(**body, stream=True) if one.choices
        ]
        wrapped.close()

    assert heard == ["Hi"]
    assert usage_in(tmp_path) == [4321]
