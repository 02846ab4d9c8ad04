"""Most requests are ordinary, and one walk sees it: words, calls and their results, in turn. They break no rule.

Yes is a promise that `check` would find nothing; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ebbtide.wire.anthropic.rules.content import CALL_ID, TOOL_NAME
from ebbtide.wire.anthropic.rules.positions import find_breakpoint_problems, find_tool_problems, fix_system_and_tools
from ebbtide.wire.anthropic.rules.structure import MAX_MESSAGES, THINKING, Block, blocks, calls, kind, role
from ebbtide.wire.findings import Json, Log, is_encodable

_TEXT_FIELDS = frozenset(("type", "text", "cache_control"))
_CALL_FIELDS = frozenset(("type", "id", "name", "input", "cache_control", "caller"))
_DIRECT = {"type": "direct"}
"""The caller of a call that the model made itself, as current answers say it; others are code."""
_RESULT_FIELDS = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_THINKING_FIELDS = frozenset(("type", "thinking", "signature"))
_REDACTED_FIELDS = frozenset(("type", "data"))
_PART_FIELDS = frozenset(("type", "text"))
_START = ("messages", "system", "tools")


def is_ordinary(
    body: Mapping[str, Json], since: int, call_ids: AbstractSet[str], accepted_breakpoints: int | None
) -> bool:
    messages = body["messages"]
    if (
        not since < len(messages) <= MAX_MESSAGES
        or role(messages[-1]) != "user"
        or (since and accepted_breakpoints is None)
    ):
        return False
    if not (_has_valid_fields(body) if since else _has_valid_start(body)):
        return False
    walk = _Walk(body, messages[since - 1] if since else {"role": "assistant"}, call_ids)
    accepts = walk.accepts
    for n in range(since, len(messages)):
        if not accepts(messages[n]):
            return False
    # The walk has seen what is new. Where it met no mark, those that were accepted are no more than they were.
    if since and not walk.breakpoints and "cache_control" not in body:
        return True
    return not any(
        find_breakpoint_problems(body, since if walk.breakpoints else len(messages), accepted_breakpoints or 0)
    )


def _has_valid_fields(body: Mapping[str, Json]) -> bool:
    """Beside an accepted prefix, with the same system prompt and tools."""
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
    """Message after message. Knows who spoke, and which calls wait for a result."""

    def __init__(self, body: Mapping[str, Json], before: Json, call_ids: AbstractSet[str]) -> None:
        thinking = body.get("thinking")
        self.has_thinking_budget = isinstance(thinking, dict) and thinking.get("type") == "enabled"
        self.role = role(before)
        self.has_spoken = (
            any(kind(block) != "tool_result" for block in blocks(before)) if self.has_thinking_budget else True
        )
        """Whether the last message said more than results: the next one then opens a loop (A37)."""
        self.open_ids, self.is_unusual = set[Json](), False
        if self.role == "assistant":
            open_calls = calls(before)
            self.open_ids = {call.get("id") for call in open_calls}
            called = any(call.get("caller", _DIRECT) != _DIRECT for call in open_calls)
            self.is_unusual = called or len(self.open_ids) < len(open_calls)
        self.call_ids, self.new_ids = call_ids, set[str]()
        self.breakpoints = 0
        """Cache breakpoints met."""

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
        if self.open_ids or (self.has_thinking_budget and self.has_spoken and kind(content[0]) not in THINKING):
            return False
        self.has_spoken = True
        for block in content:
            name = kind(block)
            is_valid = (
                self._accepts_call(block)
                if name == "tool_use"
                else name in _ASSISTANT_BLOCKS and _ASSISTANT_BLOCKS[name](block)
            )
            if not is_valid or ("cache_control" in block and not self._accepts_breakpoint(block)):
                return False
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
        direct = block.get("caller", _DIRECT) == _DIRECT
        return bool(has_valid_names) and direct and block.keys() <= _CALL_FIELDS and is_encodable(arguments)

    def _accepts_user(self, content: list[Json]) -> bool:
        """Results first, one for each call, then words."""
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
        """Only the commonest mark."""
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
    return kind(part) == "text" and part.keys() <= _PART_FIELDS and _is_text(part.get("text"))


_ASSISTANT_BLOCKS = {"text": _is_text_block, "thinking": _is_thinking_block, "redacted_thinking": _is_redacted_block}
