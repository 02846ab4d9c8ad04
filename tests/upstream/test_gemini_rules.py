"""Each rule of Gemini's wire refuses its bad example, in the provider's words, and accepts its good one."""

from __future__ import annotations

import pytest

from upstream import signing
from upstream.check import RULES, WARNED, refusals, warnings
from upstream.finding import Body, Json

NEW = {"model": "gemini-3-pro-preview"}
UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:Bash` , position 2."
)


def body(*contents: Body, **settings: Json) -> Body:
    return {"model": "gemini-2.5-pro", "contents": list(contents), **settings}


def user(*parts: Body) -> Body:
    return {"role": "user", "parts": list(parts) or [{"text": "go"}]}


def model(*parts: Body) -> Body:
    return {"role": "model", "parts": list(parts)}


def call(name: str = "Bash", **more: Json) -> Body:
    return {"functionCall": {"name": name, "args": {}, **more}}


def answer(name: str = "Bash", response: Json = None, **more: Json) -> Body:
    return {"functionResponse": {"name": name, "response": {"output": "ok"} if response is None else response, **more}}


SIGNED = {**call(), "thoughtSignature": "c2ln"}
SAID = {"text": "ok"}
REFUSED: list[tuple[str, Body, str]] = [
    ("A11", body(user({"text": "\udc00"})), "surrogates not allowed"),
    ("G1", body(model(call()), user(answer())), "Please ensure that function call turn comes immediately after"),
    ("G1", body(user(), model(SAID), user(call())), "Please ensure that function call turn comes immediately after"),
    ("G2", body(user(), model(SAID), user(answer())), "function response turn comes immediately after a function call"),
    (
        "G2",
        body(user(answer())),
        "Please ensure that function response turn comes immediately after a function call turn.",
    ),
    ("G3", body(user(), model(call(), call()), user(answer())), "equal to the number of function call parts"),
    ("G3", body(user(), model(call()), user(answer(), answer())), "equal to the number of function call parts"),
    ("G3", body(user(), model(call()), user()), "equal to the number of function call parts"),
    ("G4", body(user(), model(call()), user(answer("Read"))), "names and ids of their calls"),
    ("G4", body(user(), model(call(id="a")), user(answer(id="b"))), "names and ids of their calls"),
    ("G4", body(user(), model(call()), user(SAID, answer())), "come first in their turn"),
    ("G5", body(user(), model(call()), user(answer()), **NEW), UNSIGNED),
    ("G5", body(user(), model(SIGNED), user(answer()), model(call()), user(answer()), **NEW), "position 4."),
    ("G7", body(user(), model(SAID)), "multiturn requests end with a user role or a function response"),
    ("G7", body(user(), user()), "alternate between user and model"),
    ("G7", body(user(), model(), user()), "contents.parts must not be empty."),
    ("G7", body(user(), model({"text": ""}), user()), "required oneof field 'data' must have one initialized field"),
    ("G7", body(user(), model({"thoughtSignature": "c2ln"}), user()), "required oneof field"),
    ("G7", body(user(), model({**call(), **SAID}), user(answer())), "required oneof field"),
    ("G7", body(user(), {"role": "assistant", "parts": [SAID]}, user()), "Please use a valid role: user, model."),
    ("G7", body(), "contents is not specified"),
    ("G8", body(user(), model({"text": "hm", "thought": True}, SAID), user()), "thought_signature"),
    ("G9", body(user(), model(call()), user(answer(response="ok"))), "function_response.response"),
    ("G9", body(user(), model({"functionCall": {"name": "f", "args": "{}"}}), user(answer("f"))), "function_call.args"),
    ("fields", body({**user(), "content": "x"}), 'Unknown name "content"'),
    ("fields", body(user(), model({**call(), "id": "x"}), user(answer())), 'Unknown name "id"'),
]
ACCEPTED: list[tuple[str, Body]] = [
    ("A11", body(user({"text": "🙂"}))),
    ("G1", body(user(), model(call()), user(answer()))),
    ("G2", body(user(answer()), cachedContent="cachedContents/1")),
    ("G3", body(user(), model(call(), call("Read")), user(answer(), answer("Read"), SAID))),
    ("G4", body(user(), model(call(id="a")), user(answer()))),
    ("G5", body(user(), model(SIGNED, call()), user(answer(), answer()), **NEW)),
    ("G5", body(user(), model(call()), user(answer()), model(SAID), user(), **NEW)),
    ("G5", body(user(), model({**call(), "thought_signature": signing.SKIPPED}), user(answer()), **NEW)),
    ("G7", body({"parts": [SAID]}, model(SAID, {"text": "", "thoughtSignature": "c2ln"}), user())),
    ("G8", body(user(), model({"text": "hm", "thought": True, "thoughtSignature": "c2ln"}), user())),
    ("G9", body(user(), model({"functionCall": {"name": "f"}}), user(answer("f", {})))),
    (
        "fields",
        body(user(), model({"function_call": {"name": "f", "args": {}}}), user(answer("f")), safety_settings=[]),
    ),
]


@pytest.mark.parametrize(("rule", "request_body", "text"), REFUSED)
def test_a_bad_example_is_refused_in_the_providers_words(rule: str, request_body: Body, text: str) -> None:
    found = [refusal for refusal in refusals("gemini", request_body) if refusal.rule == rule]

    assert found
    assert text in found[0].message
    assert found[0].status == 400


@pytest.mark.parametrize(("rule", "request_body"), ACCEPTED)
def test_a_good_example_is_accepted(rule: str, request_body: Body) -> None:
    assert refusals("gemini", request_body) == warnings("gemini", request_body) == []


def test_every_rule_has_its_examples() -> None:
    assert {rule for rule, *_ in REFUSED} == {rule for rule, _ in ACCEPTED} == set(RULES["gemini"])
    assert WARNED["gemini"] == []


def test_a_signature_stands_on_the_call_that_it_was_issued_for() -> None:
    """G6: what only the issuer can see."""
    given = {"functionCall": {"name": "Bash", "args": {"command": "ls"}}}
    signature = signing.sign_part("gemini-3-pro-preview", signing.call_words(given["functionCall"]))
    other = {"functionCall": {"name": "Bash", "args": {"command": "rm"}}}

    assert signing.refusals("gemini", body(user(), model({**given, "thoughtSignature": signature}))) == []
    assert signing.refusals("gemini", body(user(), model({**other, "thoughtSignature": signing.SKIPPED}))) == []
    moved = signing.refusals("gemini", body(user(), model({**other, "thoughtSignature": signature})))
    assert [refusal.rule for refusal in moved] == ["G6"]
