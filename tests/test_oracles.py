"""Two readings of one list of rules: our validator, and the upstream's that was written without looking at it.

Where they disagree one has misread the list, or the list leaves it open; the second kind is in the tables below, with a reason.
"""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import BadRequest
from ebbtide.wire import WIRES
from ebbtide.wire.validity import repair, violations
from laws.trial import ShortReprBody, nightly
from poison.histories import spoiled
from upstream.check import refusals, refusals_bytes
from upstream.finding import Body
from upstream.talks import bodies

_BY_ORDER = (
    "only a provider knows which ids it issued together; we go by order, and a client that tears a group loses it"
)
ONLY_OURS: dict[str, dict[str, str]] = {
    "anthropic": {
        "A6": "an assistant's turn at the end: the list names versions, and we take what follows them for alike",
        "A34": "an empty signature is the issuer's to refuse: upstream.signing does",
    },
    "openai_chat": {"shape": "a list without messages: the list of rules has no number for it"},
    "openai_responses": {
        "R1": "follows from R2 where a call was doubled or swapped with its result",
        "R2": "a result before its call: the list speaks of orphans alone, and the upstream warns",
        "R3": "reasoning without an id, and nothing of the model's after it: the list's message names an id",
        "R9": "a doubled call_id: the list speaks of the ids of items",
    },
    "gemini": {},
    "bedrock_converse": {
        "shape": "a list without messages: the list of rules has no number for it",
        "A46": "a cache point with nothing before it: nobody says what the API does with one",
    },
}
"""What we refuse and the upstream accepts, rule by rule, and why that may be."""
ONLY_THEIRS: dict[str, dict[str, str]] = {
    "anthropic": {
        "A2": "system turns: the docs name Opus 4.8; we take what follows it, and names we do not know, for able",
        "A29": "a server's call without a result before an operator's turn: we take it for a paused one",
        "A22": "a result whose content is null: we take it as left out, which SDKs mean by it",
    },
    "openai_chat": {},
    "openai_responses": {
        "R3": _BY_ORDER,
        "R4": _BY_ORDER,
        "R3+4": _BY_ORDER,
        "R2": "an output beside a reference to stored items: the call it answers may be among them",
        "R11": "an output before its call in a thread that the server keeps: such a request goes through untouched",
    },
    "gemini": {"fields": "fields that we do not know travel: providers add them faster than we learn them"},
    "bedrock_converse": {"fields": "fields that we do not know travel: providers add them faster than we learn them"},
}
"""What the upstream refuses and we accept."""


@pytest.mark.parametrize("wire", WIRES)
@nightly(2_000, quick=25)
@given(data=st.data())
def test_both_accept_what_a_client_could_send(wire: str, data: st.DataObject) -> None:
    body = data.draw(bodies(wire).map(ShortReprBody))
    assert [str(one) for one in violations(WIRES[wire], body)] == []
    assert [str(one) for one in refusals(wire, body)] == []
    assert repair(WIRES[wire], body)[0] is body


@pytest.mark.parametrize("wire", WIRES)
@nightly(2_000, quick=60)
@given(data=st.data())
def test_both_say_the_same_of_a_history_with_accidents(wire: str, data: st.DataObject) -> None:
    body = data.draw(accidents(wire))
    ours = {one.rule for one in violations(WIRES[wire], body)}
    theirs = {one.rule for one in refusals(wire, body)}
    if not theirs:
        assert sorted(ours - ONLY_OURS[wire].keys()) == []
    if not ours:
        assert sorted(theirs - ONLY_THEIRS[wire].keys()) == []


@pytest.mark.parametrize("wire", WIRES)
@nightly(2_000, quick=60)
@given(data=st.data())
def test_repaired_requests_are_accepted_by_both(wire: str, data: st.DataObject) -> None:
    body = data.draw(st.one_of(accidents(wire), spoiled(wire)))
    try:
        fixed, _ = repair(WIRES[wire], body)
    except BadRequest:
        return
    assert [str(one) for one in violations(WIRES[wire], fixed)] == []
    known = ONLY_THEIRS[wire].keys()
    theirs = [one for one in refusals(wire, dict(fixed)) if one.rule not in known]
    assert [str(one) for one in theirs] == []
    raw = json.dumps(fixed, ensure_ascii=False).encode("utf-8")
    assert [str(one) for one in refusals_bytes(wire, raw) if one.rule not in known] == []


def test_an_automatic_breakpoint_on_the_request_is_repaired_too() -> None:
    messages = [{"role": "user", "content": "look"}]
    body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": messages, "cache_control": {"type": "forever"}}

    fixed, _ = repair(WIRES["anthropic"], body)

    assert [str(refusal) for refusal in refusals("anthropic", dict(fixed))] == []


# --- accidents --------------------------------------------------------------------------------------------------------


@st.composite
def accidents(draw: st.DrawFn, wire: str) -> Body:
    """A client's history after so many things went wrong with it: lost, doubled, swapped, emptied, cut short, renamed."""
    body = ShortReprBody(copy.deepcopy(draw(bodies(wire))))
    for _ in range(draw(st.integers(1, 3))):
        spot = draw(st.sampled_from(spots(body[WIRES[wire].list_key])))
        draw(st.sampled_from(ACCIDENTS))(draw, *spot)
    return body


def spots(messages: list[Body]) -> list[tuple[list[Body], int]]:
    """Places in lists of messages and of blocks."""
    found = [(messages, at) for at in range(len(messages))]
    for message in messages:
        for parts in (message.get("content"), message.get("tool_calls"), message.get("parts")):
            if isinstance(parts, list):
                found += [(parts, at) for at in range(len(parts))]
    return found or [(messages, 0)]


def _lose(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    del parts[at : at + 1]


def _double(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    parts[at:at] = copy.deepcopy(parts[at : at + 1])


def _swap(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    parts[at : at + 2] = parts[at : at + 2][::-1]


def _cut(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    del parts[at:]


_CALL_KEYS = ("functionCall", "functionResponse", "function_call", "function_response")
"""Gemini's calls and responses are inside their parts."""


def _rename(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    """An id that answers nothing, or that no provider would take."""
    for whole in parts[at : at + 1]:
        part = next((whole[key] for key in _CALL_KEYS if key in whole), whole)
        for key in ("id", "tool_use_id", "tool_call_id", "call_id"):
            if key in part:
                part[key] = draw(st.sampled_from(["", "call_elsewhere", "a b", "x" * 70]))
                return


def _empty(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    for part in parts[at : at + 1]:
        for key in ("text", "content", "tool_calls", "signature", "parts", "thoughtSignature", "thought_signature"):
            if key in part:
                part[key] = draw(st.sampled_from(["", " \n", None])) if not isinstance(part[key], list) else []
                return


def _side(draw: st.DrawFn, parts: list[Body], at: int) -> None:
    for part in parts[at : at + 1]:
        if "role" in part:
            part["role"] = draw(st.sampled_from(["user", "assistant", "system", "model"]))


ACCIDENTS = (_lose, _double, _swap, _cut, _rename, _empty, _side)
