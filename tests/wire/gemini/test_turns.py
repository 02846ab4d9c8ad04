"""Conversations that a program builds for Gemini, and recorded ones that are repaired for a replay."""

from __future__ import annotations

import pytest

from ebbtide import Conversation
from ebbtide.wire import WIRES
from upstream.check import refusals


def reply(*parts):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]}


def call(name, id="", **args):
    return {"functionCall": {**({"id": id} if id else {}), "name": name, "args": args}}


def result(name, text, id=""):
    return {"functionResponse": {**({"id": id} if id else {}), "name": name, "response": {"output": text}}}


def history(repairs=None):
    repairs = [] if repairs is None else repairs
    return WIRES["gemini"].history({}, repairs.append)


def test_calls_without_ids_are_answered_by_their_names():
    talk = Conversation(model="gemini-2.5-pro", wire="gemini", system="Be brief.")
    talk.user("go")
    talk.assistant(reply(call("read", path="a"), call("read", path="b"), call("grep")))
    talk.tool_result("read-2", "two")
    talk.tool_result("grep", "no such file", is_error=True)
    talk.tool_result("read", "one")

    request = talk.request()

    parts = request["contents"][-1]["parts"]
    assert parts[:2] == [result("read", "one"), result("read", "two")]
    assert parts[2] == {"functionResponse": {"name": "grep", "response": {"error": "no such file"}}}
    assert request["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert refusals("gemini", request) == []


def test_a_picture_goes_into_the_parts_of_its_response():
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    talk = Conversation(model="gemini-3-pro-preview", wire="gemini")
    talk.user("go")
    talk.assistant(reply({**call("read", "c1"), "thoughtSignature": "c2ln"}))
    talk.tool_result("c1", [{"text": "The file is an image."}, picture])

    response = talk.request()["contents"][-1]["parts"][0]["functionResponse"]

    assert response == {**result("read", "The file is an image.", "c1")["functionResponse"], "parts": [picture]}


def test_a_blocked_reply_leaves_no_content():
    talk = Conversation(model="gemini-2.5-pro", wire="gemini")
    talk.user("go")
    talk.assistant({"promptFeedback": {"blockReason": "SAFETY"}})
    talk.user("please")

    assert [content["role"] for content in talk.request()["contents"]] == ["user", "user"]


@pytest.mark.parametrize("ids", [("", ""), ("1", "2")], ids=["without ids", "with ids"])
def test_a_recorded_step_gets_one_result_for_each_call(ids):
    repairs: list[str] = []
    recorded = history(repairs)
    recorded.add([{"role": "user", "parts": [{"text": "go"}]}])
    recorded.add_reply(({"role": "model", "parts": [call("read", ids[0]), call("read", ids[1])]},))
    recorded.add(
        [{"role": "user", "parts": [{"text": "and?"}]}, {"role": "user", "parts": [result("read", "one", ids[0])]}]
    )

    contents = recorded.messages()

    assert refusals("gemini", {"model": "gemini-2.5-pro", "contents": contents}) == []
    assert contents[2]["parts"][0] == result("read", "one", ids[0])
    assert contents[2]["parts"][2] == {"text": "and?"}
    assert len(repairs) == 1, "the missing result"
    assert recorded.messages()[2] is contents[2]


def test_results_that_a_client_cleared_keep_their_field():
    recorded = history()
    recorded.add([{"role": "user", "parts": [{"text": "go"}]}])
    recorded.add_reply(({"role": "model", "parts": [call("read", "1")]},))
    recorded.add(
        [{"role": "user", "parts": [{"functionResponse": {"id": "1", "name": "read", "response": {"result": "long"}}}]}]
    )
    recorded.clear_results(frozenset({"1"}), "[cleared]")

    assert recorded.messages()[2]["parts"][0]["functionResponse"]["response"] == {"result": "[cleared]"}


def test_a_reply_without_a_recorded_question_gets_a_placeholder():
    recorded = history()
    recorded.add_reply(({"role": "model", "parts": [{"text": "hi"}]},))

    assert [content["role"] for content in recorded.messages()[:2]] == ["user", "model"]
