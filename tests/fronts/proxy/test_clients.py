"""The official SDKs, unmodified, with nothing but a base URL: the same answers as directly, streamed or not."""

from __future__ import annotations

import pytest

from fronts.proxy.proxy_runner import get, proxied
from upstream.script import Failure, Say, Use
from upstream.server import Upstream

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

TURN = [Say("I'll read it: 文件。" * 9), Use("Read", {"path": "src/表.ts"})]
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]


@pytest.fixture
def proxy(tmp_path):
    with Upstream([TURN] * 4, window=200_000) as upstream, proxied(upstream.url, store=tmp_path) as running:
        yield upstream, running


def test_anthropics_sdk_streams_and_counts(proxy):
    upstream, running = proxy
    client = anthropic.Anthropic(base_url=running.url, api_key="sk-ant-test")
    ask = {"model": "claude-sonnet-5", "tools": TOOLS, "messages": [{"role": "user", "content": "go"}]}
    with client.messages.stream(max_tokens=64, **ask) as stream:
        message = stream.get_final_message()
    plain = client.messages.create(max_tokens=64, **ask)
    counted = client.messages.count_tokens(**ask)
    running.settle()
    summary = get(running.port, "/ebb/summary")[1]

    assert message.content[0].text == plain.content[0].text == TURN[0].text
    assert message.content[1].input == TURN[1].input
    assert counted.input_tokens > 0
    billed = [request.usage.prompt for request in upstream.requests if request.usage]
    assert (summary["requests"], summary["input_tokens"]) == (2, sum(billed))


def test_openais_sdk_streams_chat_and_responses(proxy):
    upstream, running = proxy
    client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-test")
    told = [{"role": "user", "content": "go"}]
    chunks = client.chat.completions.create(
        model="gpt-5", messages=told, stream=True, stream_options={"include_usage": True}
    )
    words = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    events = list(client.responses.create(model="gpt-5", input=told, stream=True, store=False))
    running.settle()
    summary = get(running.port, "/ebb/summary")[1]

    assert words == TURN[0].text
    assert events[-1].response.output_text == TURN[0].text
    assert summary["sessions"] == 2
    assert summary["input_tokens"] == sum(request.usage.prompt for request in upstream.requests)


def test_an_sdk_retries_an_overload_and_sees_a_refusal_unchanged(tmp_path):
    with Upstream([Failure(), "yes"]) as upstream, proxied(upstream.url, store=tmp_path) as running:
        client = anthropic.Anthropic(base_url=running.url, api_key="k", max_retries=1)
        ask = {"model": "claude-sonnet-5", "max_tokens": 9}
        assert client.messages.create(messages=[{"role": "user", "content": "go"}], **ask).content[0].text == "yes"
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.messages.create(messages=[], **ask)

    assert [request.status for request in upstream.requests] == [529, 200, 400]
    assert refused.value.response.headers["request-id"] == "req_ebb"
