"""Which conversation a request belongs to: read from the request alone, the same in every process and on every day."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.fronts.proxy.identity import wire_for_path
from ebbtide.store.directory.file_names import session_stem
from ebbtide.store.tenants import tenant_name
from ebbtide.wire import WIRES
from ebbtide.wire.caller import find_credentials
from fronts.proxy.proxy_runner import identify

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
    return identify(wire, path, headers or {}, body).identity


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


def test_side_requests_under_the_same_id_are_separate_sessions():
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
        ({"x-litellm-session-id": "the-session-1"}, {}),
        ({}, {"session_id": "the-session-1"}),
        ({}, {"metadata": {"threadId": "the-session-1"}}),
        ({}, {"metadata": {"user_id": "user_ab_account__session_the-session-1"}}),
        ({}, {"metadata": {"user_id": '{"session_id":"the-session-1"}'}}),
    ],
)
def test_the_clients_own_id_is_found_in_headers_and_body(headers, more):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}

    assert session(body, headers, "openai_chat").client == "the-session-1"


def test_without_an_id_the_users_first_message_identifies_the_session():
    def chat(*words):
        return [{"role": "system", "content": "Be brief."}, *({"role": "user", "content": word} for word in words)]

    def of(messages):
        return session({"model": "m", "messages": messages}, wire="openai_chat")

    assert of(chat("a")) == of([*chat("a"), {"role": "assistant", "content": "x"}, {"role": "user", "content": "b"}])
    assert of(chat("a")) != of(chat("b"))


UUID = "0f1e2d3c-4b5a-4678-9abc-def012345678"
HEADERS = (
    *("x-claude-code-session-id", "x-claude-code-agent-id", "session_id", "session-id", "conversation_id", "thread-id"),
    *(
        "x-codex-thread-id",
        "x-session-id",
        "x-session-affinity",
        "x-affinity",
        "x-opencode-session",
        "x-opencode-project",
    ),
    *("x-task-id", "x-kilocode-taskid", "x-grok-conv-id", "helicone-session-id", "x-litellm-session-id", "x-chat-id"),
    *("openai-organization", "openai-project", "anthropic-organization-id", "anthropic-workspace-id"),
    *("chatgpt-account-id", "x-goog-user-project", "x-openwebui-user-email", "x-acme-tenant-id", "x-forwarded-user"),
)
FIELDS = ("user", "safety_identifier", "prompt_cache_key", "session_id")
CREDENTIALS = (
    *("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "apikey", "x-auth-token"),
    *(
        "ocp-apim-subscription-key",
        "cf-aig-authorization",
        "helicone-auth",
        "x-portkey-api-key",
        "x-portkey-virtual-key",
    ),
)
CHANGING = {
    "x-request-id": "r", "request-id": "r", "x-client-request-id": "r", "traceparent": "00-a-b-01", "x-trace-id": "t",
    "x-amzn-trace-id": "Root=1", "x-b3-traceid": "b", "cf-ray": "c", "idempotency-key": "i", "x-correlation-id": "c",
    "x-stainless-retry-count": "1", "x-stainless-timeout": "600", "x-interaction-id": "n", "x-opencode-request": "m",
    "x-amz-date": "20261116T1200Z", "date": "Mon", "user-agent": "a", "sec-fetch-user": "?1", "x-litellm-call-id": "c",
    "vscode-sessionid": "v", "content-length": "12",
}  # fmt: skip


def plain(words="hi", **more):
    return {"model": "m", "messages": [{"role": "user", "content": words}], **more}


@pytest.mark.parametrize("name", HEADERS)
def test_every_id_in_a_header_counts_by_its_exact_case(name):
    one, two = session(plain(), {name: "Acme-0001"}), session(plain(), {name: "acme-0001"})

    assert len({one, two, session(plain()), session(plain(), {name: "Acme-0001-b"})}) == 4
    assert session(plain(), {name: "Acme-0001"}) == one


@pytest.mark.parametrize("name", FIELDS)
def test_every_id_in_a_body_counts_by_its_exact_case(name):
    one, two = (session(plain(**{name: value})) for value in ("Acme-0001", "acme-0001"))

    assert len({one, two, session(plain())}) == 3


@pytest.mark.parametrize("other", [{"openai-project": "p2"}, {"x-session-id": "s-2"}, {"x-api-key": "k2"}])
def test_if_one_of_several_ids_differs_it_is_another_session(other):
    first = {"openai-project": "p1", "x-session-id": "s-1", "x-api-key": "k1", "session_id": UUID}

    assert session(plain(), {**first, **other})[:] != session(plain(), first)[:]
    assert session(plain(user="u1"), first) != session(plain(user="u2"), first)


def test_the_full_metadata_user_id_counts():
    def of(device, account):
        user = {"device_id": device, "account_uuid": account, "session_id": SESSION}
        return session(claude([prompt()], metadata={"user_id": json.dumps(user)}))

    assert len({of("d1", "a1"), of("d1", "a2"), of("d2", "a1")}) == 3
    assert of("d1", "a1").client == of("d2", "a1").client == SESSION


@pytest.mark.parametrize("name", ["x-session-id", "x-acme-tenant-id"])
def test_a_long_id_counts_to_its_last_letter(name):
    one, two = (session(plain(), {name: "x" * 5_000 + end}) for end in "ab")

    assert len({one, two, session(plain())}) == 3
    assert len(one.session) < 64


@pytest.mark.parametrize("name", CHANGING)
def test_values_that_change_with_each_request_are_no_identity(name):
    assert (
        session(plain(), {name: CHANGING[name]}) == session(plain(), {name: CHANGING[name] + "2"}) == session(plain())
    )


@pytest.mark.parametrize("name", CREDENTIALS)
def test_every_credential_distinguishes_tenants(name):
    one, two = (session(plain(), {name: value}) for value in ("Key-1", "key-1"))

    assert len({one.project, two.project, session(plain()).project}) == 3
    assert "key-1" not in one.project + one.session


@pytest.mark.parametrize("name", ["key", "api_key", "api-key", "access_token", "subscription-key"])
def test_a_key_in_the_address_is_a_credential(name):
    one, two, none = (
        session(plain(), path=f"/v1/messages{query}") for query in (f"?{name}=a&beta=true", f"?{name}=b", "?beta=true")
    )

    assert len({one.project, two.project, none.project}) == 3
    assert none == session(plain())


def test_only_the_key_id_of_a_signature_counts():
    def signed(key, day, signature):
        scope = f"Credential={key}/{day}/us-east-1/bedrock/aws4_request"
        return tenant_name(
            find_credentials({"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature={signature}"})
        )

    assert signed("AKIA1", "20261116", "ab12") == signed("AKIA1", "20261117", "cd34")
    assert signed("AKIA1", "20261116", "ab12") != signed("AKIA2", "20261116", "ab12")


@pytest.mark.parametrize(
    ("credential", "body", "renewable"),
    [
        ({"authorization": "Bearer t"}, claude([prompt()]), True),
        ({"authorization": "Bearer t"}, plain(prompt_cache_key=UUID), True),
        ({"authorization": "Bearer t", "session_id": UUID}, plain(), True),
        ({"authorization": "Bearer t", "x-session-id": "nightly-1"}, plain(), False),
        ({"authorization": "Bearer t", "openai-organization": UUID}, plain(user=UUID), False),
        ({"authorization": "Bearer t"}, plain(), False),
        ({"x-api-key": "k"}, claude([prompt()]), False),
    ],
)
def test_a_token_may_be_renewed_when_the_conversations_own_id_cannot_be_guessed(credential, body, renewable):
    assert identify("anthropic", "/v1/messages", credential, body).is_renewable is renewable


def test_beside_a_bearer_token_every_other_credential_has_to_stay():
    body = claude([prompt()])
    one = session(body, {"authorization": "Bearer a", "x-api-key": "k1"})

    assert session(body, {"authorization": "Bearer b", "x-api-key": "k1"}).session == one.session
    assert session(body, {"authorization": "Bearer b", "x-api-key": "k2"}).session != one.session
    assert session(body, {"authorization": "Bearer b"}).session != one.session


PROMPT = (
    "You are the clerk of account {account}. It is {now}. Turn {turn}; {left} tokens are left.\n" + "Be kind. " * 300
)


def clerk(account="4711-0001", now="Monday, 2026-11-16 04:30:12 UTC", turn=3, left="81,204", end=""):
    return plain(system=PROMPT.format(account=account, now=now, turn=turn, left=left) + end)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"now": "Monday, 2026-11-16 04:30:12 UTC"}, {"now": "Tuesday, 2026-11-17 11:59:59 UTC"}),
        ({"now": "Tue, 17 Nov 2026 11:59 PM"}, {"now": "Wed, 18 Nov 2026 12:01 AM"}),
        ({"now": "November 3rd, 2026"}, {"now": "December 24th, 2027"}),
        ({"now": "2026-11-16T12:00:00.123Z"}, {"now": "2026-11-16T12:00:07.456Z"}),
        ({"now": "11/17/2026 9 am"}, {"now": "11/18/2026 10 pm"}),
        ({"turn": 3, "left": "81,204"}, {"turn": 41, "left": "7,001"}),
    ],
)
def test_a_clock_or_a_counter_in_a_prompt_begins_no_new_session(first, then):
    assert session(clerk(**then)) == session(clerk(**first))


def test_unnamed_prompts_that_differ_in_other_digits_or_late_are_two_sessions():
    """Two users' account numbers are no date."""
    assert session(clerk()) != session(clerk(account="4711-0002"))
    assert session(clerk()) != session(clerk(end=" The customer is A. Smith."))


def test_unnamed_first_messages_count_to_the_last_letter():
    def of(*texts):
        return session(plain([{"type": "text", "text": text} for text in texts]))

    assert len({of("mend issue 12"), of("mend issue 13"), of("mend issue 12", "in a.py"), of("mend Issue 12")}) == 4


def test_under_a_conversations_own_id_the_end_of_a_prompt_may_change():
    """Clients put what changes there: the state of a repository, servers that come and go."""
    long = "You are an agent that mends code. " * 40

    one, two = (session(plain(system=long + end), {"session_id": UUID}) for end in ("On branch main.", "On branch x."))
    assert one == two


def test_two_credentials_are_two_tenants_and_the_name_reveals_neither():
    one, two = {"authorization": "Bearer sk-canary-1"}, {"authorization": "Bearer sk-canary-2"}
    body = claude([prompt()])

    assert session(body, one).project != session(body, two).project
    assert session(body, one).session == session(body, two).session
    assert "canary" not in session(body, one).project
    assert tenant_name(find_credentials({})) != tenant_name(find_credentials({"x-api-key": ""}))


ASKING = {
    "claude code": "Your task is to create a detailed summary of the conversation so far, paying close attention",
    "codex": "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM",
    "opencode": "Provide a detailed prompt for continuing our conversation above. Focus on information",
    "gemini": "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
}


@pytest.mark.parametrize("client", ASKING)
def test_a_clients_own_compaction_is_recognised(client):
    talk = [prompt(), {"role": "assistant", "content": "ok"}, {"role": "user", "content": ASKING[client]}]

    assert identify("anthropic", "/v1/messages", {}, claude(talk)).side_request == "compaction"


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
def test_a_reworded_summary_request_is_recognized_only_if_no_tool_could_answer(more, words, told):
    talk = [prompt(), {"role": "assistant", "content": "ok"}, {"role": "user", "content": words}]

    assert identify("anthropic", "/v1/messages", {}, claude(talk, **more)).side_request == told


def test_the_summary_of_an_earlier_compaction_is_not_a_new_one():
    """Only the newest words count: the summary of before stands at the beginning."""
    talk = [prompt(ASKING["claude code"]), {"role": "assistant", "content": "ok"}, prompt("go on")]

    assert identify("anthropic", "/v1/messages", {}, claude(talk)).side_request == ""


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
        ("POST", "/v1beta/models/g:generateContent", "gemini"),
        ("POST", "/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent", "gemini"),
        ("POST", "/v1beta/models/g:countTokens", "gemini"),
        ("POST", "/v1beta/models/g:batchGenerateContent", ""),
        ("POST", "/v1beta/models/g:embedContent", ""),
        ("POST", "/v1beta/cachedContents", ""),
    ],
)
def test_only_requests_of_the_wires_are_planned(method, path, wire):
    assert wire_for_path(method, path) == wire


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    max_leaves=12,
)


@given(
    wire=st.sampled_from(list(WIRES)),
    body=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            (
                *("model", "messages", "input", "contents", "system", "systemInstruction", "tools", "toolConfig"),
                *("metadata", "prompt_cache_key", "tool_choice", "stream"),
            ),
            JSON,
        ),
    ),
    ident=st.text(max_size=300),
)
def test_every_request_has_a_session_whose_name_is_a_file_name(wire, body, ident):
    told = identify(wire, "/v1/messages", {"x-session-id": ident}, body)

    assert session_stem(told.identity.session) == told.identity.session


def test_the_same_words_on_two_wires_are_two_conversations():
    told = [{"role": "user", "content": "hi"}]

    chat, responses = ({"model": "m", key: told} for key in ("messages", "input"))
    assert session(chat, wire="openai_chat") != session(responses, wire="openai_responses")
