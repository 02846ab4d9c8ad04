"""Histories that Chat Completions or Responses refused, for ever."""

from __future__ import annotations

from typing import Any

from poison.case import Case, Json


def chat(name: str, source: str, rules: str, *messages: Any) -> Case:
    body: Json = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "go"}, *messages]}
    return Case(name=name, source=source, wire="openai_chat", rules=tuple(rules.split()), body=body)


def responses(name: str, source: str, rules: str, *items: Any, **more: Any) -> Case:
    body: Json = {"model": "gpt-5", "input": [{"role": "user", "content": "go"}, *items], **more}
    return Case(name=name, source=source, wire="openai_responses", rules=tuple(rules.split()), body=body)


def calling(*identities: Any, **more: Any) -> Json:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in identities]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def tool(identity: Any, content: Any = "ok") -> Json:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def said(words: str, role: str = "user") -> Json:
    return {"role": role, "content": words}


def rs(identity: str, **more: Any) -> Json:
    return {"type": "reasoning", "id": identity, "summary": [], **more}


def fc(call_id: str, identity: str | None = None) -> Json:
    named = {"id": identity} if identity else {}
    return {"type": "function_call", **named, "call_id": call_id, "name": "f", "arguments": "{}"}


def out(call_id: str, kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": call_id, "output": "ok"}


def msg(identity: str, words: str = "hi") -> Json:
    parts = [{"type": "output_text", "text": words}]
    return {"type": "message", "role": "assistant", "id": identity, "content": parts}


CHAT = [
    chat("call without a result", "validity.md:C1", "C1", calling("c1"), said("and?")),
    chat("one of two results missing", "deepseek:insufficient", "C1", calling("c1", "c2"), tool("c1"), said("and?")),
    chat("system message before the result", "qwen:message[15].role", "C1 C2", calling("c1"), said("x", "system"), tool("c1")),
    chat("call at the very end", "validity.md:C1", "C1", calling("c1")),
    chat("orphan tool message", "promptflow#3130", "C2", tool("c1"), said("and?")),
    chat("result after another reply", "promptflow#3130", "C1 C2", calling("c1"), said("x", "assistant"), tool("c1")),
    chat("empty tool_calls", "openai-python#2061", "C3", {"role": "assistant", "content": "x", "tool_calls": []}),
    chat("41 characters of id", "autogen#6377", "C4", calling("c" * 41), tool("c" * 41)),
    chat("two long ids that share a beginning", "autogen#6377", "C4", calling("c" * 41 + "a", "c" * 41 + "b"), tool("c" * 41 + "b"), tool("c" * 41 + "a")),
    chat("arguments as an object", "validity.md:C8", "C8", calling("c1", tool_calls=[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]), tool("c1")),
    chat("ids doubled in one message", "validity.md:C5", "C5", calling("c1", "c1"), tool("c1"), tool("c1")),
    chat("null words without anything else", "CodePilot#629", "C6", {"role": "assistant", "content": None}, said("and?")),
    chat("half an emoji", "mastra#15573", "A11", said("x \udc4d")),
    chat("a refusal", "headroom:P1-16", "", {"role": "assistant", "content": None, "refusal": "I cannot"}, said("and?")),
]  # fmt: skip

RESPONSES = [
    responses("call without its output", "validity.md:R1", "R1", fc("c1", "fc_1"), said("and?")),
    responses("aborted custom call", "codex:normalize.rs", "R1", {"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": "x"}),
    responses("output without its call", "cursor-byok#307", "R2", out("c1"), said("and?")),
    responses("output before its call", "continue#10092", "R2 R1", out("c1"), fc("c1")),
    responses("reasoning at the end", "validity.md:R3", "R3", rs("rs_1")),
    responses("reasoning of an interrupted turn", "codex:rollout", "R3", rs("rs_1", encrypted_content="x"), said("stop")),
    responses("reasoning after its follower", "mastra#8738", "R3", fc("c1", "fc_1"), rs("rs_1"), out("c1")),
    responses("bare reasoning, not stored", "oh-my-pi#4173", "R5", rs("rs_1"), fc("c1", "fc_1"), out("c1"), store=False),
    responses("half a reasoning group", "laravel/ai#1052", "R3 R2", rs("rs_1"), out("c1"), said("and?")),
    responses("reference to what was not stored", "validity.md:R5", "R5", {"type": "item_reference", "id": "rs_1"}, said("and?"), store=False),
    responses("foreign item id", "cursor-byok#96", "R8", fc("c1", "item_77"), out("c1")),
    responses("item id of 408 characters", "validity.md:R8", "R8", msg("msg_" + "x" * 404)),
    responses("reasoning id of a gateway", "validity.md:R8", "R8", rs("encitem_1", encrypted_content="x"), msg("msg_1")),
    responses("same message twice", "copilot-cli#1274", "R9", msg("msg_4"), msg("msg_4"), said("and?")),
    responses("two messages under one id", "validity.md:R9", "R9", msg("msg_4", "a"), msg("msg_4", "b"), said("and?")),
    responses("call id of 116 characters", "validity.md:R10", "R10", fc("c" * 116), out("c" * 116)),
    responses("custom output for a function call", "codex:normalize.rs", "R11", fc("c1"), out("c1", "custom_tool_call_output")),
    responses("computer call without a screenshot", "codex:normalize.rs", "R1", rs("rs_1"), {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {}}, said("and?")),
    responses("approval never given", "validity.md:R11", "R1", {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"}, said("and?")),
    responses("reasoning without a summary", "validity.md:R15", "R15", {"type": "reasoning", "id": "rs_1"}, msg("msg_1")),
    responses("multi-part message", "headroom:P0-7", "", {**msg("msg_1"), "phase": "commentary", "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]}),
    responses("output of a call that the server holds", "validity.md:R7", "", out("c1"), previous_response_id="resp_1"),
]  # fmt: skip
