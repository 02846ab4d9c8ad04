"""A history that any provider would accept: the repair of a recorded one is here and nowhere else.

Only the tail is ever in doubt. What stood before an answer was settled when the answer came, so it is never looked at
again, and the messages that needed no repair go out as the very objects that were read.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ebbtide.formats.source import word
from ebbtide.formats.steps import Message

_NO_RESULT = "[No result was recorded for this call]"
_NO_TURN = "[What stood here was not recorded]"


class Thread(ABC):
    """What one client has said and heard so far."""

    def __init__(self, made: dict[Any, Any], note: Callable[[str], None]) -> None:
        """`made` outlives the thread, so that a rewound history is made of the same objects as the one before."""
        self.made, self.note = made, note
        self.sent: list[Message] = []
        """Settled: up to and including the last answer."""
        self.open: list[Message] = []
        """What the client said since."""
        self.calls: list[tuple[str, str]] = []
        """Kind and id of the last answer's calls."""
        self.settled: list[Message] | None = None
        """The tail, once made, until the client says more."""

    def say(self, messages: Iterable[Message]) -> None:
        self.open += messages
        self.settled = None

    def ready(self) -> list[Message]:
        return [*self.sent, *self.tail()]

    def answer(self, messages: tuple[Message, ...]) -> None:
        if not messages:
            return
        self.sent += [*self.tail(), *messages]
        self.open, self.settled = [], None
        self.calls = [call for message in messages for call in self.calls_of(message)]

    def tail(self) -> list[Message]:
        if self.settled is None:
            self.settled = self.settle()
        return self.settled

    def clear(self, calls: frozenset[str], text: str) -> None:
        self.sent = [self.cleared(message, calls, text) for message in self.sent]
        self.open = [self.cleared(message, calls, text) for message in self.open]
        self.settled = None

    def once(self, key: Any, make: Callable[[], Message]) -> Message:
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]  # type: ignore[no-any-return]

    @abstractmethod
    def calls_of(self, message: Message) -> Iterator[tuple[str, str]]: ...

    @abstractmethod
    def settle(self) -> list[Message]: ...

    @abstractmethod
    def cleared(self, message: Message, calls: frozenset[str], text: str) -> Message: ...


class AnthropicThread(Thread):
    """Turns alternate and start with the user; a turn's results come first, one for each call of the turn before."""

    def calls_of(self, message: Message) -> Iterator[tuple[str, str]]:
        for block in blocks_of(message):
            if block["type"] == "tool_use":
                yield "tool_use", block["id"]

    def settle(self) -> list[Message]:
        results: dict[str, dict[str, Any]] = {}
        rest: list[dict[str, Any]] = []
        wanted = {call for _, call in self.calls}
        before = [block for message in self.open for block in self.same_blocks(message)]
        for block in before:
            if block["type"] != "tool_result":
                rest.append(block)
            elif word(block.get("tool_use_id")) not in wanted:
                self.note(f"a result without its call, left out: {block.get('tool_use_id')}")
            else:
                # The last one wins; taking the first out keeps the order of arrival.
                results.pop(block["tool_use_id"], None)
                results[block["tool_use_id"]] = block
        for call in (call for _, call in self.calls if call not in results):
            self.note(f"a call without its result, answered for the tool: {call}")
            results[call] = self.once(("result", call), lambda call=call: _tool_result(call))  # type: ignore[misc]
        after = [*results.values(), *rest]
        if not after:
            return [self.placeholder()]
        key = tuple(id(block) for block in after)
        if len(self.open) == 1 and key == tuple(id(block) for block in before):
            return [self.open[0]]
        # The blocks ride along in the value: an id stays theirs only while they live.
        return [self.once(("turn", key), lambda: {"role": "user", "content": after})]

    def same_blocks(self, message: Message) -> list[dict[str, Any]]:
        """A bare string gives one and the same block each time, so that merged turns are recognised by their parts."""
        if not isinstance(message["content"], str):
            return blocks_of(message)
        held = self.once(("text", id(message)), lambda: {"message": message, "blocks": blocks_of(message)})
        return held["blocks"]  # type: ignore[no-any-return]

    def placeholder(self) -> Message:
        self.note("an answer to nothing that was recorded; a placeholder stands in for the user's turn")
        # A turn's identity is its place: two placeholders of one history are two messages.
        return self.once(("user", len(self.sent)), lambda: {"role": "user", "content": _NO_TURN})

    def cleared(self, message: Message, calls: frozenset[str], text: str) -> Message:
        if not any(word(block.get("tool_use_id")) in calls for block in blocks_of(message)):
            return message
        content = [
            {**block, "content": text} if word(block.get("tool_use_id")) in calls else block
            for block in blocks_of(message)
        ]
        return {**message, "content": content}


def blocks_of(message: Message) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tool_result(call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": _NO_RESULT, "is_error": True}


class ChatThread(Thread):
    """Each call is answered by a tool message directly after it, before anyone else speaks."""

    def calls_of(self, message: Message) -> Iterator[tuple[str, str]]:
        for call in message.get("tool_calls") or ():
            yield "function", call["id"]

    def settle(self) -> list[Message]:
        results: dict[str, Message] = {}
        rest: list[Message] = []
        wanted = {call for _, call in self.calls}
        for message in self.open:
            if message["role"] != "tool":
                rest.append(message)
            elif (call := word(message.get("tool_call_id"))) not in wanted:
                self.note(f"a result without its call, left out: {message.get('tool_call_id')}")
            else:
                results.pop(call, None)
                results[call] = message
        for call in (call for _, call in self.calls if call not in results):
            self.note(f"a call without its result, answered for the tool: {call}")
            results[call] = self.once(("result", call), lambda call=call: _tool_message(call))  # type: ignore[misc]
        return [*results.values(), *rest]

    def cleared(self, message: Message, calls: frozenset[str], text: str) -> Message:
        return {**message, "content": text} if word(message.get("tool_call_id")) in calls else message


def _tool_message(call: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "content": _NO_RESULT}


_OUTPUT_OF = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUTS = frozenset(_OUTPUT_OF.values())


class ResponsesThread(Thread):
    """Each call has an output of its own type; reasoning keeps what follows it."""

    def calls_of(self, message: Message) -> Iterator[tuple[str, str]]:
        if word(message.get("type")) in _OUTPUT_OF and word(message.get("call_id")):
            yield message["type"], message["call_id"]

    def answer(self, messages: tuple[Message, ...]) -> None:
        while messages and messages[-1].get("type") == "reasoning":
            self.note("reasoning with nothing after it, left out")
            messages = messages[:-1]
        super().answer(messages)

    def settle(self) -> list[Message]:
        wanted = {call: _OUTPUT_OF[kind] for kind, call in self.calls}
        results: dict[str, Message] = {}
        rest: list[Message] = []
        for item in self.open:
            call = word(item.get("call_id"))
            if word(item.get("type")) not in _OUTPUTS:
                rest.append(item)
            elif wanted.get(call) != item["type"]:
                self.note(f"an output without its call, left out: {call}")
            else:
                results.pop(call, None)
                results[call] = item
        for call, kind in wanted.items():
            if call not in results:
                self.note(f"a call without its output, answered for the tool: {call}")
                results[call] = self.once(("result", call), lambda call=call, kind=kind: _output(call, kind))  # type: ignore[misc]
        return [*results.values(), *rest]

    def cleared(self, message: Message, calls: frozenset[str], text: str) -> Message:
        return {**message, "output": text} if word(message.get("call_id")) in calls and "output" in message else message


def _output(call: str, kind: str) -> Message:
    if kind == "tool_search_output":
        return {"type": kind, "call_id": call, "status": "completed", "execution": "client", "tools": []}
    return {"type": kind, "call_id": call, "output": _NO_RESULT}


THREADS: dict[str, type[Thread]] = {
    "anthropic": AnthropicThread,
    "openai_chat": ChatThread,
    "openai_responses": ResponsesThread,
}


def arguments_of(value: Any) -> str:
    """A chat call's arguments are a string on the wire, whatever the record made of them."""
    return value if isinstance(value, str) else json.dumps(value if value is not None else {}, ensure_ascii=False)
