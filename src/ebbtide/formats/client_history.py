"""A client's history while a recording is replayed, repaired so that any provider accepts it.

Only the tail, after the last reply, can need a repair: everything before was repaired when the reply was added.
Messages that need no repair stay the same objects.
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
    def __init__(self, cache: dict[Any, Any], on_repair: Callable[[str], None]) -> None:
        """`cache` outlives the history, so that a rewound history has the same objects as the one before."""
        self.cache, self.on_repair = cache, on_repair
        self.sent: list[Message] = []
        """Up to and including the last reply."""
        self.added: list[Message] = []
        """What the client added since."""
        self.open_calls: dict[str, dict[str, Any]] = {}
        """Ids of the last reply's calls, each with the result to use if none was recorded."""
        self.repaired_tail: list[Message] | None = None
        """None if something was added since the last repair."""

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
        self.open_calls = {id: result for message in messages for id, result in self.calls_in(message)}

    def tail(self) -> list[Message]:
        if self.repaired_tail is None:
            self.repaired_tail = self.repair_tail()
        return self.repaired_tail

    def repair_tail(self) -> list[Message]:
        return self.pair_results(self.added)

    def clear_results(self, call_ids: frozenset[str], placeholder: str) -> None:
        self.sent = [self.with_results_cleared(message, call_ids, placeholder) for message in self.sent]
        self.added = [self.with_results_cleared(message, call_ids, placeholder) for message in self.added]
        self.repaired_tail = None

    def pair_results(self, parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Put one result for each open call first, then the rest. Drop other results; make up missing ones."""
        results: dict[str, dict[str, Any]] = {}
        rest: list[dict[str, Any]] = []
        for part in parts:
            call_id = self.result_id(part)
            if call_id is None:
                rest.append(part)
            elif call_id not in self.open_calls or part.get("type") != self.open_calls[call_id].get("type"):
                self.on_repair(f"a result without its call, left out: {call_id}")
            else:
                # The last result of a call wins; `pop` puts it where it arrived.
                results.pop(call_id, None)
                results[call_id] = part
        for call_id, substitute in self.open_calls.items():
            if call_id not in results:
                self.on_repair(f"a call without its result, answered for the tool: {call_id}")
                results[call_id] = self.cache.setdefault(("result", call_id), substitute)
        return [*results.values(), *rest]

    @abstractmethod
    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the id of each call in a message, and the result to use if none was recorded."""

    @abstractmethod
    def result_id(self, part: dict[str, Any]) -> str | None:
        """Return the id of the call that a result answers; None if the part is not a result."""

    @abstractmethod
    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message: ...


class AnthropicHistory(ClientHistory):
    """User and assistant alternate, the user first. A user message begins with the results of the calls before it."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        for block in content_blocks(message):
            if block["type"] == "tool_use":
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": _NO_RESULT, "is_error": True}
                yield block["id"], result

    def result_id(self, part: dict[str, Any]) -> str | None:
        return str_or_empty(part.get("tool_use_id")) if part["type"] == "tool_result" else None

    def repair_tail(self) -> list[Message]:
        """Merge all that was added into one user message."""
        added = [block for message in self.added for block in self._cached_blocks(message)]
        blocks = self.pair_results(added)
        if not blocks:
            self.on_repair("a reply without a recorded user message, which a placeholder replaces")
            # The key is the place in the history: two placeholders are two messages.
            return [self.cache.setdefault(("user", len(self.sent)), {"role": "user", "content": _NO_TURN})]
        block_ids = tuple(map(id, blocks))
        if len(self.added) == 1 and block_ids == tuple(map(id, added)):
            return [self.added[0]]
        # The cached message holds its blocks, so their ids cannot be reused.
        return [self.cache.setdefault(("turn", block_ids), {"role": "user", "content": blocks})]

    def _cached_blocks(self, message: Message) -> list[dict[str, Any]]:
        """A string gives the same block object each time, so that merged messages are recognised by their blocks."""
        if not isinstance(message["content"], str):
            return content_blocks(message)
        entry = self.cache.setdefault(("text", id(message)), (message, content_blocks(message)))
        blocks: list[dict[str, Any]] = entry[1]
        return blocks

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        blocks = content_blocks(message)
        is_cleared = [str_or_empty(block.get("tool_use_id")) in call_ids for block in blocks]
        if not any(is_cleared):
            return message
        content = [
            {**block, "content": placeholder} if cleared else block
            for block, cleared in zip(blocks, is_cleared, strict=True)
        ]
        return {**message, "content": content}


def content_blocks(message: Message) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class ChatHistory(ClientHistory):
    """Each call is answered by a tool message directly after it, before any other message."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        for call in message.get("tool_calls") or ():
            yield call["id"], {"role": "tool", "tool_call_id": call["id"], "content": _NO_RESULT}

    def result_id(self, part: dict[str, Any]) -> str | None:
        return str_or_empty(part.get("tool_call_id")) if part["role"] == "tool" else None

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        is_cleared = str_or_empty(message.get("tool_call_id")) in call_ids
        return {**message, "content": placeholder} if is_cleared else message


_OUTPUT_TYPES = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}


class ResponsesHistory(ClientHistory):
    """Each type of call has its type of output. Reasoning must be followed by what it led to."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        kind, call_id = str_or_empty(message.get("type")), str_or_empty(message.get("call_id"))
        if kind not in _OUTPUT_TYPES or not call_id:
            return
        output: dict[str, Any] = {"output": _NO_RESULT}
        if kind == "tool_search_call":
            output = {"status": "completed", "execution": "client", "tools": []}
        yield call_id, {"type": _OUTPUT_TYPES[kind], "call_id": call_id, **output}

    def result_id(self, part: dict[str, Any]) -> str | None:
        is_output = str_or_empty(part.get("type")) in _OUTPUT_TYPES.values()
        return str_or_empty(part.get("call_id")) if is_output else None

    def add_reply(self, messages: tuple[Message, ...]) -> None:
        while messages and messages[-1].get("type") == "reasoning":
            self.on_repair("reasoning with nothing after it, left out")
            messages = messages[:-1]
        super().add_reply(messages)

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        is_cleared = str_or_empty(message.get("call_id")) in call_ids and "output" in message
        return {**message, "output": placeholder} if is_cleared else message


HISTORIES: dict[str, type[ClientHistory]] = {
    "anthropic": AnthropicHistory,
    "openai_chat": ChatHistory,
    "openai_responses": ResponsesHistory,
}


def arguments_of(value: Any) -> str:
    """Return a chat call's arguments as the string that the API wants, whatever was recorded."""
    return value if isinstance(value, str) else json.dumps(value if value is not None else {}, ensure_ascii=False)
