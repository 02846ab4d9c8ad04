"""Most requests are ordinary, and one walk sees it: words, calls and their results, in turn. They break no rule.

Yes is a promise that `check` would find nothing; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ebbtide.wire.anthropic.rules.blocks import THINKING, Block, blocks, calls, kind, role
from ebbtide.wire.anthropic.rules.breakpoints import broken as broken_marks
from ebbtide.wire.anthropic.rules.content import CALL_ID, TOOL_NAME
from ebbtide.wire.anthropic.rules.structure import MOST
from ebbtide.wire.anthropic.rules.system_and_tools import broken_tools, mended
from ebbtide.wire.findings import Json, Log, is_encodable

_WORDS = frozenset(("type", "text", "cache_control"))
_CALL = frozenset(("type", "id", "name", "input", "cache_control", "caller"))
_DIRECT = {"type": "direct"}
"""The caller of a call that the model made itself, as current answers say it; others are code."""
_RESULT = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_THOUGHT = frozenset(("type", "thinking", "signature"))
_HIDDEN = frozenset(("type", "data"))
_PART = frozenset(("type", "text"))
_PREAMBLE = ("messages", "system", "tools")


def is_ordinary(
    body: Mapping[str, Json], since: int, call_ids: AbstractSet[str], accepted_breakpoints: int | None
) -> bool:
    messages = body["messages"]
    if not since < len(messages) <= MOST or role(messages[-1]) != "user" or (since and accepted_breakpoints is None):
        return False
    if not (_surroundings(body) if since else _preamble(body)):
        return False
    walk = _Walk(body, messages[since - 1] if since else {"role": "assistant"}, call_ids)
    takes = walk.takes
    for n in range(since, len(messages)):
        if not takes(messages[n]):
            return False
    # The walk has seen what is new. Where it met no mark, those that were accepted are no more than they were.
    if since and not walk.marks and "cache_control" not in body:
        return True
    return not any(broken_marks(body, since if walk.marks else len(messages), accepted_breakpoints or 0))


def _surroundings(body: Mapping[str, Json]) -> bool:
    """Beside an accepted prefix, with the same system prompt and tools."""
    for name, value in body.items():
        if type(value) is int or name in _PREAMBLE:
            continue
        if not is_encodable(value):
            return False
    return True


def _preamble(body: Mapping[str, Json]) -> bool:
    log = Log()
    if not is_encodable({name: value for name, value in body.items() if name != "messages"}):
        return False
    mended(body, log)
    return not log and not any(broken_tools(body.get("tools")))


class _Walk:
    """Message after message. Knows who spoke, and which calls wait for a result."""

    def __init__(self, body: Mapping[str, Json], before: Json, call_ids: AbstractSet[str]) -> None:
        thinking = body.get("thinking")
        self.manual = isinstance(thinking, dict) and thinking.get("type") == "enabled"
        self.role = role(before)
        self.spoke = any(kind(block) != "tool_result" for block in blocks(before)) if self.manual else True
        """Whether the last message said more than results: the next one then opens a loop (A37)."""
        self.waiting, self.strange = set[Json](), False
        if self.role == "assistant":
            open_calls = calls(before)
            self.waiting = {call.get("id") for call in open_calls}
            called = any(call.get("caller", _DIRECT) != _DIRECT for call in open_calls)
            self.strange = called or len(self.waiting) < len(open_calls)
        self.taken, self.new = call_ids, set[str]()
        self.marks = 0
        """Cache breakpoints met."""

    def takes(self, message: Json) -> bool:
        if self.strange or not isinstance(message, dict):
            return False
        speaker, content = message.get("role"), message.get("content")
        if speaker == self.role or speaker not in ("user", "assistant"):
            return False
        self.role = speaker
        if not content or len(message) > len(("role", "content")):
            return False
        if isinstance(content, list):
            return self._calls(content) if speaker == "assistant" else self._results(content)
        opens = self.manual and self.spoke and speaker == "assistant"
        self.spoke = True
        return not self.waiting and not opens and _is_said(content)

    def _calls(self, content: list[Json]) -> bool:
        if self.waiting or (self.manual and self.spoke and kind(content[0]) not in THINKING):
            return False
        self.spoke = True
        for block in content:
            name = kind(block)
            fine = self._asks(block) if name == "tool_use" else name in _OWN and _OWN[name](block)
            if not fine or ("cache_control" in block and not self._is_marked_well(block)):
                return False
        return True

    def _asks(self, block: Block) -> bool:
        identity, name, arguments = block.get("id"), block.get("name"), block.get("input")
        if not isinstance(identity, str) or not isinstance(name, str) or not isinstance(arguments, dict):
            return False
        if identity in self.taken or identity in self.new:
            return False
        self.new.add(identity)
        self.waiting.add(identity)
        has_valid_names = CALL_ID.fullmatch(identity) and TOOL_NAME.fullmatch(name)
        direct = block.get("caller", _DIRECT) == _DIRECT
        return bool(has_valid_names) and direct and block.keys() <= _CALL and is_encodable(arguments)

    def _results(self, content: list[Json]) -> bool:
        """Results first, one for each call, then words."""
        self.spoke = False
        for block in content:
            if not isinstance(block, dict):
                return False
            if block.get("type") != "tool_result":
                fine = block.get("type") == "text" and _is_text(block)
                self.spoke = True
            else:
                fine = not self.spoke and self._answers(block)
            if not fine or ("cache_control" in block and not self._is_marked_well(block)):
                return False
        return not self.waiting

    def _answers(self, block: Block) -> bool:
        identity, content = block.get("tool_use_id"), block.get("content")
        if not isinstance(identity, str) or identity not in self.waiting or not block.keys() <= _RESULT:
            return False
        self.waiting.discard(identity)
        failed = block.get("is_error", False)
        if not isinstance(failed, bool):
            return False
        if isinstance(content, str):
            return is_encodable(content) and (bool(content) or not failed)
        return isinstance(content, list) and bool(content) and all(_is_part(part) for part in content)

    def _is_marked_well(self, block: Block) -> bool:
        """Only the commonest mark."""
        self.marks += 1
        return block["cache_control"] in ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"})


def _is_said(words: Json) -> bool:
    return isinstance(words, str) and bool(words) and not words.isspace() and is_encodable(words)


def _is_text(block: Block) -> bool:
    return block.keys() <= _WORDS and _is_said(block.get("text"))


def _is_thought(block: Block) -> bool:
    words, signature = block.get("thinking"), block.get("signature")
    signed = isinstance(signature, str) and bool(signature) and is_encodable(signature)
    return block.keys() <= _THOUGHT and signed and isinstance(words, str) and is_encodable(words)


def _is_hidden(block: Block) -> bool:
    data = block.get("data")
    return block.keys() <= _HIDDEN and isinstance(data, str) and bool(data) and is_encodable(data)


def _is_part(part: Json) -> bool:
    return kind(part) == "text" and part.keys() <= _PART and _is_said(part.get("text"))


_OWN = {"text": _is_text, "thinking": _is_thought, "redacted_thinking": _is_hidden}
