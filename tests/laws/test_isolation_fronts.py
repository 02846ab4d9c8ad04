"""The same through the fronts: one proxy and one wrapped client, both conversations unnamed and of one credential.

Every request tells in a header of ours which of the clients' requests it was made of: what the provider received is held
against that one, whatever order threads took.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given

import ebbtide
from ebbtide.policy import PRESETS
from ebbtide.recall.search import RecallSearch
from ebbtide.runtime import Context
from ebbtide.store import open_store
from fronts.proxy.agent import PATHS as AGENT_PATHS
from fronts.proxy.agent import addressed
from fronts.proxy.proxy_runner import Running, post, proxied
from fronts.sdk.clients import client
from laws.canaries import SYSTEM, Body, body_of, marks, next_reply, topic_of
from laws.interleaving import CHANGES, WINDOW, Side, operate
from laws.test_isolation import SEEDS, conversations, seeded
from upstream.finding import Body as Parsed
from upstream.provider import Exchange
from upstream.script import Part, Say, Use
from upstream.server import Upstream

TURN = "x-turn-of-test"
HANDLES = re.compile(r"\b(?:history[\w-]*|call_[\w-]+)\.txt\b|#[0-9a-f]{8}\b")
CHANGED = (*(name for name in CHANGES if name != "clear"), "rewind", "fork")
"""What a client can do to its own history."""
PATHS = {**AGENT_PATHS, "bedrock_converse": "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/converse"}
WIRES = tuple(PATHS)


class Watch:
    """What each client sent, by the name of the turn, and what the provider received for it."""

    def __init__(self, wire: str) -> None:
        self.wire, self.bodies, self.count = wire, dict[str, Body](), 0
        self._lock = threading.Lock()

    def turn(self, side: Side) -> tuple[str, Body]:
        body = body_of(self.wire, side.now, side.system)
        with self._lock:
            self.count += 1
            name = f"{side.label}-{self.count}"
            self.bodies[name] = body
        side.ever |= marks(body)
        return name, body

    def check(self, requests: list[Exchange]) -> None:
        """No request has what its client's request has not, and none breaks a rule of the provider."""
        for exchange in requests:
            name = exchange.headers[TURN]
            foreign = marks(exchange.parsed) - marks(self.bodies[name])
            assert not foreign, f"turn {name} sends what is not in its request: {sorted(foreign)[:6]}"
            assert exchange.refused == ()

    def last(self, requests: list[Exchange], side: Side) -> Parsed:
        """The newest request of this client that the provider received."""
        return next(
            request.parsed for request in reversed(requests) if request.headers[TURN].startswith(f"{side.label}-")
        )


class Gateway:
    """Two clients behind one proxy, strictly one request after the other."""

    def __init__(self, wire: str, upstream: Upstream, running: Running, folder: str) -> None:
        self.watch, self.upstream, self.running = Watch(wire), upstream, running
        self.store = open_store(folder)

    def send(self, side: Side, *answers: list[Part]) -> list[Exchange]:
        """What went to the provider for one request: more than one where the model recalls."""
        name, body = self.watch.turn(side)
        self.answers = [*answers, [Say(line.text) for line in next_reply(side.lines, side.sent) if line.kind == "say"]]
        before = len(self.upstream.requests)
        headers = {TURN.replace("-", "_"): name, "x_api_key": "one-key", "authorization": "Bearer one-key"}
        path, body = addressed(PATHS[self.watch.wire], body)
        status, answer = post(self.running.port, path, body, **headers)
        assert status == 200, answer[:300]
        self.running.settle()
        return self.upstream.requests[before:]

    def script(self, _: Parsed) -> list[Part]:
        return (self.answers.pop(0) if self.answers else []) or [Say("Understood.")]

    def recorded(self, query: str) -> str:
        """What the session of the newest request has to say on it."""
        name = self.running.lines[-1]["session"]
        project = next(session.project for session in self.store.list_sessions() if session.session == name)
        hits = RecallSearch(log=self.store.peek(name, project=project)).search(query)
        return "\n".join(hit.snippet for hit in hits)

    def ask(self, side: Side, tool: str, queries: list[str]) -> str:
        """What the model is told that calls a recall tool so often."""
        key = "query" if tool == "ebb_recall" else "handle"
        told = self.send(side, [Use(tool, {key: query}) for query in queries])
        return json.dumps(told[-1].parsed)


@pytest.mark.parametrize("policy", PRESETS)
@seeded(60, quick=1)
@given(seed=SEEDS)
def test_conversations_through_one_proxy_never_mix(policy: str, seed: int) -> None:
    chance = random.Random(f"{policy} {seed}")
    wire = chance.choice(WIRES)
    scribe, *sides = conversations(chance)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream = stack.enter_context(Upstream(lambda body: gateway.script(body)))
        options: dict[str, Any] = {"store": folder, "policy": policy, "window": WINDOW, "recall": "tool"}
        running = stack.enter_context(proxied(upstream.url, durable=False, **options))
        gateway = Gateway(wire, upstream, running, folder)
        for _ in range(chance.randint(12, 18)):
            side = chance.choice(sides)
            if side.sent and chance.random() < 0.25:
                operate(None, side, chance.choice(CHANGED), scribe)  # type: ignore[arg-type]
            else:
                side.advance(chance.randint(2, 6))
            query = topic_of(chance.choice(sorted(marks(str(side.now)))))
            gateway.send(side, *([[Use("ebb_recall", {"query": query})]] if chance.random() < 0.3 else []))
        gateway.watch.check(upstream.requests)
        for side, other in (sides, reversed(sides)):
            if side.sent and other.sent:
                check_recalled(gateway, side, other, chance)


def check_recalled(gateway: Gateway, side: Side, other: Side, chance: random.Random) -> None:
    """All of one's own is in the request or found; what only the other has is neither found nor read."""
    (out,) = gateway.send(side)
    own = marks(gateway.watch.bodies[out.headers[TURN]])
    hidden = [mark for mark in own - marks(out.parsed) if mark.startswith("reef")]
    lost = [mark for mark in hidden if mark not in gateway.recorded(topic_of(mark))]
    assert not lost, f"{side.label} lost {sorted(lost)[:6]}"
    theirs = sorted({topic_of(mark) for mark in other.ever - side.ever})
    queries = chance.sample(theirs, min(3, len(theirs)))
    handles = sorted(set(HANDLES.findall(json.dumps(gateway.watch.last(gateway.upstream.requests, other)))))[:4]
    for tool, asked in (("ebb_recall", queries), ("ebb_read", handles)):
        foreign = marks(gateway.ask(side, tool, asked)) - side.ever if asked else set()
        assert not foreign, f"{side.label} calls {tool} with {asked} and is told {sorted(foreign)[:6]}"


class Wrapped:
    """Two agents that share one client of an SDK."""

    def __init__(self, wire: str, upstream: Upstream, **options: Any) -> None:
        self.watch, self.sessions = Watch(wire), dict[str, str]()
        raw: Any = client(wire.removeprefix("openai_").removesuffix("_converse"), upstream)
        self._sdk: Any = ebbtide.wrap(raw, on_report=self._report, **options)
        self._sending = threading.local()
        if wire == "bedrock_converse":
            raw.meta.events.register("before-call", self._name_turn)

    def _name_turn(self, params: dict[str, Any], **_: object) -> None:
        """Amazon's client takes no headers with a call."""
        params["headers"][TURN] = self._sending.turn

    def _report(self, session: str, report: object) -> None:
        self.sessions[self._sending.label] = session

    def send(self, side: Side) -> None:
        name, body = self.watch.turn(side)
        self._sending.label, self._sending.turn = side.label, name
        self._call(body, {TURN: name})

    def _call(self, body: Body, headers: dict[str, str]) -> None:
        sdk, wire = self._sdk, self.watch.wire
        if wire == "gemini":
            config = {
                "system_instruction": body["systemInstruction"],
                "tools": body["tools"],
                "http_options": {"headers": headers},
                "max_output_tokens": body["generationConfig"]["maxOutputTokens"],
            }
            sdk.models.generate_content(model=body["model"], contents=body["contents"], config=config)
            return
        resources = {
            "anthropic": lambda: sdk.messages,
            "openai_chat": lambda: sdk.chat.completions,
            "openai_responses": lambda: sdk.responses,
        }
        if wire == "bedrock_converse":
            sdk.converse(**body)
            return
        resources[wire]().create(**body, extra_headers=headers)


def share_client(wire: str, policy: str, chance: random.Random, run: Callable[[Wrapped, list[Side]], None]) -> None:
    """Two agents on one client, and what must be true of it all afterwards."""
    with tempfile.TemporaryDirectory() as folder, Upstream(lambda _: [Say("Understood.")]) as upstream:
        _, *sides = conversations(chance)
        options = {"store": folder, "durable": False, "policy": policy, "window": WINDOW}
        wrapped = Wrapped(wire, upstream, **options)
        run(wrapped, sides)
        wrapped.watch.check(upstream.requests)
        for side in sides:
            if side.sent:
                own = marks(body_of(wire, side.now, side.system))
                hidden = own - marks(wrapped.watch.last(upstream.requests, side))
                context = Context(**options, session=wrapped.sessions[side.label], wire=wire)
                lost = [mark for mark in hidden if mark[:4] == "reef" and not context.recall(topic_of(mark))]
                assert not lost, f"{side.label} lost {sorted(lost)[:6]}"


@pytest.mark.parametrize("policy", PRESETS)
@seeded(60, quick=1)
@given(seed=SEEDS)
def test_conversations_on_one_wrapped_client_never_mix(policy: str, seed: int) -> None:
    chance = random.Random(f"{policy} {seed}")

    def run(wrapped: Wrapped, sides: list[Side]) -> None:
        for n in range(16):
            side = sides[n % 2]
            side.advance(chance.randint(2, 6))
            wrapped.send(side)

    share_client(chance.choice(WIRES), policy, chance, run)


@pytest.mark.parametrize("wire", WIRES)
@seeded(60, quick=3)
@given(seed=SEEDS)
def test_two_threads_on_one_wrapped_client_never_mix(wire: str, seed: int) -> None:
    chance = random.Random(f"{wire} {seed}")
    failed: list[BaseException] = []

    def run(wrapped: Wrapped, sides: list[Side]) -> None:
        def talk(side: Side) -> None:
            try:
                side.system = SYSTEM
                for _ in range(8):
                    side.advance(5)
                    wrapped.send(side)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=talk, args=(side,)) for side in sides]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240.0)
        assert not failed, failed

    share_client(wire, chance.choice(list(PRESETS)), chance, run)
