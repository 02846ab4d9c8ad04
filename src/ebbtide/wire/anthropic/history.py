"""A recorded history of the Anthropic Messages API, repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.wire.blocks import as_str
from ebbtide.wire.client_history import NO_RESULT, ClientHistory, Message

_NO_TURN = "[What stood here was not recorded]"


class History(ClientHistory):
    """User and assistant alternate, the user first. A user message begins with the results of the calls before it."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        for block in content_blocks(message):
            if block["type"] == "tool_use":
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": NO_RESULT, "is_error": True}
                yield block["id"], result

    def result_id(self, part: dict[str, Any]) -> str | None:
        return as_str(part.get("tool_use_id")) if part["type"] == "tool_result" else None

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
        is_cleared = [as_str(block.get("tool_use_id")) in call_ids for block in blocks]
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
