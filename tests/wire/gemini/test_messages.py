"""Contents of the Gemini API as items and back: both spellings, calls with and without ids, signatures, media."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.wire import WIRES, detect
from ebbtide.wire.gemini.fields import PLACEHOLDER_SIGNATURE
from ebbtide.wire.reader import EchoedEdits, Reader, Request, write_messages
from upstream.pixels import png


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def call(name="read", signature="", **args):
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {"name": name, "args": args}, **signed}


def response(name="read", text="ok", **more):
    return {"functionResponse": {"name": name, "response": {"output": text}, **more}}


def read(*contents, **more) -> Request:
    return Reader(DEFAULT).read({"contents": list(contents), **more})


def drop(request: Request, *items) -> list:
    view = View.of(request.items)
    for item in items:
        view = view.apply([Edit(by="test", first=item.id, last=item.id)])
    return write_messages(request, view)


def rewrite(request: Request, n: int, text: str) -> list:
    result = [item for item in request.items if item.kind == "result"][n]
    put = replace(result, id="", message=-1, text=text, raw=None, source="")
    view = View.of(request.items).apply([Edit(by="test", first=result.id, last=result.id, replacement=(put,))])
    return write_messages(request, view)


def test_the_key_of_the_contents_tells_the_wire():
    assert detect({"contents": []}).name == "gemini"
    assert detect({"contents": [], "tools": [], "system_instruction": "x"}).name == "gemini"


@pytest.mark.parametrize("role", [{}, {"role": None}, {"role": "user"}, {"role": "function"}])
def test_a_content_without_a_role_is_the_users(role):
    assert [item.role for item in read({**role, "parts": [{"text": "hi"}]}).items] == ["user"]


def test_both_spellings_are_read_alike_and_written_as_they_came():
    camel = [
        model({"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}),
        user({"functionResponse": {"id": "1", "name": "f", "response": {"result": "a"}}}),
        user({"inlineData": {"mimeType": "image/png", "data": png(64, 64)}}),
    ]
    snake = [
        model({"function_call": {"id": "1", "name": "f", "args": {}}, "thought_signature": "c2ln"}),
        user({"function_response": {"id": "1", "name": "f", "response": {"result": "a"}}}),
        user({"inline_data": {"mime_type": "image/png", "data": png(64, 64)}}),
    ]
    items = [[(i.kind, i.text, i.call_id, i.tokens) for i in read(*one).items] for one in (camel, snake)]

    assert items[0] == items[1]
    written = rewrite(read(*snake), 0, "[cleared]")
    assert written[1] == user({"function_response": {"id": "1", "name": "f", "response": {"result": "[cleared]"}}})
    assert written[0] is snake[0]


def test_calls_without_ids_pair_in_order_within_their_step():
    contents = [
        user({"text": "go"}),
        model(call(path="a"), call("grep", q="x"), call(path="b")),
        user(response(text="one"), response(text="two"), response("grep", "three")),
        model(call(path="a")),
        user(response(text="one")),
    ]
    items = read(*contents).items
    arguments = {item.call_id: item.text for item in items if item.kind == "call"}

    assert len(arguments) == 4
    paired = [(item.text, arguments[item.call_id], item.name) for item in items if item.kind == "result"]
    assert paired == [
        ("one", '{"path":"a"}', "read"),
        ("two", '{"path":"b"}', "read"),
        ("three", '{"q":"x"}', "grep"),
        ("one", '{"path":"a"}', "read"),
    ]


def test_ids_of_items_stay_between_requests_and_in_a_fresh_reader():
    contents = [user({"text": "go"})]
    for n in range(6):
        contents += [model(call(path="a"), call(path="a")), user(response(text="same"), response(text=f"{n}"))]
    reader = Reader(DEFAULT)
    for n in range(1, len(contents) + 1):
        grown = reader.read({"contents": contents[:n]})

    fresh = read(*copy.deepcopy(contents))
    assert [(item.id, item.call_id) for item in grown.items] == [(item.id, item.call_id) for item in fresh.items]
    assert len({item.id for item in grown.items}) == len(grown.items)


def test_a_signed_part_is_never_changed_while_another_part_of_its_content_leaves():
    contents = [
        user({"text": "go"}),
        model({"text": "ok"}, call(signature="c2ln"), call(path="b")),
        user(response(), response()),
    ]
    request = read(*contents)

    written = drop(request, next(item for item in request.items if item.text == "ok"))

    assert written[1]["parts"][0] is contents[1]["parts"][1]
    assert written[1]["parts"][1] is contents[1]["parts"][2]


def test_if_the_signed_call_leaves_the_next_one_gets_the_placeholder():
    contents = [
        user({"text": "go"}),
        model(call(signature="c2ln", path="a"), call(path="b")),
        user(response(text="one"), response(text="two")),
    ]
    request = read(*contents)
    first = next(item for item in request.items if item.kind == "call")
    result = next(item for item in request.items if item.kind == "result")
    entries = tuple(item for item in request.items if item not in (first, result))
    view = replace(View.of(request.items), entries=entries)

    written = write_messages(request, view)

    assert written[1]["parts"] == [{**call(path="b"), "thoughtSignature": PLACEHOLDER_SIGNATURE}]
    assert written[2]["parts"] == [contents[2]["parts"][1]]


def test_a_result_is_the_text_of_its_only_field_and_keeps_that_field():
    contents = [
        model(call(), call(), call(), call()),
        user(
            {"functionResponse": {"name": "read", "response": {"content": "a"}}},
            {"functionResponse": {"name": "read", "response": {"error": "b"}}},
            {"functionResponse": {"name": "read", "response": {"rows": [1], "more": True}}},
            {"functionResponse": {"name": "read", "response": {}}},
        ),
    ]
    request = read(*contents)
    results = [item for item in request.items if item.kind == "result"]

    assert [item.text for item in results] == ["a", "b", '{"rows": [1], "more": true}', "{}"]
    assert [item.is_failed for item in results] == [False, True, False, False]
    fields = [
        next(iter(rewrite(request, n, "[cleared]")[1]["parts"][n]["functionResponse"]["response"])) for n in range(4)
    ]
    assert fields == ["content", "error", "output", "output"]


def test_media_inside_a_response_leave_with_its_text():
    picture = {"inlineData": {"mimeType": "image/png", "data": png(640, 480)}}
    request = read(model(call()), user(response(parts=[picture])))
    result = next(item for item in request.items if item.kind == "result")

    assert result.media == 1
    assert result.tokens > 300
    assert rewrite(request, 0, "[cleared]")[1] == user(response(text="[cleared]"))


def test_thoughts_and_signatures_without_text_are_thinking():
    items = read(
        model(
            {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "so"},
            {"text": "", "thoughtSignature": "c2ln"},
        )
    ).items

    assert [item.kind for item in items] == ["thinking", "text", "thinking"]


def test_the_other_alphabet_of_base64_changes_no_id():
    """The SDK for Python reads a signature into bytes and writes it again."""
    one, other = (
        read(model({"text": "hm", "thought": True, "thoughtSignature": signature})).items[0].id
        for signature in ("a+b/", "a-b_")
    )
    assert one == other


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}, "document"),
        ({"inlineData": {"mimeType": "audio/mp3", "data": "AAAA" * 1000}}, "document"),
        ({"fileData": {"mimeType": "image/png", "fileUri": "gs://b/p.png"}}, "image"),
        ({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}, "videoMetadata": {"fps": 1}}, "document"),
        ({"executableCode": {"language": "PYTHON", "code": "1"}}, "opaque"),
        ({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, "opaque"),
        ({"somethingNew": {"a": 1}}, "opaque"),
    ],
)
def test_other_parts_travel_whole(part, kind):
    request = read(user(part, {"text": "look"}))

    assert request.items[0].kind == kind
    assert write_messages(request, View.of(request.items))[0] is request.messages[0]


def test_functions_are_counted_one_by_one_in_either_spelling():
    functions = [{"name": f"f{n}", "parameters": {"type": "object"}} for n in range(3)]
    one = read(user({"text": "x"}), tools=[{"functionDeclarations": functions}])
    other = read(user({"text": "x"}), tools=[{"function_declarations": functions}])

    assert one.overhead == other.overhead
    assert one.overhead[1] > 3 * DEFAULT.per_tool


def test_settings_are_read_in_either_spelling():
    wire = WIRES["gemini"].messages
    assert wire.max_output({"generationConfig": {"maxOutputTokens": 9}}) == 9
    assert wire.max_output({"generation_config": {"max_output_tokens": 9}}) == 9
    parts = [{"text": "Be brief."}]
    assert wire.system_and_tools({"systemInstruction": {"parts": parts}})[0] is parts
    assert wire.system_and_tools({"system_instruction": {"parts": parts}})[0] is parts


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"role": "assistant", "parts": [{"text": "x"}]}, "contents.0.role"),
        ({"role": 7, "parts": [{"text": "x"}]}, "contents.0.role"),
        ({"role": "user", "content": "hi"}, "contents.0.content"),
        ({"role": "user", "parts": [7]}, "contents.0.parts.0"),
        ("hi", "contents.0"),
    ],
)
def test_what_is_no_content_is_refused_with_its_path(content, path):
    with pytest.raises(BadRequest) as refused:
        read(content)

    assert refused.value.path == path


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_equal_stubs_of_results_without_ids_that_come_back_each_stand_for_their_own_result(order):
    """The stub of a failed result differs from the others, but the edits do not say which result had failed."""
    failed = {"functionResponse": {"name": "read", "response": {"error": "no such file"}}}
    contents = [user({"text": "go"})]
    for n, result in enumerate([failed, response(text="saved"), response(text="other"), response(text="saved")]):
        contents += [model(call(path=f"{n}.py")), user(result)]
    request = read(*contents)
    results = [item for item in request.items if item.kind == "result"]
    stubs = [replace(item, id="", message=-1, text="[cleared]", raw=None, source="") for item in results[:2]]
    made = [
        Edit(by="test", first=item.id, last=item.id, replacement=(stub,))
        for item, stub in zip(results[:2], stubs, strict=True)
    ]
    view = View.of(request.items).apply(made[::order])
    edits, sent = view.edits, write_messages(request, view)
    echoes = EchoedEdits().learn(WIRES["gemini"], edits).by_fingerprint

    back = Reader(DEFAULT, echoes=echoes).read({"contents": copy.deepcopy(sent)})

    assert [item.id for item in back.items if item.kind == "result"][2:] == [item.id for item in results[2:]]
    assert sent != contents
    assert write_messages(back, View.of(back.items, edits)) == sent
