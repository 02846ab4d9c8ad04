"""What each repair does to a Messages body, where passing is not enough."""

from __future__ import annotations

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.texts import NO_RESULT, OPERATOR_INSTRUCTION
from ebbtide.wire import WIRES
from ebbtide.wire.validity import repair, violations
from poison.case import HOUR, MARK, THOUGHT, TOOLS, assistant, result, text, use, user
from poison.histories import picture


def body(*messages, model="claude-sonnet-4-5", **more):
    return {"model": model, "max_tokens": 100, "tools": TOOLS, "messages": list(messages), **more}


def fixed(*messages, **more):
    return repair(WIRES["anthropic"], body(*messages, **more))[0]["messages"]


def rules(*messages, **more):
    return {violation.rule for violation in violations(WIRES["anthropic"], body(*messages, **more))}


def system(*content):
    return {**user(*content), "role": "system"}


# A2, A3: operator text inside the conversation


def test_operator_text_is_unchanged_when_the_model_accepts_it():
    for model in ("claude-opus-4-8", "claude-fable-5", "anthropic/claude-opus-4.8", "claude-next", "qwen"):
        request = body(user("a"), system("note"), assistant("b"), user("c"), system("more"), model=model)
        assert repair(WIRES["anthropic"], request)[0] is request, model


@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5-20250929", "claude-3-5-haiku-latest", "claude-opus-4-7", "claude-2.1", "claude-opus-4-20250514"]
)  # fmt: skip
def test_operator_text_joins_the_user_turn_on_a_model_that_does_not_take_it(model):
    messages = fixed(user("a"), system("note"), assistant("b"), user("c"), model=model)
    assert messages[0] == user(text("a"), text(OPERATOR_INSTRUCTION + "note"))
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_misplaced_operator_text_is_moved_after_the_results_it_preceded():
    messages = fixed(user("a"), assistant(use("t1")), system("note"), user(result("t1")), model="claude-opus-4-8")
    assert messages[2] == user(result("t1"), text(OPERATOR_INSTRUCTION + "note"))


def test_operator_text_may_follow_a_paused_turn():
    paused = assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    request = body(user("a"), paused, system("note"), model="claude-opus-4-8")
    assert repair(WIRES["anthropic"], request)[0] is request


# A4 to A9: order and words


def test_neighbours_of_one_role_become_one_turn_in_order():
    assert fixed(user("a"), user(text("b"), picture()), assistant("c"), user("d"))[0] == user(
        text("a"), text("b"), picture()
    )


def test_operator_text_keeps_equal_neighbours_apart():
    request = body(user("a"), system("note"), assistant("b"), user("c"), model="claude-opus-4-8")
    assert len(repair(WIRES["anthropic"], request)[0]["messages"]) == 4


def test_a_paused_turn_gets_no_user_turn_after_it():
    """A30: it goes back as it is."""
    paused = assistant(text("b"), {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    request = body(user("a"), paused, model="claude-opus-4-8")
    assert repair(WIRES["anthropic"], request)[0] is request


def test_a_paused_turn_ends_the_conversation_also_when_something_else_is_repaired():
    paused = assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
    assert fixed(user(text("a"), text("")), paused, model="claude-opus-4-8") == [user(text("a")), paused]


def test_a_reply_that_cannot_be_continued_is_answered_and_kept():
    assert fixed(user("a"), assistant("half a"), model="claude-opus-4-8")[1:] == [
        assistant("half a"),
        user("Continue."),
    ]


@pytest.mark.parametrize(
    ("model", "prefill"),
    [("claude-opus-4-5", True), ("claude-opus-4-6", False), ("claude-sonnet-4-6", False), ("claude-haiku-4-5", True),
     ("claude-sonnet-5", False), ("claude-fable-5", False), ("claude-3-7-sonnet-latest", True), ("glm-4", True)],
)  # fmt: skip
def test_a_reply_may_be_prefilled_only_when_the_model_accepts_it(model, prefill):
    assert (len(fixed(user("a"), assistant("{"), model=model)) == 2) is prefill


def test_an_empty_final_assistant_message_is_allowed_when_prefill_is():
    assert rules(user("a"), assistant("")) == set()
    assert fixed(user("a"), assistant(""), model="claude-opus-4-8") == [user("a")]


def test_an_empty_user_message_between_replies_leaves_a_placeholder():
    messages = fixed(user("a"), assistant("b"), user(), assistant("c"), user("d"))
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]


def test_an_empty_reply_is_removed_and_the_user_turns_around_it_join():
    assert fixed(user("a"), assistant(text(" ")), user("b")) == [user(text("a"), text("b"))]


# A10, A13: what we do not know


def test_unknown_fields_and_block_types_pass_untouched():
    new = {"type": "hologram", "data": [1], "extra": None}
    request = body(
        user(new, text("a", sparkle=1)), {**assistant("b"), "mood": "x"}, user("c"), betas=["x"], speed="fast"
    )
    assert repair(WIRES["anthropic"], request)[0] is request


# A14 to A20: calls and results


def test_foreign_ids_are_mapped_equally_on_both_ends_and_never_collide():
    _, asked, answered = fixed(
        user("a"), assistant(use("a:1"), use("a;1")), user(result("a;1", "2"), result("a:1", "1"))
    )
    ids = [call["id"] for call in asked["content"]]
    assert len(set(ids)) == 2
    assert [(r["tool_use_id"], r["content"]) for r in answered["content"]] == [(ids[1], "2"), (ids[0], "1")]
    assert all(len(identity) <= 40 and identity.replace("_", "").isalnum() for identity in ids)


def test_an_invented_id_is_the_same_for_ever():
    """Changing it would move every prompt cache that holds one."""
    asked = fixed(user("a"), assistant(use("functions.bash:0")), user(result("functions.bash:0")))[1]
    assert asked["content"][0]["id"] == "toolu_e264ab458e6e57d5897ddd9ee3768cfa"


def test_a_repeated_id_is_renamed_with_its_own_result():
    messages = fixed(
        user("a"), assistant(use("t1")), user(result("t1", "one")), assistant(use("t1")), user(result("t1", "two"))
    )
    again = messages[3]["content"][0]["id"]
    assert messages[1]["content"][0]["id"] == "t1" != again
    assert messages[4]["content"][0] == result(again, "two")


def test_two_calls_of_one_id_take_their_results_in_order():
    answered = fixed(user("a"), assistant(use("t1"), use("t1")), user(result("t1", "one"), result("t1", "two")))[2]
    assert [block["content"] for block in answered["content"]] == ["one", "two"]


def test_an_unanswered_call_gets_a_constant_error():
    answered = fixed(user("a"), assistant(use("t1"), use("t2")), user(result("t2"), text("and?")))[2]
    assert answered["content"] == [result("t2"), result("t1", NO_RESULT, is_error=True), text("and?")]


def test_the_last_of_two_results_counts():
    assert fixed(user("a"), assistant(use("t1")), user(result("t1", "old"), result("t1", "new")))[2] == user(
        result("t1", "new")
    )


def test_results_are_placed_before_text_and_keep_their_own_order():
    answered = fixed(
        user("a"), assistant(use("t1"), use("t2")), user(text("x"), result("t2"), text("y"), result("t1"))
    )[2]
    assert answered == user(result("t2"), result("t1"), text("x"), text("y"))


def test_results_in_any_order_are_fine():
    assert rules(user("a"), assistant(use("t1"), use("t2")), user(result("t2"), result("t1"))) == set()


def test_a_result_in_the_assistant_message_finds_its_place():
    messages = fixed(user("a"), assistant(use("t1"), result("t1"), text("b")), user("c"))
    assert messages[1:] == [assistant(use("t1"), text("b")), user(result("t1"), text("c"))]


def test_arguments_kept_as_json_text_become_the_object():
    asked = fixed(user("a"), assistant(use("t1", input='{"a": 1}')), user(result("t1")))[1]
    assert asked["content"][0]["input"] == {"a": 1}


def test_a_result_whose_only_part_was_removed_says_so():
    gone = {"type": "tool_reference", "tool_name": "mcp__gone"}
    kept = {"type": "tool_reference", "tool_name": "bash"}
    answered = fixed(
        user("a"), assistant(use("t1"), use("t2")), user(result("t1", [gone]), result("t2", [gone, kept]))
    )[2]
    assert [block["content"] for block in answered["content"]] == [[text("(no output)")], [kept]]


def test_words_beside_a_programmatic_result_move_into_it():
    code = {"caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_c"}}
    running = {"type": "server_tool_use", "id": "srvtoolu_c", "name": "code_execution", "input": {}}
    answered = fixed(
        user("a"), assistant(running, use("t1", **code)), user(result("t1"), text("hurry", **MARK)), container="c"
    )[2]
    assert answered == user(result("t1", [text("ok"), text("hurry")]))


def test_code_that_waits_for_its_calls_keeps_its_result_for_a_later_message():
    code = {"caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_c"}}
    running = {"type": "server_tool_use", "id": "srvtoolu_c", "name": "code_execution", "input": {}}
    done = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_c", "content": {}}
    request = body(user("a"), assistant(running, use("t1", **code)), user(result("t1")), assistant(done), user("b"))
    assert repair(WIRES["anthropic"], request)[0] is request


# A34 to A41: thinking


def test_thinking_is_removed_completely_or_not_at_all():
    cut = {"type": "thinking", "thinking": "x"}
    assert fixed(user("a"), assistant(THOUGHT, text("b"), cut, text("c")), user("d"))[1] == assistant(
        text("b"), text("c")
    )


def test_signed_thinking_with_empty_words_stays():
    assert rules(user("a"), assistant({**THOUGHT, "thinking": ""}, text("b")), user("c")) == set()


def test_a_loop_that_started_without_thinking_continues_without_it():
    request = body(
        user("a"), assistant(use("t1")), user(result("t1")), thinking={"type": "enabled", "budget_tokens": 2000}
    )
    hardened, _ = repair(WIRES["anthropic"], request)
    assert "thinking" not in hardened
    assert all(new is old for new, old in zip(hardened["messages"], request["messages"], strict=True))


def test_only_the_first_reply_of_a_loop_must_think():
    assert rules(
        user("a"), assistant(THOUGHT, use("t1")), user(result("t1")), assistant(use("t2")), user(result("t2")),
        thinking={"type": "enabled", "budget_tokens": 2000},
    ) == set()  # fmt: skip


def test_thinking_alone_before_a_fallback_keeps_its_place():
    fallback = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
    assert rules(user("a"), assistant(THOUGHT, fallback, THOUGHT, text("b")), user("c")) == set()


def test_what_a_fallback_voided_is_removed_and_the_text_stays():
    fallback = {"type": "fallback"}
    messages = fixed(user("a"), assistant(THOUGHT, text("b"), use("t1"), fallback, THOUGHT, text("c")), user("d"))
    assert messages[1] == assistant(text("b"), fallback, THOUGHT, text("c"))


# A45 to A49: cache breakpoints


def test_the_earliest_message_breakpoints_are_removed_first():
    marked = [user(text(str(n), **MARK)) if n % 2 == 0 else assistant("x") for n in range(7)]
    hardened, repairs = repair(WIRES["anthropic"], body(*marked, system=[text("s", **MARK)]))
    kept = ["cache_control" in message["content"][0] for message in hardened["messages"][::2]]
    assert kept == [False, True, True, True]
    assert "cache_control" in hardened["system"][0]
    assert [repair.rule for repair in repairs] == ["A45"]


def test_the_automatic_breakpoint_takes_one_of_the_four_places():
    marked = [user(text(str(n), **MARK)) if n % 2 == 0 else assistant("x") for n in range(7)]
    assert rules(*marked) == set()
    assert rules(*marked, **MARK) == {"A45"}


def test_a_longer_breakpoint_after_a_shorter_one_is_shortened():
    messages = fixed(user(text("a", **HOUR)), assistant("b"), user(text("c", **HOUR)), system=[text("s", **MARK)])
    assert messages[0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert rules(user(text("a", **HOUR)), assistant("b"), user(text("c", **MARK))) == set()


# A54 to A57: pictures


def test_beyond_twenty_images_the_oldest_large_ones_are_removed_ten_at_a_time():
    shots = [picture(2500, 10) for _ in range(23)]
    content = fixed(user(*shots))[0]["content"]
    assert [block["type"] for block in content] == ["text"] * 10 + ["image"] * 13
    assert "2500x10" in content[0]["text"]


def test_small_images_may_be_many():
    assert rules(user(*[picture(2000, 2000) for _ in range(40)])) == set()


def test_a_new_image_reaches_back_into_what_was_accepted():
    old = body(user(*[picture(2500, 10) for _ in range(20)]), assistant("b"))
    assert repair(WIRES["anthropic"], body(*old["messages"], user("c")), since=2)[1] == ()
    hardened, _ = repair(WIRES["anthropic"], body(*old["messages"], user(picture())), since=2)
    assert hardened["messages"][0]["content"][0]["type"] == "text"
    assert hardened["messages"][1] is old["messages"][1]


def test_a_picture_is_what_its_bytes_say():
    wrong = {"type": "image", "source": {**picture()["source"], "media_type": "image/webp"}}
    assert fixed(user(wrong))[0]["content"][0] == picture()


def test_bytes_we_cannot_read_are_left_to_the_provider():
    odd = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    assert rules(user(odd)) == set()


# `since`: what was accepted


def test_the_accepted_part_is_not_judged():
    broken = [user("a"), assistant(use("t1")), user("no result")]
    request = body(*broken, assistant("b"), user("c"))
    assert repair(WIRES["anthropic"], request, since=3)[0] is request


def test_ids_used_in_the_accepted_part_are_not_used_again():
    request = body(user("a"), assistant(use("t1")), user(result("t1")), assistant(use("t1")), user(result("t1")))
    hardened, _ = repair(WIRES["anthropic"], request, since=3, call_ids={"t1"})
    assert hardened["messages"][3]["content"][0]["id"] != "t1"
    assert hardened["messages"] == repair(WIRES["anthropic"], request)[0]["messages"], (
        "the same rename as without `since`"
    )


def test_a_call_accepted_last_is_answered_by_what_is_new():
    request = body(user("a"), assistant(use("t:1")), user("and?"))
    hardened, _ = repair(WIRES["anthropic"], request, since=2, call_ids={"t:1"})
    assert hardened["messages"][1] is request["messages"][1]
    assert hardened["messages"][2]["content"][0]["tool_use_id"] == "t:1"


def test_a_new_message_joins_an_accepted_one_of_its_role_at_the_end():
    first = user(text("a"))
    hardened, _ = repair(WIRES["anthropic"], body(first, user("b")), since=1)
    assert hardened["messages"] == [user(text("a"), text("b"))]
    assert hardened["messages"][0]["content"][0] is first["content"][0]
    assert first == user(text("a"))


# refusals


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({}, "messages"),
        (body({"role": "tool", "content": "x"}), "messages.0.role"),
        (body({"role": "user", "content": 5}), "messages.0.content"),
        (body(user("a"), tools="bash"), "tools"),
        (body(user("a"), tools=[None]), "tools.0"),
        (body(user("a"), tools=[{"name": "a b"}]), "tools.0.name"),
        (body(user("a"), tools=[{**TOOLS[0], "defer_loading": True}]), "tools"),
        (body(user("a"), system=7), "system"),
        (body(user("a", use("t1"))), "messages.0.content.1"),
    ],
)
def test_an_irreparable_message_is_refused_with_its_path(request_, path):
    with pytest.raises(BadRequest) as refusal:
        repair(WIRES["anthropic"], request_)
    assert refusal.value.path == path
    assert violations(WIRES["anthropic"], request_)


def test_nesting_beyond_all_reason_is_refused():
    deep: object = "x"
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(BadRequest, match="A11"):
        repair(WIRES["anthropic"], body(user("a"), assistant(use("t1", input={"x": deep})), user(result("t1"))))


def test_two_halves_of_a_character_that_met_again_are_the_character():
    assert fixed(user("\ud83d\ude00 and \ud83d"))[0]["content"] == "\U0001f600 and \ufffd"
