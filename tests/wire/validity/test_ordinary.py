"""The short way says yes only where the rules have nothing to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire.validity.anthropic import _judged
from ebbtide.wire.validity.anthropic.ordinary import is_ordinary
from poison.histories import GRAMMARS, spoiled


def ids(messages):
    blocks = [b for m in messages if isinstance(m, dict) and isinstance(m.get("content"), list) for b in m["content"]]
    return frozenset(str(b.get("id")) for b in blocks if isinstance(b, dict) and b.get("type") == "tool_use")


@given(data=st.data())
def test_what_is_ordinary_breaks_no_rule(data):
    body = data.draw(st.one_of(spoiled("anthropic"), GRAMMARS["anthropic"]()))
    messages = body.get("messages")
    if not isinstance(messages, list):
        return
    since = data.draw(st.integers(0, len(messages)))
    taken = ids(messages[:since])
    marked = data.draw(st.sampled_from([None, 0, 1, 4]))
    if is_ordinary(body, since, taken, marked):
        assert _judged(body, since, taken, marked or 0) == []


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
def test_what_a_rule_forbids_is_not(messages):
    assert not ordinary(*messages)


def test_a_loop_that_opens_without_the_thinking_it_needs_is_not():
    talk = [said("user", "go"), said("assistant", CALL), said("user", DONE)]
    assert not ordinary(*talk, thinking={"type": "enabled", "budget_tokens": 1024})
