"""Most requests are ordinary: words, calls and their results, in turn. One walk over the new messages sees it.

Yes is a promise that no rule is broken; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ebbtide.wire.bedrock_converse.blocks import FRONT_FIELDS, is_cache_point
from ebbtide.wire.bedrock_converse.rules.content import CALL_ID, TOOL_NAME, separates_text
from ebbtide.wire.blocks import as_mapping, as_str
from ebbtide.wire.validity import Json, is_encodable

Block = Mapping[str, Json]

MAX_CACHE_POINTS = 4
_RESULT_FIELDS = frozenset(("toolUseId", "content", "status"))
_CALL_FIELDS = frozenset(("toolUseId", "name", "input"))


def is_ordinary(body: Mapping[str, Json], since: int, call_ids: AbstractSet[str], breakpoints: int | None) -> bool:
    messages = body["messages"]
    if not since < len(messages) or (since and breakpoints is None):
        return False
    if separates_text(as_str(body.get("modelId") or body.get("model"))):
        return False
    accepted = FRONT_FIELDS if since else ()
    for name, value in body.items():
        if name != "messages" and name not in accepted and type(value) is not str and not is_encodable(value):
            return False
    walk = _Walk(messages[since - 1].get("role") if since else "assistant", call_ids)
    for n in range(since, len(messages)):
        if not walk.accepts(messages[n]):
            return False
    if walk.role != "user" or ((walk.new_ids or call_ids) and not as_mapping(body.get("toolConfig")).get("tools")):
        return False
    sections = (as_mapping(body.get("toolConfig")).get("tools"), body.get("system"))
    front = sum(is_cache_point(block) for section in sections if isinstance(section, list) for block in section)
    return walk.cache_points + (breakpoints or 0) + front <= MAX_CACHE_POINTS


class _Walk:
    """Message after message. Knows who spoke last, and which calls wait for results."""

    def __init__(self, role: Json, call_ids: AbstractSet[str]) -> None:
        self.role = role
        self.call_ids, self.new_ids, self.open_ids = call_ids, set[str](), set[str]()
        self.cache_points = 0

    def accepts(self, message: Json) -> bool:
        if type(message) is not dict or len(message) != 2:
            return False
        role, content = message.get("role"), message.get("content")
        if role == self.role or type(content) is not list or not content:
            return False
        self.role = role
        if role == "user":
            return self._accepts_user(content)
        return role == "assistant" and not self.open_ids and self._accepts_assistant(content)

    def _accepts_assistant(self, content: list[Json]) -> bool:
        for block in content:
            if type(block) is not dict or len(block) != 1:
                return False
            if not (_is_text(block["text"]) if "text" in block else self._accepts_call(block.get("toolUse"))):
                return False
        return True

    def _accepts_call(self, call: Json) -> bool:
        if type(call) is not dict or call.keys() != _CALL_FIELDS:
            return False
        identity, name, arguments = call["toolUseId"], call["name"], call["input"]
        if type(identity) is not str or type(name) is not str or type(arguments) is not dict:
            return False
        if identity in self.call_ids or identity in self.new_ids:
            return False
        self.new_ids.add(identity)
        self.open_ids.add(identity)
        return bool(CALL_ID.fullmatch(identity) and TOOL_NAME.fullmatch(name)) and is_encodable(arguments)

    def _accepts_user(self, content: list[Json]) -> bool:
        """Results first, one for each call, then text."""
        has_spoken, before = False, False
        for block in content:
            if type(block) is not dict or len(block) != 1:
                return False
            if "cachePoint" in block:
                if not before:
                    return False
                self.cache_points, before = self.cache_points + 1, False
                continue
            before = True
            if "text" in block:
                has_spoken = True
                if not _is_text(block["text"]):
                    return False
            elif has_spoken or not self._accepts_result(block.get("toolResult")):
                return False
        return not self.open_ids

    def _accepts_result(self, result: Json) -> bool:
        if type(result) is not dict or not result.keys() <= _RESULT_FIELDS:
            return False
        identity, content = result.get("toolUseId"), result.get("content")
        if type(identity) is not str or identity not in self.open_ids or type(content) is not list or not content:
            return False
        self.open_ids.discard(identity)
        if result.get("status", "success") not in ("success", "error"):
            return False
        return all(type(part) is dict and len(part) == 1 and _is_text(part.get("text")) for part in content)


def _is_text(text: Json) -> bool:
    return type(text) is str and bool(text) and not text.isspace() and is_encodable(text)
