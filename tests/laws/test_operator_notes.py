"""A client whose operator speaks after every result, each time in other words: it folds, and no word is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from laws.promises import TOGETHER, our_output_fed_back_is_a_no_op
from laws.trial import ShortReprBody, attempt, nightly
from runtime.sessions import Clock
from upstream.check import refusals

Body = dict[str, Any]
WORDS = ("plan mode", "be brief", "ask first", "open: ", "the tests are red", "branch ")
WITHOUT_NOTES = {
    "gemini": "the operator speaks in the system instruction alone: the API knows the roles user and model",
    "bedrock_converse": "the operator speaks in `system` alone: the API knows the roles user and assistant",
}
"""APIs in which a message of the operator cannot be written, and why."""
TAKING_NOTES = [name for name in WIRES if name not in WITHOUT_NOTES]
CHOICES = ("summarize", "evict", "evict_messages", "clear_results", "drop_calls", "strip_thinking")


def note(wire: str, text: str) -> Body:
    return {"role": "system", "content": text}


def step(wire: str, n: int, lines: int) -> list[Body]:
    given, told = {"path": f"src/{n}.py"}, "\n".join(f"{n}: line {k} of a file" for k in range(lines))
    if wire == "anthropic":
        call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": given}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": told}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    if wire == "openai_chat":
        function = {"name": "read_file", "arguments": json.dumps(given)}
        call = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
        }
        return [call, {"role": "tool", "tool_call_id": f"c{n}", "content": told}]
    call = {"type": "function_call", "call_id": f"c{n}", "name": "read_file", "arguments": json.dumps(given)}
    return [call, {"type": "function_call_output", "call_id": f"c{n}", "output": told}]


def body_of(wire: str, messages: list[Body]) -> Body:
    about: Body = {"model": "claude-opus-4-8", "max_tokens": 500} if wire == "anthropic" else {"model": "gpt-4.1"}
    return {**about, WIRES[wire].list_key: messages}


def lost(notes: list[str], text: str, files: list[str]) -> list[str]:
    spelled = text + "".join(json.dumps(one, ensure_ascii=False) for one in files)
    return [one for one in notes if json.dumps(one, ensure_ascii=False)[1:-1] not in spelled]


@pytest.mark.parametrize("wire", TAKING_NOTES)
@nightly(2_000, quick=25)
@given(data=st.data())
def test_every_promise_holds_and_no_note_is_lost(wire: str, data: st.DataObject) -> None:
    messages: list[Body] = [{"role": "user", "content": "Mend the retry in queue.py"}]
    said = list[str]()
    spoken = st.tuples(st.sampled_from(WORDS), st.sampled_from(["", "a.py", "b.py, and c.py", "main " * 90]))
    steps = st.lists(st.tuples(st.integers(1, 30), st.one_of(st.none(), spoken, spoken)), min_size=3, max_size=40)
    for n, (lines, words) in enumerate(data.draw(steps)):
        messages += step(wire, n, lines)
        if words is not None:
            said.append("".join(words))
            messages.append(note(wire, said[-1]))
    chosen = data.draw(st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3, unique=True))

    trial = attempt(tuple(chosen), wire, ShortReprBody(body_of(wire, messages)))

    for promise in TOGETHER:
        promise(trial)
    if len(chosen) == 1:
        our_output_fed_back_is_a_no_op(trial)
    texts = [blob.text for edit in trial.plan.edits for blob in edit.blobs]
    assert lost(said, json.dumps(dict(trial.tree), ensure_ascii=False), texts) == []


@pytest.mark.parametrize("wire", TAKING_NOTES)
def test_a_session_with_changing_operator_notes_continues_without_limit(wire: str) -> None:
    """Held on to, the notes forbade every fold, and after some hundred steps nothing fitted."""
    store, clock = MemoryStore(), Clock()
    context = Context(window=8_192, store=store, wire=wire, clock=clock)
    messages: list[Body] = [{"role": "user", "content": "Mend the retry in queue.py"}]
    notes = list[str]()
    for n in range(150):
        messages += step(wire, n, 12)
        notes.append(f"open is {'abcdefghij'[n // 10 % 10]}{'klmnopqrst'[n % 10]}{'uvw'[n // 100]}.py, nothing else is")
        messages.append(note(wire, notes[-1]))
        ready = context.prepare(body_of(wire, list(messages)))
        clock.tick(10.0)
        assert [str(one) for one in violations(WIRES[wire], dict(ready.body))] == []
        assert [str(one) for one in refusals(wire, dict(ready.body))] == []
        assert ready.report.repairs == ()
        assert ready.report.tokens_after <= 8_192

    out = ready.body[WIRES[wire].list_key]
    log = store.peek("default")
    assert out[-1]["role"] == "system"
    assert notes[-1] in str(out[-1])
    sent_json = json.dumps(out, ensure_ascii=False)
    named = [log.read_blob(blob.name) for blob in log.list_blobs() if blob.name in sent_json]
    assert lost(notes, sent_json, named) == []
    assert "[ebb: notes (1 to" in sent_json


@pytest.mark.parametrize("every", [1, 2, 5])
@pytest.mark.parametrize("speaks", [0, 3], ids=["one loop", "in turns"])
@pytest.mark.parametrize("policy", ["default", "claude-code", "opencode", "learn-v5"])
def test_the_summary_of_compacted_turns_needs_no_repair_beside_notes(policy: str, speaks: int, every: int) -> None:
    """A note follows the user's side and precedes the assistant's (A3): a fold that puts it elsewhere is mended, and
    written anew, on each turn, and the note becomes the user's."""
    clock = Clock()
    context = Context(window=8_192, policy=policy, clock=clock)
    messages: list[Body] = [{"role": "user", "content": "Mend the retry in queue.py"}]
    edits = 0
    for n in range(40):
        messages += step("anthropic", n, 60)
        if n % every == 0:
            messages.append(note("anthropic", f"open is {'abcdefghij'[n // 10]}{'klmnopqrst'[n % 10]}.py"))
        if speaks and n % speaks == speaks - 1:
            messages += [{"role": "assistant", "content": f"Did {n}."}, {"role": "user", "content": f"And after {n}?"}]
        ready = context.prepare(body_of("anthropic", list(messages)))
        clock.tick(10.0)
        assert ready.report.repairs == ()
        assert [str(refusal) for refusal in refusals("anthropic", dict(ready.body))] == []
        edits += len(ready.report.edits)
    assert edits
