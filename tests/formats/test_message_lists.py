"""Message lists, SWE-agent trajectories and plain request bodies."""

import json

import pytest

from ebbtide.core.types import Usage
from ebbtide.formats import load
from upstream.check import refusals

SYSTEM = {"role": "system", "content": "be brief"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "seen"}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


@pytest.fixture
def load_list(tmp_path):
    def put(value, *, lines=False):
        file = tmp_path / "list.json"
        file.write_text("\n".join(map(json.dumps, value)) if lines else json.dumps(value, indent=1))
        return load(file)

    return put


TALK = [SYSTEM, user("go"), CALLS, RESULT, assistant("end"), user("thanks")]


def test_every_assistant_message_is_a_call_and_messages_are_unchanged(load_list):
    recording = load_list(TALK)

    assert (recording.format, recording.wire) == ("openai-chat", "openai_chat")
    assert [call.request for call in recording.requests()] == [{"messages": TALK[:2]}, {"messages": TALK[:4]}]
    assert [call.response for call in recording.requests()] == [CALLS, assistant("end")]


def test_each_conversation_of_a_list_is_a_named_episode(load_list):
    episodes = [{"task_id": 3, "trial": trial, "reward": 1.0, "traj": TALK} for trial in (0, 1)]

    assert [call.episode for call in load_list(episodes).requests()] == ["3/0", "3/0", "3/1", "3/1"]


def test_each_line_is_one_message_of_one_conversation(load_list):
    assert [len(call.request["messages"]) for call in load_list(TALK, lines=True).requests()] == [2, 4]


def test_a_line_that_continues_an_earlier_one_adds_only_what_is_new(load_list):
    one, two = [user("a"), assistant("b")], [user("c"), assistant("d")]
    recording = load_list([[one], [[user("x"), assistant("y")]], [one, two]], lines=True)

    assert [(call.episode, call.row, len(call.request["messages"])) for call in recording.requests()] == [
        ("1", 1, 1),
        ("1", 3, 3),
        ("2", 2, 1),
    ]


def test_fields_that_are_not_the_apis_stay_out_of_the_request(load_list):
    talk = [{**user("go"), "timestamp": "2026-05-15T10:53:42+00:00"}]
    talk += [{**assistant("hi"), "tool_calls": None, "function_call": None, "timestamp": "2026-05-15T10:53:42+00:00"}]
    talk += [
        user("on"),
        {
            **assistant("x"),
            "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens": 1},
        },
    ]
    first, second = load_list(talk).requests()

    assert second.request["messages"] == [user("go"), assistant("hi"), user("on")]
    assert first.at == 1778842422.0
    assert (first.usage, second.usage) == (None, Usage(input=5, cache_read=4, output=1))


def test_a_call_without_a_result_and_a_result_without_a_call_are_repaired(load_list):
    recording = load_list([user("go"), RESULT, CALLS, user("stop"), assistant("ok")])
    calls = list(recording.requests())

    assert [refusals("openai_chat", call.request) for call in calls] == [[], []]
    assert [message["role"] for message in calls[1].request["messages"]] == ["user", "assistant", "tool", "user"]
    assert len(recording.problems) == 2


def test_a_greeting_before_all_messages_is_no_call(load_list):
    calls = list(load_list([assistant("welcome"), user("go"), assistant("hi")]).requests())

    assert [call.request["messages"] for call in calls] == [[assistant("welcome"), user("go")]]


def test_a_list_without_a_reply_is_one_request(load_list):
    call = next(load_list([user("go")]).requests())

    assert (call.request["messages"], call.response) == ([user("go")], None)


def test_a_row_that_is_not_a_message_is_reported(load_list):
    recording = load_list([user("go"), 42, assistant("hi")])

    assert [(problem.row, problem.raw) for problem in recording.problems] == [(2, "42")]
    assert len(list(recording.requests())) == 1


def trajectory(*history, steps=1):
    return {"environment": "e", "history": list(history), "trajectory": [{"response": "submit"}] * steps, "info": {}}


def test_a_trajectory_is_its_history(load_list):
    noted = {"agent": "main", "message_type": "x"}
    result = {"role": "tool", "content": "seen", "tool_call_ids": ["c1"], **noted}
    recording = load_list(
        trajectory(
            {**user("go"), **noted},
            {**CALLS, "content": "", "thought": "t", **noted},
            result,
            {**assistant("end"), **noted},
        )
    )
    calls = list(recording.requests())

    assert recording.format == "swe-agent"
    assert calls[1].request["messages"] == [
        user("go"),
        {**CALLS, "content": ""},
        {"role": "tool", "content": "seen", "tool_call_id": "c1"},
    ]
    assert refusals("openai_chat", calls[1].request) == []


def test_the_last_reply_may_be_in_the_trajectory_alone(load_list):
    calls = list(load_list(trajectory(user("go"), assistant("a"), user("on"), steps=2)).requests())

    assert calls[1].response == assistant("submit")
    assert len(calls[1].request["messages"]) == 3


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        ({"model": "gpt-x", "messages": TALK}, "openai_chat"),
        ({"model": "m", "input": [{"role": "user", "content": "go"}]}, "openai_responses"),
        ({"model": "m", "input": "go"}, "openai_responses"),
        ({"model": "claude-x", "max_tokens": 9, "messages": [user("go")]}, "anthropic"),
        ({"model": "m", "system": "s", "messages": [user("go")]}, "anthropic"),
        ({"model": "m", "messages": [user("go")], "tools": [{"name": "t", "input_schema": {}}]}, "anthropic"),
        ({"messages": [user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}])]}, "anthropic"),
    ],
)
def test_a_request_body_is_one_call_with_the_body_unchanged(load_list, body, wire):
    recording = load_list(body)

    assert (recording.format, recording.wire) == ("request", wire)
    assert [call.request for call in recording.requests()] == [body]
