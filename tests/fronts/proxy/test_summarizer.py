"""`--summarizer`: folds ask a model of the conversation's own upstream. Whatever it does, the conversation goes on."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from ebbtide.fronts.proxy.command import build_options, command_line
from fronts.proxy.agent import KEYS, PATHS, Agent
from fronts.proxy.proxy_runner import WAIT, beside, get, proxied, until
from fronts.proxy.raw_upstream import answer
from upstream.script import Failure, Say
from upstream.server import Upstream

WINDOW = 8_000
BEFORE = 10
TURNS = 18
WORDS = "The harbour master wants the gauges mended before the spring tide."
SUMMARY = f"<summary>\n## Intent\n{WORDS}\n## State of work\nThe gauges of the quay are being read.\n</summary>"
ASKS = "<summary>"
SAID = "I have read the gauge of the quay, and it is well. " * 14
"""Too short to be shortened: nothing but a fold makes room."""


def asks_for_summary(body):
    """Our question stands last; nothing else in these conversations has such a mark."""
    return ASKS in json.dumps(next(body[key] for key in KEYS.values() if key in body)[-1])


class Talk:
    """The provider's script. `summary` makes the answer to the question."""

    def __init__(self, summary):
        self.summary, self.asked = summary, threading.Event()

    def __call__(self, body):
        if asks_for_summary(body):
            self.asked.set()
            return self.summary()
        return [Say(SAID)]


def said(n):
    return {"role": "user", "content": f"Turn {n}: the gauge of quay {n} stood at {n * 7} mm. " * 4}


class TalkingAgent(Agent):
    """Talks and calls no tools. It comes with a conversation that fills half of the window."""

    def __init__(self, *given, **headers):
        super().__init__(*given, **headers)
        pairs = ([said(n), {"role": "assistant", "content": SAID}] for n in range(-BEFORE, 0))
        self.history = [message for pair in pairs for message in pair]

    def turn(self, n, **_):
        self.history = [*self.history, said(n)]
        status, raw = self.post(self.request())
        assert status == 200, raw[:300]
        assert ASKS not in raw.decode()
        self.history = [*self.history, *self._heard(json.loads(raw), n)]


def talked(running, upstream, wire, turns, **headers):
    agent = TalkingAgent(wire, running.port, upstream, **headers)
    for n in range(turns):
        agent.turn(n)
        running.settle()
    return agent


def told(running, name):
    return running.proxy.meters.value("ebb_summaries_total", outcome=name)


@pytest.mark.parametrize("wire", PATHS)
def test_a_compaction_has_the_summary_that_the_model_wrote_under_the_clients_credential(wire, tmp_path):
    talk = Talk(lambda: [Say(SUMMARY)])
    with (
        Upstream(talk, window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW, summarizer="own") as running,
    ):
        talked(running, upstream, wire, TURNS, authorization="Bearer sk-mine", idempotency_key="only-once")
        answered, summary = told(running, "answered"), get(running.port, "/ebb/summary")[1]

    questions = [request for request in upstream.requests if asks_for_summary(request.parsed)]
    turns = [one for one in upstream.requests if not asks_for_summary(one.parsed)]
    assert 0 < answered <= len(questions)  # one may be under way at the end
    assert [one.refused for one in turns if one.refused] == []
    assert {one.headers.get("authorization") for one in questions} == {"Bearer sk-mine"}
    assert all("idempotency-key" in one.headers for one in turns)
    assert not any("idempotency-key" in one.headers for one in questions)
    assert {one.path for one in questions} == {PATHS[wire]}
    assert WORDS in json.dumps(turns[-1].parsed[KEYS[wire]])
    # Of the live request itself: what is asked is read from the cache, where a provider has one without being told.
    assert wire == "anthropic" or any(one.usage.read > one.usage.fresh for one in questions if one.usage)
    assert summary["fallbacks"] == 0
    billed = [sum(one.usage.prompt for one in some if one.usage) for some in (turns, upstream.requests)]
    assert billed[0] < summary["input_tokens"] <= billed[1], "what was asked is in the bill"


def test_another_model_may_be_asked(tmp_path):
    talk = Talk(lambda: [Say(SUMMARY)])
    with (
        Upstream(talk, window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW, summarizer="gpt-5-mini") as running,
    ):
        talked(running, upstream, "openai_chat", TURNS)

    models = {asks_for_summary(request.parsed): request.parsed["model"] for request in upstream.requests}
    assert models == {False: "gpt-5", True: "gpt-5-mini"}


@pytest.mark.parametrize("bad", [Failure(status=500, message="no"), Failure(status=401), [Say("")]], ids=str)
def test_a_summary_that_fails_replaces_nothing(bad, tmp_path):
    talk = Talk(lambda: bad)
    with (
        Upstream(talk, window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW, summarizer="own") as running,
    ):
        talked(running, upstream, "openai_chat", TURNS)
        summary = get(running.port, "/ebb/summary")[1]

    assert talk.asked.is_set()
    last = json.dumps(upstream.requests[-1].parsed["messages"])
    assert all(f"Turn {n}: the gauge of quay {n} stood" in last for n in range(-BEFORE, TURNS)), "the user's own words"
    assert (summary["fallbacks"], summary["folds"] > 0) == (0, True)


def completion(words):
    message = {"role": "assistant", "content": words}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return answer(json.dumps({"id": "c", "model": "gpt-5", "choices": choices}).encode())


@contextmanager
def questioned(store, steps, **more):
    """A proxy and an agent before an upstream that answers a question for a summary with these steps."""
    asked = threading.Event()

    def script(_, seen):
        if not asks_for_summary(json.loads(seen.body)):
            return [completion(SAID)]
        asked.set()
        return steps()

    with beside(script, store, summarizer="own", **more) as (upstream, running):
        agent = TalkingAgent("openai_chat", running.port, upstream)
        yield SimpleNamespace(asked=asked, upstream=upstream, running=running, agent=agent)


def test_a_summary_that_never_arrives_delays_a_request_up_to_its_limit(tmp_path):
    with questioned(tmp_path, lambda: ["hang"], window=4_000, summary_limit=0.3) as one:
        for n in range(TURNS):
            one.agent.turn(n)
            one.running.settle()
        summary = get(one.running.port, "/ebb/summary")[1]
        assert one.upstream.left.wait(WAIT), "who waits no longer hangs up"

    assert one.asked.is_set()
    assert (summary["fallbacks"], summary["folds"] > 0) == (0, True)


def test_the_question_is_asked_while_the_conversation_continues(tmp_path):
    go, came = threading.Event(), []

    def slow():
        came.append(go.wait(WAIT))
        return [completion(SUMMARY)]

    with questioned(tmp_path, slow, window=6_000) as one:
        try:
            for n in range(TURNS):
                one.agent.turn(n)
                # What is done behind the client's back asks, or is done.
                until(lambda: one.asked.is_set() or not one.running.busy)
                if one.asked.is_set():
                    break
            one.agent.turn(n + 1)
            assert one.asked.is_set()
            assert came == []
        finally:
            go.set()


def test_in_shadow_mode_no_model_is_asked(tmp_path):
    talk = Talk(lambda: [Say(SUMMARY)])
    with (
        Upstream(talk) as upstream,
        proxied(upstream.url, store=tmp_path, window=4_000, summarizer="own", shadow=True) as running,
    ):
        talked(running, upstream, "openai_chat", TURNS)
        assert get(running.port, "/ebb/summary")[1]["folds"] > 0
    assert not talk.asked.is_set()


def test_the_summarizer_is_configured_in_a_file_and_the_command_line_overrides_it(tmp_path, monkeypatch):
    user = tmp_path / "config.toml"
    user.write_text('[proxy]\nsummarizer = "small-one"\n', encoding="utf-8")
    monkeypatch.setenv("EBB_CONFIG", str(user))
    assert build_options(command_line().parse_args([])).summarizer == "small-one"
    assert build_options(command_line().parse_args(["--summarizer", "own"])).summarizer == "own"
