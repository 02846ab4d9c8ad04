"""Being late, or without the lock, is no reason to send what is over the window: it waits, or is refused."""

from __future__ import annotations

import json
import threading

import pytest
from benchmarks.two_proxies import run

from ebbtide.store import DirectoryStore
from fronts.proxy.agent import KEYS, MODELS, PATHS
from fronts.proxy.proxy_runner import WAIT, beside, exchange, get, proxied, until
from fronts.proxy.raw_upstream import answer
from store.faulty_fs import Quick
from upstream.server import Upstream

WINDOW = 16_000


def request(wire: str, steps: int, **more: object) -> bytes:
    """A history of tool calls, some 1,400 tokens each."""
    messages: list[dict] = [{"role": "user", "content": "Go through the gauges."}]
    for n in range(steps):
        text, path = f"src/gauge_{n}.py: level = reading - datum\n" * 120, {"path": f"f{n}"}
        if wire == "anthropic":
            use = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": path}
            result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": text}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        else:
            call = {"id": f"t{n}", "type": "function", "function": {"name": "read", "arguments": json.dumps(path)}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"t{n}", "content": text})
    told = {"max_tokens": 500} if wire == "anthropic" else {}
    return json.dumps({"model": MODELS[wire], **told, KEYS[wire]: messages, **more}).encode()


def ask(running, wire, body):
    return exchange(running.port, "POST", PATHS[wire], body, {"content-type": "application/json"})


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
def test_no_limit_on_time_sends_a_request_over_the_window(wire, tmp_path):
    """Nobody can be in time. Each request waits for its plan, but for those that fit without one."""
    with (
        Upstream(lambda _: "Go on.", window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW, idle_limit=1e-6, acting_limit=1e-6) as running,
    ):
        statuses = [ask(running, wire, request(wire, steps))[0] for steps in (1, 14, 18, 22, 26, 30)]
        running.settle()
        summary = get(running.port, "/ebb/summary")[1]

    assert statuses == [200] * 6
    assert [one.refused for one in upstream.requests if one.refused] == []
    assert len(upstream.requests) == 6
    assert summary["edits"] > 0


class Hanging(Quick):
    """A disk that stops answering writes, and comes back."""

    def __init__(self):
        self.fine = threading.Event()

    def write(self, *args, **kwargs):
        assert self.fine.wait(WAIT)
        return super().write(*args, **kwargs)


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
def test_a_request_over_the_window_is_refused_in_the_providers_form_if_no_plan_arrives(wire, tmp_path):
    disk = Hanging()
    store = DirectoryStore(tmp_path, fs=disk, durable=False)
    limits = {"idle_limit": 0.05, "acting_limit": 0.05, "waiting_limit": 0.5}
    with (
        Upstream(lambda _: "Go on.", window=WINDOW) as upstream,
        proxied(upstream.url, kept=store, window=WINDOW, **limits) as running,
    ):
        status, headers, raw = ask(running, wire, request(wire, 30))
        assert upstream.requests == []
        fits = ask(running, wire, request(wire, 1))[0]
        disk.fine.set()
        until(lambda: not any(slot.gate.lock.locked() for slot in running.proxy.sessions))
        again = ask(running, wire, request(wire, 30))[0]

    error = json.loads(raw)["error"]
    assert (status, headers["x-ebb-proxy"], fits) == (503, "refused", 200)
    assert int(headers["retry-after"]) > 0
    assert "Try again" in error["message"]
    assert error["type"] == ("overloaded_error" if wire == "anthropic" else "server_error")
    assert again in (200, 503)
    assert [one.refused for one in upstream.requests if one.refused] == []


def test_a_lock_that_another_process_holds_is_waited_for(tmp_path):
    with (
        Upstream(lambda _: "Go on.", window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        assert ask(running, "openai_chat", request("openai_chat", 8))[0] == 200
        running.settle()
        (session,) = get(running.port, "/ebb/sessions")[1]["sessions"]
        other = DirectoryStore(tmp_path).open(session["session"], project=session["project"], now=1.0)
        with other.lock() as taken:
            assert taken
            thread = threading.Thread(target=ask, args=(running, "openai_chat", request("openai_chat", 30)))
            thread.start()
            thread.join(1.5)
            waited = thread.is_alive()
            before = len(upstream.requests)
        thread.join(WAIT)

    assert waited
    assert before == 1
    assert len(upstream.requests) == 2
    assert [one.refused for one in upstream.requests if one.refused] == []


@pytest.mark.parametrize(("wire", "code"), [("anthropic", None), ("openai_chat", "context_length_exceeded")])
def test_a_request_that_can_never_fit_a_known_window_is_refused_in_the_providers_form(wire, code, tmp_path):
    tools = [{"name": "read", "description": "Reads a file. " * 9_000, "input_schema": {"type": "object"}}]
    if wire != "anthropic":
        tools = [{"type": "function", "function": {"name": "read", "description": "Reads a file. " * 9_000}}]
    body = request(wire, 1, tools=tools)
    with beside(lambda n, seen: [answer(b"{}")], tmp_path, window=WINDOW) as (upstream, running):
        status, headers, raw = ask(running, wire, body)
    with beside(lambda n, seen: [answer(b"{}")], tmp_path / "other") as (asked, running):
        unknown = ask(running, wire, json.dumps({**json.loads(body), "model": "of-nobody"}).encode())[0]

    error = json.loads(raw)["error"]
    assert (status, headers["x-ebb-proxy"], error["type"]) == (400, "refused", "invalid_request_error")
    assert error["message"].startswith("prompt is too long: ")
    assert error.get("code") == code
    assert upstream.seen == []
    assert (unknown, len(asked.seen)) == (200, 1)


def test_two_proxy_processes_on_one_store_send_nothing_over_the_window():
    """The short form of the campaign."""
    outcome = run(talks=2, turns=5, burners=1)

    assert (outcome.sent, outcome.over, outcome.failed) == (20, 0, [])
