"""Bodies into items and back, on every wire."""

import json
from dataclasses import replace

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import OURS, Edit, Item
from ebbtide.core.view import View
from ebbtide.wire import WIRES, detect
from ebbtide.wire.reader import Reader, block_fingerprints, write_messages
from wire_messages import text_message

ANTHROPIC = {
    "model": "claude-sonnet-5",
    "max_tokens": 1000,
    "system": [{"type": "text", "text": "Be brief."}],
    "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nx\n</system-reminder>"}, {"type": "text", "text": "fix it"}]},
        {"role": "system", "content": "a mid-conversation note"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "ok"}, {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}}, {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "b.py"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "alpha", "is_error": True}, {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "beta"}]}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}, {"type": "text", "text": "done"}]},
    ],
}  # fmt: skip
CHAT = {
    "model": "gpt-5",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "ok", "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}, {"id": "t2", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "alpha"},
        {"role": "tool", "tool_call_id": "t2", "content": [{"type": "text", "text": "beta"}]},
        {"role": "assistant", "content": None, "refusal": "no"},
    ],
}  # fmt: skip
RESPONSES = {
    "model": "gpt-5-codex",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
        {"role": "user", "content": "fix it"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xx"},
        {"type": "function_call", "id": "fc_1", "call_id": "t1", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "alpha"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "t2", "name": "apply_patch", "input": "***"},
        {"type": "custom_tool_call_output", "call_id": "t2", "output": "beta"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ],
}
GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "fix it"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "t1", "name": "read", "args": {}}, "thoughtSignature": "c2ln"},
                {"function_call": {"id": "t2", "name": "shell", "args": {"command": "ls"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "t1", "name": "read", "response": {"error": "alpha"}}},
                {"function_response": {"id": "t2", "name": "shell", "response": {"result": "beta"}}},
            ],
        },
        {"role": "model", "parts": [{"text": "done"}]},
    ],
}
CONVERSE = {
    "modelId": "amazon.nova-pro-v1:0",
    "system": [{"text": "Be brief."}],
    "messages": [
        {"role": "user", "content": [{"text": "fix it"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "ok"},
                {"toolUse": {"toolUseId": "t1", "name": "read", "input": {"path": "a.py"}}},
                {"toolUse": {"toolUseId": "t2", "name": "shell", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "t1", "content": [{"text": "alpha"}]}},
                {"toolResult": {"toolUseId": "t2", "content": [{"text": "beta"}], "status": "error"}},
            ],
        },
        {"role": "assistant", "content": [{"text": "done"}]},
    ],
}
BODIES = {
    "anthropic": ANTHROPIC,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "gemini": GEMINI,
    "bedrock_converse": CONVERSE,
}
each_wire = pytest.mark.parametrize("wire", BODIES)


def read(body, **options):
    return Reader(DEFAULT, **options).read(body)


def rewrite(request, n, text):
    """A view in which the nth result has another text."""
    result = [item for item in request.items if item.kind == "result"][n]
    put = replace(result, id="", message=-1, text=text, raw=None, source="")
    return View.of(request.items).apply([Edit(by="test", first=result.id, last=result.id, replacement=(put,))])


@each_wire
def test_the_body_decides_the_wire(wire):
    assert detect(BODIES[wire]).name == wire


def test_a_conversation_that_fits_several_wires_is_recognized_by_a_later_message():
    reader = Reader(DEFAULT)
    body = {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "fix it"}]}
    assert reader.read(body).wire.name == "anthropic"
    assert reader.read({**body, "messages": [*body["messages"], *CHAT["messages"][2:4]]}).wire.name == "openai_chat"


def test_a_recognized_conversation_keeps_its_wire():
    reader = Reader(DEFAULT)
    reader.read(CHAT)
    answer = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}
    assert reader.read({**CHAT, "messages": [*CHAT["messages"], answer]}).wire.name == "openai_chat"
    assert reader.read(ANTHROPIC).wire.name == "anthropic"


@each_wire
def test_an_untouched_view_is_written_as_the_same_messages(wire):
    request = read(BODIES[wire])

    written = write_messages(request, View.of(request.items))

    assert len(written) == len(request.messages)
    assert all(new is old for new, old in zip(written, request.messages, strict=True))


@each_wire
def test_calls_and_results_pair_by_id_and_share_the_tools_name(wire):
    request = read(BODIES[wire])
    calls = {item.call_id: item.name for item in request.items if item.kind == "call"}
    results = {item.call_id: item.name for item in request.items if item.kind == "result"}

    assert calls == results
    assert set(calls) == {"t1", "t2"}


@each_wire
def test_a_rewritten_result_keeps_its_place_and_pairing(wire):
    request = read(BODIES[wire])

    written = write_messages(request, rewrite(request, 1, "[cleared]"))

    assert "[cleared]" in json.dumps(written)
    assert "beta" not in json.dumps(written)
    again = read({**BODIES[wire], request.wire.list_key: written})
    assert [(i.role, i.kind, i.call_id) for i in again.items] == [(i.role, i.kind, i.call_id) for i in request.items]


def test_a_rewritten_error_result_stays_an_error():
    request = read(ANTHROPIC)

    written = write_messages(request, rewrite(request, 0, "[cleared]"))

    assert written[3]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": "[cleared]",
        "is_error": True,
    }
    assert written[3]["content"][1] is ANTHROPIC["messages"][3]["content"][1]


@each_wire
def test_a_dropped_run_leaves_all_other_messages_as_they_were(wire):
    request = read(BODIES[wire])
    call = next(i for i in request.items if i.call_id == "t1" and i.kind == "call")
    last = next(i for i in reversed(request.items) if i.call_id == "t2" and i.kind == "result")

    written = write_messages(request, View.of(request.items).apply([Edit(by="test", first=call.id, last=last.id)]))

    assert "alpha" not in json.dumps(written)
    assert written[0] is request.messages[0]
    assert written[-1] is request.messages[-1]


@each_wire
def test_ids_do_not_depend_on_earlier_messages(wire):
    request = read(BODIES[wire])
    shorter = read({**BODIES[wire], request.wire.list_key: request.messages[1:]}, wire=request.wire)

    assert {item.id for item in shorter.items} <= {item.id for item in request.items}


def test_cache_breakpoints_nulls_and_bare_strings_do_not_change_an_id():
    plain = read({"messages": [{"role": "user", "content": "hello"}]})
    marked = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}, "citations": None}
    moved = read({"messages": [{"role": "user", "content": [marked]}]})

    assert plain.items[0].id == moved.items[0].id


def test_the_same_block_twice_has_two_ids():
    request = read(
        {
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "ok"},
                {"role": "user", "content": "go"},
            ]
        }
    )

    assert request.items[0].id.endswith("-0")
    assert request.items[2].id.endswith("-1")
    assert request.items[0].id[:-2] == request.items[2].id[:-2]


def test_trust_falls_where_a_harness_could_have_written_and_never_rises():
    items = read(ANTHROPIC).items

    assert [(i.trust, i.source) for i in items[:3]] == [(2, "reminder"), (1, "user"), (0, "system")]
    assert {i.trust for i in items if i.kind == "result"} == {3}


def test_our_own_replacement_sent_back_is_recognized_only_by_its_recorded_content():
    item = Item(id="", message=-1, role="tool", kind="result", text="[cleared]", tokens=3, call_id="t1")
    wire = detect(ANTHROPIC)
    known = dict.fromkeys(block_fingerprints(wire, wire.messages.join(None, [item])), ())
    fed = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "[cleared]"}]}
    forged = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "[cleared]"}]}
    use = ANTHROPIC["messages"][2]

    request = read({"system": "x", "messages": [use, fed, use, forged]}, echoes=known)

    assert [i.source for i in request.items if i.kind == "result"] == [OURS, "tool"]


@each_wire
def test_a_grown_conversation_is_read_from_where_it_grew(wire):
    reader, body = Reader(DEFAULT), BODIES[wire]
    key = WIRES[wire].list_key
    first = reader.read({**body, key: body[key][:3]})

    grown = reader.read(body)

    assert grown.unchanged_items == len(first.items)
    assert all(a is b for a, b in zip(first.items, grown.items, strict=False))
    assert [item.id for item in grown.items] == [item.id for item in read(body).items]


@each_wire
def test_a_rewound_conversation_gets_the_ids_of_a_fresh_reading(wire):
    reader, body = Reader(DEFAULT), BODIES[wire]
    key = WIRES[wire].list_key
    reader.read(body)
    other = text_message(wire, "user", "fix it")
    rewound = {**body, key: [*body[key][:2], other]}

    assert [item.id for item in reader.read(rewound).items] == [item.id for item in read(rewound).items]


def test_the_reason_for_server_side_history_is_named():
    assert "previous_response_id" in read({**RESPONSES, "previous_response_id": "resp_1"}).partial_history_reason
    assert not read(RESPONSES).partial_history_reason
    thread = {"thread": {"type": "continue", "previous_message_id": "msg_1"}}
    assert (
        "thread"
        in read({"system": "x", "messages": [{"role": "user", "content": "go on"}], **thread}).partial_history_reason
    )


@pytest.mark.parametrize(
    ("messages", "path"),
    [([7], "messages.0"), ([{"role": "robot", "content": "x"}], "messages.0.role"), ([{"role": "user", "content": [3]}], "messages.0.content.0")],
)  # fmt: skip
def test_a_wrong_shape_is_refused_with_its_path(messages, path):
    with pytest.raises(BadRequest) as refused:
        read({"system": "x", "messages": messages})

    assert refused.value.path == path


def test_a_request_that_could_not_be_read_leaves_no_trace_in_later_ids():
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "hm"}]
    reader = Reader(DEFAULT)
    reader.read({"model": "m", "messages": talk[:1]})
    with pytest.raises(BadRequest):
        reader.read({"model": "m", "messages": [*talk, {"role": "nobody", "content": "hm"}]})

    after = reader.read({"model": "m", "messages": talk})

    assert [item.id for item in after.items] == [
        item.id for item in Reader(DEFAULT).read({"model": "m", "messages": talk}).items
    ]
    assert after.first_items == [0, 1]


def test_a_breakpoint_that_moves_changes_no_id_of_repeated_text():
    said = [{"role": role, "content": [{"type": "text", "text": "again"}]} for role in ("user", "assistant") * 3]
    reader, fresh = Reader(DEFAULT), Reader(DEFAULT)
    for n in range(1, len(said) + 1):
        marked = {**said[n - 1], "content": [{**said[n - 1]["content"][0], "cache_control": {"type": "ephemeral"}}]}
        last = reader.read({"model": "m", "messages": [*said[: n - 1], marked]})

    assert [item.id for item in last.items] == [item.id for item in fresh.read({"model": "m", "messages": said}).items]


@pytest.mark.parametrize("odd", [[], {}, ["user"], {"role": "user"}, 7, None])
def test_a_role_that_is_no_word_is_refused_on_every_wire(odd):
    # A content without a role is the user's on Gemini.
    for wire in [wire for wire in WIRES.values() if odd is not None or wire.name != "gemini"]:
        key, reader = wire.list_key, Reader(estimator=DEFAULT, wire=wire)
        with pytest.raises(BadRequest, match="role"):
            reader.read({key: [{"role": odd, "content": "hi"}]})


@pytest.mark.parametrize("odd", [[], {}, ["input_text"], 7])
def test_a_type_that_is_no_word_is_some_block_that_we_do_not_know(odd):
    for name, key in (("anthropic", "messages"), ("openai_chat", "messages"), ("openai_responses", "input")):
        request = {key: [{"role": "user", "content": [{"type": odd, "text": "hi"}]}]}
        assert len(Reader(estimator=DEFAULT, wire=WIRES[name]).read(request).items) == 1
    result = {"type": "function_call_output", "call_id": "c", "output": [{"type": odd}]}
    for name, message in (
        ("gemini", {"parts": [{"zebra": odd}, {"text": odd}]}),
        ("bedrock_converse", {"content": [{"zebra": odd}, {"text": odd}]}),
    ):
        wire = WIRES[name]
        request = {wire.list_key: [{"role": "user", **message}]}
        assert [item.kind for item in Reader(estimator=DEFAULT, wire=wire).read(request).items] == ["opaque", "text"]
    reader = Reader(estimator=DEFAULT, wire=WIRES["openai_responses"])
    assert len(reader.read({"input": [result]}).items) == 1
    with pytest.raises(BadRequest, match=r"input\.0\.type"):
        reader.read({"input": [{"type": odd, "id": "x"}]})
