"""What holds for every history, on every wire."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import BadRequest
from ebbtide.wire import WIRES
from ebbtide.wire.validity import repair, violations
from poison.histories import GRAMMARS, JSONISH, LISTS, spoiled

EACH_WIRE = pytest.mark.parametrize("wire", list(GRAMMARS))


def hardened_or_refused(wire, body):
    try:
        return repair(WIRES[wire], body)
    except BadRequest:
        return None


@EACH_WIRE
@given(data=st.data())
def test_a_valid_history_has_no_violations_and_is_returned_as_the_same_object(wire, data):
    body = data.draw(GRAMMARS[wire]())
    assert violations(WIRES[wire], body) == []
    assert repair(WIRES[wire], body) == (body, ())
    assert repair(WIRES[wire], body)[0] is body


@EACH_WIRE
@given(data=st.data())
def test_a_spoiled_history_leaves_valid_or_is_refused(wire, data):
    body = data.draw(spoiled(wire))
    before = copy.deepcopy(body)

    result = hardened_or_refused(wire, body)

    assert repr(body) == repr(before), "the input is never changed"
    if result is not None:
        fixed, repairs = result
        assert violations(WIRES[wire], fixed) == []
        json.dumps(fixed, allow_nan=False, ensure_ascii=False).encode()
        assert bool(repairs) == (fixed is not body)
        assert repair(WIRES[wire], fixed)[0] is fixed, "hardening twice is hardening once"


@EACH_WIRE
@given(data=st.data())
def test_every_repaired_history_was_in_violation_or_only_unverified_rules_were_repaired(wire, data):
    body = data.draw(spoiled(wire))
    result = hardened_or_refused(wire, body)
    if result is None:
        assert violations(WIRES[wire], body)
    elif not violations(WIRES[wire], body):
        assert {repair.rule for repair in result[1]} <= {"A56", "C5", "C6", "R15"}


BAD_ENDINGS = {
    "anthropic": [{"role": "assistant", "content": [{"type": "text", "text": ""}]}, {"role": "user", "content": ""}],
    "openai_chat": [{"role": "assistant", "content": "x", "tool_calls": []}, {"role": "tool", "tool_call_id": "?"}],
    "openai_responses": [{"type": "function_call_output", "call_id": "?"}, {"type": "reasoning", "summary": []}],
    "gemini": [
        {"role": "model", "parts": [{"functionResponse": {}}, {"text": "x"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "?", "response": {}}}, {"text": "y"}]},
    ],
    "bedrock_converse": [
        {"role": "assistant", "content": [{"text": ""}, {"text": "x"}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "?", "content": []}}, {"text": "y"}]},
    ],
}


@EACH_WIRE
@given(data=st.data())
def test_untouched_parts_are_the_same_objects(wire, data):
    """Identity tells the encoder what it may emit verbatim, down to the bytes of a number."""
    body = data.draw(GRAMMARS[wire]())
    key = LISTS[wire]

    fixed, repairs = repair(WIRES[wire], {**body, key: [*body[key], *BAD_ENDINGS[wire]]})

    assert repairs
    assert [id(part) for part in fixed[key][: len(body[key])]] == [id(part) for part in body[key]]
    assert all(fixed[name] is value for name, value in body.items() if name != key)


@EACH_WIRE
@given(data=st.data())
def test_any_list_of_json_is_repaired_or_refused(wire, data):
    body = {"model": "claude-sonnet-5", LISTS[wire]: data.draw(st.lists(JSONISH, max_size=4))}
    result = hardened_or_refused(wire, body)
    assert result is None or violations(WIRES[wire], result[0]) == []


@EACH_WIRE
@given(data=st.data())
def test_accepted_messages_are_left_alone(wire, data):
    """A valid history, some of it accepted, with accidents only in what is new."""
    body = data.draw(GRAMMARS[wire]())
    key = LISTS[wire]
    since = data.draw(st.integers(0, len(body[key])))
    rest = data.draw(spoiled(wire))[key]
    taken = {ident for item in body[key][:since] for ident in call_ids(item)}
    mixed = {**body, key: [*body[key][:since], *rest[since:]]}
    try:
        fixed, _ = repair(WIRES[wire], mixed, since=since, call_ids=taken)
    except BadRequest:
        return
    kept = len([1 for old, new in zip(mixed[key][:since], fixed[key], strict=False) if old is new])
    assert kept >= since - 1 or wire == "openai_responses"


def call_ids(item):
    blocks = item.get("content") if isinstance(item.get("content"), list) else []
    found = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    return [*found, *([item["call_id"]] if str(item.get("type", "")).endswith("_call") else [])]
