"""Real objects of the providers' SDKs inside a request. Skipped where the SDKs are not installed."""

import pytest

import ebbtide

LARGE = "z" * 300_000


def test_anthropic_blocks_are_read_and_returned_as_themselves():
    types = pytest.importorskip("anthropic.types")
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a"}}
    content, usage = [{"type": "text", "text": "ok"}, call], {"input_tokens": 10, "output_tokens": 5}
    told = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-5", "content": content}
    reply = types.Message.model_validate({**told, "stop_reason": "tool_use", "usage": usage})
    ctx = ebbtide.Context(model="claude-opus-4-5")
    messages = [{"role": "user", "content": "hi"}]
    ctx.prepare({"model": "claude-opus-4-5", "max_tokens": 100, "messages": messages})
    ctx.record(reply)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": LARGE}
    grown = [*messages, {"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]

    ready = ctx.prepare({"model": "claude-opus-4-5", "max_tokens": 100, "messages": grown})

    assert len(ready.report.edits) == 1
    assert ready.report.repairs == ()
    assert ready.body["messages"][1]["content"][1] is reply.content[1]


def test_openai_chat_messages_are_read_and_returned_as_themselves():
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    told = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5"}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    reply = chat.ChatCompletion.model_validate({**told, "choices": [choice]})
    ctx = ebbtide.Context(model="gpt-5")
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    ctx.prepare({"model": "gpt-5", "messages": messages})
    ctx.record(reply)
    said = reply.choices[0].message

    ready = ctx.prepare(
        {"model": "gpt-5", "messages": [*messages, said, {"role": "tool", "tool_call_id": "call_1", "content": LARGE}]}
    )

    assert len(ready.report.edits) == 1
    assert ready.body["messages"][2] is said


def test_openai_responses_items_are_read_and_returned_as_themselves():
    responses = pytest.importorskip("openai.types.responses")
    reasoning = responses.ResponseReasoningItem.model_validate(
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zz"}
    )
    call = responses.ResponseFunctionToolCall.model_validate(
        {"type": "function_call", "id": "fc_1", "call_id": "c9", "name": "f", "arguments": "{}"}
    )
    ctx = ebbtide.Context(model="gpt-5")
    messages = [{"role": "user", "content": "q"}]
    ctx.prepare({"model": "gpt-5", "store": False, "input": messages})

    output = {"type": "function_call_output", "call_id": "c9", "output": LARGE}
    ready = ctx.prepare({"model": "gpt-5", "store": False, "input": [*messages, reasoning, call, output]})

    assert len(ready.report.edits) == 1
    assert ready.body["input"][1] is reasoning
    assert ready.body["input"][2] is call
