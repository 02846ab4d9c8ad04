"""A token that is renewed goes on with its session where the client's own id is a UUID and the history is in the request."""

from __future__ import annotations

import json

import pytest

from fronts.proxy.agent import PATHS, Agent, looping
from fronts.proxy.proxy_runner import get, proxied
from upstream.prefix import units
from upstream.server import Upstream

WINDOW = 16_000
UUID = "5d0f0c52-2f5b-4f0e-9a51-0a4b5f3f6f10"


def told(running):
    return get(running.port, "/ebb/sessions")[1]["sessions"]


def walk(agent, running, first, last):
    for n in range(first, last):
        agent.turn(n)
        running.settle()


def messages(wire, exchange):
    return [unit.text for unit in units(wire, exchange.parsed) if unit.message >= 0]


def calm(agent, running, upstream):
    """Turns until one adds to what went out before and takes nothing out; it and the one before."""
    agent.lines = 1
    for n in range(40, 60):
        walk(agent, running, n, n + 1)
        one, two = (messages(agent.wire, exchange) for exchange in upstream.requests[-2:])
        if two[: len(one)] == one:
            return two
    raise AssertionError("every turn took something out")


@pytest.mark.parametrize("wire", PATHS)
def test_a_renewed_token_continues_its_session(wire, tmp_path):
    """In the same process and after a restart: the edits stay, and the request goes on from the last one."""
    with Upstream(looping(wire), window=60_000) as upstream:
        with proxied(upstream.url, store=tmp_path, window=WINDOW) as running:
            agent = Agent(wire, running.port, upstream, lines=40, authorization="Bearer one", x_session_id=UUID)
            walk(agent, running, 0, 15)
            last = calm(agent, running, upstream)
            agent.headers["authorization"] = "Bearer two"
            walk(agent, running, 60, 61)
            assert messages(wire, upstream.requests[-1])[: len(last)] == last
            assert len(told(running)) == 1
            assert told(running)[0]["edits"]
            last = calm(agent, running, upstream)
        with proxied(upstream.url, store=tmp_path, window=WINDOW) as running:
            agent.port, agent.headers["authorization"] = running.port, "Bearer three"
            walk(agent, running, 61, 62)
            assert messages(wire, upstream.requests[-1])[: len(last)] == last

    assert len(list(tmp_path.rglob("*.jsonl"))) == 1


def test_when_the_clients_id_can_be_guessed_a_new_token_begins_a_new_session(tmp_path):
    with (
        Upstream(looping("anthropic"), window=60_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        agent = Agent("anthropic", running.port, upstream, authorization="Bearer one", x_session_id="nightly-run")
        walk(agent, running, 0, 2)
        agent.headers["authorization"] = "Bearer two"
        walk(agent, running, 2, 3)
        sessions = told(running)

    assert len(sessions) == len({session["project"] for session in sessions}) == 2


def test_an_id_without_its_history_starts_a_new_session(tmp_path):
    """Also once they have a history of their own; and the first one still goes on under its next token."""
    with (
        Upstream(looping("anthropic"), window=60_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        first = Agent("anthropic", running.port, upstream, authorization="Bearer one", x_session_id=UUID)
        other = Agent("anthropic", running.port, upstream, authorization="Bearer two", x_session_id=UUID)
        walk(first, running, 0, 3)
        walk(other, running, 100, 103)
        first.headers["authorization"], other.headers["authorization"] = "Bearer three", "Bearer four"
        walk(first, running, 3, 4)
        walk(other, running, 103, 104)
        sessions = told(running)

    assert sorted(session["requests"] for session in sessions) == [4, 4]
    logs = [path.read_text() for path in tmp_path.rglob("*.jsonl")]
    assert len(logs) == 2
    assert all(("src/f1.py: def" in log) != ("src/f101.py: def" in log) for log in logs)


def test_another_api_key_or_organisation_is_never_a_renewed_token(tmp_path):
    with (
        Upstream(looping("anthropic"), window=60_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        agent = Agent("anthropic", running.port, upstream, x_api_key="k1", x_session_id=UUID)
        walk(agent, running, 0, 2)
        agent.headers["x-api-key"] = "k2"
        walk(agent, running, 2, 3)
        del agent.headers["x-api-key"]
        agent.headers["authorization"] = "Bearer one"
        walk(agent, running, 3, 4)
        agent.headers |= {"authorization": "Bearer two", "anthropic-organization-id": "o2"}
        walk(agent, running, 4, 5)
        sessions = told(running)

    assert [session["requests"] for session in sessions] == [2, 1, 1, 1]


def test_a_count_and_a_compaction_under_a_renewed_token_carry_the_edits(tmp_path):
    words = {"role": "user", "content": "Your task is to create a detailed summary of the conversation so far."}
    with (
        Upstream(looping("openai_chat"), window=60_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=40, authorization="Bearer one", session_id=UUID)
        walk(agent, running, 0, 16)
        last = calm(agent, running, upstream)
        agent.headers["authorization"] = "Bearer two"
        walk(agent, running, 60, 61)
        body = {"model": "gpt-5", "messages": [{"role": "system", "content": "Sum up."}, *agent.history, words]}
        assert agent.post(body)[0] == 200
        asked = messages("openai_chat", upstream.requests[-1])

    assert asked[: len(last)] == last or asked[1 : len(last) + 1] == last
    assert len(json.dumps(upstream.requests[-1].parsed)) < len(json.dumps(body)) * 3 // 4
