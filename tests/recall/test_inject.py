"""Recall behind a client's back: the hidden pair stands where the model made it, in every later request."""

import json

import pytest

from ebbtide import Recall
from ebbtide.audit.replan import replan
from ebbtide.recall.inject import RecallExchange
from ebbtide.runtime.context import Context
from ebbtide.store import MemoryStore, open_store
from runtime.sessions import Clock, context, digest, unmarked
from upstream import check
from wire_messages import text_message

KEYS = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "bedrock_converse": "messages",
}
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-2.5-pro",
    "bedrock_converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}
FIRST = "What was the port of the old server?"
PAIR = RecallExchange("toolu_recall_0001", "ebb_recall", '{"query":"port"}', "It was 8123.")


def body(wire, *messages):
    more = {"max_tokens": 500} if wire == "anthropic" else {"store": False} if wire == "openai_responses" else {}
    if wire == "bedrock_converse":
        more = {"toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}]}}
    return {"model": MODELS[wire], **more, KEYS[wire]: [text_message(wire, "user", FIRST), *messages]}


def said(wire, *texts, calls=()):
    """An assistant's answer as a client has it."""
    if wire == "anthropic":
        uses = [{"type": "tool_use", "id": id, "name": "look", "input": {}} for id in calls]
        return [{"role": "assistant", "content": [*({"type": "text", "text": text} for text in texts), *uses]}]
    if wire == "openai_chat":
        made = [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in calls]
        return [{"role": "assistant", "content": "".join(texts) or None, **({"tool_calls": made} if made else {})}]
    if wire == "gemini":
        parts = [{"functionCall": {"id": id, "name": "look", "args": {}}} for id in calls]
        return [{"role": "model", "parts": [*({"text": text} for text in texts), *parts]}]
    if wire == "bedrock_converse":
        uses = [{"toolUse": {"toolUseId": id, "name": "look", "input": {}}} for id in calls]
        return [{"role": "assistant", "content": [*({"text": text} for text in texts), *uses]}]
    parts = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": one}]} for one in texts
    ]
    return [*parts, *({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"} for id in calls)]


def results(wire, *calls):
    if wire == "anthropic":
        return [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"} for id in calls]}
        ]
    if wire == "openai_chat":
        return [{"role": "tool", "tool_call_id": id, "content": "x"} for id in calls]
    if wire == "gemini":
        answers = [{"functionResponse": {"id": id, "name": "look", "response": {"output": "x"}}} for id in calls]
        return [{"role": "user", "parts": answers}]
    if wire == "bedrock_converse":
        answers = [{"toolResult": {"toolUseId": id, "content": [{"text": "x"}]}} for id in calls]
        return [{"role": "user", "content": answers}]
    return [{"type": "function_call_output", "call_id": id, "output": "x"} for id in calls]


def told(wire, ready):
    assert check.refusals(wire, ready.body) == []
    return [json.loads(one) for one in unmarked(ready.body[KEYS[wire]])]


@pytest.mark.parametrize("wire", KEYS)
@pytest.mark.parametrize("shown", [True, False])
def test_a_hidden_pair_follows_what_was_shown_and_keeps_the_prefix(wire, shown):
    """Shown or not: the request with it is the beginning of every later one, and a provider takes all of them."""
    ctx = context(wire=wire)
    first = told(wire, ctx.prepare(body(wire)))
    seen = said(wire, "Let me look.") if shown and wire != "openai_chat" else []
    ctx.insert_recalled([PAIR], seen, "Let me look." if shown and wire == "openai_chat" else "")

    second = told(wire, ctx.prepare(body(wire, *seen)))
    whole = said(wire, *(["Let me look."] if shown else []), "It was 8123.")
    third = told(wire, ctx.prepare(body(wire, *whole, text_message(wire, "user", "Thanks."))))

    assert "8123" in str(second[len(first) :])
    assert digest(second[: len(first)]) == digest(first)
    assert digest(third[: len(second)]) == digest(second)
    assert str(third).count("toolu_recall_0001") == 2, "the call and its result, once"


@pytest.mark.parametrize("wire", KEYS)
def test_beside_the_clients_own_calls_the_answer_is_sent_with_its_results(wire):
    """One batch of calls, one batch of results: nothing stands between them that a provider would refuse."""
    ctx = context(wire=wire)
    ctx.prepare(body(wire))
    seen = said(wire, "Both.", calls=["toolu_client_0001"])
    ctx.insert_recalled([PAIR], seen)

    out = told(wire, ctx.prepare(body(wire, *seen, *results(wire, "toolu_client_0001"))))

    kinds = [str(message).count("toolu_recall_0001") for message in out]
    assert sum(kinds) == 2
    if wire != "openai_responses":
        calls = next(message for message in out if message["role"] in ("assistant", "model"))
        assert str(calls).count("toolu_") == 2, "in the same message"


def test_it_is_present_in_another_process_and_absent_after_undo(tmp_path):
    clock = Clock()
    ctx = context(store=tmp_path, clock=clock)
    request = body("anthropic")
    raw = ctx.prepare(request).body
    ctx.insert_recalled([PAIR])
    held = ctx.prepare(request).body

    other = context(store=tmp_path, clock=clock)
    assert other.prepare(request).body == held != raw
    assert other.undo()
    assert other.prepare(request).body == raw
    assert other.redo()
    assert other.prepare(request).body == held
    reading = open_store(tmp_path).peek("s").read()
    assert replan(reading.records)[1] == []


@pytest.mark.parametrize("wire", KEYS)
def test_our_own_output_sent_back_is_left_alone(wire):
    """The pair is there already: it is not put in twice."""
    ctx = context(wire=wire)
    ctx.prepare(body(wire))
    ctx.insert_recalled([PAIR])
    out = ctx.prepare(body(wire)).body

    again = ctx.prepare(out).body

    assert digest(unmarked(again[KEYS[wire]])) == digest(unmarked(out[KEYS[wire]]))


def test_a_pair_is_removed_with_what_it_follows_and_is_never_split():
    """A fold over its place takes both; undone, both are back."""
    ctx = context(window=8_000)
    history = [text_message("anthropic", "user", FIRST)]
    for n in range(12):
        ctx.prepare({**body("anthropic"), "messages": history})
        seen = said("anthropic", f"Step {n} " * 60)
        ctx.insert_recalled([PAIR._replace(id=f"toolu_recall_{n:04}")], seen)
        history = [*history, *seen, {"role": "user", "content": f"Go on with {n}. " + "word " * 300}]
        out = ctx.prepare({**body("anthropic"), "messages": history}).body
        assert check.refusals("anthropic", out) == []
    assert any(edit.by != "recall" for edit in ctx.edits()), "something was folded"
    assert "toolu_recall_0000" not in str(out["messages"])
    assert "toolu_recall_0011" in str(out["messages"])


def test_an_id_that_a_server_renumbers_each_time_is_replaced():
    ctx = context(wire="openai_chat")
    ctx.prepare(body("openai_chat"))
    edit = ctx.insert_recalled([PAIR._replace(id="call_0")])

    assert {item.call_id for item in edit.replacement} == {edit.replacement[0].call_id}
    assert edit.replacement[0].call_id.startswith("ebb_")


def test_recall_sees_what_the_request_holds_and_no_other_branch():
    """Two conversations that begin alike share a session: one must not read the other's."""
    store = MemoryStore()
    ctx: Context = context(store=store, recall=Recall(scope="conversation"))
    theirs = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "The vault code is zebra-9917."}]
    ctx.prepare(body("anthropic", *theirs))
    handle = ctx.recall("zebra-9917")[0].handle
    assert "zebra-9917" in ctx.recall_answer("ebb_recall", {"query": "zebra-9917"})

    ctx.prepare(body("anthropic", {"role": "assistant", "content": "ok"}, {"role": "user", "content": "Hello again."}))

    assert "zebra-9917 " not in ctx.recall_answer("ebb_recall", {"query": "vault code"})
    assert "vault" not in ctx.recall_answer("ebb_read", {"handle": handle})
    assert "Hello again" in ctx.recall_answer("ebb_recall", {"query": "hello again"})
