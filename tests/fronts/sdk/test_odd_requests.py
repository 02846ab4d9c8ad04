"""An odd request through a wrapped client ends as it does through the SDK alone, or in an error of ours."""

from __future__ import annotations

import itertools
import logging

import pytest

import ebbtide
from ebbtide.core.errors import EbbtideError
from fronts.sdk.agents import script
from fronts.sdk.clients import client
from odd_requests import BODIES, FOREIGN, JSON, odd_requests
from upstream.server import Upstream


def generate(client):
    """Google's SDK takes everything but the contents as one `config`."""

    def call(contents=(), **config):
        return client.models.generate_content(model="gemini-2.5-pro", contents=contents, config=config)

    return call


CALLS = {
    "anthropic": lambda c: c.messages.create,
    "openai_chat": lambda c: c.chat.completions.create,
    "openai_responses": lambda c: c.responses.create,
    "gemini": generate,
}
HARD = ("abyss", "unfriendly")
"""On these the SDKs themselves recurse, or raise what the object raises."""


def ending(call, body) -> str:
    """What became of a call: an answer, a refusal of the provider, or the kind of the error."""
    try:
        call(**body)
    except EbbtideError:
        return "ours"
    except Exception as raised:
        return "refused" if hasattr(raised, "request") else type(raised).__name__
    return "answered"


@pytest.mark.parametrize("wire", CALLS)
def test_a_wrapped_client_adds_no_error_but_its_own(wire, caplog):
    caplog.set_level(logging.CRITICAL)
    short = wire.removeprefix("openai_")
    values = {**JSON, **{name: value for name, value in FOREIGN.items() if name not in HARD}}
    chosen = itertools.islice(odd_requests(values, {wire: BODIES[wire]}), 0, None, 37)
    other = {}
    with Upstream(script(short)) as upstream:
        plain = client(short, upstream)
        wrapped = ebbtide.wrap(plain, window=100_000)
        for odd in chosen:
            without, within = (ending(CALLS[wire](one), odd.body) for one in (plain, wrapped))
            # What is mended on the way gets to the provider where the SDK alone could not write it.
            if within not in (without, "ours", "answered", "refused"):
                other[odd.where, odd.kind] = (without, within)

    assert other == {}
