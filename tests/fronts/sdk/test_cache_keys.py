"""OpenAI's cache keys through the real SDK: who gets one, and what happens if a server refuses it."""

from __future__ import annotations

import asyncio

import pytest

import ebbtide
from fronts.sdk.clients import client
from upstream.script import Failure
from upstream.server import Upstream

openai = pytest.importorskip("openai")
httpx = pytest.importorskip("httpx2")  # what the newest SDK is built on

REFUSAL = Failure(status=400, message="Unrecognized request argument supplied: prompt_cache_key")
ASK = {
    "chat": lambda c, text="Find it.": c.chat.completions.create(
        model="gpt-5.1", messages=[{"role": "user", "content": text}]
    ),
    "responses": lambda c, text="Find it.": c.responses.create(
        model="gpt-5.1", input=[{"role": "user", "content": text}], store=False
    ),
}
WIRES = pytest.mark.parametrize("wire", ASK)
WITH_KEY = ebbtide.Cache(key=True)


def sent(upstream):
    """The cache fields of each request."""
    bodies = [exchange.parsed for exchange in upstream.requests]
    return [{name: body[name] for name in body if name.startswith("prompt_cache")} for body in bodies]


class Redirect(httpx.HTTPTransport):
    """Sends every request to a server on loopback, whatever host it names."""

    def __init__(self, port):
        super().__init__()
        self._port = port

    def handle_request(self, request):
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        return super().handle_request(request)


@WIRES
@pytest.mark.parametrize(
    ("host", "has_key"),
    [
        ("api.openai.com", True),
        ("eu.api.openai.com", True),
        ("api.openai.com.example.org", False),
        ("127.0.0.1", False),
    ],
)
def test_openais_own_servers_get_a_key_and_others_get_none(wire, host, has_key):
    with Upstream(["Yes."]) as upstream:
        http = httpx.Client(transport=Redirect(upstream.port))
        raw = openai.OpenAI(api_key="k", base_url=f"http://{host}/v1", max_retries=0, http_client=http)
        ASK[wire](ebbtide.wrap(raw))
        ASK[wire](ebbtide.wrap(raw, marks=False))

    assert [bool(fields) for fields in sent(upstream)] == [has_key, False]


@WIRES
def test_a_session_has_one_key_and_another_tenant_has_another(wire):
    with Upstream(["Yes.", "Yes."] * 4) as upstream:
        for api_key in ("alice", "bob"):
            wrapped = ebbtide.wrap(client(wire, upstream).with_options(api_key=api_key), cache=WITH_KEY)
            ASK[wire](wrapped)
            ASK[wire](wrapped)
            ASK[wire](wrapped, "Find that.")

    alice, again, other, bob, *_ = [fields["prompt_cache_key"] for fields in sent(upstream)]
    assert alice == again
    assert len({alice, other, bob}) == 3


@WIRES
def test_a_day_is_asked_for_if_wanted(wire):
    with Upstream(["Yes."]) as upstream:
        ASK[wire](ebbtide.wrap(client(wire, upstream), cache=ebbtide.Cache(key=True, retention="24h")))

    (fields,) = sent(upstream)
    assert fields["prompt_cache_retention"] == "24h"


@WIRES
def test_a_server_that_refuses_the_key_gets_the_request_without_it_and_is_not_asked_again(wire):
    with Upstream(lambda body: REFUSAL if "prompt_cache_key" in body else "Yes.") as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream), cache=WITH_KEY)
        ASK[wire](wrapped)
        ASK[wire](wrapped)

    assert [bool(fields) for fields in sent(upstream)] == [True, False, False]


def test_awaited_calls_too():
    async def ask(upstream):
        async with ebbtide.wrap(client("chat", upstream, is_async=True), cache=WITH_KEY) as wrapped:
            await ASK["chat"](wrapped)

    with Upstream(lambda body: REFUSAL if "prompt_cache_key" in body else "Yes.") as upstream:
        asyncio.run(ask(upstream))

    assert [bool(fields) for fields in sent(upstream)] == [True, False]
