"""Each rule of OpenAI's two wires refuses its bad example, in the provider's words, and accepts its good one."""

from __future__ import annotations

import pytest

from upstream.check import RULES, WARNED, refusals, warnings
from upstream.finding import Body, Json

CHAT, RESPONSES = "openai_chat", "openai_responses"


def chat(*messages: Body, **settings: Json) -> Body:
    return {"model": "gpt-4.1", "messages": list(messages), **settings}


def user(content: Json = "hi") -> Body:
    return {"role": "user", "content": content}


def calls(*ids: str, arguments: Json = "{}", **more: Json) -> Body:
    function = {"name": "run_shell", "arguments": arguments}
    made = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": made, **more}


def tool(call: str = "call_1", content: Json = "ok") -> Body:
    return {"role": "tool", "tool_call_id": call, "content": content}


def responses(*items: Body, **settings: Json) -> Body:
    return {"model": "gpt-5", "input": list(items), **settings}


def call(call_id: str = "call_1", **more: Json) -> Body:
    return {"type": "function_call", "call_id": call_id, "name": "shell", "arguments": "{}", **more}


def output(call_id: str = "call_1", kind: str = "function_call") -> Body:
    return {"type": f"{kind}_output", "call_id": call_id, "output": "ok"}


def said(**more: Json) -> Body:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}], **more}


def thought(**more: Json) -> Body:
    return {"type": "reasoning", "summary": [], "encrypted_content": "x", **more}


def custom(call_id: str = "call_1", **more: Json) -> Body:
    return {"type": "custom_tool_call", "call_id": call_id, "name": "apply_patch", "input": "x", **more}


GROUP = (thought(id="rs_ebb1_0of3"), said(id="msg_ebb1_1of3"), call(id="fc_ebb1_2of3"))
APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: {}"
)
ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
LONG = "string too long. Expected a string with maximum length {}, but got a string with length {} instead."
NOT_KEPT = (
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. "
    "Try again with `store` set to true, or remove this item from your input."
)

REFUSED: list[tuple[str, str, Body, str]] = [
    (CHAT, "A11", chat(user("\udc00")), "surrogates not allowed"),
    (CHAT, "C1", chat(user(), calls("call_1")), UNANSWERED.format("call_1")),
    (CHAT, "C1", chat(user(), calls("call_1", "b"), tool(), user(), tool("b")), UNANSWERED.format("b")),
    (CHAT, "C1", chat(user(), calls("call_1"), user(), tool()), UNANSWERED.format("call_1")),
    (CHAT, "C2", chat(user(), tool()), ORPHAN),
    (CHAT, "C2", chat(user(), calls("call_1"), tool(), tool("call_2")), ORPHAN),
    (CHAT, "C2", chat(user(), calls("call_1"), tool(), user(), tool()), ORPHAN),
    (
        CHAT,
        "C3",
        chat(user(), {"role": "assistant", "content": "a", "tool_calls": []}),
        "Invalid 'messages[1].tool_calls': empty array. "
        "Expected an array with minimum length 1, but got an empty array instead.",
    ),
    (
        CHAT,
        "C4",
        chat(user(), calls("a" * 41), tool("a" * 41)),
        f"Invalid 'messages[1].tool_calls[0].id': {LONG.format(40, 41)}",
    ),
    (CHAT, "C8", chat(user(), calls("call_1", arguments={}), tool()), "messages[1].tool_calls[0].function.arguments"),
    (RESPONSES, "A11", responses(user("\ud800")), "surrogates not allowed"),
    (RESPONSES, "R1", responses(call()), "No tool output found for function call call_1."),
    (RESPONSES, "R1", responses(custom()), "No tool output found for custom tool call call_1."),
    (RESPONSES, "R2", responses(output()), "No tool call found for function call output with call_id call_1."),
    (RESPONSES, "R2", responses(user(), APPROVAL), "mcpr_1"),
    (
        RESPONSES,
        "R3",
        responses(thought(id="rs_1"), user()),
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    (RESPONSES, "R3", responses(user(), thought(id="rs_1")), "'rs_1'"),
    (RESPONSES, "R3", responses(thought(id="rs_1"), thought(id="rs_2"), said()), "'rs_1'"),
    (RESPONSES, "R3", responses(GROUP[0], GROUP[2], output()), "'rs_ebb1_0of3'"),
    (RESPONSES, "R3", responses(call(), thought(id="rs_ebb1_0of1"), output()), "'rs_ebb1_0of1'"),
    (
        RESPONSES,
        "R4",
        responses(GROUP[2], output()),
        "Item 'fc_ebb1_2of3' of type 'function_call' was provided "
        "without its required 'reasoning' item: 'rs_ebb1_0of3'.",
    ),
    (RESPONSES, "R4", responses(*GROUP[1:], output()), "Item 'msg_ebb1_1of3' of type 'message'"),
    (RESPONSES, "R3+4", responses(*GROUP[:2], user()), "group 1"),
    (RESPONSES, "R5", responses(thought(id="rs_1", encrypted_content=None), said(), store=False), NOT_KEPT),
    (RESPONSES, "R5", responses({"type": "item_reference", "id": "rs_1"}, store=False), NOT_KEPT),
    (
        RESPONSES,
        "R8",
        responses(call(id="item_1"), output()),
        "Invalid 'input[0].id': 'item_1'. Expected an ID that begins with 'fc'.",
    ),
    (RESPONSES, "R8", responses(said(id="fc_1")), "begins with 'msg'"),
    (RESPONSES, "R8", responses(said(id="msg_" + "a" * 404)), f"Invalid 'input[0].id': {LONG.format(64, 408)}"),
    (RESPONSES, "R8", responses(said(id="msg_a b")), "'msg_a b'"),
    (
        RESPONSES,
        "R9",
        responses(said(id="msg_4"), user(), said(id="msg_4")),
        "Duplicate item found with id msg_4. Remove duplicate items from your input and try again.",
    ),
    (
        RESPONSES,
        "R10",
        responses(call("c" * 116), output("c" * 116)),
        f"Invalid 'input[0].call_id': {LONG.format(64, 116)}",
    ),
    (RESPONSES, "R11", responses(custom(), output()), "No tool output found for custom tool call call_1."),
    (RESPONSES, "R11", responses(call(), output(kind="custom_tool_call")), "No tool output found for function call"),
    (RESPONSES, "R12", responses(user(), {"type": "compaction", "id": "cmp_1"}), "input[1].encrypted_content"),
]

ACCEPTED: list[tuple[str, str, Body]] = [
    (CHAT, "A11", chat(user("🙂"))),
    (CHAT, "C1", chat(user(), calls("call_1", "b"), tool("b"), tool(), user())),
    (CHAT, "C2", chat(user(), calls("call_1"), tool(), calls("b"), tool("b"))),
    (CHAT, "C3", chat(user(), {"role": "assistant", "content": None, "refusal": "no"}, user())),
    (CHAT, "C4", chat(user(), calls("a" * 40), tool("a" * 40))),
    (CHAT, "C8", chat(user(), calls("call_1", arguments="{not json"), tool())),
    (RESPONSES, "A11", responses(user("🙂"))),
    (RESPONSES, "R1", responses(call(), call("b"), output("b"), output())),
    (RESPONSES, "R1", responses({"type": "tool_search_call", "call_id": "t", "execution": "server"})),
    (RESPONSES, "R2", responses(output(), previous_response_id="resp_1")),
    (RESPONSES, "R2", responses({"type": "mcp_approval_request", "id": "mcpr_1"}, APPROVAL)),
    (RESPONSES, "R3", responses(thought(id="rs_1"), said())),
    (RESPONSES, "R4", responses({**GROUP[1], "id": None}, {**GROUP[2], "id": None}, output())),
    (RESPONSES, "R3+4", responses(user(), *GROUP, output(), user())),
    (RESPONSES, "R5", responses(thought(id="rs_1"), said(), store=False)),
    (RESPONSES, "R5", responses(thought(id="rs_1", encrypted_content=None), said())),
    (RESPONSES, "R8", responses(call(id="fc_" + "a" * 61), output(), {"type": "web_search_call", "id": "ws_1"})),
    (RESPONSES, "R9", responses(said(id="msg_4"), user(), said(id="msg_5"))),
    (RESPONSES, "R10", responses(call("c" * 64), output("c" * 64))),
    (RESPONSES, "R11", responses(custom(), output(kind="custom_tool_call"))),
    (RESPONSES, "R11", responses({"type": "local_shell_call", "call_id": "call_1"}, output())),
    (RESPONSES, "R12", responses(user(), {"type": "compaction", "encrypted_content": "x"})),
]

WARNS: list[tuple[str, str, Body]] = [
    (CHAT, "C5", chat(user(), calls("call_1"), tool(), tool())),
    (CHAT, "C5", chat(user(), calls("call_1", "call_1"), tool())),
    (CHAT, "C6", chat(user(None))),
    (CHAT, "C7", chat(user(), calls("call_1"), tool(content=[{"type": "image_url"}]))),
    (CHAT, "C9", chat(user(), tools=[{"type": "function", "function": {"name": "a b"}}])),
    (CHAT, "C9", chat(user(), tools=[{}] * 129)),
    (CHAT, "C10", chat({"role": "system", "content": "a"}, user(), model="gpt-5")),
    (CHAT, "C10", chat(user(), model="o3", max_tokens=5)),
    (CHAT, "C12", chat(user(), calls("call_1"), tool(), model="mistral-large")),
    (CHAT, "C12", chat(user(), calls("call_1"), tool(), model="deepseek-reasoner")),
    (RESPONSES, "R2", responses(output(), call())),
    (RESPONSES, "R3", responses(thought(), thought(), said())),
    (RESPONSES, "R3", responses(thought(), user())),
    (RESPONSES, "R7", responses(user(), previous_response_id="resp_1")),
    (RESPONSES, "R15", responses({"type": "reasoning", "encrypted_content": "x"}, said())),
    (RESPONSES, "R15", responses({"role": "user", "content": [{"type": "output_text", "text": "a"}]})),
]


@pytest.mark.parametrize(("wire", "rule", "body", "message"), REFUSED)
def test_a_broken_rule_is_refused_in_the_providers_words(wire: str, rule: str, body: Body, message: str) -> None:
    assert message in next((refusal.message for refusal in refusals(wire, body) if refusal.rule == rule), "")


@pytest.mark.parametrize(("wire", "rule", "body"), ACCEPTED)
def test_a_kept_rule_is_accepted(wire: str, rule: str, body: Body) -> None:
    assert refusals(wire, body) == []
    assert [found for found in warnings(wire, body) if found.rule != "R7"] == []


@pytest.mark.parametrize(("wire", "rule", "body"), WARNS)
def test_an_unverified_rule_warns_and_does_not_refuse(wire: str, rule: str, body: Body) -> None:
    assert rule in {found.rule for found in warnings(wire, body)}
    assert refusals(wire, body) == []


@pytest.mark.parametrize("wire", [CHAT, RESPONSES])
def test_every_rule_has_its_examples(wire: str) -> None:
    refused = {rule for each, rule, *_ in REFUSED if each == wire}
    accepted = {rule for each, rule, _ in ACCEPTED if each == wire}
    warned = {rule for each, rule, _ in WARNS if each == wire}

    assert refused == accepted == set(RULES[wire])  # type: ignore[index]
    assert warned == set(WARNED[wire])  # type: ignore[index]


@pytest.mark.parametrize("junk", [{}, {"messages": 7, "input": 7}, {"messages": [7], "input": [7]}])
@pytest.mark.parametrize("wire", [CHAT, RESPONSES])
def test_a_body_that_is_no_request_breaks_no_rule_about_requests(wire: str, junk: Body) -> None:
    assert refusals(wire, junk) == warnings(wire, junk) == []


def test_dropping_any_part_of_a_reasoning_group_is_refused_and_dropping_it_whole_is_not() -> None:
    """The group rule: whole, or gone, or without reasoning and without ids."""
    whole = [*GROUP, output()]
    for gone in range(3):
        left = [item for at, item in enumerate(whole) if at != gone and not (gone == 2 and at == 3)]
        assert refusals(RESPONSES, responses(user(), *left, user())), gone

    assert refusals(RESPONSES, responses(user(), user())) == []
