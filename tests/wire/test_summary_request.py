"""A question at the end of a conversation leaves all before it as it was, and is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire import WIRES
from ebbtide.wire.requests import THINKING_ROOM
from ebbtide.wire.summary_request import summary_of_transcript, summary_on_prefix
from ebbtide.wire.validity import violations
from upstream import signing
from upstream.caching import Cache
from upstream.check import refusals, warnings
from upstream.talks import bodies, sessions
from wire_messages import text_message

PROMPT = "Summarise the conversation. Answer in words, call no tool."
CAP = 2_000
Body = dict[str, Any]

USER: Body = {"role": "user", "content": "Go."}
CALL: Body = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]}
RESULT: Body = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]


def asked(name: str, body: Body, prompt: str = PROMPT, cap: int = CAP) -> Body:
    question = summary_on_prefix(WIRES[name], body, prompt, cap)
    assert question is not None
    return question


def claude(*messages: Body, **more: Any) -> Body:
    return {"model": "claude-sonnet-4-5", "max_tokens": 8192, "tools": TOOLS, "messages": list(messages), **more}


def gpt(*messages: Body, **more: Any) -> Body:
    return {"model": "gpt-4o", "messages": list(messages), **more}


def words_at_the_end(name: str, body: Body) -> tuple[str, str]:
    """Who speaks last, and what."""
    last = body[WIRES[name].list_key][-1]
    content = last["parts"] if name == "gemini" else last["content"]
    if name == "bedrock_converse" and "cachePoint" in content[-1]:
        content = content[:-1]
    return last.get("role", "user"), content if isinstance(content, str) else content[-1]["text"]


# --- for any conversation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_a_question_put_to_any_valid_request_is_valid(name: str, data: st.DataObject) -> None:
    """By our validator, by the one that was written without it, and by the signatures of thinking."""
    body = data.draw(bodies(name))

    question = asked(name, body)

    assert violations(WIRES[name], question) == []  # type: ignore[arg-type]
    assert refusals(name, question, betas=()) == []
    assert warnings(name, question) == []
    assert signing.refusals(name, question) == []


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_it_ends_in_the_users_text(name: str, data: st.DataObject) -> None:
    """R278: never in a result."""
    role, text = words_at_the_end(name, asked(name, data.draw(bodies(name))))

    assert role == "user"
    assert text.endswith(PROMPT)


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_everything_before_it_is_unchanged(name: str, data: st.DataObject) -> None:
    body = data.draw(bodies(name))
    before = json.dumps(body)
    key = WIRES[name].list_key

    question = asked(name, body)

    assert json.dumps(body) == before, "the request is not touched"
    assert without_limit(question, key) == without_limit(body, key)
    kept = min(len(body[key]), len(question[key]) - 1)
    # Of the last two, one may be operator text, which the user may not follow (A3), and one takes the question in.
    assert kept >= len(body[key]) - 2
    assert all(new is old for new, old in zip(question[key][:kept], body[key], strict=False))


def without_limit(body: Body, key: str) -> Body:
    """The fields that are neither the messages nor the limit on the output."""
    return {k: v for k, v in body.items() if k not in (key, "inferenceConfig") and "max" not in k}


@given(sessions("anthropic"))
def test_the_call_reads_what_the_last_request_left_in_the_cache(session: list[Body]) -> None:
    """By the simulated provider's bill: nearly all that the last request wrote or read is read again."""
    cache = Cache(lambda: 0.0)
    bills = [cache.bill("anthropic", body) for body in session]
    warm = bills[-1].read + bills[-1].written

    bill = cache.bill("anthropic", asked("anthropic", session[-1]))

    assert bill.read >= warm


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_an_open_call_at_the_end_is_left_out(name: str, data: st.DataObject) -> None:
    """A session asked for its summary between a call and its result: nothing is invented in the result's place."""
    body = data.draw(bodies(name))
    key, wire = WIRES[name].list_key, WIRES[name]
    answers = [at for at, one in enumerate(body[key]) if any(b.kind == "result" for b in wire.messages.split(one, key))]
    if not answers:
        return
    cut = data.draw(st.sampled_from(answers))

    question = summary_on_prefix(wire, {**body, key: body[key][:cut]}, PROMPT, CAP)

    assert question is not None
    assert violations(WIRES[name], question) == []  # type: ignore[arg-type]
    assert refusals(name, question, betas=()) == []
    assert "No result" not in json.dumps(question[key][-3:])


# --- where the user may speak -----------------------------------------------------------------------------------------


def test_anthropic_takes_the_question_into_the_last_user_message() -> None:
    """After the results (A19), and as a block beside what was a bare string."""
    beside_results = asked("anthropic", claude(USER, CALL, RESULT))["messages"][-1]["content"]
    beside_words = asked("anthropic", claude(USER))["messages"][-1]["content"]

    assert beside_results[0] is RESULT["content"][0]
    assert [block["type"] for block in beside_results] == ["tool_result", "text"]
    assert beside_words[0] == {"type": "text", "text": "Go."}


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param([CALL], id="open call (A16)"),
        pytest.param([{"role": "assistant", "content": ""}], id="nothing said (A8)"),
        pytest.param(
            [{"role": "assistant", "content": [{"type": "server_tool_use", "id": "s1", "name": "w", "input": {}}]}],
            id="paused turn (A30)",
        ),
        pytest.param([{"role": "system", "content": "Plan mode."}], id="operator text (A3)"),
        pytest.param(
            [
                {"role": "assistant", "content": [
                    {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {},
                     "caller": {"type": "code_execution_20250825", "tool_id": "s1"}}]},
                RESULT,
            ],
            id="code that waits (A27)",
        ),
    ],
)  # fmt: skip
def test_anthropic_is_cut_back_to_a_place_where_the_user_may_speak(tail: list[Body]) -> None:
    question = asked("anthropic", claude(USER, *tail, model="claude-opus-4-8"))

    assert [message["role"] for message in question["messages"]] == ["user"]
    assert violations(WIRES["anthropic"], question) == []


def test_a_finished_answer_stays_and_the_question_follows() -> None:
    message = {"role": "assistant", "content": "Done."}

    for name in ("anthropic", "openai_chat"):
        question = asked(name, {**claude(USER, message), "tools": []})
        assert question["messages"][:2] == [USER, message]
        assert question["messages"][2]["role"] == "user"


def test_chat_joins_the_last_user_message_and_follows_results() -> None:
    """Templates of open models refuse two user messages in a row."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}, {"id": "b"}]}
    results = [{"role": "tool", "tool_call_id": one, "content": "ok"} for one in "ab"]
    parts = {"role": "user", "content": [{"type": "text", "text": "Go."}]}

    assert asked("openai_chat", gpt(USER))["messages"] == [{"role": "user", "content": f"Go.\n\n{PROMPT}"}]
    assert asked("openai_chat", gpt(parts))["messages"][-1]["content"][1] == {"type": "text", "text": PROMPT}
    assert asked("openai_chat", gpt(USER, call, *results))["messages"][-1] == {"role": "user", "content": PROMPT}
    # One answer is missing: the calls leave with the one there is.
    assert len(asked("openai_chat", gpt(USER, call, results[0]))["messages"]) == 1
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert len(asked("openai_chat", gpt(USER, legacy))["messages"]) == 1
    assert (
        len(asked("openai_chat", gpt(USER, legacy, {"role": "function", "name": "f", "content": "1"}))["messages"]) == 4
    )


def test_responses_leaves_out_an_open_call_with_its_reasoning() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    calls = [{"type": "function_call", "call_id": c, "name": "f", "arguments": "{}"} for c in "ab"]
    done = {"type": "function_call_output", "call_id": "a", "output": "ok"}
    request = {"model": "gpt-5", "input": [USER, reasoning, *calls, done]}

    assert asked("openai_responses", request)["input"] == [USER, {"role": "user", "content": PROMPT}]
    assert asked("openai_responses", {"model": "gpt-5", "input": [USER, reasoning]})["input"][0] is USER
    assert asked("openai_responses", {"model": "gpt-5", "input": [USER, reasoning]})["input"][1]["role"] == "user"


def test_a_bare_string_is_one_user_message() -> None:
    question = asked("openai_responses", {"model": "gpt-5", "input": "Go."})

    assert question["input"] == [USER, {"role": "user", "content": PROMPT}]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai_responses", {"model": "m", "input": [USER], "previous_response_id": "resp_1"}),
        ("openai_responses", {"model": "m", "input": [USER], "conversation": "conv_1"}),
        ("openai_responses", {"model": "m", "prompt": {"id": "pmpt_1"}}),
        ("anthropic", claude()),
        ("openai_chat", gpt({"role": "assistant", "tool_calls": [{"id": "a"}]})),
    ],
)
def test_no_summary_request_is_built_when_no_question_can_be_added(name: str, body: Body) -> None:
    assert summary_on_prefix(WIRES[name], body, PROMPT, CAP) is None


# --- marks ------------------------------------------------------------------------------------------------------------


def marked(count: int) -> Body:
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": f"part {at}", **(mark if at < count - 1 else {})} for at in range(4)]
    last = {"role": "user", "content": [{"type": "text", "text": "Go.", **mark}]}
    return claude(last, system=system)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_question_has_its_own_breakpoint_unless_four_are_set(count: int) -> None:
    """R164, R225, A45; the client's own are never dropped for ours."""
    question = asked("anthropic", marked(count))

    assert ("cache_control" in question["messages"][-1]["content"][-1]) == (count < 4)
    assert json.dumps(question).count("cache_control") == min(4, count + 1)
    assert violations(WIRES["anthropic"], question) == []


def test_an_automatic_breakpoint_is_not_doubled() -> None:
    question = asked("anthropic", claude(USER, cache_control={"type": "ephemeral", "ttl": "1h"}))

    assert "cache_control" not in question["messages"][-1]["content"][-1]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body", "field", "limit"),
    [
        ("anthropic", claude(USER), "max_tokens", CAP),
        ("openai_chat", gpt(USER), "max_tokens", CAP),
        ("openai_chat", gpt(USER, max_completion_tokens=9), "max_completion_tokens", CAP),
        ("openai_chat", gpt(USER, max_tokens=90_000), "max_tokens", CAP),
        ("openai_chat", gpt(USER, model="o3"), "max_completion_tokens", CAP + THINKING_ROOM),
        ("openai_chat", gpt(USER, model="gpt-5", reasoning_effort="none"), "max_completion_tokens", CAP),
        ("openai_responses", {"model": "gpt-4.1", "input": "Go."}, "max_output_tokens", CAP),
        (
            "openai_responses",
            {"model": "gpt-5", "input": "Go.", "reasoning": {"effort": "low"}, "max_output_tokens": 9_000},
            "max_output_tokens",
            9_000,
        ),
        # Thought counts as output (A42), and the client's own limit is known to fit.
        ("anthropic", claude(USER, thinking={"type": "enabled", "budget_tokens": 4096}), "max_tokens", 4096 + CAP),
        ("anthropic", claude(USER, thinking={"type": "enabled", "budget_tokens": 8000}), "max_tokens", 8192),
        (
            "anthropic",
            claude(USER, thinking={"type": "adaptive"}, max_tokens=64_000),
            "max_tokens",
            CAP + THINKING_ROOM,
        ),
        ("anthropic", claude(USER, thinking={"type": "disabled"}), "max_tokens", CAP),
    ],
)
def test_the_cap_is_in_the_requests_own_field_with_room_for_thinking(
    name: str, body: Body, field: str, limit: int
) -> None:
    question = asked(name, body)

    assert {key: value for key, value in question.items() if key.startswith("max_")} == {field: limit}


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "any"},
        {"type": "tool", "name": "Read"},
        "required",
        {"type": "function", "function": {"name": "f"}},
        {"type": "allowed_tools", "mode": "required", "tools": []},
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}},
    ],
)
def test_a_tool_choice_that_forces_a_call_is_removed(choice: Any) -> None:
    assert "tool_choice" not in asked("openai_chat", gpt(USER, tool_choice=choice))


@pytest.mark.parametrize(
    "choice",
    [
        None,
        "auto",
        "none",
        {"type": "none"},
        {"type": "auto", "disable_parallel_tool_use": True},
        {"type": "allowed_tools", "mode": "auto"},
    ],
)
def test_any_other_choice_stays_for_it_is_part_of_what_is_cached(choice: Any) -> None:
    assert asked("anthropic", claude(USER, tool_choice=choice))["tool_choice"] == choice


def test_nothing_forces_a_format_or_streams() -> None:
    schema = {"type": "json_schema", "schema": {}}
    chat = asked("openai_chat", gpt(USER, response_format=schema, stream=True, stream_options={}, n=2, stop=["\n"]))
    text = asked("openai_responses", {"model": "m", "input": "Go.", "text": {"format": schema, "verbosity": "low"}})
    bare = asked("openai_responses", {"model": "m", "input": "Go.", "text": {"format": schema}, "background": True})
    beta = asked("anthropic", claude(USER, output_config={"format": schema, "effort": "low"}, output_format=schema))

    assert set(chat) == {"model", "messages", "max_tokens"}
    assert text["text"] == {"verbosity": "low"}
    assert set(bare) == {"model", "input", "max_output_tokens"}
    assert beta["output_config"] == {"effort": "low"}
    assert "output_format" not in beta


def test_plain_text_as_a_format_stays() -> None:
    question = asked("openai_chat", gpt(USER, response_format={"type": "text"}))

    assert question["response_format"] == {"type": "text"}


# --- a fresh request --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIRES)
def test_a_transcript_is_one_user_message_with_the_question_after_what_is_quoted(name: str) -> None:
    """R171: no tools, no system prompt."""
    question = summary_of_transcript(
        WIRES[name], model="small", prompt=PROMPT, quoted="<history>x</history>", max_tokens=CAP
    )

    message = text_message(name, "user", f"<history>x</history>\n\n{PROMPT}")
    room = THINKING_ROOM if name == "gemini" else 0
    assert question[WIRES[name].list_key] == [message]
    limits = (CAP, {"maxOutputTokens": CAP + room}, {"maxTokens": CAP})
    assert sum(value in limits for value in question.values()) == 1
    assert len(question) == 3
    assert violations(WIRES[name], question) == []  # type: ignore[arg-type]
    assert refusals(name, question, betas=()) == []


def test_a_model_that_thinks_by_default_gets_room_for_it() -> None:
    question = summary_of_transcript(
        WIRES["openai_chat"], model="gpt-5-mini", prompt=PROMPT, quoted="x", max_tokens=CAP
    )

    assert question["max_completion_tokens"] == CAP + THINKING_ROOM
