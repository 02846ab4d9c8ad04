"""Bad input, kind by kind: repaired, so that a second reading of the rules has nothing to say, or refused by its place."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import ebbtide
from ebbtide.wire import WIRES
from ebbtide.wire.gemini.fields import PLACEHOLDER_SIGNATURE
from ebbtide.wire.validity import violations
from upstream.check import refusals

Body = dict[str, Any]
MODELS = ("gemini-2.5-pro", "gemini-3-pro-preview")
SIGNED = {"thoughtSignature": "c2ln"}


def user(*parts: Any) -> Body:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> Body:
    return {"role": "model", "parts": list(parts)}


def call(args: Any = None, name: Any = "read", **more: Any) -> Body:
    return {"functionCall": {"name": name, "args": {} if args is None else args}, **SIGNED, **more}


def answer(response: Any = None, name: Any = "read", **more: Any) -> Body:
    return {"functionResponse": {"name": name, "response": {"output": "ok"} if response is None else response, **more}}


GO, END, SAID = user({"text": "go"}), user({"text": "and?"}), {"text": "x"}


def step(*calls: Any, answers: tuple[Any, ...] = (answer(),)) -> list[Any]:
    return [GO, model(*calls), user(*answers)]


def said(*parts: Any) -> list[Any]:
    return [GO, model(*parts), END]


REPAIRED: dict[str, tuple[list[Any], str]] = {
    "arguments: JSON as text": (step(call('{"a": 1}')), "shape contents.1.parts.0.functionCall.args"),
    "arguments: text": (step(call("a.py")), "shape contents.1.parts.0.functionCall.args"),
    "arguments: a list": (step(call(["a.py"])), "shape contents.1.parts.0.functionCall.args"),
    "arguments: a number": (step(call(7)), "shape contents.1.parts.0.functionCall.args"),
    "a call that is text": (said({"functionCall": "read"}, SAID), "shape contents.1.parts.0.functionCall"),
    "a call without a name": (said({"functionCall": {"args": {}}}, SAID), "shape contents.1.parts.0.functionCall"),
    "a call whose name is a number": (said(call(name=7), SAID), "shape contents.1.parts.0.functionCall"),
    "a call of the user": ([GO, model(SAID), user(call(), SAID)], "shape contents.2.parts.0.functionCall"),
    "an id that is a number": (
        step({"functionCall": {"id": 7, "name": "read", "args": {}}, **SIGNED}, answers=(answer(id=7),)),
        "G4 contents.1.parts.0.functionCall.id",
    ),
    "a response: text": (step(call(), answers=(answer("ok"),)), "G9 contents.2.parts.0.functionResponse.response"),
    "a response: a list": (step(call(), answers=(answer(["a"]),)), "G9 contents.2.parts.0.functionResponse.response"),
    "a response: a number": (step(call(), answers=(answer(0),)), "G9 contents.2.parts.0.functionResponse.response"),
    "a response that is text": (
        step(call(), answers=({"functionResponse": "ok"},)),
        "G9 contents.2.parts.0.functionResponse",
    ),
    "a response that is a number": (step(call(), answers=({"functionResponse": 7},)), "G9 contents.2.parts.0"),
    "a response without its response": (
        step(call(), answers=({"functionResponse": {"name": "read"}},)),
        "G9 contents.2.parts.0.functionResponse.response",
    ),
    "a response without a name": (step(call(), answers=(answer(name=None),)), "G4 contents.2.parts.0"),
    "a response under another name": (step(call(), answers=(answer(name="list"),)), "G4 contents.2.parts.0"),
    "a response with an id of its own": (step(call(), answers=(answer(id="made-up"),)), "G4 contents.2.parts.0"),
    "media of a response: text": (
        step(call(), answers=(answer(parts="x"),)),
        "shape contents.2.parts.0.functionResponse.parts",
    ),
    "media of a response: texts": (
        step(call(), answers=(answer(parts=["x"]),)),
        "shape contents.2.parts.0.functionResponse.parts",
    ),
    "a response of the model": ([GO, model(call(), answer()), END], "G2 contents.1.parts.1.functionResponse"),
    "two calls, one response": (step(call(), call()), "G3 contents.2"),
    "one call, two responses": (step(call(), answers=(answer(), answer())), "G3 contents.2.parts.1"),
    "a call without a response": (said(call()), "G3 contents.2"),
    "a call at the end": ([GO, model(call())], "G3 contents.1"),
    "a response to nothing": ([GO, model(SAID), user(answer(), SAID)], "G2 contents.2.parts.0"),
    "a response at the start": ([user(answer(), SAID), model(SAID), END], "G2 contents.0.parts.0"),
    "responses in two contents": ([*step(call(), call()), user(answer())], "G7 contents.3.role"),
    "a late response": ([*said(call()), model(SAID), user(answer(), SAID)], "G2 contents.4.parts.0"),
    "words before a response": (step(call(), answers=(SAID, answer())), "G4 contents.2.parts.1"),
    "a signature that is a number": (step(call(thoughtSignature=7)), "G5 contents.1.parts.0.thoughtSignature"),
    "an unsigned thought": (said({"text": "hm", "thought": True}, SAID), "G8 contents.1.parts.0"),
    "a thought that is said in a word": (
        said({"text": "hm", "thought": "true"}, SAID),
        "shape contents.1.parts.0.thought",
    ),
    "an unsigned call that is a thought": (
        step({"functionCall": {"name": "read", "args": {}}, "thought": True}),
        "G8 contents.1.parts.0.thought",
    ),
    "a signature without a part": (said(dict(SIGNED), SAID), "G7 contents.1.parts.0"),
    "one call in both spellings": (
        step({**call(), "function_call": call()["functionCall"]}),
        "shape contents.1.parts.0.function_call",
    ),
    "an empty text beside a call": (step(call(text="")), "shape contents.1.parts.0.text"),
    "a text of another provider": (said({"type": "text", "text": "x"}), "shape contents.1.parts.0.type"),
    "a text that is a number": (said({"text": 7}), "shape contents.1.parts.0.text"),
    "a text that is a list": (said({"text": ["x"]}), "shape contents.1.parts.0.text"),
    "an empty text": (said({"text": ""}, SAID), "G7 contents.1.parts.0"),
    "an empty part": (said({}, SAID), "G7 contents.1.parts.0"),
    "a part that is text": (said("x"), "shape contents.1.parts.0"),
    "half a letter": (said({"text": "x\ud83d"}), "A11 contents.1.parts.0.text"),
    "a picture without data": ([user(SAID, {"inlineData": {"mimeType": "image/png"}})], "shape contents.0.parts.1"),
    "a picture that is text": ([user(SAID, {"inlineData": "eA=="})], "shape contents.0.parts.1.inlineData"),
    "a file without an address": ([user(SAID, {"fileData": {"mimeType": "image/png"}})], "shape contents.0.parts.1"),
    "parts that are one part": ([GO, {"role": "model", "parts": SAID}, END], "shape contents.1.parts"),
    "parts that are text": ([{"role": "user", "parts": "x"}], "shape contents.0.parts"),
    "no parts": ([GO, {"role": "model"}, END], "G7 contents.1"),
    "a content of nothing": ([GO, {}, END], "shape contents.1"),
    "two users in a row": ([GO, END], "G7 contents.1.role"),
    "two models in a row": ([GO, model(SAID), model(SAID), END], "G7 contents.2.role"),
    "the model begins": ([model(SAID), END], "G1 contents.0.role"),
    "the model ends": ([GO, model(SAID)], "G7 contents.1.role"),
}
"""Contents, and the beginning of one of the repairs that the report names."""

UNFINISHED = ("the model ends", "a call at the end")
"""What is put behind these stands in for what comes next."""

REFUSED: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "contents"),
    "nothing that can be sent": ([user({})], "contents"),
    "a content that is text": (["go"], "contents.0"),
    "a content that is null": ([GO, None], "contents.1"),
    "a content that is a list": ([[GO]], "contents.0"),
    "a message of another provider": ([{"role": "user", "content": "go"}], "contents.0.content"),
    "a role of another provider": ([GO, {"role": "assistant", "parts": [SAID]}, END], "contents.1.role"),
    "a role in capitals": ([{"role": "USER", "parts": [SAID]}], "contents.0.role"),
    "a role that is a number": ([{"role": 7, "parts": [SAID]}], "contents.0.role"),
    "a part that is null": (said(None), "contents.1.parts.0"),
    "a part that is a number": (said(SAID, 7), "contents.1.parts.1"),
    "a block of another provider": (said({"type": "tool_use", "id": "t1", "name": "x"}), "contents.1.parts.0.type"),
    "a text and a call": (step(call(text="x")), "contents.1.parts.0"),
    "a call and a response": (step({**call(), **answer()}), "contents.1.parts.0"),
    "a text and a picture": (
        [user({**SAID, "inlineData": {"mimeType": "image/png", "data": "eA=="}})],
        "contents.0.parts.0",
    ),
    "two calls in two spellings": (
        step({**call(), "function_call": {"name": "list", "args": {}}}),
        "contents.1.parts.0.function_call",
    ),
    "two signatures in two spellings": (step(call(thought_signature="eA==")), "contents.1.parts.0.thought_signature"),
}
"""Contents, and the place that the error names."""

UNKNOWN: dict[str, list[Any]] = {
    "a part": said({"hologram": {"a": 1}}, SAID),
    "nothing but a part": said({"hologram": {"a": 1}}),
    "a part of nothing": said({"hologram": {}}),
    "a field of a part": said({"text": "x", "hologram": {"a": 1}}),
    "a field of a content": [{**GO, "hologram": 1}],
    "a field of a call": step({"functionCall": {"name": "read", "args": {}, "hologram": 1}, **SIGNED}),
    "a call that Google's own tool answers": said({"toolCall": {"id": "1"}}, {"toolResponse": {"id": "1"}}, SAID),
}
"""Kinds that are not known: newer than this code."""

BESIDE: list[tuple[Body, str]] = [
    ({"systemInstruction": "Be brief."}, "shape systemInstruction: made a content"),
    ({"system_instruction": ["Be", {"text": "brief."}]}, "shape system_instruction: made a content"),
    ({"systemInstruction": ""}, "shape systemInstruction: made a content"),
    ({"tools": {"functionDeclarations": [{"name": "read"}]}}, "shape tools: made a list"),
]


def as_snake(value: Any) -> Any:
    """The same with its fields in the other spelling."""
    if isinstance(value, list):
        return [as_snake(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower(): as_snake(part) for name, part in value.items()}


def is_snake_too(contents: list[Any]) -> bool:
    """Whether it does not show both spellings itself."""
    return "function_call" not in str(contents) and "thought_signature" not in str(contents)


def spellings(contents: list[Any]) -> list[tuple[list[Any], Any]]:
    both = [(contents, str), (as_snake(contents), lambda path: re.sub(r"([a-z])([A-Z])", r"\1_\2", path).lower())]
    return both if is_snake_too(contents) else both[:1]


@pytest.mark.parametrize("name", REPAIRED)
@pytest.mark.parametrize("model", MODELS)
def test_what_can_be_repaired_goes_out_valid_and_is_reported_by_its_place(name, model):
    contents, told = REPAIRED[name]
    for spelled, respell in spellings(contents):
        before = json.dumps(spelled)
        rule, _, path = told.partition(" ")
        ready = ebbtide.fit({"model": model, "contents": spelled}, wire="gemini")

        assert any(repair.startswith(f"{rule} {respell(path)}") for repair in ready.report.repairs), (
            ready.report.repairs
        )
        assert refusals("gemini", dict(ready.body)) == []
        assert violations(WIRES["gemini"], ready.body) == []
        assert json.dumps(spelled) == before


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("model", MODELS)
def test_what_cannot_is_refused_by_its_place(name, model):
    contents, path = REFUSED[name]
    for spelled, respell in spellings(contents):
        with pytest.raises(ebbtide.BadRequest) as refused:
            ebbtide.fit({"model": model, "contents": spelled}, wire="gemini")

        assert refused.value.path == respell(path)


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_kinds_travel_whole(name):
    body = {"model": MODELS[1], "contents": UNKNOWN[name]}

    assert ebbtide.fit(body, wire="gemini").body is body


@pytest.mark.parametrize("name", [name for name in REPAIRED if name not in UNFINISHED])
def test_a_session_that_was_repaired_continues(name):
    """As bytes, and with another step behind it: what was repaired once stays so."""
    contents, _ = REPAIRED[name]
    context = ebbtide.Context(model=MODELS[1], wire="gemini")
    sent = []
    for more in ([], [model(call()), user(answer())]):
        ready = context.prepare(json.dumps({"contents": [*contents, *more]}).encode())
        sent.append(json.loads(ready.body)["contents"])
        assert refusals("gemini", {"model": MODELS[1], "contents": sent[-1]}) == []

    assert sent[1][: len(sent[0])] == sent[0]


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"name": "read", "args": {}}},
        {"function_call": {"name": "read", "args": {}}},
        call(thoughtSignature=""),
        call(thoughtSignature=None),
        call(thoughtSignature=7),
        call(thoughtSignature=[]),
    ],
    ids=str,
)
def test_a_missing_signature_is_replaced_if_the_model_wants_one(part):
    others = [{"functionCall": {"name": "read", "args": {}}}, call()]
    contents = [GO, model(part, *others), user(answer(), answer(), answer())]
    new, old = (ebbtide.fit({"model": model, "contents": contents}, wire="gemini") for model in reversed(MODELS))

    assert PLACEHOLDER_SIGNATURE in str(new.body["contents"][1]["parts"][0])
    assert new.body["contents"][1]["parts"][1:] == others, "of parallel calls only the first is signed"
    assert PLACEHOLDER_SIGNATURE not in str(old.body)
    assert any(repair.startswith("G5 contents.1.parts.0") for repair in new.report.repairs)


@pytest.mark.parametrize(("fields", "repair"), BESIDE, ids=str)
def test_fields_beside_the_contents_are_repaired_in_every_request(fields, repair):
    context, contents = ebbtide.Context(model=MODELS[1]), [GO]
    for _ in range(2):
        ready = context.prepare({**fields, "contents": contents})
        contents = [*contents, model(SAID), END]

        assert list(ready.report.repairs) == [repair]
        assert [type(ready.body.get(name, {})) for name in fields] == [list if "tools" in fields else dict]


@pytest.mark.parametrize("field", ["generationConfig", "generation_config", "cachedContent", "messages"])
def test_a_field_that_has_no_repair_is_refused_by_its_name(field):
    with pytest.raises(ebbtide.BadRequest) as refused:
        ebbtide.fit({"contents": [GO], field: [GO]}, wire="gemini")

    assert refused.value.path == field
