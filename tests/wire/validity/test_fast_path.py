"""The short way says yes only where the rules have nothing to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire import WIRES
from ebbtide.wire.anthropic.rules import is_ordinary
from ebbtide.wire.bedrock_converse import rules as converse
from ebbtide.wire.gemini import rules as gemini
from ebbtide.wire.openai_responses import rules as responses
from ebbtide.wire.validity import apply_rules
from poison.histories import GRAMMARS, spoiled


def ids(messages):
    blocks = [b for m in messages if isinstance(m, dict) and isinstance(m.get("content"), list) for b in m["content"]]
    return frozenset(str(b.get("id")) for b in blocks if isinstance(b, dict) and b.get("type") == "tool_use")


@given(data=st.data())
def test_ordinary_content_breaks_no_rule(data):
    body = data.draw(st.one_of(spoiled("anthropic"), GRAMMARS["anthropic"]()))
    messages = body.get("messages")
    if not isinstance(messages, list):
        return
    since = data.draw(st.integers(0, len(messages)))
    taken = ids(messages[:since])
    marked = data.draw(st.sampled_from([None, 0, 1, 4]))
    if is_ordinary(body, since, taken, marked):
        assert apply_rules(WIRES["anthropic"], body, since, taken, marked or 0)[1] == []


CALL = {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}
DONE = {"type": "tool_result", "tool_use_id": "a", "content": "text"}


def ordinary(*messages, **more):
    return is_ordinary({"messages": list(messages), **more}, 0, frozenset(), None)


def said(role, *content):
    return {"role": role, "content": list(content) if not isinstance(content[0], str) else content[0]}


def test_a_task_a_call_and_its_result_are_ordinary():
    assert ordinary(said("user", "go"), said("assistant", CALL), said("user", DONE))


@pytest.mark.parametrize(
    "messages",
    [
        [said("assistant", "hi"), said("user", "go")],
        [said("user", "go"), said("assistant", CALL), said("user", "no result")],
        [said("user", "go"), said("assistant", CALL), said("user", DONE, DONE)],
        [said("user", "go"), said("user", "go")],
        [said("user", " \n")],
        [said("user", "\ud800")],
        [said("user", {"type": "text", "text": ""})],
        [said("user", "go"), said("assistant", CALL), said("user", {"type": "text", "text": "x"}, DONE)],
        [said("user", "go"), said("assistant", {**CALL, "input": "{}"}), said("user", DONE)],
        [said("user", "go"), said("assistant", {**CALL, "input": {"x": float("nan")}}), said("user", DONE)],
        [said("user", "go"), said("assistant", CALL), said("user", {**DONE, "content": "", "is_error": True})],
        [said("user", "go"), said("assistant", CALL), said("user", DONE), said("assistant", CALL), said("user", DONE)],
        [said("user", "go"), said("assistant", {"type": "thinking", "thinking": "x"}), said("user", "go")],
    ],
)
def test_forbidden_content_is_not_ordinary(messages):
    assert not ordinary(*messages)


def test_a_loop_that_opens_without_the_thinking_it_needs_is_not():
    talk = [said("user", "go"), said("assistant", CALL), said("user", DONE)]
    assert not ordinary(*talk, thinking={"type": "enabled", "budget_tokens": 1024})


# --- OpenAI Responses ------------------------------------------------------------------------------------------------


@given(data=st.data())
def test_ordinary_content_of_a_responses_body_breaks_no_rule(data):
    body = data.draw(st.one_of(spoiled("openai_responses"), GRAMMARS["openai_responses"]()))
    items = body.get("input")
    if not isinstance(items, list):
        return
    since = data.draw(st.integers(0, len(items)))
    if responses.is_ordinary(body, since, frozenset(), None):
        assert apply_rules(WIRES["openai_responses"], body, since, frozenset(), None)[1] == []


ASKED = {"role": "user", "content": "go"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
USED = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read", "arguments": "{}"}
GIVEN = {"type": "function_call_output", "call_id": "a", "output": "text"}
WORDS = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}


def usual(*items, **more):
    return responses.is_ordinary({"input": list(items), **more}, 0, frozenset(), None)


def test_a_task_reasoning_a_call_its_output_and_words_are_ordinary():
    assert usual(ASKED, THOUGHT, USED, GIVEN, WORDS, store=False)


@pytest.mark.parametrize(
    "items",
    [
        [ASKED, USED],
        [ASKED, GIVEN],
        [ASKED, USED, GIVEN, GIVEN],
        [ASKED, USED, {**USED, "id": "fc_2"}, GIVEN],
        [ASKED, USED, {**GIVEN, "type": "custom_tool_call_output"}],
        [ASKED, USED, {**GIVEN, "output": None}],
        [ASKED, {**USED, "arguments": {}}, GIVEN],
        [ASKED, {**USED, "name": None}, GIVEN],
        [ASKED, {**USED, "call_id": "a" * 65}, {**GIVEN, "call_id": "a" * 65}],
        [ASKED, {**USED, "id": "msg_1"}, GIVEN],
        [ASKED, THOUGHT],
        [ASKED, THOUGHT, ASKED],
        [ASKED, USED, THOUGHT, GIVEN, WORDS],
        [ASKED, {**THOUGHT, "summary": None}, WORDS],
        [ASKED, {**THOUGHT, "encrypted_content": None}, WORDS],
        [ASKED, {**WORDS, "id": "msg_1"}, {**WORDS, "id": "msg_1"}],
        [ASKED, {"role": "user", "content": "\ud800"}],
        [ASKED, {"role": "user", "content": ["words"]}],
        [ASKED, {"role": "user"}],
        [{"content": "whose?"}],
        [{"type": "item_reference", "id": "msg_1"}],
        ["words"],
    ],
)
def test_forbidden_content_of_a_responses_body_is_not_ordinary(items):
    assert not usual(*items, store=False)


def test_what_is_beside_the_items_must_be_valid_too():
    assert usual(ASKED, metadata={"x": "y"})
    assert not usual(ASKED, metadata={"x": "\ud800"})
    assert not usual(ASKED, instructions="\ud800")


# --- Gemini ----------------------------------------------------------------------------------------------------------


@given(data=st.data())
def test_ordinary_contents_of_a_gemini_body_break_no_rule(data):
    body = data.draw(st.one_of(spoiled("gemini"), GRAMMARS["gemini"]()))
    contents = body.get("contents")
    if not isinstance(contents, list):
        return
    since = gemini.first_to_check(contents, data.draw(st.integers(0, len(contents))))
    if gemini.is_ordinary(body, since, frozenset(), None):
        assert apply_rules(WIRES["gemini"], body, since, frozenset(), None)[1] == []


QUESTION = {"role": "user", "parts": [{"text": "go"}]}
STEP = {"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "c2ln"}
ANSWER = {"functionResponse": {"name": "read", "response": {"output": "text"}}}
NEW = {"model": "gemini-3-pro-preview"}


def by_model(*parts):
    return {"role": "model", "parts": list(parts)}


def by_user(*parts):
    return {"role": "user", "parts": list(parts)}


def common(*contents, **more):
    return gemini.is_ordinary({"contents": list(contents), **more}, 0, frozenset(), None)


def test_a_question_a_signed_call_its_response_and_words_are_ordinary():
    assert common(
        QUESTION, by_model({"text": "ok"}, STEP), by_user(ANSWER), by_model({"text": "done"}), QUESTION, **NEW
    )
    unsigned = {"functionCall": STEP["functionCall"]}
    assert common(QUESTION, by_model(unsigned), by_user(ANSWER), model="gemini-2.5-pro")
    assert common(QUESTION, by_model(unsigned), by_user(ANSWER), by_model({"text": "done"}), QUESTION, **NEW)


@pytest.mark.parametrize(
    "contents",
    [
        [by_model({"text": "hi"}), QUESTION],
        [QUESTION, by_model({"text": "hi"})],
        [QUESTION, QUESTION],
        [QUESTION, by_model(STEP)],
        [QUESTION, by_model(STEP), QUESTION],
        [QUESTION, by_user(ANSWER)],
        [QUESTION, by_model(STEP), by_user(ANSWER, ANSWER)],
        [QUESTION, by_model(STEP), by_user({"text": "x"}, ANSWER)],
        [QUESTION, by_model(STEP, STEP), by_user(ANSWER)],
        [QUESTION, by_model({"functionCall": STEP["functionCall"]}), by_user(ANSWER)],
        [QUESTION, by_model({**STEP, "text": ""}), by_user(ANSWER)],
        [
            QUESTION,
            by_model({"functionCall": {"name": "read", "args": "{}"}, "thoughtSignature": "s"}),
            by_user(ANSWER),
        ],
        [QUESTION, by_model(STEP), by_user({"functionResponse": {"name": "grep", "response": {}}})],
        [QUESTION, by_model(STEP), by_user({"functionResponse": {"id": "x", "name": "read", "response": {}}})],
        [QUESTION, by_model(STEP), by_user({"functionResponse": {"name": "read", "response": "text"}})],
        [QUESTION, by_model({"text": "hm", "thought": True}), QUESTION],
        [QUESTION, by_model({"text": ""}), QUESTION],
        [QUESTION, by_model(), QUESTION],
        [{"role": "user", "parts": "go"}],
        [{"role": "user", "parts": [{"text": "half \ud83d"}]}],
        [{"role": "robot", "parts": [{"text": "go"}]}],
        ["go"],
    ],
)
def test_forbidden_contents_of_a_gemini_body_are_not_ordinary(contents):
    assert not common(*contents, **NEW)


# --- Bedrock ---------------------------------------------------------------------------------------------------------


@given(data=st.data())
def test_ordinary_messages_of_a_converse_body_break_no_rule(data):
    body = data.draw(st.one_of(spoiled("bedrock_converse"), GRAMMARS["bedrock_converse"]()))
    messages = body.get("messages")
    if not isinstance(messages, list):
        return
    since = converse.first_to_check(messages, data.draw(st.integers(0, len(messages))))
    taken = frozenset(id for message in messages[:since] for id in converse.call_ids(message))
    marked = data.draw(st.sampled_from([None, 0, 1, 4]))
    if converse.is_ordinary(body, since, taken, marked):
        assert apply_rules(WIRES["bedrock_converse"], body, since, taken, marked or 0)[1] == []


TASK = {"role": "user", "content": [{"text": "go"}]}
ACT = {"toolUse": {"toolUseId": "a", "name": "read", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "a", "content": [{"text": "text"}]}}
POINT = {"cachePoint": {"type": "default"}}
TOOLS = {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}]}


def says(role, *blocks):
    return {"role": role, "content": list(blocks)}


def everyday(*messages, **more):
    body = {"modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0", "toolConfig": TOOLS, "messages": list(messages)}
    return converse.is_ordinary({**body, **more}, 0, frozenset(), None)


def test_a_task_a_call_its_result_and_words_are_ordinary_on_bedrock():
    step = [says("assistant", {"text": "I look."}, ACT), says("user", RESULT, {"text": "and?"}, POINT)]
    assert everyday(TASK, *step)


@pytest.mark.parametrize(
    "messages",
    [
        [says("assistant", {"text": "hm"}), TASK],
        [TASK, TASK],
        [TASK, says("assistant", {"text": "hm"})],
        [TASK, says("assistant", ACT), says("user", {"text": "never mind"})],
        [TASK, says("assistant", ACT), says("user", RESULT, RESULT)],
        [TASK, says("assistant", ACT), says("user", {"text": "x"}, RESULT)],
        [TASK, says("assistant", ACT), says("user", {"toolResult": {"toolUseId": "a", "content": "text"}})],
        [TASK, says("assistant", ACT), says("user", {"toolResult": {"toolUseId": "a", "content": []}})],
        [TASK, says("assistant", {"toolUse": {**ACT["toolUse"], "input": "{}"}}), says("user", RESULT)],
        [TASK, says("assistant", ACT), says("user", RESULT), says("assistant", ACT), says("user", RESULT)],
        [says("user", {"text": " "})],
        [says("user", {"text": "\ud800"})],
        [says("user", POINT, {"text": "go"})],
        [says("user", *[{"text": "go"}, POINT] * 5)],
        [says("user")],
        [{"role": "user", "content": "go"}],
        ["words"],
    ],
)
def test_forbidden_content_of_a_converse_body_is_not_ordinary(messages):
    assert not everyday(*messages)


def test_calls_without_defined_tools_are_not_ordinary():
    assert not everyday(TASK, says("assistant", ACT), says("user", RESULT), toolConfig={})
