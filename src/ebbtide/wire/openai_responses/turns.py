"""Turns of OpenAI Responses: each result is an item, and the system prompt is `instructions`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.core.errors import BadRequest
from ebbtide.wire.openai_responses.rules.items import OUTPUTS
from ebbtide.wire.turns import Block, CallResult, OpenCall, Reply, as_list, error_content, join_texts, to_dict

model_field = "model"
tools_field = "tools"
max_tokens_field = "max_output_tokens"
default_max_tokens: int | None = None
joins_results = False

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")


def system_fields(system: Sequence[Block]) -> Block:
    return {"instructions": join_texts(system)}


def system_messages(_system: Sequence[Block]) -> list[Block]:
    return []


def read_reply(response: object) -> Reply:
    reply = to_dict(response, "response")
    if "output" not in reply:
        raise BadRequest("a reply has output", path="response.output")
    items = [to_dict(item, f"response.output.{n}") for n, item in enumerate(as_list(reply["output"]))]
    calls = [OpenCall(id=str(item["call_id"]), kind=str(item["type"])) for item in items if item.get("type") in _CALLS]
    return Reply(messages=items, calls=calls)


def write_turn(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {
            "type": OUTPUTS[result.call.kind][0],
            "call_id": result.call.id,
            "output": error_content(result),
        }
    if texts:
        yield {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}
