"""A recorded history of the Gemini API, repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebbtide.wire.blocks import as_str
from ebbtide.wire.client_history import NO_RESULT, ClientHistory, Message
from ebbtide.wire.gemini.fields import call_of, make_response, parts_of, replace_field, response_of, text_field

_NO_TURN = "[What stood here was not recorded]"


class History(ClientHistory):
    """User and model alternate, the user first. A user's content begins with the responses to the calls before it."""

    def calls_in(self, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
        """A call without an id is known by its name and how many of its name came before."""
        seen: dict[str, int] = {}
        for call in filter(None, map(call_of, parts_of(message))):
            name, id = as_str(call.get("name")), as_str(call.get("id"))
            response = make_response(name, id, NO_RESULT, is_error=True)
            yield id or _nameless(name, seen), response

    def result_id(self, part: dict[str, Any]) -> str | None:
        response = response_of(part)
        if response is None:
            return None
        return as_str(response.get("id")) or _nameless(as_str(response.get("name")), self._seen)

    def repair_tail(self) -> list[Message]:
        """Merge all that was added into one content of the user."""
        self._seen: dict[str, int] = {}
        added = [part for message in self.added for part in parts_of(message)]
        parts = self.pair_results(added)
        if not parts:
            self.on_repair("a reply without a recorded user message, which a placeholder replaces")
            content = {"role": "user", "parts": [{"text": _NO_TURN}]}
            # The key is the place in the history: two placeholders are two contents.
            return [self.cache.setdefault(("user", len(self.sent)), content)]
        part_ids = tuple(map(id, parts))
        if len(self.added) == 1 and part_ids == tuple(map(id, added)):
            return [self.added[0]]
        # The cached content holds its parts, so their ids cannot be reused.
        return [self.cache.setdefault(("turn", part_ids), {"role": "user", "parts": parts})]

    def with_results_cleared(self, message: Message, call_ids: frozenset[str], placeholder: str) -> Message:
        parts = [_clear(part, call_ids, placeholder) for part in parts_of(message)]
        is_same = all(new is old for new, old in zip(parts, parts_of(message), strict=True))
        return message if is_same else {**message, "parts": parts}


def _nameless(name: str, seen: dict[str, int]) -> str:
    seen[name] = seen.get(name, 0) + 1
    return f"{name}:{seen[name]}"


def _clear(part: dict[str, Any], call_ids: frozenset[str], placeholder: str) -> dict[str, Any]:
    response = response_of(part)
    if response is None or as_str(response.get("id")) not in call_ids:
        return part
    field = text_field(response.get("response")) or "output"
    return replace_field(part, "functionResponse", {**response, "response": {field: placeholder}})
