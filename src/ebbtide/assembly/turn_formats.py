"""A reply read and a turn written, in the shape that each wire has. What is no reply is refused with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ebbtide.core.errors import BadRequest

Wire = Literal["anthropic", "openai_chat", "openai_responses"]
Block = dict[str, object]
Content = str | Sequence[Mapping[str, object]]


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call that waits for its result."""

    id: str
    kind: str
    quiet: bool = False
    """Made by the provider's own code: nothing but results may stand in the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    call: OpenCall
    content: Content
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    messages: Sequence[Block]
    calls: Sequence[OpenCall] = ()
    paused: bool = False
    """The provider stopped half-way and wants its own words back, and nothing else."""


@runtime_checkable
class _Dumps(Protocol):
    """What the SDKs return: pydantic models, of whichever version."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, object]: ...


def _plain(value: object, path: str) -> Block:
    if isinstance(value, _Dumps):
        # As the SDKs themselves do when their objects are sent back: what the provider did not say is not said.
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise BadRequest(f"{type(value).__name__} is not a reply", path=path)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def is_blank(block: Mapping[str, object]) -> bool:
    return "text" in block and not str(block["text"]).strip()


def _read_anthropic(response: object) -> Reply:
    reply = _plain(response, "response")
    content = reply.get("content")
    if isinstance(content, str):
        return Reply(messages=[{"role": "assistant", "content": content}] if content.strip() else [])
    if not isinstance(content, Sequence):
        raise BadRequest("a reply has content", path="response.content")
    blocks = [_plain(block, f"response.content.{n}") for n, block in enumerate(content)]
    blocks = [block for block in blocks if block.get("type") != "text" or not is_blank(block)]
    calls = [
        OpenCall(id=str(block["id"]), kind="tool_use", quiet=_by_program(block.get("caller")))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    messages: list[Block] = [{"role": "assistant", "content": blocks}] if blocks else []
    return Reply(messages=messages, calls=calls, paused=reply.get("stop_reason") == "pause_turn")


def _by_program(caller: object) -> bool:
    return isinstance(caller, Mapping) and caller.get("type", "direct") != "direct"


def _turn_anthropic(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    answered: list[Block] = []
    for result in results:
        block: Block = {"type": "tool_result", "tool_use_id": result.call.id, "content": result.content}
        answered.append({**block, "is_error": True} if result.is_error else block)
    yield {"role": "user", "content": [*answered, *map(text_block, texts)]}


def _read_chat(response: object) -> Reply:
    reply = _plain(response, "response")
    choices = _list(reply.get("choices"))
    if choices:
        reply = _plain(_plain(choices[0], "response.choices.0").get("message"), "response.choices.0.message")
    if reply.get("role", "assistant") != "assistant":
        raise BadRequest("a reply has the role assistant", path="response.role")
    calls = [_plain(call, "response.tool_calls") for call in _list(reply.get("tool_calls"))]
    message: Block = {"role": "assistant", "content": None}
    message |= {key: value for key, value in reply.items() if value is not None and value != []}
    if calls:
        message["tool_calls"] = calls
    said = any(message.get(key) for key in ("content", "tool_calls", "refusal", "function_call", "audio"))
    opened = [OpenCall(id=str(call["id"]), kind="tool_call") for call in calls]
    return Reply(messages=[message] if said else [], calls=opened)


def _turn_chat(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {"role": "tool", "tool_call_id": result.call.id, "content": _marked(result)}
    if texts:
        yield {"role": "user", "content": [text_block(text) for text in texts]}


_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "function_call_output",
}


def _read_responses(response: object) -> Reply:
    reply = _plain(response, "response")
    if "output" not in reply:
        raise BadRequest("a reply has output", path="response.output")
    items = [_plain(item, f"response.output.{n}") for n, item in enumerate(_list(reply["output"]))]
    calls = [
        OpenCall(id=str(item["call_id"]), kind=str(item["type"])) for item in items if item.get("type") in _OUTPUTS
    ]
    return Reply(messages=items, calls=calls)


def _turn_responses(results: Sequence[CallResult], texts: Sequence[str]) -> Iterator[Block]:
    for result in results:
        yield {"type": _OUTPUTS[result.call.kind], "call_id": result.call.id, "output": _marked(result)}
    if texts:
        yield {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def _marked(result: CallResult) -> Content:
    """These wires have no field for failure, so the text says it."""
    if not result.is_error:
        return result.content
    if isinstance(result.content, str):
        return f"Error: {result.content}"
    return [
        {**part, "text": f"Error: {part['text']}"} if n == 0 and "text" in part else part
        for n, part in enumerate(result.content)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFormat:
    read: Callable[[object], Reply]
    turn: Callable[[Sequence[CallResult], Sequence[str]], Iterator[Block]]
    messages: str
    limit: str


TURN_FORMATS: Mapping[str, TurnFormat] = {
    "anthropic": TurnFormat(read=_read_anthropic, turn=_turn_anthropic, messages="messages", limit="max_tokens"),
    "openai_chat": TurnFormat(read=_read_chat, turn=_turn_chat, messages="messages", limit="max_completion_tokens"),
    "openai_responses": TurnFormat(
        read=_read_responses, turn=_turn_responses, messages="input", limit="max_output_tokens"
    ),
}
