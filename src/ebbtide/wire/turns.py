"""What the turn formats of all wires share: the parts of a turn that an agent loop reports, and of a reply to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ebbtide.core.errors import BadRequest

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


def to_dict(value: object, path: str) -> Block:
    if isinstance(value, _SdkObject):
        # The SDKs do the same when their objects are sent back: fields that the provider left out stay out.
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise BadRequest(f"{type(value).__name__} is not a reply", path=path)


def as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def is_blank(block: Mapping[str, object]) -> bool:
    return "text" in block and not str(block["text"]).strip()


def join_texts(blocks: Sequence[Block]) -> str:
    return "\n\n".join(str(block.get("text", "")) for block in blocks)


def error_content(result: CallResult) -> Content:
    """These APIs have no field for a failure, so the text says it."""
    if not result.is_error:
        return result.content
    if isinstance(result.content, str):
        return f"Error: {result.content}"
    return [
        {**part, "text": f"Error: {part['text']}"} if n == 0 and "text" in part else part
        for n, part in enumerate(result.content)
    ]
