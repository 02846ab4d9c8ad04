"""A client that marks its prompt for five minutes, behind a proxy that may ask for an hour."""

from __future__ import annotations

import json

import pytest

from fronts.proxy.agent import PATHS
from fronts.proxy.proxy_runner import exchange, proxied
from upstream.script import Failure
from upstream.server import Upstream

MARK = {"type": "ephemeral"}
LONG = "The harbour office keeps these rules. " * 600


def request(*texts, ttl=None):
    mark = MARK if ttl is None else {**MARK, "ttl": ttl}
    block = {"type": "text", "text": LONG, "cache_control": mark}
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    body = {"model": "claude-sonnet-5", "max_tokens": 500, "system": [block], "messages": messages}
    return json.dumps(body).encode()


def ask(running, body):
    return exchange(running.port, "POST", PATHS["anthropic"], body, {"content-type": "application/json"})[0]


def lifetimes(upstream):
    return [exchange.parsed["system"][0]["cache_control"].get("ttl") for exchange in upstream.requests]


@pytest.mark.parametrize("wanted", [True, False])
def test_it_asks_for_an_hour_only_if_it_was_told_to(tmp_path, wanted):
    with (
        Upstream(lambda _: "Well.") as upstream,
        proxied(upstream.url, store=tmp_path, raise_lifetimes=wanted) as running,
    ):
        statuses = [ask(running, request(*["Go on."] * n)) for n in (1, 3)]

    assert statuses == [200, 200]
    assert lifetimes(upstream) == ["1h" if wanted else None] * 2


def test_a_lifetime_that_the_client_chose_is_sent_byte_for_byte(tmp_path):
    body = request("Go on.", ttl="5m")
    with (
        Upstream(lambda _: "Well.") as upstream,
        proxied(upstream.url, store=tmp_path, raise_lifetimes=True) as running,
    ):
        ask(running, body)

    assert upstream.requests[0].raw == body


def test_a_refused_lifetime_is_left_out_and_the_client_sees_no_error(tmp_path):
    refusal = Failure(status=400, message="system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted")
    with (
        Upstream(lambda body: refusal if body["system"][0]["cache_control"].get("ttl") else "Well.") as upstream,
        proxied(upstream.url, store=tmp_path, raise_lifetimes=True) as running,
    ):
        statuses = [ask(running, request(*["Go on."] * n)) for n in (1, 3)]

    assert statuses == [200, 200]
    assert lifetimes(upstream) == ["1h", None, None]


def test_the_clients_own_refused_lifetime_is_the_clients_to_know(tmp_path):
    refusal = Failure(status=400, message="system.0.cache_control.ephemeral.ttl: Extra inputs are not permitted")
    with (
        Upstream(lambda _: refusal) as upstream,
        proxied(upstream.url, store=tmp_path, raise_lifetimes=True) as running,
    ):
        status = ask(running, request("Go on.", ttl="1h"))

    assert status == 400
    assert len(upstream.requests) == 1
