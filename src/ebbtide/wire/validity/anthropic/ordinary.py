"""Most requests are ordinary, and one walk sees it: words, calls and their results, in turn. They break no rule.

Yes is a promise that `check` would find nothing; no only means that the rules must be asked. Everything rare is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ebbtide.wire.validity.anthropic.blocks import THINKING, Block, blocks, calls, kind, role
from ebbtide.wire.validity.anthropic.content import CALL_ID, TOOL_NAME
from ebbtide.wire.validity.anthropic.marks import broken as broken_marks
from ebbtide.wire.validity.anthropic.preamble import broken_tools, mended
from ebbtide.wire.validity.anthropic.structure import MOST
from ebbtide.wire.validity.findings import Json, Log
from ebbtide.wire.validity.soundness import is_sound

_MESSAGE = frozenset(("role", "content"))
_WORDS = frozenset(("type", "text", "cache_control"))
_CALL = frozenset(("type", "id", "name", "input", "cache_control"))
_RESULT = frozenset(("type", "tool_use_id", "content", "is_error", "cache_control"))
_THOUGHT = frozenset(("type", "thinking", "signature"))
_HIDDEN = frozenset(("type", "data"))
_PART = frozenset(("type", "text"))
_PREAMBLE = ("messages", "system", "tools")


def is_ordinary(body: Mapping[str, Json], since: int, taken: AbstractSet[str], marked: int | None) -> bool:
    messages = body["messages"]
    if not since < len(messages) <= MOST or role(messages[-1]) != "user" or (since and marked is None):
        return False
    if not (_surroundings(body) if since else _preamble(body)):
        return False
    before = messages[since - 1] if since else {"role": "assistant"}
    walk = _Walk(body, before, taken)
    return all(walk.takes(messages[n]) for n in range(since, len(messages))) and not any(
        broken_marks(body, since, marked or 0)
    )


def _surroundings(body: Mapping[str, Json]) -> bool:
    """Beside an accepted prefix, with the same system prompt and tools."""
    return all(is_sound(value) for name, value in body.items() if name not in _PREAMBLE)


def _preamble(body: Mapping[str, Json]) -> bool:
    log = Log()
    if not is_sound({name: value for name, value in body.items() if name != "messages"}):
        return False
    mended(body, log)
    return not log and not any(broken_tools(body.get("tools")))


class _Walk:
    """Message after message. Knows who spoke, and which calls wait for a result."""

    def __init__(self, body: Mapping[str, Json], before: Json, taken: AbstractSet[str]) -> None:
        thinking = body.get("thinking")
        self.manual = isinstance(thinking, dict) and thinking.get("type") == "enabled"
        self.role = role(before)
        self.spoke = any(kind(block) != "tool_result" for block in blocks(before))
        """Whether the last message said more than results: the next one then opens a loop (A37)."""
        asked = calls(before)
        self.waiting = {call.get("id") for call in asked}
        self.strange = any("caller" in call for call in asked) or len(self.waiting) < len(asked)
        self.taken, self.new = taken, set[str]()

    def takes(self, message: Json) -> bool:
        if self.strange or not isinstance(message, dict) or not message.keys() <= _MESSAGE:
            return False
        speaker, content = message.get("role"), message.get("content")
        if speaker == self.role or speaker not in ("user", "assistant"):
            return False
        self.role = speaker
        if isinstance(content, str):
            return self._words(content)
        if not isinstance(content, list) or not content:
            return False
        return self._calls(content) if speaker == "assistant" else self._results(content)

    def _words(self, content: str) -> bool:
        opens = self.manual and self.spoke and self.role == "assistant"
        self.spoke = True
        return not self.waiting and not opens and _is_said(content)

    def _calls(self, content: list[Json]) -> bool:
        if self.manual and self.spoke and kind(content[0]) not in THINKING:
            return False
        self.spoke = True
        return not self.waiting and all(self._own(block) for block in content)

    def _own(self, block: Json) -> bool:
        if kind(block) != "tool_use":
            return kind(block) in _OWN and _OWN[kind(block)](block)
        identity = block.get("id")
        if not _is_call(block) or identity in self.taken or identity in self.new:
            return False
        self.new.add(identity)
        self.waiting.add(identity)
        return True

    def _results(self, content: list[Json]) -> bool:
        """Results first, one for each call, then words."""
        self.spoke = False
        for block in content:
            if kind(block) == "text" and _is_text(block):
                self.spoke = True
            elif self.spoke or kind(block) != "tool_result" or not self._answers(block):
                return False
        return not self.waiting

    def _answers(self, block: Block) -> bool:
        identity = block.get("tool_use_id")
        if not isinstance(identity, str) or identity not in self.waiting or not _is_result(block):
            return False
        self.waiting.discard(identity)
        return True


def _is_said(words: Json) -> bool:
    return isinstance(words, str) and bool(words) and not words.isspace() and is_sound(words)


def _is_marked_well(block: Block) -> bool:
    """One comparison where there is no mark, and only the commonest mark."""
    mark = block.get("cache_control")
    return "cache_control" not in block or mark == {"type": "ephemeral"} or mark == {"type": "ephemeral", "ttl": "5m"}


def _is_text(block: Block) -> bool:
    return block.keys() <= _WORDS and _is_said(block.get("text")) and _is_marked_well(block)


def _is_thought(block: Block) -> bool:
    words, signature = block.get("thinking"), block.get("signature")
    signed = isinstance(signature, str) and bool(signature) and is_sound(signature)
    return block.keys() <= _THOUGHT and signed and isinstance(words, str) and is_sound(words)


def _is_hidden(block: Block) -> bool:
    data = block.get("data")
    return block.keys() <= _HIDDEN and isinstance(data, str) and bool(data) and is_sound(data)


def _is_call(block: Block) -> bool:
    identity, name, given = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(identity, str) or not isinstance(name, str) or not isinstance(given, dict):
        return False
    named = CALL_ID.fullmatch(identity) and TOOL_NAME.fullmatch(name)
    return bool(named) and block.keys() <= _CALL and is_sound(given) and _is_marked_well(block)


def _is_result(block: Block) -> bool:
    content = block.get("content")
    if not block.keys() <= _RESULT or not isinstance(block.get("is_error", False), bool) or not _is_marked_well(block):
        return False
    if isinstance(content, str):
        return is_sound(content) and (bool(content) or not block.get("is_error"))
    return isinstance(content, list) and bool(content) and all(_is_part(part) for part in content)


def _is_part(part: Json) -> bool:
    return kind(part) == "text" and part.keys() <= _PART and _is_said(part.get("text"))


_OWN = {"text": _is_text, "thinking": _is_thought, "redacted_thinking": _is_hidden}
