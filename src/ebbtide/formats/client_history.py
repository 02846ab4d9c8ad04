"""A history that any provider would accept: the repair of a recorded one is here and nowhere else.

Only the tail is ever in doubt. What stood before an answer was settled when the answer came, so it is never looked at
again, and the messages that needed no repair go out as the very objects that were read.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ebbtide.formats.session_file import str_or_empty
from ebbtide.formats.steps import Message

_NO_RESULT = "[No result was recorded for this call]"
_NO_TURN = "[What stood here was not recorded]"


class ClientHistory(ABC):
    """What one client has said and heard so far."""

    def __init__(self, cache: dict[Any, Any], note: Callable[[str], None]) -> None:
        """`made` outlives the thread, so that a rewound history is made of the same objects as the one before."""
        self.cache, self.note = cache, note
        self.sent: list[Message] = []
        """Settled: up to and including the last answer."""
        self.added: list[Message] = []
        """What the client said since."""
        self.calls: list[tuple[str, str]] = []
        """Kind and id of the last answer's calls."""
        self.repaired_tail: list[Message] | None = None
        """The tail, once made, until the client says more."""

    def add(self, messages: Iterable[Message]) -> None:
        self.added += messages
        self.repaired_tail = None

    def messages(self) -> list[Message]:
        return [*self.sent, *self.tail()]

    def add_reply(self, messages: tuple[Message, ...]) -> None:
        if not messages:
            return
        self.sent += [*self.tail(), *messages]
        self.added, self.repaired_tail = [], None
        self.calls = [call for message in messages for call in self.calls_in(message)]

    def tail(self) -> list[Message]:
        if self.repaired_tail is None:
            self.repaired_tail = self.repair_tail()
        return self.repaired_tail

    def clear_results(self, calls: frozenset[str], text: str) -> None:
        self.sent = [self.with_results_cleared(message, calls, text) for message in self.sent]
        self.added = [self.with_results_cleared(message, calls, text) for message in self.added]
        self.repaired_tail = None

    def once(self, key: Any, make: Callable[[], Message]) -> Message:
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]  # type: ignore[no-any-return]

    @abstractmethod
    def calls_in(self, message: Message) -> Iterator[tuple[str, str]]: ...

    @abstractmethod
    def repair_tail(self) -> list[Message]: ...

    @abstractmethod
    def with_results_cleared(self, message: Message, calls: frozenset[str], text: str) -> Message: ...


class AnthropicHistory(ClientHistory):
    """Turns alternate and start with the user; a turn's results come first, one for each call of the turn before."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, str]]:
        for block in blocks_of(message):
            if block["type"] == "tool_use":
                yield "tool_use", block["id"]

    def repair_tail(self) -> list[Message]:
        results: dict[str, dict[str, Any]] = {}
        rest: list[dict[str, Any]] = []
        wanted = {call for _, call in self.calls}
        before = [block for message in self.added for block in self.same_blocks(message)]
        for block in before:
            if block["type"] != "tool_result":
                rest.append(block)
            elif str_or_empty(block.get("tool_use_id")) not in wanted:
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
        if len(self.added) == 1 and key == tuple(id(block) for block in before):
            return [self.added[0]]
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

    def with_results_cleared(self, message: Message, calls: frozenset[str], text: str) -> Message:
        if not any(str_or_empty(block.get("tool_use_id")) in calls for block in blocks_of(message)):
            return message
        content = [
            {**block, "content": text} if str_or_empty(block.get("tool_use_id")) in calls else block
            for block in blocks_of(message)
        ]
        return {**message, "content": content}


def blocks_of(message: Message) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tool_result(call: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": _NO_RESULT, "is_error": True}


class ChatHistory(ClientHistory):
    """Each call is answered by a tool message directly after it, before anyone else speaks."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, str]]:
        for call in message.get("tool_calls") or ():
            yield "function", call["id"]

    def repair_tail(self) -> list[Message]:
        results: dict[str, Message] = {}
        rest: list[Message] = []
        wanted = {call for _, call in self.calls}
        for message in self.added:
            if message["role"] != "tool":
                rest.append(message)
            elif (call := str_or_empty(message.get("tool_call_id"))) not in wanted:
                self.note(f"a result without its call, left out: {message.get('tool_call_id')}")
            else:
                results.pop(call, None)
                results[call] = message
        for call in (call for _, call in self.calls if call not in results):
            self.note(f"a call without its result, answered for the tool: {call}")
            results[call] = self.once(("result", call), lambda call=call: _tool_message(call))  # type: ignore[misc]
        return [*results.values(), *rest]

    def with_results_cleared(self, message: Message, calls: frozenset[str], text: str) -> Message:
        return {**message, "content": text} if str_or_empty(message.get("tool_call_id")) in calls else message


def _tool_message(call: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "content": _NO_RESULT}


_OUTPUT_OF = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUTS = frozenset(_OUTPUT_OF.values())


class ResponsesHistory(ClientHistory):
    """Each call has an output of its own type; reasoning keeps what follows it."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, str]]:
        if str_or_empty(message.get("type")) in _OUTPUT_OF and str_or_empty(message.get("call_id")):
            yield message["type"], message["call_id"]

    def add_reply(self, messages: tuple[Message, ...]) -> None:
        while messages and messages[-1].get("type") == "reasoning":
            self.note("reasoning with nothing after it, left out")
            messages = messages[:-1]
        super().add_reply(messages)

    def repair_tail(self) -> list[Message]:
        wanted = {call: _OUTPUT_OF[kind] for kind, call in self.calls}
        results: dict[str, Message] = {}
        rest: list[Message] = []
        for item in self.added:
            call = str_or_empty(item.get("call_id"))
            if str_or_empty(item.get("type")) not in _OUTPUTS:
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

    def with_results_cleared(self, message: Message, calls: frozenset[str], text: str) -> Message:
        return (
            {**message, "output": text}
            if str_or_empty(message.get("call_id")) in calls and "output" in message
            else message
        )


def _output(call: str, kind: str) -> Message:
    if kind == "tool_search_output":
        return {"type": kind, "call_id": call, "status": "completed", "execution": "client", "tools": []}
    return {"type": kind, "call_id": call, "output": _NO_RESULT}


HISTORIES: dict[str, type[ClientHistory]] = {
    "anthropic": AnthropicHistory,
    "openai_chat": ChatHistory,
    "openai_responses": ResponsesHistory,
}


def arguments_of(value: Any) -> str:
    """A chat call's arguments are a string on the wire, whatever the record made of them."""
    return value if isinstance(value, str) else json.dumps(value if value is not None else {}, ensure_ascii=False)
