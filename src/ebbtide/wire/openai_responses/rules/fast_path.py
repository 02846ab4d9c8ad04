"""Most requests are ordinary, and one walk sees it: words, reasoning, calls and their outputs, in turn. All rules hold.

Yes is a promise that `check` would find nothing; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ebbtide.wire.openai_responses.rules.items import CALL_ID, ITEM_ID, PREFIXES, Item
from ebbtide.wire.protocol import SYSTEM_AND_TOOLS
from ebbtide.wire.validity import Json, is_encodable


def is_ordinary(body: Mapping[str, Json], since: int) -> bool:
    accepted = SYSTEM_AND_TOOLS if since else ()
    for name, value in body.items():
        if type(value) is not bool and name != "input" and name not in accepted and not is_encodable(value):
            return False
    items, walk = body["input"], _Walk(body.get("store") is not False)
    for n in range(since, len(items)):
        if not walk.accepts(items[n]):
            return False
    return not walk.open_calls and not walk.is_reasoning_open


class _Walk:
    """Item after item. Knows which calls wait for an output, and whether reasoning waits for what follows it."""

    def __init__(self, is_stored: bool) -> None:
        self.is_stored, self.is_reasoning_open = is_stored, False
        self.open_calls, self.call_ids, self.item_ids = dict[str, str](), set[str](), set[str]()
        """Calls that wait, with the output they want; all calls; and the ids of items."""

    def accepts(self, item: Json) -> bool:
        if not isinstance(item, dict):
            return False
        name = item.get("type", "message")
        check = _CHECKS.get(name) if isinstance(name, str) else None
        return check is not None and self._is_new(name, item.get("id")) and check(self, item) and is_encodable(item)

    def _is_new(self, name: str, identity: Json) -> bool:
        if identity is None:
            return True
        if (
            not isinstance(identity, str)
            or identity in self.item_ids
            or not identity.startswith(PREFIXES.get(name, ""))
        ):
            return False
        self.item_ids.add(identity)
        return ITEM_ID.fullmatch(identity) is not None

    def _accepts_message(self, item: Item) -> bool:
        role, content = item.get("role"), item.get("content")
        if role != "assistant" and self.is_reasoning_open:
            return False
        self.is_reasoning_open = False
        parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
        return "role" in item and (parts or isinstance(content, str))

    def _accepts_reasoning(self, item: Item) -> bool:
        self.is_reasoning_open = True
        is_available = self.is_stored or item.get("id") is None or bool(item.get("encrypted_content"))
        return is_available and isinstance(item.get("summary"), list)

    def _accepts_call(self, item: Item) -> bool:
        identity, name = item.get("call_id"), item["type"]
        arguments = item.get("arguments" if name == "function_call" else "input")
        if not isinstance(identity, str) or identity in self.call_ids or not CALL_ID.fullmatch(identity):
            return False
        self.is_reasoning_open = False
        self.call_ids.add(identity)
        self.open_calls[identity] = f"{name}_output"
        return isinstance(item.get("name"), str) and isinstance(arguments, str)

    def _accepts_output(self, item: Item) -> bool:
        identity = item.get("call_id")
        expected_type = self.open_calls.pop(identity, "") if isinstance(identity, str) else ""
        return (
            expected_type == item["type"] and not self.is_reasoning_open and isinstance(item.get("output"), str | list)
        )


_CHECKS: Mapping[str, Callable[[_Walk, Item], bool]] = {
    "message": _Walk._accepts_message,
    "reasoning": _Walk._accepts_reasoning,
    "function_call": _Walk._accepts_call,
    "custom_tool_call": _Walk._accepts_call,
    "function_call_output": _Walk._accepts_output,
    "custom_tool_call_output": _Walk._accepts_output,
}
