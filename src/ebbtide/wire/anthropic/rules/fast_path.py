"""Recognize an ordinary request in one walk over its new messages: text, tool calls and their results, in turn.

If `is_ordinary` returns True, no rule is broken. False only means that the rules must be checked: everything rare is
left to them. This module reads messages itself, because every request passes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from ebbtide.wire.anthropic.rules.content import CALL_ID, TOOL_NAME
from ebbtide.wire.anthropic.rules.positions import find_breakpoint_problems, find_tool_problems, fix_system_and_tools
from ebbtide.wire.anthropic.rules.structure import MAX_MESSAGES, THINKING, Block
from ebbtide.wire.validity import Json, Log, is_encodable

_TEXT_FIELDS = frozenset(("type", "text", "cache_control"))
_CALL_FIELDS = frozenset(("type", "id", "name", "input", "cache_control", "caller"))
_DIRECT = {"type": "direct"}
"""The `caller` of a call that the model made; any other caller is code in the provider's container."""
_RESULT_FIELDS = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_THINKING_FIELDS = frozenset(("type", "thinking", "signature"))
_REDACTED_FIELDS = frozenset(("type", "data"))
_PART_FIELDS = frozenset(("type", "text"))
_START = ("messages", "system", "tools")


def is_ordinary(
    body: Mapping[str, Json], since: int, call_ids: AbstractSet[str], accepted_breakpoints: int | None
) -> bool:
    messages = body["messages"]
    if not since < len(messages) <= MAX_MESSAGES or (since and accepted_breakpoints is None):
        return False
    if not (_has_valid_fields(body) if since else _has_valid_start(body)):
        return False
    walk = _Walk(body, messages[since - 1] if since else {"role": "assistant"}, call_ids)
    accepts = walk.accepts
    for n in range(since, len(messages)):
        if not accepts(messages[n]):
            return False
    if walk.role != "user":
        return False
    # Without a new breakpoint, there are no more than were accepted.
    if since and not walk.breakpoints and "cache_control" not in body:
        return True
    return not any(
        find_breakpoint_problems(body, since if walk.breakpoints else len(messages), accepted_breakpoints or 0)
    )


def _has_valid_fields(body: Mapping[str, Json]) -> bool:
    """Check the fields beside messages, system prompt and tools, which were accepted before."""
    for name, value in body.items():
        if type(value) is int or name in _START:
            continue
        if not is_encodable(value):
            return False
    return True


def _has_valid_start(body: Mapping[str, Json]) -> bool:
    log = Log()
    if not is_encodable({name: value for name, value in body.items() if name != "messages"}):
        return False
    fix_system_and_tools(body, log)
    return not log and not any(find_tool_problems(body.get("tools")))


class _Walk:
    """Accepts message after message. Knows who spoke last, and which calls wait for a result."""

    def __init__(self, body: Mapping[str, Json], before: Json, call_ids: AbstractSet[str]) -> None:
        thinking = body.get("thinking")
        self.has_thinking_budget = isinstance(thinking, dict) and thinking.get("type") == "enabled"
        fields = before if isinstance(before, dict) else {}
        self.role, content = fields.get("role"), fields.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        is_bare_text = isinstance(content, str) and bool(content)
        self.has_spoken = is_bare_text or any(block.get("type") != "tool_result" for block in blocks)
        """Whether the last message said more than results: the next one then opens a loop (A37)."""
        calls = [block for block in blocks if block.get("type") == "tool_use"] if self.role == "assistant" else []
        self.open_ids: set[Json] = {call.get("id") for call in calls}
        is_from_code = any(call.get("caller", _DIRECT) != _DIRECT for call in calls)
        self.is_unusual = is_from_code or len(self.open_ids) < len(calls)
        self.call_ids, self.new_ids = call_ids, set[str]()
        self.breakpoints = 0
        """Among the accepted messages."""

    def accepts(self, message: Json) -> bool:
        if self.is_unusual or not isinstance(message, dict):
            return False
        sender, content = message.get("role"), message.get("content")
        if sender == self.role or sender not in ("user", "assistant"):
            return False
        self.role = sender
        if not content or len(message) > len(("role", "content")):
            return False
        if isinstance(content, list):
            return self._accepts_assistant(content) if sender == "assistant" else self._accepts_user(content)
        opens_loop = self.has_thinking_budget and self.has_spoken and sender == "assistant"
        self.has_spoken = True
        return not self.open_ids and not opens_loop and _is_text(content)

    def _accepts_assistant(self, content: list[Json]) -> bool:
        if self.open_ids:
            return False
        for n, block in enumerate(content):
            kind = block.get("type") if isinstance(block, dict) else None
            if not isinstance(kind, str):
                return False
            if n == 0 and self.has_thinking_budget and self.has_spoken and kind not in THINKING:
                return False
            check = self._accepts_call if kind == "tool_use" else _ASSISTANT_BLOCKS.get(kind)
            if check is None or not check(block) or ("cache_control" in block and not self._accepts_breakpoint(block)):
                return False
        self.has_spoken = True
        return True

    def _accepts_call(self, block: Block) -> bool:
        identity, name, arguments = block.get("id"), block.get("name"), block.get("input")
        if not isinstance(identity, str) or not isinstance(name, str) or not isinstance(arguments, dict):
            return False
        if identity in self.call_ids or identity in self.new_ids:
            return False
        self.new_ids.add(identity)
        self.open_ids.add(identity)
        has_valid_names = CALL_ID.fullmatch(identity) and TOOL_NAME.fullmatch(name)
        is_direct = block.get("caller", _DIRECT) == _DIRECT
        return bool(has_valid_names) and is_direct and block.keys() <= _CALL_FIELDS and is_encodable(arguments)

    def _accepts_user(self, content: list[Json]) -> bool:
        """Results first, one for each call, then text."""
        self.has_spoken = False
        for block in content:
            if not isinstance(block, dict):
                return False
            if block.get("type") != "tool_result":
                is_valid = block.get("type") == "text" and _is_text_block(block)
                self.has_spoken = True
            else:
                is_valid = not self.has_spoken and self._accepts_result(block)
            if not is_valid or ("cache_control" in block and not self._accepts_breakpoint(block)):
                return False
        return not self.open_ids

    def _accepts_result(self, block: Block) -> bool:
        identity, content = block.get("tool_use_id"), block.get("content")
        if not isinstance(identity, str) or identity not in self.open_ids or not block.keys() <= _RESULT_FIELDS:
            return False
        self.open_ids.discard(identity)
        failed = block.get("is_error", False)
        if not isinstance(failed, bool):
            return False
        if isinstance(content, str):
            return is_encodable(content) and (bool(content) or not failed)
        return isinstance(content, list) and bool(content) and all(_is_text_part(part) for part in content)

    def _accepts_breakpoint(self, block: Block) -> bool:
        """Accept only the most common form."""
        self.breakpoints += 1
        return block["cache_control"] in ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"})


def _is_text(text: Json) -> bool:
    return isinstance(text, str) and bool(text) and not text.isspace() and is_encodable(text)


def _is_text_block(block: Block) -> bool:
    return block.keys() <= _TEXT_FIELDS and _is_text(block.get("text"))


def _is_thinking_block(block: Block) -> bool:
    text, signature = block.get("thinking"), block.get("signature")
    signed = isinstance(signature, str) and bool(signature) and is_encodable(signature)
    return block.keys() <= _THINKING_FIELDS and signed and isinstance(text, str) and is_encodable(text)


def _is_redacted_block(block: Block) -> bool:
    data = block.get("data")
    return block.keys() <= _REDACTED_FIELDS and isinstance(data, str) and bool(data) and is_encodable(data)


def _is_text_part(part: Json) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type") == "text"
        and part.keys() <= _PART_FIELDS
        and _is_text(part.get("text"))
    )


_ASSISTANT_BLOCKS: Mapping[str, Callable[[Block], bool]] = {
    "text": _is_text_block,
    "thinking": _is_thinking_block,
    "redacted_thinking": _is_redacted_block,
}
