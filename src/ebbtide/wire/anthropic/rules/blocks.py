"""How the rules read a Messages body. Readers here accept any shape: what is not a block is not seen.

A message that needs nothing leaves as the same object: that is how the encoder knows what it may emit verbatim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ebbtide.wire.findings import Json

Block = Mapping[str, Json]
Message = Mapping[str, Json]

THINKING = ("thinking", "redacted_thinking")
SERVER_USE = ("server_tool_use", "mcp_tool_use")

EMPTY = "(empty message)"
CONTINUE = "Continue."
EARLIER = "(The conversation so far is not shown.)"
UNANSWERED = "No result: the call was interrupted before a result was recorded."
ORPHANED = "(A tool result stood here; its call is no longer part of the conversation.)"
OPERATOR = "[Instruction from the operator of this system, not from the user]\n"
NO_OUTPUT = "(no output)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The facts of a body that rules ask for besides the messages."""

    messages: Sequence[Json]
    since: int
    """Messages before it went out exactly so and were accepted; they are read, not judged."""
    taken: AbstractSet[str]
    """Call ids used before `since`."""
    tools: Sequence[Json]
    model: str
    manual: bool
    """Thinking with a budget: the open tool loop must then start with thinking."""
    thinks: bool
    """Thinking is on, in whatever way."""
    container: bool
    tool_names: frozenset[str]
    open_ids: frozenset[str]
    """Ids of calls in the last accepted message: its results may name them, whatever they look like."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A message on its way out, and where it stood in the client's body."""

    at: int
    message: Message


def request(body: Mapping[str, Json], since: int, call_ids: AbstractSet[str]) -> Request:
    thinking = body.get("thinking")
    mode = thinking.get("type") if isinstance(thinking, dict) else None
    model, tools = body.get("model"), body.get("tools")
    tool_list = tools if isinstance(tools, list) else []
    names = (tool.get("name") for tool in tool_list if isinstance(tool, dict))
    open_calls = calls(body["messages"][since - 1]) if since else []
    return Request(
        messages=body["messages"],
        since=since,
        taken=call_ids,
        tools=tool_list,
        model=model if isinstance(model, str) else "",
        manual=mode == "enabled",
        thinks=mode in ("enabled", "adaptive"),
        container=bool(body.get("container")),
        tool_names=frozenset(name for name in names if isinstance(name, str)),
        open_ids=frozenset(str(call.get("id")) for call in open_calls),
    )


def role(message: Json) -> str:
    value = message.get("role") if isinstance(message, dict) else None
    return value if isinstance(value, str) else ""


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def kind(block: Json) -> str:
    value = block.get("type") if isinstance(block, dict) else None
    return value if isinstance(value, str) else ""


def blocks(message: Json) -> list[Block]:
    """A bare string is one text block; an empty one is none."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [text(content)] if content else []
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def with_blocks(message: Message, new: Sequence[Block]) -> Message:
    """The very same message if these are the blocks it has."""
    content = message.get("content")
    if isinstance(content, str) and list(new) == blocks(message):
        return message
    if isinstance(content, list) and same_parts(content, new):
        return message
    return {**message, "content": list(new)}


def same_parts(old: Sequence[Json], new: Sequence[Json]) -> bool:
    return len(old) == len(new) and all(left is right for left, right in zip(old, new, strict=True))


def without(block: Block, *fields: str) -> Block:
    return {key: value for key, value in block.items() if key not in fields}


def calls(message: Json) -> list[Block]:
    return [block for block in blocks(message) if kind(block) == "tool_use"] if role(message) == "assistant" else []


def is_programmatic(call: Block) -> bool:
    """Called by code that runs in the provider's container, which waits for the result."""
    caller = call.get("caller")
    return isinstance(caller, dict) and str(caller.get("type", "")).startswith("code_execution")


def is_server_result(block: Block) -> bool:
    return kind(block).endswith("_tool_result")


def ends_in_server_use(message: Json) -> bool:
    """A30: a paused turn. It goes back as it is, without a user turn after it."""
    parts = blocks(message)
    return role(message) == "assistant" and bool(parts) and kind(parts[-1]) in SERVER_USE


def numbered(messages: Sequence[Json], since: int) -> Iterator[tuple[int, Json]]:
    return ((index, messages[index]) for index in range(since, len(messages)))
