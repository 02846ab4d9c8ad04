"""A stream put together again is the answer that the same request gets without one; half a stream is no answer."""

from __future__ import annotations

import json

import pytest

from ebbtide.wire import WIRES
from ebbtide.wire.amazon_stream import read_events
from ebbtide.wire.replies import MAX_REPLY, parse_event
from ebbtide.wire.sse import EventReader
from upstream import events, render
from upstream.caching import CacheBill
from upstream.script import Say, Think, Use

PARTS = [Think("先想一想 🙂"), Say("I'll read it. " * 9), Use("Read", {"path": "src/表.ts", "n": [1]}), Use("Bash", {})]
REQUESTS = {
    "anthropic": {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]},
    "openai_chat": {"model": "deepseek-reasoner", "messages": [{"role": "user", "content": "go"}]},
    "openai_responses": {"model": "gpt-5", "input": [{"role": "user", "content": "go"}]},
    "gemini": {"model": "gemini-3-pro-preview", "contents": [{"role": "user", "parts": [{"text": "go"}]}]},
    "bedrock_converse": {
        "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "messages": [{"role": "user", "content": [{"text": "go"}]}],
    },
}
BILL = CacheBill(fresh=100, read=500, written_5m=100)


def answered(wire):
    return render.answer(wire, REQUESTS[wire], PARTS, BILL, 1)


def assembled(wire, spelled):
    assembler = WIRES[wire].replies.stream_assembler()
    for event in read_events(spelled) if wire == "bedrock_converse" else server_sent(spelled):
        assembler.add(event)
    return assembler


def server_sent(spelled):
    reader = EventReader()
    return map(parse_event, [*reader.feed(spelled), *reader.close()])


@pytest.mark.parametrize("wire", REQUESTS)
def test_a_complete_stream_is_the_answer(wire):
    body = {**REQUESTS[wire], "stream": True, "stream_options": {"include_usage": True}}
    response = answered(wire)
    message = assembled(wire, b"".join(events.stream(wire, body, response)))

    assert message.is_complete
    replies = [WIRES[wire].replies.as_messages(one) for one in (message.response(), response)]
    told, wanted = ([{k: v for k, v in one.items() if v is not None} for one in reply] for reply in replies)
    assert told == wanted
    assert WIRES[wire].replies.usage(message.response()) == WIRES[wire].replies.usage(response)


@pytest.mark.parametrize("wire", REQUESTS)
def test_a_stream_that_ends_early_is_not_complete(wire):
    spelled = events.stream(wire, {"stream": True}, answered(wire))
    message = assembled(wire, b"".join(spelled[: len(spelled) // 2]))

    assert not message.is_complete


def test_the_input_of_a_stream_that_ends_early_is_still_known():
    spelled = events.stream("anthropic", {}, answered("anthropic"))
    message = assembled("anthropic", b"".join(spelled[:4]))

    usage = WIRES["anthropic"].replies.usage(message.response())
    assert usage is not None
    assert usage.cache_read == 500


@pytest.mark.parametrize("wire", REQUESTS)
def test_an_error_inside_a_stream_makes_it_no_answer(wire):
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}, "message": "x"}
    message = assembled(wire, b"".join(events.failed(wire, answered(wire), error)))

    assert not message.is_complete


def test_an_unknown_event_makes_a_stream_no_answer():
    """A new kind of delta would be missing from the reply."""
    start = {"type": "message_start", "message": {"role": "assistant", "usage": {"input_tokens": 3}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    odd = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {}}}
    assembler = WIRES["anthropic"].replies.stream_assembler()
    for event in (start, block, odd, {"type": "message_stop"}):
        assembler.add(event)

    assert not assembler.is_complete
    assert WIRES["anthropic"].replies.usage(assembler.response()).input == 3


@pytest.mark.parametrize("wire", REQUESTS)
@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": 3},
        {"choices": [None]},
        {"choices": [{"delta": {"tool_calls": [7]}}]},
        {"type": "content_block_delta", "delta": 5},
        {"type": "response.completed", "response": []},
        {"usage": "x"},
        {"candidates": [None, {"content": {"parts": [3, {"functionCall": 1}]}}], "usageMetadata": 1},
        {"contentBlockStart": {"contentBlockIndex": [], "start": {"toolUse": 3}}},
        {"contentBlockDelta": {"contentBlockIndex": "x", "delta": {"text": 3, "reasoningContent": 1}}},
        {"messageStop": 7, "metadata": {"usage": []}},
    ],
    ids=str,
)
def test_nothing_that_an_event_says_breaks_it(wire, event):
    assembler = WIRES[wire].replies.stream_assembler()
    assembler.add(event)

    assert isinstance(assembler.response(), dict)


def test_a_reply_without_end_is_dropped():
    assembler = WIRES["openai_chat"].replies.stream_assembler()
    piece = {"choices": [{"index": 0, "delta": {"content": "x" * (1 << 20)}}]}
    for _ in range((MAX_REPLY >> 20) + 2):
        assembler.add(piece)
    assembler.add({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 4}})

    assert not assembler.is_complete
    assert len(json.dumps(assembler.response())) < MAX_REPLY
    assert WIRES["openai_chat"].replies.usage(assembler.response()).input == 4
