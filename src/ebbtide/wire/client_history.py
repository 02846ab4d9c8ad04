"""A client's history while a recording is replayed, repaired so that any provider accepts it.

Only the tail, after the last reply, can need a repair: everything before was repaired when the reply was added.
Messages that need no repair stay the same objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Message = dict[str, Any]
"""A message of the wire, or an item of the Responses API."""
NO_RESULT = "[No result was recorded for this call]"


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
