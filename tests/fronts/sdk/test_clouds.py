"""`wrap` of the clients for Amazon Bedrock, Google Vertex and Azure, each in front of a server with that cloud's paths."""

from __future__ import annotations

import inspect

import pytest

import ebbtide
from fronts.sdk import agents
from fronts.sdk.agents import Talk, script
from fronts.sdk.clients import WINDOW
from fronts.sdk.clouds import AWS_KEYS, AzureUpstream, BedrockUpstream, VertexUpstream
from fronts.sdk.test_loops import WIRES, usage_in, wire_of
from upstream.prefix import units
from upstream.script import Say, Use

ANTHROPIC = (
    *(agents.anthropic_create, agents.anthropic_stream),
    *(agents.anthropic_acreate, agents.anthropic_astream),
)
AZURE = (agents.chat_create, agents.chat_stream, agents.responses_create, agents.chat_acreate, agents.responses_astream)
UPSTREAMS = {"bedrock": BedrockUpstream, "vertex": VertexUpstream, "azure": AzureUpstream}
CASES = [
    *(("bedrock", agent) for agent in ANTHROPIC),
    *(("vertex", agent) for agent in ANTHROPIC),
    *(("azure", agent) for agent in AZURE),
]
CLOUDS = pytest.mark.parametrize(("cloud", "agent"), CASES, ids=[f"{cloud}-{agent.__name__}" for cloud, agent in CASES])


def client(cloud: str, upstream, *, is_async: bool):
    """The SDK's own client for this cloud."""
    options = {"base_url": upstream.url, "max_retries": 0, "timeout": 120}
    if cloud == "azure":
        sdk = pytest.importorskip("openai")
        options |= {"base_url": None, "azure_endpoint": upstream.url, "api_version": "2025-04-01-preview"}
        return (sdk.AsyncAzureOpenAI if is_async else sdk.AzureOpenAI)(api_key="key-of-a-test", **options)
    sdk = pytest.importorskip("anthropic")
    if cloud == "bedrock":
        pytest.importorskip("boto3")
        return (sdk.AsyncAnthropicBedrock if is_async else sdk.AnthropicBedrock)(**AWS_KEYS, **options)
    pytest.importorskip("google.auth")
    kind = sdk.AsyncAnthropicVertex if is_async else sdk.AnthropicVertex
    return kind(project_id="p1", region="r1", access_token="a-token", **options)


async def run(agent, wrapped, talk: Talk, calls: int) -> None:
    for _ in talk.turns(calls):
        answer = agent(wrapped, talk)
        talk.took(*(await answer if inspect.isawaitable(answer) else answer))


@CLOUDS
async def test_a_long_loop_is_never_refused_and_each_bill_is_recorded(cloud, agent, tmp_path):
    wire = wire_of(agent)
    calls, window = (14, 10_000) if wire == "responses" else (22, WINDOW)
    with UPSTREAMS[cloud](script(wire), window=window) as upstream:
        raw = client(cloud, upstream, is_async=inspect.iscoroutinefunction(agent))
        wrapped, talk = ebbtide.wrap(raw, window=window, store=tmp_path, durable=False), Talk(wire)
        await run(agent, wrapped, talk, calls)

    assert [exchange.status for exchange in upstream.requests] == [200] * calls
    assert any(report.edits for report in talk.reports)
    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]
    sent = [[unit.text for unit in units(WIRES[wire], exchange.parsed)] for exchange in upstream.requests]
    quiet = [n for n in range(1, calls) if not talk.reports[n].edits]
    assert [n for n in quiet if sent[n][: len(sent[n - 1])] != sent[n - 1]] == []


@CLOUDS
async def test_recalls_are_answered_except_in_amazons_streams(cloud, agent):
    wire, recall = wire_of(agent), Use("ebb_recall", {"query": "port"})
    with UPSTREAMS[cloud]([[Say("Let me see."), recall], "It was 8123."]) as upstream:
        raw = client(cloud, upstream, is_async=inspect.iscoroutinefunction(agent))
        talk = Talk(wire, history=[{"role": "user", "content": "The port was 8123."}])
        wrapped = ebbtide.wrap(raw, recall="tool")
        answer = agent(wrapped, talk)
        entries, _ = await answer if inspect.isawaitable(answer) else answer

    assert ("ebb_recall" in upstream.requests[0].raw.decode()) == (cloud != "bedrock")
    if cloud != "bedrock":
        assert len(upstream.requests) == 2
        assert "It was 8123." in str(entries)
        assert "ebb_recall" not in str(entries)


@pytest.mark.parametrize("cloud", UPSTREAMS)
def test_two_keys_share_no_unnamed_session(cloud):
    other = {"bedrock": {"aws_access_key": "AKIDOTHER"}, "vertex": {"access_token": "b"}, "azure": {"api_key": "b"}}
    names = []
    with UPSTREAMS[cloud]() as upstream:
        raw = client(cloud, upstream, is_async=False)
        wrapped = ebbtide.wrap(raw, on_report=lambda session, report: names.append(session))
        talk = Talk("x", history=[{"role": "user", "content": "Hello."}])
        (agents.chat_create if cloud == "azure" else agents.anthropic_create)(wrapped, talk)
        copy = wrapped.with_options(**other[cloud])

        assert wrapped.ebbtide.names() == tuple(names)
        assert copy.ebbtide.names() == ()
