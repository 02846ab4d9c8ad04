"""Which conversation a request belongs to: read from the request alone, the same in every process and on every day."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.fronts.proxy.identity import asked, tenant, wire_of
from ebbtide.store.names import session_stem

CLAUDE = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.3; cch=a1b2"},
    {"type": "text", "text": "You are Claude Code, a command line tool.", "cache_control": {"type": "ephemeral"}},
]
TOOLS = [{"name": "Read", "input_schema": {}}, {"name": "Bash", "input_schema": {}}]
REMINDER = {"type": "text", "text": "<system-reminder>Today is 2026-11-16.</system-reminder>"}
SESSION = "8f1c2d3e-1111-4222-8333-123456789abc"


def claude(messages, **more):
    user = json.dumps({"device_id": "d", "account_uuid": "", "session_id": SESSION})
    return {
        "model": "claude-sonnet-5",
        "system": CLAUDE,
        "tools": TOOLS,
        "metadata": {"user_id": user},
        "messages": messages,
        **more,
    }


def prompt(words="fix the bug", reminder=REMINDER):
    return {"role": "user", "content": [reminder, {"type": "text", "text": words}]}


def session(body, headers=None, wire="anthropic", path="/v1/messages"):
    return asked(wire, path, headers or {}, body).identity


def test_a_conversation_keeps_its_session_as_it_grows():
    """Also when the reminder, the version, a cache mark or the set of tools changes, and from another process."""
    first = session(claude([prompt()]))
    tomorrow = {"type": "text", "text": "<system-reminder>Today is 2026-11-17.</system-reminder>"}
    grown = [prompt(reminder=tomorrow), {"role": "system", "content": "a note"}, {"role": "assistant", "content": "ok"}]
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.4; cch=ffff"}, *CLAUDE[1:]]
    more_tools = [*TOOLS, {"name": "mcp__db", "input_schema": {}}]

    assert session(claude([*grown, prompt("and now?")])) == first
    assert session(claude(grown, system=system, tools=more_tools)) == first
    assert first.client == SESSION


def test_side_requests_under_the_same_id_are_told_apart():
    main = session(claude([prompt()]))
    title = session(claude([prompt()], system="Write a short title.", tools=None))
    agent = session(claude([prompt("search for the parser")]))
    keeper = session(claude([prompt()], system="You keep notes about what the user likes.", tools=TOOLS[:1]))

    assert len({main, title, agent, keeper}) == 4
    assert {one.client for one in (main, title, agent, keeper)} == {SESSION}


@pytest.mark.parametrize(
    ("headers", "more"),
    [
        ({"x-claude-code-session-id": "the-session-1"}, {}),
        ({"x-session-id": "the-session-1"}, {}),
        ({"x-session-affinity": "the-session-1"}, {}),
        ({"x-affinity": "the-session-1"}, {}),
        ({"session_id": "the-session-1"}, {}),
        ({"conversation_id": "the-session-1"}, {}),
        ({}, {"prompt_cache_key": "the-session-1"}),
        ({}, {"metadata": {"user_id": "user_ab_account__session_the-session-1"}}),
        ({}, {"metadata": {"user_id": '{"session_id":"the-session-1"}'}}),
    ],
)
def test_the_clients_own_id_is_heard_wherever_it_stands(headers, more):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}

    assert session(body, headers, "openai_chat").client == "the-session-1"


def test_without_an_id_the_users_first_words_tell():
    def chat(*words):
        return [{"role": "system", "content": "Be brief."}, *({"role": "user", "content": one} for one in words)]

    def of(messages):
        return session({"model": "m", "messages": messages}, wire="openai_chat")

    assert of(chat("a")) == of([*chat("a"), {"role": "assistant", "content": "x"}, {"role": "user", "content": "b"}])
    assert of(chat("a")) != of(chat("b"))


def test_two_credentials_are_two_tenants_and_the_name_tells_neither():
    one, two = {"authorization": "Bearer sk-canary-1"}, {"authorization": "Bearer sk-canary-2"}
    body = claude([prompt()])

    assert session(body, one).project != session(body, two).project
    assert session(body, one).session == session(body, two).session
    assert "canary" not in session(body, one).project
    assert tenant({}) != tenant({"x-api-key": ""})


ASKING = {
    "claude code": "Your task is to create a detailed summary of the conversation so far, paying close attention",
    "codex": "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM",
    "opencode": "Provide a detailed prompt for continuing our conversation above. Focus on information",
    "gemini": "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
}


@pytest.mark.parametrize("client", ASKING)
def test_a_clients_own_compaction_is_recognised(client):
    talk = [prompt(), {"role": "assistant", "content": "ok"}, {"role": "user", "content": ASKING[client]}]

    assert asked("anthropic", "/v1/messages", {}, claude(talk)).only_replayed == "compaction"


@pytest.mark.parametrize(
    ("more", "words", "told"),
    [
        ({"tools": None}, "Summarize the conversation above for a colleague.", "compaction"),
        ({"tool_choice": {"type": "none"}}, "Write a summary of our session so far.", "compaction"),
        ({}, "Summarize the conversation above for a colleague.", ""),
        ({"tools": None}, "Summarize README.md", ""),
        ({}, "go on", ""),
    ],
)
def test_in_other_words_it_is_one_only_where_no_tool_could_answer(more, words, told):
    talk = [prompt(), {"role": "assistant", "content": "ok"}, {"role": "user", "content": words}]

    assert asked("anthropic", "/v1/messages", {}, claude(talk, **more)).only_replayed == told


def test_what_an_earlier_compaction_left_is_no_new_one():
    """Only the newest words count: the summary of before stands at the beginning."""
    talk = [prompt(ASKING["claude code"]), {"role": "assistant", "content": "ok"}, prompt("go on")]

    assert asked("anthropic", "/v1/messages", {}, claude(talk)).only_replayed == ""


@pytest.mark.parametrize(
    ("method", "path", "wire"),
    [
        ("POST", "/v1/messages", "anthropic"),
        ("POST", "/api/v1/messages/count_tokens", "anthropic"),
        ("POST", "/v1/chat/completions", "openai_chat"),
        ("POST", "/openai/deployments/x/chat/completions", "openai_chat"),
        ("POST", "/backend-api/codex/responses", "openai_responses"),
        ("POST", "/v1/responses/compact", "openai_responses"),
        ("GET", "/v1/messages", ""),
        ("POST", "/v1/messages/batches", ""),
        ("POST", "/v1/threads/t/messages", ""),
        ("POST", "/v1/responses/resp_1/cancel", ""),
        ("POST", "/v1beta/models/g:generateContent", ""),
    ],
)
def test_only_turns_of_the_three_wires_are_ours(method, path, wire):
    assert wire_of(method, path) == wire


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    max_leaves=12,
)


@given(
    wire=st.sampled_from(["anthropic", "openai_chat", "openai_responses"]),
    body=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("model", "messages", "input", "system", "tools", "metadata", "prompt_cache_key", "tool_choice", "stream"),
            JSON,
        ),
    ),
    ident=st.text(max_size=300),
)
def test_whatever_comes_has_a_session_with_a_name_that_is_a_file_name(wire, body, ident):
    told = asked(wire, "/v1/messages", {"x-session-id": ident}, body)

    assert session_stem(told.identity.session) == told.identity.session


def test_the_same_words_on_two_wires_are_two_conversations():
    told = [{"role": "user", "content": "hi"}]

    chat, responses = ({"model": "m", key: told} for key in ("messages", "input"))
    assert session(chat, wire="openai_chat") != session(responses, wire="openai_responses")
