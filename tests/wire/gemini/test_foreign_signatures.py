"""Signatures that Gemini refused because another host or account wrote them (G6)."""

from __future__ import annotations

import pytest

import ebbtide
from ebbtide.store import MemoryStore
from ebbtide.wire.gemini.fields import PLACEHOLDER_SIGNATURE
from ebbtide.wire.gemini.rules.signatures import NO_WORDS, remove_signatures
from upstream.check import refusals

MODEL = "gemini-3-pro-preview"
GO = {"role": "user", "parts": [{"text": "go"}]}


class Refused(Exception):
    status_code = 400

    def __init__(self, text="Corrupted thought signature."):
        self.body = {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def step(signature):
    call = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": signature}
    return [
        model(call),
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "ok"}}}]},
    ]


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ([{"text": "hm", "thought": True, "thoughtSignature": "c2ln"}, {"text": "ok"}], [{"text": "ok"}]),
        ([{"text": "ok"}, {"text": "", "thoughtSignature": "c2ln"}], [{"text": "ok"}]),
        ([{"text": "ok", "thought_signature": "c2ln"}], [{"text": "ok"}]),
        ([{"text": "hm", "thought": True, "thoughtSignature": "c2ln"}], [{"text": NO_WORDS}]),
        (
            [{"function_call": {"name": "f"}, "thought_signature": "c2ln"}, {"function_call": {"name": "g"}}],
            [
                {"function_call": {"name": "f"}, "thought_signature": PLACEHOLDER_SIGNATURE},
                {"function_call": {"name": "g"}},
            ],
        ),
    ],
)
def test_thoughts_leave_and_signed_calls_get_the_placeholder(parts, left):
    assert remove_signatures(model(*parts)) == model(*left)


@pytest.mark.parametrize("content", [GO, model({"text": "ok"}), model({"functionCall": {"name": "f"}})])
def test_a_content_without_signatures_is_the_same_object(content):
    assert remove_signatures(content) is content


def test_the_session_remembers_which_contents_were_signed_elsewhere():
    store = MemoryStore()
    contents = [GO, *step("b2xk")]
    context = ebbtide.Context(model=MODEL, store=store, session="one")
    context.prepare({"contents": contents})
    ready = context.overflowed(Refused())
    contents += step("bmV3")
    again = ebbtide.Context(model=MODEL, store=store, session="one").prepare({"contents": contents})

    assert "b2xk" not in str(ready.body)
    assert ready.body["contents"] == again.body["contents"][:3]
    assert again.body["contents"][3:] == contents[3:]
    assert refusals("gemini", {"model": MODEL, **again.body}) == []


def test_a_second_refusal_is_the_callers():
    context = ebbtide.Context(model=MODEL)
    context.prepare({"contents": [GO, *step("b2xk")]})
    ready = context.overflowed(Refused())

    assert not ready.can_retry(Refused())
    with pytest.raises(Refused):
        context.overflowed(Refused())


def test_other_formats_have_no_second_try():
    ready = ebbtide.Context(model="gpt-5").prepare({"model": "gpt-5", "messages": [{"role": "user", "content": "go"}]})

    assert not ready.can_retry(Refused())
