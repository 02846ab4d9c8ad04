"""An agent's loop with each SDK, sync, async and streaming, in a window that its history passes several times.

The provider is a real server that checks every rule, binds thinking to all before it and refuses what is too long.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ebbtide
from fronts.sdk.agents import ALONG, ASYNC, LONG, SYNC, Talk, script
from fronts.sdk.clients import WINDOW, client
from upstream.prefix import units
from upstream.server import Upstream

CALLS = {"anthropic": 30, "chat": 30, "responses": 20}
# OpenAI's SDK holds the whole input of a Responses call against its types, a third of a second at the end of a loop.
WINDOWS = {"anthropic": WINDOW, "chat": WINDOW, "responses": 10_000}
WIRES = {"anthropic": "anthropic", "chat": "openai_chat", "responses": "openai_responses"}


def wire_of(agent) -> str:
    return agent.__name__.partition("_")[0]


@pytest.mark.parametrize("agent", LONG, ids=lambda agent: agent.__name__)
def test_a_long_loop_is_never_refused(agent):
    wire = wire_of(agent)
    with Upstream(script(wire), window=WINDOWS[wire]) as upstream:
        wrapped, talk = ebbtide.wrap(client(wire, upstream), window=WINDOWS[wire]), Talk(wire)
        for _ in talk.turns(CALLS[wire]):
            talk.took(*agent(wrapped, talk))

    check(wire, talk, upstream)


@pytest.mark.parametrize("agent", ALONG, ids=lambda agent: agent.__name__)
async def test_a_long_awaited_loop_is_never_refused(agent):
    wire = wire_of(agent)
    with Upstream(script(wire), window=WINDOWS[wire]) as upstream:
        async with ebbtide.wrap(client(wire, upstream, is_async=True), window=WINDOWS[wire]) as wrapped:
            talk = Talk(wire)
            for _ in talk.turns(CALLS[wire]):
                talk.took(*await agent(wrapped, talk))

    check(wire, talk, upstream)


def check(wire: str, talk: Talk, upstream: Upstream) -> None:
    exchanges = upstream.requests
    assert len(exchanges) == CALLS[wire]
    assert [exchange.refused for exchange in exchanges if exchange.refused] == []
    assert sum(bool(report.edits) for report in talk.reports) >= 2, "the window was passed only once"
    sent = [[unit.text for unit in units(WIRES[wire], exchange.parsed)] for exchange in exchanges]
    for n in range(1, CALLS[wire]):
        if not talk.reports[n].edits:
            assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} does not extend the one before"


def usage_in(store: Path) -> list[int]:
    """Input tokens of every recorded answer, as the provider billed them."""
    records = [json.loads(line) for log in store.rglob("*.jsonl") for line in log.read_text().splitlines()]
    told = [one for one in records if one.get("kind") == "usage"]
    return [one["input"] + one["cache_read"] + one["cache_write"] for one in told]


@pytest.mark.parametrize("agent", SYNC, ids=lambda agent: agent.__name__)
def test_the_providers_bill_is_recorded_from_a_body_and_from_a_stream(agent, tmp_path):
    wire = wire_of(agent)
    with Upstream(script(wire)) as upstream:
        wrapped, talk = ebbtide.wrap(client(wire, upstream), store=tmp_path, durable=False), Talk(wire)
        for _ in talk.turns(3):
            talk.took(*agent(wrapped, talk))

    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]


@pytest.mark.parametrize("agent", ASYNC, ids=lambda agent: agent.__name__)
async def test_so_it_is_of_awaited_calls(agent, tmp_path):
    wire = wire_of(agent)
    with Upstream(script(wire)) as upstream:
        async with ebbtide.wrap(client(wire, upstream, is_async=True), store=tmp_path, durable=False) as wrapped:
            talk = Talk(wire)
            for _ in talk.turns(3):
                talk.took(*await agent(wrapped, talk))

    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]
