"""Repairs of Gemini requests that need more than one content to see: turns, steps, and what was accepted before."""

from __future__ import annotations

import pytest

import ebbtide
from ebbtide.core.errors import BadRequest
from ebbtide.wire import WIRES
from ebbtide.wire.gemini.fields import PLACEHOLDER_SIGNATURE
from ebbtide.wire.validity import repair, violations

WIRE = WIRES["gemini"]
GO = {"role": "user", "parts": [{"text": "go"}]}
NEW = {"model": "gemini-3-pro-preview"}


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def call(name="read", id="", signature=""):
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {**({"id": id} if id else {}), "name": name, "args": {}}, **signed}


def answer(name="read", id="", text="ok"):
    return {"functionResponse": {**({"id": id} if id else {}), "name": name, "response": {"output": text}}}


def fixed(*contents, **more):
    return repair(WIRE, {"contents": list(contents), **more})[0]["contents"]


def test_responses_are_put_in_the_order_of_their_calls_and_before_words():
    late = {"text": "note"}
    contents = fixed(GO, model(call("a", "1"), call("b", "2")), user(late, answer("b", "2"), answer("a", "1")))

    assert contents[2] == user(answer("a", "1"), answer("b", "2"), late)


def test_a_missing_response_gets_a_stand_in_at_its_place():
    contents = fixed(GO, model(call("a"), call("b")), user(answer("b")))

    first, second = (part["functionResponse"] for part in contents[2]["parts"])
    assert (first["name"], list(first["response"])) == ("a", ["error"])
    assert second == answer("b")["functionResponse"]


def test_a_late_response_with_another_id_answers_no_call():
    contents = fixed(GO, model(call("a", "1")), user(answer("a", "0", "late")))

    assert "late" not in str(contents)
    assert contents[2]["parts"][0]["functionResponse"]["id"] == "1"


def test_of_two_responses_to_one_call_the_first_stays():
    contents = fixed(GO, model(call("a", "1")), user(answer("a", "1", "one"), answer("a", "1", "two")))

    assert contents[2] == user(answer("a", "1", "one"))


def test_calls_that_a_stream_left_in_several_contents_are_one_step():
    """The SDK for Python keeps each chunk of a streamed chat as a content of its own."""
    contents = fixed(
        GO,
        model({"text": "I "}),
        model({"text": "look"}),
        model(call("a")),
        model(call("b")),
        user(answer("a"), answer("b")),
    )

    assert contents == [
        GO,
        model({"text": "I "}, {"text": "look"}, call("a"), call("b")),
        user(answer("a"), answer("b")),
    ]


def test_the_first_call_of_each_step_of_the_current_turn_is_signed():
    old = [GO, model(call()), user(answer()), model({"text": "done"})]
    steps = [
        model(call(signature="c2ln"), call()),
        user(answer(), answer()),
        model({"text": "ok"}, call()),
        user(answer()),
    ]
    contents = fixed(*old, GO, *steps, **NEW)

    assert contents[:4] == old, "earlier turns are not looked at"
    assert contents[5:7] == steps[:2]
    assert contents[7]["parts"] == [{"text": "ok"}, call(signature=PLACEHOLDER_SIGNATURE)]


@pytest.mark.parametrize(
    ("name", "wants"),
    [
        ("gemini-3-pro-preview", True),
        ("gemini-3.1-flash", True),
        ("models/gemini-10-pro", True),
        ("gemini-flash-latest", True),
        ("gemini-2.5-pro", False),
        ("gemma-3-27b-it", False),
    ],
)
def test_the_model_decides_whether_calls_are_signed(name, wants):
    body = {"contents": [GO, model(call()), user(answer())]}
    named, told = repair(WIRE, {**body, "model": name})[0], repair(WIRE, body, model=name)[0]

    assert (PLACEHOLDER_SIGNATURE in str(named)) is wants
    assert named["contents"] == told["contents"]
    assert "model" not in told


def test_without_a_model_a_signed_step_tells_that_signatures_are_wanted():
    signed, unsigned = model(call(signature="c2ln")), model(call())

    assert violations(WIRE, {"contents": [GO, unsigned, user(answer())]}) == []
    found = violations(WIRE, {"contents": [GO, signed, user(answer()), unsigned, user(answer())]})
    assert [(finding.rule, finding.path) for finding in found] == [("G5", "contents.3.parts.0")]


def test_accepted_contents_are_not_changed_when_more_arrive():
    accepted = [GO, model(call("a"), call("b"))]
    body = {"contents": [*accepted, user(answer("b")), user({"text": "and?"})]}

    contents = repair(WIRE, body, since=2)[0]["contents"]

    assert all(new is old for new, old in zip(contents, accepted, strict=False))
    assert [len(content["parts"]) for content in contents] == [1, 2, 3]
    assert violations(WIRE, {"contents": contents}) == []


def test_words_behind_accepted_responses_join_their_content():
    accepted = [GO, model(call()), user(answer())]
    body = {"contents": [*accepted, user({"text": "and?"})]}

    assert repair(WIRE, body, since=3)[0]["contents"][2] == user(answer(), {"text": "and?"})


def test_a_cached_beginning_may_end_in_calls():
    contents = [user(answer()), model({"text": "done"}), GO]
    body = {"contents": contents, "cachedContent": "cachedContents/1"}

    assert repair(WIRE, body)[0] is body
    grown = {**body, "contents": [*contents, model(call()), user(answer("b"))]}
    assert repair(WIRE, grown, since=3)[0]["contents"][4] == user(answer())


@pytest.mark.parametrize(
    ("contents", "path"),
    [
        ([], "contents"),
        ([user()], "contents"),
        ([{"role": "robot", "parts": [{"text": "x"}]}], "contents.0.role"),
        ([GO, {"role": "model", "content": "x"}], "contents.1.content"),
        ([GO, model({**call(), "text": "x"}), user(answer())], "contents.1.parts.0"),
    ],
)
def test_what_has_no_repair_is_refused_with_its_path(contents, path):
    with pytest.raises(BadRequest) as refused:
        repair(WIRE, {"contents": contents})

    assert refused.value.path == path


def test_repaired_parts_keep_their_spelling():
    snake = {"function_call": {"name": "read", "args": None}}
    contents = fixed(GO, model(snake), user({"function_response": {"name": "read", "response": "text"}}), **NEW)

    assert contents[1]["parts"][0] == {**snake, "thought_signature": PLACEHOLDER_SIGNATURE}
    assert contents[2]["parts"][0] == {"function_response": {"name": "read", "response": {"output": "text"}}}


def test_a_context_tells_the_rules_its_model_where_the_body_names_none():
    """The path of the API names it."""
    contents = [GO, model(call()), user(answer())]

    new = ebbtide.Context(model="gemini-3-pro-preview").prepare({"contents": contents})
    old = ebbtide.Context(model="gemini-2.5-pro").prepare({"contents": contents})

    assert new.body["contents"][1]["parts"][0]["thoughtSignature"] == PLACEHOLDER_SIGNATURE
    assert new.report.repairs[0].startswith("G5 contents.1.parts.0")
    assert "model" not in new.body
    assert old.body["contents"] == contents


def test_a_session_may_go_on_with_another_model():
    """What was accepted by one model is checked again for the other."""
    context = ebbtide.Context(model="gemini-2.5-pro")
    contents = [GO, model(call()), user(answer())]
    context.prepare({"contents": contents})

    context.use_model("gemini-3-pro-preview")
    ready = context.prepare({"contents": [*contents, model(call(signature="c2ln")), user(answer())]})

    assert [repair.partition(" ")[0] for repair in ready.report.repairs] == ["G5"]
    assert ready.body["contents"][1]["parts"][0]["thoughtSignature"] == PLACEHOLDER_SIGNATURE
