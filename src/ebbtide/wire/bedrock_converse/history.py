"""A recorded history of the Converse API, repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.wire.bedrock_converse.blocks import blocks_of, calls_of, field
from ebbtide.wire.blocks import as_str
from ebbtide.wire.client_history import NO_RESULT, ClientHistory, Message

_NO_TURN = "[What stood here was not recorded]"


class History(ClientHistory):
    """User and assistant alternate, the user first. A user message begins with the results of the calls before it."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        for call in calls_of(message):
            call_id = as_str(call.get("toolUseId"))
            result = {"toolUseId": call_id, "content": [{"text": NO_RESULT}], "status": "error"}
            yield call_id, {"toolResult": result}

    def result_id(self, part: dict[str, Any]) -> str | None:
        result = field(part, "toolResult")
        return None if result is None else as_str(result.get("toolUseId"))

    def repair_tail(self) -> list[Message]:
        """Merge all that was added into one user message."""
        added = [block for message in self.added for block in blocks_of(message)]
        blocks = self.pair_results(added)
        if not blocks:
            self.on_repair("a reply without a recorded user message, which a placeholder replaces")
            message = {"role": "user", "content": [{"text": _NO_TURN}]}
            # The key is the place in the history: two placeholders are two messages.
            return [self.cache.setdefault(("user", len(self.sent)), message)]
        block_ids = tuple(map(id, blocks))
        if len(self.added) == 1 and block_ids == tuple(map(id, added)):
            return [self.added[0]]
        # The cached message holds its blocks, so their ids cannot be reused.
        return [self.cache.setdefault(("turn", block_ids), {"role": "user", "content": blocks})]

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        blocks = blocks_of(message)
        cleared = [_clear(block, call_ids, placeholder) for block in blocks]
        is_same = all(new is old for new, old in zip(cleared, blocks, strict=True))
        return message if is_same else {**message, "content": cleared}


def _clear(block: dict[str, Any], call_ids: frozenset[str], placeholder: str) -> dict[str, Any]:
    result = field(block, "toolResult")
    if result is None or as_str(result.get("toolUseId")) not in call_ids:
        return block
    return {**block, "toolResult": {**result, "content": [{"text": placeholder}]}}
