"""Turns of OpenAI Chat Completions: each result is a message, and the system prompt is the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.core.errors import BadRequest
from ebbtide.wire.turns import (
    Block,
    CallResult,
    OpenCall,
    Reply,
    as_list,
    error_content,
    join_texts,
    text_block,
    to_dict,
)

model_field = "model"
tools_field = "tools"
max_tokens_field = "max_completion_tokens"
default_max_tokens: int | None = None
joins_results = False


def system_fields(_system: Sequence[Block]) -> Block:
    return {}


def system_messages(system: Sequence[Block]) -> list[Block]:
    return [{"role": "system", "content": join_texts(system)}]


def read_reply(response: object) -> Reply:
    reply = to_dict(response, "response")
    choices = as_list(reply.get("choices"))
    if choices:
        reply = to_dict(to_dict(choices[0], "response.choices.0").get("message"), "response.choices.0.message")
    if reply.get("role", "assistant") != "assistant":
        raise BadRequest("a reply has the role assistant", path="response.role")
    calls = [to_dict(call, "response.tool_calls") for call in as_list(reply.get("tool_calls"))]
    message: Block = {"role": "assistant", "content": None}
    message |= {key: value for key, value in reply.items() if value is not None and value != []}
    if calls:
        message["tool_calls"] = calls
    has_content = any(message.get(key) for key in ("content", "tool_calls", "refusal", "function_call", "audio"))
    open_calls = [OpenCall(id=str(call["id"]), kind="tool_call") for call in calls]
    return Reply(messages=[message] if has_content else [], calls=open_calls)


def write_turn(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call.id, "content": error_content(result)}
    if texts:
        yield {"role": "user", "content": [text_block(text) for text in texts]}
