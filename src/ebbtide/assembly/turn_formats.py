"""Reads replies and writes user turns in the format of each API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from ebbtide.core.errors import BadRequest

Wire = Literal["anthropic", "openai_chat", "openai_responses"]
Block = dict[str, object]
Content = str | Sequence[Mapping[str, object]]


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A tool call without a result."""

    id: str
    kind: str
    by_program: bool = False
    """The provider's own code made the call: the next message may hold only results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    call: OpenCall
    content: Content
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    messages: Sequence[Block]
    calls: Sequence[OpenCall] = ()
    is_paused: bool = False
    """The provider paused: send its reply back, and nothing else."""


@runtime_checkable
class _SdkObject(Protocol):
    """What the SDKs return: pydantic models of any version."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, object]: ...


def _to_dict(value: object, path: str) -> Block:
    if isinstance(value, _SdkObject):
        # The SDKs do the same when their objects are sent back: fields that the provider left out stay out.
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise BadRequest(f"{type(value).__name__} is not a reply", path=path)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def is_blank(block: Mapping[str, object]) -> bool:
    return "text" in block and not str(block["text"]).strip()


def _read_anthropic(response: object) -> Reply:
    reply = _to_dict(response, "response")
    content = reply.get("content")
    if isinstance(content, str):
        return Reply(messages=[{"role": "assistant", "content": content}] if content.strip() else [])
    if not isinstance(content, Sequence):
        raise BadRequest("a reply has content", path="response.content")
    blocks = [_to_dict(block, f"response.content.{n}") for n, block in enumerate(content)]
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


def _write_anthropic(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    blocks: list[Block] = []
    for result in results:
        block: Block = {"type": "tool_result", "tool_use_id": result.call.id, "content": result.content}
        blocks.append({**block, "is_error": True} if result.is_error else block)
    yield {"role": "user", "content": [*blocks, *map(text_block, texts)]}


def _read_chat(response: object) -> Reply:
    reply = _to_dict(response, "response")
    choices = _list(reply.get("choices"))
    if choices:
        reply = _to_dict(_to_dict(choices[0], "response.choices.0").get("message"), "response.choices.0.message")
    if reply.get("role", "assistant") != "assistant":
        raise BadRequest("a reply has the role assistant", path="response.role")
    calls = [_to_dict(call, "response.tool_calls") for call in _list(reply.get("tool_calls"))]
    message: Block = {"role": "assistant", "content": None}
    message |= {key: value for key, value in reply.items() if value is not None and value != []}
    if calls:
        message["tool_calls"] = calls
    has_content = any(message.get(key) for key in ("content", "tool_calls", "refusal", "function_call", "audio"))
    open_calls = [OpenCall(id=str(call["id"]), kind="tool_call") for call in calls]
    return Reply(messages=[message] if has_content else [], calls=open_calls)


def _write_chat(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call.id, "content": _error_content(result)}
    if texts:
        yield {"role": "user", "content": [text_block(text) for text in texts]}


_OUTPUT_TYPES = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "function_call_output",
}


def _read_responses(response: object) -> Reply:
    reply = _to_dict(response, "response")
    if "output" not in reply:
        raise BadRequest("a reply has output", path="response.output")
    items = [_to_dict(item, f"response.output.{n}") for n, item in enumerate(_list(reply["output"]))]
    calls = [
        OpenCall(id=str(item["call_id"]), kind=str(item["type"])) for item in items if item.get("type") in _OUTPUT_TYPES
    ]
    return Reply(messages=items, calls=calls)


def _write_responses(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {
            "type": _OUTPUT_TYPES[result.call.kind],
            "call_id": result.call.id,
            "output": _error_content(result),
        }
    if texts:
        yield {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def _error_content(result: CallResult) -> Content:
    """These APIs have no field for a failure, so the text says it."""
    if not result.is_error:
        return result.content
    if isinstance(result.content, str):
        return f"Error: {result.content}"
    return [
        {**part, "text": f"Error: {part['text']}"} if n == 0 and "text" in part else part
        for n, part in enumerate(result.content)
    ]


class TurnFormat(NamedTuple):
    """How one API writes a turn, and the names of two fields of its requests."""

    read_reply: Callable[[object], Reply]
    write_turn: Callable[[Sequence[CallResult], Sequence[str]], Iterator[Block]]
    list_key: str
    max_tokens_key: str


TURN_FORMATS: Mapping[str, TurnFormat] = {
    "anthropic": TurnFormat(_read_anthropic, _write_anthropic, "messages", "max_tokens"),
    "openai_chat": TurnFormat(_read_chat, _write_chat, "messages", "max_completion_tokens"),
    "openai_responses": TurnFormat(_read_responses, _write_responses, "input", "max_output_tokens"),
}
