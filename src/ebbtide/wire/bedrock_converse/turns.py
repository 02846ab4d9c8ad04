"""Turns of the Converse API: results and texts of a turn are one user message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.core.errors import BadRequest
from ebbtide.wire.turns import Block, CallResult, OpenCall, Reply, as_list, is_blank, to_dict

model_field = "modelId"
tools_field = "toolConfig.tools"
max_tokens_field = "inferenceConfig.maxTokens"
default_max_tokens: int | None = None
joins_results = True


def system_fields(system: Sequence[Block]) -> Block:
    return {"system": [{"text": block.get("text", "")} for block in system]}


def system_messages(_system: Sequence[Block]) -> list[Block]:
    return []


def read_reply(response: object) -> Reply:
    """Read a response of `converse`, or its message alone."""
    reply = to_dict(response, "response")
    if "content" not in reply:
        output = to_dict(reply.get("output"), "response.output")
        reply = to_dict(output.get("message"), "response.output.message")
    if reply.get("role") not in (None, "assistant"):
        raise BadRequest("a reply has the role assistant", path="response.role")
    blocks = [to_dict(block, f"response.content.{n}") for n, block in enumerate(as_list(reply.get("content")))]
    blocks = [block for block in blocks if not is_blank(block)]
    calls = [call for block in blocks if isinstance(call := block.get("toolUse"), Mapping)]
    messages: list[Block] = [{"role": "assistant", "content": blocks}] if blocks else []
    return Reply(messages=messages, calls=[OpenCall(id=str(call.get("toolUseId")), kind="toolUse") for call in calls])


def write_turn(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    yield {"role": "user", "content": [*map(_write_result, results), *({"text": text} for text in texts)]}


def _write_result(result: CallResult) -> Block:
    content = (
        [{"text": result.content}] if isinstance(result.content, str) else [_part(part) for part in result.content]
    )
    fields: Block = {"toolUseId": result.call.id, "content": content}
    return {"toolResult": {**fields, "status": "error"} if result.is_error else fields}


def _part(part: Mapping[str, object]) -> Block:
    """A text of the other formats has a `type`, which this API refuses."""
    return {"text": part["text"]} if "text" in part else dict(part)
