"""A tool loop that outgrows its window many times, through the proxy to a provider that checks every rule."""

from __future__ import annotations

import pytest

from fronts.proxy.agent import PATHS, Agent, looping
from fronts.proxy.proxy_runner import get, proxied
from upstream.prefix import units
from upstream.server import Upstream

WINDOW = 24_000
CALLS = 60


@pytest.mark.parametrize("wire", PATHS)
def test_sixty_calls_in_a_small_window_without_a_refusal(wire, tmp_path):
    """And between edits each request extends the one before it: the provider's cache is never broken without a reason."""
    edits = []
    with (
        Upstream(looping(wire), window=WINDOW) as upstream,
        proxied(upstream.url, store=str(tmp_path), window=WINDOW) as running,
    ):
        agent = Agent(wire, running.port, upstream, x_api_key="sk-1")
        for n in range(CALLS):
            agent.turn(n, stream=n % 2 == 1)
            running.settle()
            edits.append(get(running.port, "/ebb/summary")[1]["edits"])
        summary = get(running.port, "/ebb/summary")[1]
        (session,) = get(running.port, "/ebb/sessions")[1]["sessions"]

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    assert len(upstream.requests) == CALLS
    sent = [[unit.text for unit in units(wire, exchange.parsed)] for exchange in upstream.requests]
    calm = [n for n in range(1, CALLS) if edits[n] == edits[n - 1]]
    assert len(calm) > CALLS // 2
    assert not [n for n in calm if sent[n][: len(sent[n - 1])] != sent[n - 1]]
    assert summary["edits"] > 3
    assert (summary["fallbacks"], summary["overflows"], summary["requests"]) == (0, 0, CALLS)
    assert summary["tokens_saved"] > summary["tokens_sent"]
    assert session["tokens_before"] > WINDOW > session["tokens_after"]


def test_a_window_that_is_smaller_than_assumed_is_learned_from_one_refusal(tmp_path):
    """The provider's words say how large it is: the request is folded, sent again, and the client sees none of it."""
    with (
        Upstream(looping("anthropic"), window=12_000) as upstream,
        proxied(upstream.url, store=str(tmp_path), window=200_000) as running,
    ):
        agent = Agent("anthropic", running.port, upstream)
        for n in range(30):
            agent.turn(n, stream=n % 2 == 1)
            running.settle()
        summary = get(running.port, "/ebb/summary")[1]

    refused = [exchange for exchange in upstream.requests if exchange.refused]
    assert len(refused) == summary["overflows"] == 1
    assert len(upstream.requests) == 31
    assert {one.rule for exchange in refused for one in exchange.refused} <= {"A59", "A60"}


def test_the_providers_error_is_raised_if_nothing_fits(tmp_path):
    with Upstream(["never"], window=2_000) as upstream, proxied(upstream.url, store=str(tmp_path)) as running:
        agent = Agent("openai_chat", running.port, upstream)
        agent.history = [{"role": "user", "content": "a single message that is too long " * 600}]
        direct = Agent("openai_chat", upstream.port, upstream)
        direct.history = agent.history
        assert agent.post(agent.request()) == direct.post(direct.request())


def test_shadow_mode_sends_requests_unchanged_and_reports_what_it_would_save(tmp_path):
    wire = "openai_chat"
    with (
        Upstream(looping(wire)) as upstream,
        proxied(upstream.url, store=str(tmp_path), window=WINDOW, shadow=True) as running,
    ):
        agent = Agent(wire, running.port, upstream)
        for n in range(24):
            agent.turn(n)
        summary = get(running.port, "/ebb/summary")[1]

    texts = [unit.text for unit in units(wire, agent.request())]
    last = [unit.text for unit in units(wire, upstream.requests[-1].parsed)]
    assert texts[: len(last)] == last
    assert summary["shadow"]
    assert summary["tokens_saved"] > 10_000
    assert not list(tmp_path.rglob("*.jsonl"))
