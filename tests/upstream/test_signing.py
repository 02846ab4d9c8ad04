"""What only the issuer can know: a thought that was changed, moved, left out, or is somebody else's."""

from __future__ import annotations

import json

import pytest

from upstream import signing
from upstream.finding import Body
from upstream.provider import Provider
from upstream.script import Redacted, Say, Think, Turn, Use

PRESERVED, ORDINARY = "claude-opus-5-5", "claude-sonnet-4-5"
LOOP: list[Turn] = [[Think("one"), Use("Read", {"p": 1})], [Think("two"), Redacted(), Use("Read", {"p": 2})]]
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
BOUND = "messages.{}.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation"
MODIFIED = (
    "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)


def played(model: str) -> tuple[Provider, Body]:
    """A provider, and the third request of a tool loop it has answered twice."""
    provider = Provider(LOOP, None, lambda: 0.0)
    body: Body = {"model": model, "max_tokens": 4096, "system": "s", "tools": TOOLS, "messages": []}
    body["messages"].append({"role": "user", "content": "go"})
    for _ in LOOP:
        content = provider.answer("/v1/messages", {}, json.dumps(body).encode()).body["content"]
        uses = [block["id"] for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use, "content": "ok"} for use in uses]
        body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return provider, body


def send(provider: Provider, body: Body) -> tuple[str, str]:
    """The rule and the text of the refusal, if any."""
    provider.answer("/v1/messages", {}, json.dumps(body).encode())
    refused = provider.requests[-1].refused
    return (refused[0].rule, refused[0].message) if refused else ("", "")


@pytest.mark.parametrize("model", [PRESERVED, ORDINARY])
def test_an_unchanged_loop_is_accepted(model: str) -> None:
    assert send(*played(model)) == ("", "")


@pytest.mark.parametrize("change", [{"system": "other"}, {"tools": [*TOOLS, {"name": "Grep"}]}])
def test_a_changed_prefix_unbinds_thinking_on_preserved_thinking_models_only(change: Body) -> None:
    for model, expected in ((PRESERVED, ("A63", BOUND.format(1))), (ORDINARY, ("", ""))):
        provider, body = played(model)
        assert send(provider, {**body, **change}) == expected


def test_a_changed_result_unbinds_only_what_follows_it() -> None:
    provider, body = played(PRESERVED)
    body["messages"][2]["content"][0]["content"] = "cleared"

    assert send(provider, body) == ("A63", BOUND.format(3))


def test_moving_a_cache_breakpoint_unbinds_nothing() -> None:
    provider, body = played(PRESERVED)
    body["messages"][2]["content"][0]["cache_control"] = {"type": "ephemeral"}

    assert send(provider, body) == ("", "")


def test_an_edit_that_takes_all_later_thinking_with_it_is_accepted() -> None:
    provider, body = played(PRESERVED)
    body["messages"] += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}]
    body["messages"][2]["content"][0]["content"] = "cleared"
    del body["messages"][3]["content"][:2]

    assert send(provider, body) == ("", "")


def test_leaving_out_one_thought_between_others_is_refused() -> None:
    provider, body = played(PRESERVED)
    body["messages"] += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}]
    del body["messages"][1]["content"][0]

    assert send(provider, body) == ("A63", BOUND.format(3))


def test_a_thought_changed_in_the_latest_assistant_message_cannot_be_modified() -> None:
    provider, body = played(ORDINARY)
    body["messages"][3]["content"][0]["thinking"] = "TWO"

    assert send(provider, body) == ("A35", MODIFIED)


def test_a_thought_changed_further_back_has_an_invalid_signature() -> None:
    provider, body = played(ORDINARY)
    body["messages"][1]["content"][0]["thinking"] = "ONE"

    assert send(provider, body) == ("A36", "messages.1.content.0: Invalid `signature` in `thinking` block")


@pytest.mark.parametrize("gone", [slice(0, 1), slice(1, 2), slice(0, 2)])
def test_thinking_removed_inside_the_open_loop_is_refused(gone: slice) -> None:
    provider, body = played(ORDINARY)
    del body["messages"][3]["content"][gone]

    assert send(provider, body) == ("A35", MODIFIED)


def test_a_loop_may_continue_without_its_thinking_once_thinking_is_off() -> None:
    provider, body = played(ORDINARY)
    for message in body["messages"][1::2]:
        message["content"] = [block for block in message["content"] if "thinking" not in block["type"]]

    assert send(provider, {**body, "thinking": {"type": "disabled"}}) == ("", "")


def test_thinking_of_finished_turns_may_be_removed() -> None:
    provider, body = played(PRESERVED)
    body["messages"] += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}]
    for message in body["messages"][1:4:2]:
        message["content"] = [block for block in message["content"] if "thinking" not in block["type"]]

    assert send(provider, body) == ("", "")


@pytest.mark.parametrize("signature", ["", "ErUBCkYIBxgCIkD", "EbbSig.claude-sonnet-4-5.a.b.c"])
def test_a_foreign_signature_is_invalid(signature: str) -> None:
    provider, body = played(ORDINARY)
    body["messages"][1]["content"][0]["signature"] = signature

    assert send(provider, body)[0] == "A36"


def test_a_signature_put_together_from_real_parts_is_invalid() -> None:
    provider, body = played(ORDINARY)
    first, second = body["messages"][1]["content"][0], body["messages"][3]["content"][0]
    claim, proof = first["signature"].rsplit(".", 1)
    first["signature"] = f"{claim.rsplit('.', 1)[0]}.{second['signature'].split('.')[-2]}.{proof}"

    assert send(provider, body)[0] == "A36"


def test_a_second_thought_of_one_turn_is_bound_to_the_first() -> None:
    provider = Provider([[Think("one"), Say("so"), Think("two"), Say("done")]], None, lambda: 0.0)
    body: Body = {"model": PRESERVED, "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}
    content = provider.answer("/v1/messages", {}, json.dumps(body).encode()).body["content"]
    body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": "b"}]

    assert send(provider, body) == ("", "")
    del content[1]
    assert send(provider, body) == ("A63", BOUND.format(1).replace("content.0", "content.1"))


def test_another_models_thinking_is_refused_and_fables_is_dropped_without_a_word() -> None:
    provider, body = played(ORDINARY)
    assert send(provider, {**body, "model": "claude-opus-4-8"})[0] == "A36"

    provider, body = played("claude-fable-5")
    assert send(provider, {**body, "model": "claude-opus-4-8"}) == ("", "")


def test_sealed_reasoning_belongs_to_one_organisation() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": signing.seal("x")}
    foreign = {**item, "encrypted_content": signing.seal("x", "org-other")}

    assert signing.refusals("openai_responses", {"input": [item]}) == []
    assert [refusal.rule for refusal in signing.refusals("openai_responses", {"input": [foreign]})] == ["R6"]


def test_a_trusting_issuer_accepts_recorded_signatures() -> None:
    provider = Provider(["ok"], None, lambda: 0.0, signing.trusting)
    thought = {"type": "thinking", "thinking": "x", "signature": "recorded"}
    said = [thought, {"type": "text", "text": "a"}]
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "b"},
    ]

    assert send(provider, {"model": ORDINARY, "max_tokens": 9, "messages": messages}) == ("", "")


def test_a_turn_without_thinking_needs_none() -> None:
    provider = Provider([[Say("x"), Use("Read", {})]], None, lambda: 0.0)
    body: Body = {"model": ORDINARY, "max_tokens": 9, "tools": TOOLS, "messages": [{"role": "user", "content": "a"}]}
    content = provider.answer("/v1/messages", {}, json.dumps(body).encode()).body["content"]
    result = {"type": "tool_result", "tool_use_id": content[1]["id"], "content": "ok"}
    body["messages"] += [{"role": "assistant", "content": content[1:]}, {"role": "user", "content": [result]}]

    assert send(provider, body) == ("", "")
