"""What a peer left alone comes back as the very same object; what it changed is all that changed."""

import pytest
from benchmarks.peers_wire import Changed, Thread, Writer, Written, answers, pieces

from ebbtide.core.types import Usage
from ebbtide.replay.session import ReplayCall

ANTHROPIC = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
            {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "one", "is_error": True},
            {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "two"}]},
            {"type": "text", "text": "and now?"},
        ],
    },
]
CHAT = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "t1", "content": "one"},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
    {"type": "function_call", "call_id": "t1", "name": "read", "arguments": "{}"},
    {"type": "web_search_call", "id": "w1", "status": "completed"},
    {"type": "function_call_output", "call_id": "t1", "output": "one"},
]
WIRES = {"anthropic": ANTHROPIC, "openai_chat": CHAT, "openai_responses": RESPONSES}


def cut(wire):
    return [piece for message in WIRES[wire] for piece in pieces(wire, message)]


@pytest.mark.parametrize("wire", WIRES)
def test_untouched_messages_are_returned_unchanged(wire):
    back = Writer(wire).messages(cut(wire))

    assert len(back) == len(WIRES[wire])
    assert all(one is other for one, other in zip(back, WIRES[wire], strict=True))


@pytest.mark.parametrize(
    ("wire", "key"), [("anthropic", "content"), ("openai_chat", "content"), ("openai_responses", "output")]
)
def test_a_changed_result_changes_nothing_else_and_is_written_once(wire, key):
    run = [Changed(one, "[cleared]") if one.kind == "result" and one.call_id == "t1" else one for one in cut(wire)]
    writer = Writer(wire)

    back = writer.messages(run)

    changed = [(one, other) for one, other in zip(back, WIRES[wire], strict=True) if one is not other]
    (one, other), *rest = changed
    assert not rest
    if wire == "anthropic":
        (one, *after), (other, *following) = one["content"], other["content"]
        assert after == following
    assert one == {**other, key: "[cleared]"}
    assert all(a is b for a, b in zip(writer.messages(run), back, strict=True))


def test_part_of_a_message_can_be_removed_alone_and_added_text_becomes_a_user_message():
    run = cut("anthropic")

    back = Writer("anthropic").messages([Written("so far"), *run[5:]])

    assert back == [{"role": "user", "content": "so far"}, {"role": "user", "content": ANTHROPIC[2]["content"][1:]}]


def test_items_of_one_answer_form_one_message_on_the_responses_wire():
    assert [(role, len(run)) for role, run in answers("openai_responses", RESPONSES)] == [
        ("user", 1),
        ("assistant", 4),
        ("user", 1),
    ]


def take(messages):
    body = {"messages": messages}
    return ReplayCall(
        raw=body,
        unmarked=body,
        recorded=body,
        response=None,
        at=0.0,
        model="m",
        usage=None,
        is_compacted=False,
    )


def test_when_the_user_rewinds_the_thread_has_the_state_of_that_point():
    system = {"role": "system", "content": "rules"}
    thread = Thread("messages")
    first, usage = thread.new(take([system, *ANTHROPIC[:1]]))
    assert (first, usage, thread.prompt) == (ANTHROPIC[:1], None, [system])
    thread.state.append("a")
    thread.keep()
    thread.usage = Usage(input=5)

    more, usage = thread.new(take([system, *ANTHROPIC]))
    assert (more, usage) == (ANTHROPIC[1:], Usage(input=5))
    thread.state = ["summary"]
    thread.keep()

    other = {"role": "user", "content": "rather this"}
    back, usage = thread.new(take([system, ANTHROPIC[0], other]))
    assert (back, usage, thread.state) == ([other], None, ["a"])
