"""What each repair does to a Chat or a Responses body, where passing is not enough."""

from __future__ import annotations

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.texts import NO_RESULT
from ebbtide.wire import WIRES
from ebbtide.wire.validity import repair, violations
from poison.openai_cases import calling, fc, msg, out, rs, said, tool


def chat(*messages):
    return repair(WIRES["openai_chat"], {"model": "m", "messages": list(messages)})[0]["messages"]


def responses(*items, **more):
    return repair(WIRES["openai_responses"], {"model": "m", "input": list(items), **more})[0]["input"]


def broken(*items, **more):
    broken_rules = violations(WIRES["openai_responses"], {"model": "m", "input": list(items), **more})
    return {violation.rule for violation in broken_rules}


# Chat


def test_missing_results_follow_the_given_ones_in_call_order():
    messages = chat(said("go"), calling("c1", "c2", "c3"), tool("c2"), said("and?"))
    assert messages[2:] == [tool("c2"), tool("c1", NO_RESULT), tool("c3", NO_RESULT), said("and?")]


def test_a_result_separated_by_another_message_returns_to_its_call():
    """C1: a steering message came in between; the real result is kept."""
    messages = chat(said("go"), calling("c1"), said("hurry"), tool("c1", "real"))
    assert messages[2:] == [tool("c1", "real"), said("hurry")]


def test_ids_may_repeat_from_turn_to_turn():
    body = {"messages": [said("go"), calling("c1"), tool("c1"), calling("c1"), tool("c1")]}
    assert repair(WIRES["openai_chat"], body)[0] is body


def test_long_ids_are_mapped_equally_on_both_ends():
    asked, answered = chat(said("go"), calling("x" * 41), tool("x" * 41))[1:]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] == "call_6a6131d48ddd5bf9826b4ab0487cf9a1"
    assert len(answered["tool_call_id"]) <= 40


def test_the_last_of_two_results_counts():
    assert chat(said("go"), calling("c1"), tool("c1", "old"), tool("c1", "new"))[2:] == [tool("c1", "new")]


def test_calls_with_the_same_id_are_distinguished_with_their_results():
    asked, *answered = chat(said("go"), calling("c1", "c1"), tool("c1", "one"), tool("c1", "two"))[1:]
    assert [call["id"] for call in asked["tool_calls"]] == [message["tool_call_id"] for message in answered]
    assert [message["content"] for message in answered] == ["one", "two"]


def test_arguments_that_are_not_json_stay_as_they_are():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1'}}
    body = {"messages": [said("go"), calling("c1", tool_calls=[call]), tool("c1")]}
    assert repair(WIRES["openai_chat"], body)[0] is body


def test_a_custom_call_and_unknown_roles_pass():
    call = {"id": "c1", "type": "custom", "custom": {"name": "p", "input": "x"}}
    body = {
        "messages": [said("be good", "developer"), calling(tool_calls=[call]), tool("c1"), said("x", "latest_reminder")]
    }
    assert repair(WIRES["openai_chat"], body)[0] is body


def test_a_refusal_survives():
    body = {"messages": [said("go"), {"role": "assistant", "content": None, "refusal": "no"}, said("why?")]}
    assert repair(WIRES["openai_chat"], body)[0] is body


def test_results_still_coming_in_are_matched_with_accepted_calls():
    body = {"messages": [said("go"), calling("c1", "c2"), tool("c1"), tool("c2"), said("and?")]}
    for since in range(6):
        assert repair(WIRES["openai_chat"], body, since=since)[0] is body
    short = {"messages": body["messages"][:3]}
    assert repair(WIRES["openai_chat"], short, since=3)[0]["messages"][3] == tool("c2", NO_RESULT)


@pytest.mark.parametrize("messages", [[], [{"content": "x"}], [{"role": 1}], None, "x"])
def test_chat_refuses_what_it_cannot_read(messages):
    with pytest.raises(BadRequest):
        repair(WIRES["openai_chat"], {"messages": messages})


# Responses


def test_a_missing_output_follows_the_outputs_of_its_reply():
    items = responses(said("go"), fc("c1"), fc("c2"), out("c2"), msg("msg_1"), said("and?"))
    assert [item.get("call_id") for item in items] == [None, "c1", "c2", "c2", "c1", None, None]
    assert items[4]["output"] == NO_RESULT


def test_removed_reasoning_removes_its_followers_ids_but_not_their_call_ids():
    items = responses(said("go"), rs("rs_1"), fc("c1", "fc_1"), out("c1"), msg("msg_1"), said("and?"), store=False)
    assert items == [
        said("go"),
        fc("c1"),
        out("c1"),
        {k: v for k, v in msg("msg_1").items() if k != "id"},
        said("and?"),
    ]


def test_the_next_reasoning_keeps_its_followers():
    whole = rs("rs_2", encrypted_content="x")
    items = responses(rs("rs_1"), fc("c1", "fc_1"), out("c1"), whole, msg("msg_2"), store=False)
    assert items == [fc("c1"), out("c1"), whole, msg("msg_2")]


def test_a_provider_run_item_is_removed_with_its_reasoning():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    assert responses(rs("rs_1"), search, msg("msg_1"), store=False) == [
        {k: v for k, v in msg("msg_1").items() if k != "id"}
    ]
    body = {"input": [rs("rs_1", encrypted_content="x"), search, msg("msg_1")], "store": False}
    assert repair(WIRES["openai_responses"], body)[0] is body


def test_reasoning_followed_by_any_item_of_the_models_stays():
    assert broken(said("go"), rs("rs_1"), rs("rs_2"), msg("msg_1")) == set()
    assert broken(said("go"), rs("rs_1"), said("stop")) == {"R3"}
    assert broken(said("go"), rs("rs_1"), {"type": "something_new"}) == set()


def test_a_call_only_a_screen_could_answer_is_removed_with_its_reasoning():
    seen = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {}}
    assert responses(said("go"), rs("rs_1"), seen, said("and?")) == [said("go"), said("and?")]


def test_other_items_of_that_reasoning_continue_without_its_id():
    seen = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {}}
    items = responses(said("go"), rs("rs_1"), msg("msg_1"), seen, said("and?"))
    assert items == [said("go"), {key: value for key, value in msg("msg_1").items() if key != "id"}, said("and?")]


def test_silence_is_not_consent():
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"}
    assert responses(request, said("and?"))[1] == {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": False,
    }


def test_pairs_of_every_kind_pass():
    body = {
        "input": [
            {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "action": {}},
            out("c1"),
            {"type": "local_shell_call", "id": "lsh_2", "call_id": "c2", "action": {}},
            {"type": "local_shell_call_output", "id": "c2", "output": "x"},
            {"type": "tool_search_call", "call_id": None, "execution": "server"},
            {"type": "tool_search_call", "call_id": "c3", "execution": "client"},
            {"type": "tool_search_output", "call_id": "c3", "tools": []},
            {"type": "computer_call", "id": "cu_1", "call_id": "c4", "action": {}},
            {"type": "computer_call_output", "call_id": "c4", "output": {}},
            {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        ]
    }
    assert repair(WIRES["openai_responses"], body)[0] is body


def test_an_output_of_the_wrong_name_keeps_its_content():
    assert responses(fc("c1"), out("c1", "custom_tool_call_output")) == [fc("c1"), out("c1")]


def test_a_copy_is_removed_and_a_different_item_under_the_same_id_stays():
    assert responses(said("go"), msg("msg_1"), msg("msg_1")) == [said("go"), msg("msg_1")]
    kept = responses(said("go"), msg("msg_1", "a"), msg("msg_1", "b"))
    assert kept[2] == {key: value for key, value in msg("msg_1", "b").items() if key != "id"}


def test_a_call_that_appears_twice_is_one_call():
    assert responses(fc("c1", "fc_1"), fc("c1", "fc_2"), out("c1")) == [fc("c1", "fc_1"), out("c1")]


@pytest.mark.parametrize("more", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_outputs_of_calls_the_server_holds_are_valid(more):
    body = {"input": [out("c1")], **more}
    assert repair(WIRES["openai_responses"], body)[0] is body


def test_a_reference_may_replace_a_call_when_items_are_stored():
    reference = {"type": "item_reference", "id": "fc_1"}
    assert broken(reference, out("c1")) == set()
    assert responses(said("go"), reference, out("c1"), store=False) == [said("go")]


def test_a_call_made_in_the_accepted_part_may_be_answered_now():
    body = {"input": [said("go"), fc("c1"), out("c1"), fc("c2"), said("wait"), out("c2")]}
    assert repair(WIRES["openai_responses"], body, since=5, call_ids={"c1", "c2"})[0] is body


def test_a_bare_string_is_a_request():
    body = {"input": "hello"}
    assert repair(WIRES["openai_responses"], body) == (body, ())
    assert violations(WIRES["openai_responses"], {"prompt": {"id": "pmpt_1"}}) == []


@pytest.mark.parametrize("items", [5, {"role": "user"}])
def test_responses_refuses_what_it_cannot_read(items):
    with pytest.raises(BadRequest):
        repair(WIRES["openai_responses"], {"input": items})
