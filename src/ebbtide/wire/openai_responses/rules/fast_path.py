"""Most requests are ordinary, and one walk sees it: words, reasoning, calls and their outputs, in turn. All rules hold.

Yes is a promise that `check` would find nothing; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ebbtide.wire.findings import Json, is_encodable
from ebbtide.wire.openai_responses.rules.items import CALL_ID, ITEM_ID, PREFIXES, Item

_KNOWN = ("input", "system", "instructions", "tools")
"""Beside an accepted prefix these are the same that were accepted with it."""


def is_ordinary(body: Mapping[str, Json], since: int) -> bool:
    for name, value in body.items():
        if type(value) is not bool and name not in (_KNOWN if since else _KNOWN[:1]) and not is_encodable(value):
            return False
    items, walk = body["input"], _Walk(body.get("store") is not False)
    for n in range(since, len(items)):
        if not walk.takes(items[n]):
            return False
    return not walk.open and not walk.reasons


class _Walk:
    """Item after item. Knows which calls wait for an output, and whether reasoning waits for what follows it."""

    def __init__(self, stored: bool) -> None:
        self.stored, self.reasons = stored, False
        self.open, self.called, self.ids = dict[str, str](), set[str](), set[str]()
        """Calls that wait, with the output they want; all calls; and the ids of items."""

    def takes(self, item: Json) -> bool:
        if not isinstance(item, dict):
            return False
        name = item.get("type", "message")
        judge = _JUDGES.get(name) if isinstance(name, str) else None
        return judge is not None and self._is_new(name, item.get("id")) and judge(self, item) and is_encodable(item)

    def _is_new(self, name: str, identity: Json) -> bool:
        if identity is None:
            return True
        if not isinstance(identity, str) or identity in self.ids or not identity.startswith(PREFIXES.get(name, "")):
            return False
        self.ids.add(identity)
        return ITEM_ID.fullmatch(identity) is not None

    def says(self, item: Item) -> bool:
        role, content = item.get("role"), item.get("content")
        if role != "assistant" and self.reasons:
            return False
        self.reasons = False
        parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
        return "role" in item and (parts or isinstance(content, str))

    def reasons_on(self, item: Item) -> bool:
        self.reasons = True
        is_available = self.stored or item.get("id") is None or bool(item.get("encrypted_content"))
        return is_available and isinstance(item.get("summary"), list)

    def calls(self, item: Item) -> bool:
        identity, name = item.get("call_id"), item["type"]
        arguments = item.get("arguments" if name == "function_call" else "input")
        if not isinstance(identity, str) or identity in self.called or not CALL_ID.fullmatch(identity):
            return False
        self.reasons = False
        self.called.add(identity)
        self.open[identity] = f"{name}_output"
        return isinstance(item.get("name"), str) and isinstance(arguments, str)

    def answers(self, item: Item) -> bool:
        identity = item.get("call_id")
        expected_type = self.open.pop(identity, "") if isinstance(identity, str) else ""
        return expected_type == item["type"] and not self.reasons and isinstance(item.get("output"), str | list)


_JUDGES: Mapping[str, Callable[[_Walk, Item], bool]] = {
    "message": _Walk.says,
    "reasoning": _Walk.reasons_on,
    "function_call": _Walk.calls,
    "custom_tool_call": _Walk.calls,
    "function_call_output": _Walk.answers,
    "custom_tool_call_output": _Walk.answers,
}
