"""Requests beside a conversation must not disturb it: titles, sub-agents, counts, compactions, other tenants."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from ebbtide.config import load_settings
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.sessions import Sessions
from fronts.proxy.agent import Agent, looping
from fronts.proxy.proxy_runner import Running, get, identify, options, proxied
from upstream.prefix import units
from upstream.server import Upstream

WINDOW = 16_000
ID = {"x_session_id": "one-agent-0001"}


def walk(agent, running, first, last):
    for n in range(first, last):
        agent.turn(n)
        running.settle()


def sessions(running):
    return {session["session"]: session for session in get(running.port, "/ebb/sessions")[1]["sessions"]}


def messages(exchange):
    return [unit.text for unit in units("anthropic", exchange.parsed) if unit.message >= 0]


@contextmanager
def working(wire, store):
    """A conversation that carries edits already, and room for a few small turns."""
    terms = {"store": store, "window": WINDOW}
    with Upstream(looping(wire), window=60_000) as upstream, proxied(upstream.url, **terms) as running:
        agent = Agent(wire, running.port, upstream, lines=40, **ID)
        walk(agent, running, 0, 20)
        agent.lines = 1
        for n in range(20, 30):
            before = get(running.port, "/ebb/summary")[1]["edits"]
            walk(agent, running, n, n + 1)
            if before == get(running.port, "/ebb/summary")[1]["edits"] > 0:
                break
        yield upstream, running, agent


@pytest.fixture
def worked(tmp_path):
    with working("anthropic", tmp_path) as made:
        yield made


def test_a_count_without_the_metadata_of_its_conversation_is_about_it(tmp_path):
    """That endpoint takes none. Where an id that it has differs, it is about nothing that is known."""
    known = Sessions(options("http://127.0.0.1:9", store=tmp_path))
    headers = {"authorization": "Bearer one", "x-claude-code-session-id": "one-agent-0001"}
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    user = {"metadata": {"user_id": "user_1_account_2_session_3"}}
    main = known.session_for(identify("anthropic", "/v1/messages", headers, {**body, **user}))

    def counted(**more):
        return known.session_for(identify("anthropic", "/v1/messages/count_tokens", {**headers, **more}, body))

    assert counted() is main
    assert counted(authorization="Bearer two") is not main
    assert counted(**{"x-tenant-id": "another"}) is not main
    assert len(list(known)) == 1


def test_a_count_carries_the_edits_and_makes_none(worked):
    upstream, running, agent = worked
    before = get(running.port, "/ebb/summary")[1]
    body = {key: value for key, value in agent.request().items() if key != "max_tokens"}
    status, raw = agent.post(body, "/v1/messages/count_tokens")
    agent.turn(20)
    after = get(running.port, "/ebb/summary")[1]

    assert status == 200
    counted, turn = upstream.requests[-2:]
    assert counted.path.endswith("count_tokens")
    assert messages(counted) == messages(turn)
    assert json.loads(raw)["input_tokens"] < WINDOW
    assert after["sessions"] == before["sessions"] == 1


@pytest.mark.parametrize("system", ["", "You summarise."], ids=["same agent", "another agent"])
def test_the_clients_own_compaction_carries_the_edits_and_makes_none(system, tmp_path):
    """Also where the client asks under another system prompt and without tools: it is about the same story."""
    words = {"role": "user", "content": "Your task is to create a detailed summary of the conversation so far."}
    with working("openai_chat", tmp_path) as (upstream, running, agent):
        body = {**agent.request(), "messages": [*agent.history, words]}
        if system:
            body = {"model": "gpt-5", "messages": [{"role": "system", "content": system}, *agent.history, words]}
        before = get(running.port, "/ebb/summary")[1]
        status, _ = agent.post(body)
        after = get(running.port, "/ebb/summary")[1]

    assert status == 200
    asked, turn = (one.parsed["messages"] for one in (upstream.requests[-1], upstream.requests[-2]))
    assert asked[bool(system) :][: len(turn)] == turn
    assert len(json.dumps(asked)) < len(json.dumps(agent.history)) * 3 // 4
    assert (after["edits"], after["sessions"]) == (before["edits"], before["sessions"])


def test_titles_and_sub_agents_leave_the_conversation_unchanged(tmp_path):
    def under(words, history, **more):
        return {"model": "gpt-5", "messages": [{"role": "system", "content": words}, *history], **more}

    with working("openai_chat", tmp_path) as (upstream, running, agent):
        last = upstream.requests[-1].parsed["messages"]
        helper = Agent("openai_chat", running.port, upstream, lines=40, **ID)
        helper.history = [{"role": "user", "content": "Find the parser."}]
        assert agent.post(under("Write a title.", agent.history[:1]))[0] == 200
        walk(helper, running, 0, 2)
        assert agent.post(under("You keep notes.", agent.history, tools=agent.request()["tools"]))[0] == 200
        agent.turn(31)
        told = sessions(running)

    assert upstream.requests[-1].parsed["messages"][: len(last)] == last
    assert len(told) == 4
    assert len({one["project"] for one in told.values()}) == 1


def test_two_tenants_with_the_same_id_never_mix(tmp_path):
    """Not in memory, not on disk, not in what goes out."""
    with (
        Upstream(looping("anthropic"), window=60_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        agents = [Agent("anthropic", running.port, upstream, lines=40, x_api_key=key, **ID) for key in ("sk-a", "sk-b")]
        for who, agent in zip("ab", agents, strict=True):
            agent.history = [
                {"role": "user", "content": "Go through the code."},
                {"role": "assistant", "content": f"canary-{who}"},
                {"role": "user", "content": "go"},
            ]
        for n in range(20):
            for agent in agents:
                agent.turn(n)
                running.settle()
        told = get(running.port, "/ebb/sessions")[1]["sessions"]

    for exchange in upstream.requests:
        other = b"canary-b" if exchange.headers["x-api-key"] == "sk-a" else b"canary-a"
        assert other not in exchange.raw
    assert len({one["project"] for one in told}) == len(told) == 2
    assert all(one["edits"] for one in told)
    logs = {path.parent.name: path.read_text() for path in tmp_path.rglob("*.jsonl")}
    assert len(logs) == 2
    assert all(("canary-a" in log) != ("canary-b" in log) for log in logs.values())


@pytest.mark.parametrize("header", ["openai-project", "x-tenant-id", "x-openwebui-user-id", "x-session-id"])
def test_tenants_of_one_key_whose_conversations_start_alike_never_mix(header, tmp_path):
    """A gateway has one key for all of them, and says in a header who it is."""
    with (
        Upstream(looping("anthropic"), window=60_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        agents = {
            who: Agent("anthropic", running.port, upstream, lines=40, x_api_key="one")
            for who in ("Ann-of-accounts", "ann-of-accounts")
        }
        for who, agent in agents.items():
            agent.headers[header] = who
            agent.history += [
                {"role": "assistant", "content": f"canary-{who}"},
                {"role": "user", "content": "go"},
            ]
        for n in range(12):
            for agent in agents.values():
                agent.turn(n)
                running.settle()
        told = get(running.port, "/ebb/sessions")[1]["sessions"]

    for exchange in upstream.requests:
        mine = exchange.headers[header]
        assert f"canary-{mine.swapcase()[0]}{mine[1:]}".encode() not in exchange.raw
    assert [one["requests"] for one in told] == [12, 12]
    assert all(one["edits"] for one in told)
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2


def test_a_rewind_sends_what_was_sent_then(worked):
    upstream, running, agent = worked
    history, agent.lines = agent.history, 40
    agent.turn(30)
    then = messages(upstream.requests[-1])
    walk(agent, running, 31, 36)
    agent.history = history
    agent.turn(36)

    assert messages(upstream.requests[-1]) == then


def test_a_fork_finds_its_own_edits(worked):
    """Two branches of one conversation, under one id: neither sees what was taken out of the other."""
    upstream, running, agent = worked
    trunk, agent.lines, sent, left = agent.history, 40, [], []
    for branch in (40, 50):
        agent.history = trunk
        walk(agent, running, branch, branch + 6)
        left.append(agent.history)
        agent.turn(branch + 6)
        sent.append(messages(upstream.requests[-1]))
        running.settle()
    for history, then in zip(left, sent, strict=True):
        agent.history = history
        agent.turn(60)
        running.settle()
        assert messages(upstream.requests[-1]) == then
    assert sent[0] != sent[1]


def test_a_model_with_another_window_uses_its_own(tmp_path):
    with Upstream(looping("anthropic"), window=60_000) as upstream:
        user = tmp_path / "config.toml"
        user.write_text('[windows]\n"claude-opus*" = "16k"\n"claude-haiku*" = "200k"\n')
        settings = load_settings(
            arguments={"store": str(tmp_path)}, environ={"EBB_CONFIG": str(user)}, cwd=tmp_path, home=tmp_path
        )
        with Running(
            Options(settings=settings, upstreams={"u": upstream.url}, idle_limit=30, acting_limit=30)
        ) as running:
            for model in ("claude-opus-5-5", "claude-haiku-5"):
                agent = Agent("anthropic", running.port, upstream, lines=2, x_session_id=model)
                status, _ = agent.post({**agent.request(), "model": model})
                assert status == 200
            told = {
                session["model"]: session["window"] for session in get(running.port, "/ebb/sessions")[1]["sessions"]
            }

    assert told == {"claude-opus-5-5": 16_000, "claude-haiku-5": 200_000}


def test_a_session_stays_one_when_the_model_changes(tmp_path):
    """A model, one with a larger window, the first again: the same engine, the same edits, and each model's own window."""
    with Upstream(looping("openai_chat"), window=60_000) as upstream:
        user = tmp_path / "config.toml"
        user.write_text('[windows]\n"gpt-5" = "16k"\n"gpt-4.1*" = "200k"\n')
        settings = load_settings(
            arguments={"store": str(tmp_path)}, environ={"EBB_CONFIG": str(user)}, cwd=tmp_path, home=tmp_path
        )
        with Running(
            Options(settings=settings, upstreams={"u": upstream.url}, idle_limit=30, acting_limit=30)
        ) as running:
            agent = Agent("openai_chat", running.port, upstream, lines=40, **ID)
            walk(agent, running, 0, 20)
            (slot,) = running.proxy.sessions
            engine, edits, told = slot.context, slot.context.edits(), []
            agent.lines = 1
            for model in ("gpt-4.1-mini", "gpt-5"):
                before = upstream.requests[-1].parsed["messages"]
                for _ in range(2):
                    status, raw = agent.post({**agent.request(), "model": model})
                    assert status == 200, raw
                    running.settle()
                told.append((sessions(running)[slot.identity.session]["window"], slot.context.window))
                assert upstream.requests[-1].parsed["messages"][: len(before)] == before
            assert slot.context is engine
            assert engine.edits()[: len(edits)] == edits

    assert edits
    assert told == [(200_000, 200_000), (16_000, 16_000)]
