"""The reading of Bedrock's rules that is independent of ours: an example that breaks each, and one that keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from poison.bedrock_cases import MISTRAL, POINT, TOOL_CONFIG, assistant, call, told, user, words
from upstream.check import RULES, refusals, warnings
from upstream.event_stream import frame
from upstream.finding import Body

THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
GO, ASK = user(words("go")), user(words("and?"))
MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"


def body(*messages: Any, **more: Any) -> Body:
    return {"modelId": MODEL, "toolConfig": TOOL_CONFIG, "messages": list(messages), **more}


REFUSED: list[tuple[str, Body, str]] = [
    ("A5", body(GO, ASK), "alternate"),
    ("A6", body(GO, assistant(words("x"))), "prefill"),
    ("A11", body(user(words("half \ud83d"))), "surrogate"),
    ("A14", body(GO, assistant(call("a:b")), user(told("a:b"))), "regular expression"),
    ("A19", body(GO, assistant(call()), user(words("x"), told())), "before others"),
    ("A34", body(GO, assistant({"reasoningContent": {"reasoningText": {"text": "x"}}}), ASK), "Field required"),
    ("A45", body(user(*[words("a"), POINT] * 5)), "maximum of 4"),
    ("K1", body(GO, assistant(call()), user(told(), told("t2"))), "exceeds the number of toolUse blocks of previous turn"),
    ("K1", body(GO, assistant(call()), ASK), "Expected toolResult blocks"),
    ("K2", body(GO, assistant(call()), user(told(), words("x")), **MISTRAL), "cannot be provided in the same turn"),
    ("K3", body(GO, assistant(call()), user({"toolResult": {"toolUseId": "t1", "content": [], "status": "error"}})), "cannot be empty when status value is error"),
    ("K4", body(user(words(" "))), "is blank"),
    ("K4", body(user()), "is empty"),
    ("K5", body(assistant(words("x")), ASK), "must start with a user message"),
    ("fields", body(user({"text": "x", "cache": 1})), "Unknown parameter"),
    ("shape", body({"role": "user", "content": "x"}), "valid types: list"),
]  # fmt: skip
ACCEPTED: list[tuple[str, Body]] = [
    ("A5", body(GO, assistant(words("x")), ASK)),
    ("A6", body(GO)),
    ("A11", body(user(words("🙂")))),
    ("A14", body(GO, assistant(call("a-b_1")), user(told("a-b_1")))),
    ("A19", body(GO, assistant(call()), user(told(), POINT, words("x")))),
    ("A34", body(GO, assistant(THOUGHT, words("x")), ASK)),
    ("A45", body(user(*[words("a"), POINT] * 4))),
    ("K1", body(GO, assistant(call(), call("t2")), user(told("t2"), told()))),
    ("K2", body(GO, assistant(call()), user(told(), words("x")))),
    ("K3", body(GO, assistant(call()), user({"toolResult": {"toolUseId": "t1", "content": []}}))),
    ("K4", body(user(words("x"), {"guardContent": {"text": {"text": ""}}}))),
    ("K5", body(GO)),
    ("fields", body(user({"somethingNew": 1}))),
    ("shape", body(GO)),
]


@pytest.mark.parametrize(("rule", "request_body", "text"), REFUSED)
def test_a_bad_example_is_refused_in_the_providers_words(rule: str, request_body: Body, text: str) -> None:
    found = [refusal for refusal in refusals("bedrock_converse", request_body) if refusal.rule == rule]

    assert found
    assert text in found[0].message


@pytest.mark.parametrize(("rule", "request_body"), ACCEPTED)
def test_a_good_example_is_accepted(rule: str, request_body: Body) -> None:
    assert refusals("bedrock_converse", request_body) == warnings("bedrock_converse", request_body) == []


def test_every_rule_has_its_examples() -> None:
    assert {rule for rule, *_ in REFUSED} == {rule for rule, _ in ACCEPTED} == set(RULES["bedrock_converse"])
    missing = body(GO, assistant(call()), user(told()), toolConfig=None)
    assert [warning.rule for warning in warnings("bedrock_converse", missing)] == ["K5"]


def test_amazons_own_reader_reads_the_stream() -> None:
    buffer = pytest.importorskip("botocore.eventstream").EventStreamBuffer()
    buffer.add_data(frame({"messageStart": {"role": "assistant"}}) + frame({"throttlingException": {"message": "x"}}))

    first, second = buffer

    assert first.headers[":event-type"] == "messageStart"
    assert first.payload == b'{"role": "assistant"}'
    assert second.to_response_dict()["status_code"] == 400
