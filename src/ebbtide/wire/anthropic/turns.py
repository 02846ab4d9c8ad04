"""Turns of the Anthropic Messages API: results and texts of a turn are one user message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.core.errors import BadRequest
from ebbtide.wire.turns import Block, CallResult, OpenCall, Reply, is_blank, text_block, to_dict

model_field = "model"
tools_field = "tools"
max_tokens_field = "max_tokens"
default_max_tokens: int | None = 4096
"""The API requires `max_tokens`; none of its models refuses this value."""
joins_results = True


def system_fields(system: Sequence[Block]) -> Block:
    return {"system": list(system)}


def system_messages(_system: Sequence[Block]) -> list[Block]:
    return []


def read_reply(response: object) -> Reply:
    reply = to_dict(response, "response")
    content = reply.get("content")
    if isinstance(content, str):
        return Reply(messages=[{"role": "assistant", "content": content}] if content.strip() else [])
    if not isinstance(content, Sequence):
        raise BadRequest("a reply has content", path="response.content")
    blocks = [to_dict(block, f"response.content.{n}") for n, block in enumerate(content)]
    blocks = [block for block in blocks if block.get("type") != "text" or not is_blank(block)]
    calls = [
        OpenCall(id=str(block["id"]), kind="tool_use", by_program=_is_by_program(block.get("caller")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    messages: list[Block] = [{"role": "assistant", "content": blocks}] if blocks else []
    return Reply(messages=messages, calls=calls, is_paused=reply.get("stop_reason") == "pause_turn")


def _is_by_program(caller: object) -> bool:
    return isinstance(caller, Mapping) and caller.get("type", "direct") != "direct"


def write_turn(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    blocks: list[Block] = []
    for result in results:
        block: Block = {"type": "tool_result", "tool_use_id": result.call.id, "content": result.content}
        blocks.append({**block, "is_error": True} if result.is_error else block)
    yield {"role": "user", "content": [*blocks, *map(text_block, texts)]}
