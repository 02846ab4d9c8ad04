"""Law of the default: any mixture of sizes and roles whose newest request fits goes out, valid and within the window,
and every message of the user is in it or readable by a handle that it names."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide import WontFit
from ebbtide.core.planner import Thresholds
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.tokens.size import prior
from ebbtide.policy.default import levels
from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader
from ebbtide.wire.validity import violations
from laws.mixtures import Mixture, mixture
from laws.trial import nightly
from runtime.sessions import Clock
from upstream.check import refusals

Body = dict[str, Any]
CALLS = 40
"""Requests of one conversation."""
NOTE = 300
"""Tokens for what stands in the place of all that left: a report, two stubs and an answer between them."""


def tokens_of(wire: str, body: Body) -> int:
    """Of a request that nobody billed yet, as the gauge counts it."""
    request = Reader(DEFAULT, wire=WIRES[wire]).read(body)
    whole = sum(item.tokens for item in request.items) + sum(request.overhead)
    return round(DEFAULT.total(whole, len(request.messages)) * prior(request.model))


def newest_alone(mixed: Mixture) -> int:
    """Tokens of the newest request: prompt, tools, notes, the newest message of the user, and what is unanswered."""
    body = mixed.body()
    key = WIRES[mixed.wire].list_key
    messages = body[key]
    spoken = [n for n, message in enumerate(messages) if is_assistant(message)]
    # From the assistant's last calls on, where results wait for an answer; and all that follows the newest words.
    since = len(messages) - 1
    if spoken and not is_users(messages[-1]) and messages[-1].get("role") != "system":
        since = spoken[-1]
        while since and is_assistant(messages[since - 1]):
            since -= 1
    newest = max(n for n, one in enumerate(messages) if is_users(one))
    stays = [
        one for n, one in enumerate(messages) if n == newest or n >= since or one.get("role") in ("system", "developer")
    ]
    return tokens_of(mixed.wire, {**body, key: stays})


def is_users(message: Body) -> bool:
    content = message.get("content", message.get("parts"))
    blocks = content if isinstance(content, list) else []
    results = [block for block in blocks if block.get("type") == "tool_result" or "functionResponse" in block]
    return message.get("role") == "user" and not results


def is_assistant(message: Body) -> bool:
    return message.get("role") in ("assistant", "model") or message.get("type") == "function_call"


def limit_of(mixed: Mixture) -> int:
    """What the default brings a request down to, where it has to: the hard level, the reply's reservation left out."""
    request = Reader(DEFAULT, wire=WIRES[mixed.wire]).read(mixed.body())
    found: Thresholds = levels(mixed.window, mixed.max_output, request.fixed)
    return found.hard


def lost(said: list[str], body: Body, store: MemoryStore) -> list[str]:
    """What the user said that is neither in the request nor behind a handle in it."""
    sent_json = json.dumps(body, ensure_ascii=False)
    log = store.peek("default")
    named = [blob.name for blob in log.list_blobs() if blob.name in sent_json]
    readable = "".join(json.dumps(log.read_blob(name), ensure_ascii=False) for name in named)
    return [one[:40] for one in said if json.dumps(one, ensure_ascii=False)[1:-1] not in sent_json + readable]


def walk(mixed: Mixture, *, calls: int, every: int, bills: bool) -> int:
    """All requests of a conversation. How many of them carried an edit."""
    clock, store = Clock(), MemoryStore()
    context = Context(window=mixed.window, wire=mixed.wire, store=store, clock=clock)
    edited = 0
    for n, body in zip(range(calls), mixed.grow(), strict=False):
        if n % every or newest_alone(mixed) + NOTE > limit_of(mixed):
            continue
        clock.tick()
        try:
            ready = context.prepare(body)
        except WontFit as refused:
            raise AssertionError(f"request {n} of {mixed} was refused: {refused}") from refused
        out = dict(ready.body)
        assert [str(one) for one in (*violations(WIRES[mixed.wire], out), *refusals(mixed.wire, out))] == []  # type: ignore[arg-type]
        assert ready.report.tokens_after <= mixed.window
        assert tokens_of(mixed.wire, out) <= mixed.window
        assert lost(mixed.said, out, store) == []
        edited += bool(ready.report.edits)
        if bills:
            ready.record_usage({"usage": {"input_tokens": tokens_of(mixed.wire, out), "output_tokens": 5}})
    return edited


@pytest.mark.parametrize("wire", WIRES)
@nightly(600, quick=8)
@given(data=st.data())
def test_the_newest_request_is_sent_whatever_its_content(wire: str, data: st.DataObject) -> None:
    # Drawn as a whole: a conversation has thousands of choices, and each would be a draw.
    rng = Random(data.draw(st.integers(0, 2**32)))
    every, bills = data.draw(st.sampled_from([(1, True), (1, False), (3, False), (CALLS - 1, False)]))

    walk(mixture(wire, rng), calls=CALLS, every=every, bills=bills)
