"""Tracks one contender's requests from call to call: prefix hashes, token sums, and the names that a request shows.

Messages that a request shares with the one before are not looked at again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.replay.message_index import MessageFacts, MessageIndex, block_texts, is_user_text
from ebbtide.replay.provider import Prefix
from ebbtide.wire.protocol import Wire


@dataclass(slots=True)
class RequestTracker:
    """The newest request. Position 0 of its lists is the system prompt with the tools."""

    index: MessageIndex
    messages: list[object] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lifetimes: list[float] = field(default_factory=list)
    """For how many seconds each block asks to be cached."""
    _ends: list[int] = field(default_factory=list)
    """How many positions there are up to the end of each message."""

    def __post_init__(self) -> None:
        self.hashes, self.tokens, self.lifetimes = [0], [self.index.overhead], [0.0]

    def update(self, messages: Sequence[object]) -> tuple[list[object], list[object], bool]:
        """Take the next request. Return the messages removed and added, and whether it begins with the last one."""
        unchanged = _common_prefix(self.messages, messages)
        removed, added = self.messages[unchanged:], list(messages[unchanged:])
        last, last_hash = len(self.hashes) - 1, self.hashes[-1]
        end = self._ends[unchanged - 1] if unchanged else 1
        del self.hashes[end:], self.tokens[end:], self.lifetimes[end:], self._ends[unchanged:]
        for message in added:
            self._add(message)
        self.messages = list(messages)
        extends = len(self.hashes) > last and self.hashes[last] == last_hash
        return removed, added, extends

    def _add(self, message: object) -> None:
        facts = self.index.facts(message)
        # Hashes of numbers are the same in every process; those of bytes are not.
        key = int.from_bytes(facts.key, "big")
        start, tokens, estimated = self.tokens[-1], self.index.tokens(message), 0
        for number, estimate in enumerate(facts.blocks, 1):
            estimated += estimate
            share = estimated / facts.estimate if facts.estimate else number / len(facts.blocks)
            self.hashes.append(hash((self.hashes[-1], key, number)))
            self.tokens.append(start + round(tokens * share))
        self.lifetimes.extend(facts.lifetimes)
        self._ends.append(len(self.hashes))

    def set_total(self, total: int) -> None:
        """Set the tokens of the whole request. What its messages do not explain is added to the system prompt."""
        difference = max(-self.tokens[0], total - self.tokens[-1])
        self.tokens = [tokens + difference for tokens in self.tokens]

    def prefix(self, body: Mapping[str, object], *, thinks: bool = False) -> Prefix:
        """The request as the provider sees it. `body` is the one that was given to `update`."""
        front, end = self.index.wire.cache.outer_lifetimes(body)
        marks = {n: ttl for n, ttl in enumerate(self.lifetimes) if ttl}
        if front:
            marks[0] = front
        if end:
            marks[len(self.hashes) - 1] = end
        return Prefix(hashes=self.hashes, tokens=self.tokens, breakpoints=sorted(marks.items()), thinks=thinks)


@dataclass(slots=True)
class VisibleNames:
    """Counts the identifiers and user texts in a contender's request."""

    index: MessageIndex
    names: Counter[str] = field(default_factory=Counter)
    quoted: Counter[str] = field(default_factory=Counter)
    """Names within an original line."""
    user_texts: Counter[str] = field(default_factory=Counter)
    _original_keys: set[bytes] = field(default_factory=set)
    _original_lines: set[str] = field(default_factory=set)
    _quoted_by_message: dict[int, frozenset[str]] = field(default_factory=dict)
    """What was counted as quoted. A removed message subtracts exactly this, even if more lines are original by then."""

    def add_originals(self, messages: Iterable[object]) -> None:
        """Take new messages of the client, before the contender changes them."""
        for message in messages:
            facts = self.index.facts(message)
            self._original_keys.add(facts.key)
            self._original_lines |= facts.lines.keys()

    def update(self, removed: Iterable[object], added: Iterable[object]) -> None:
        for message in removed:
            self._count(message, -1)
        for message in added:
            self._count(message, 1)

    def has_name(self, name: str) -> bool:
        """Whether the request has this name anywhere."""
        return _is_visible(name, self.names)

    def has_original(self, name: str) -> bool:
        """Whether an original line has this name."""
        return _is_visible(name, self.quoted)

    def _count(self, message: object, by: int) -> None:
        facts = self.index.facts(message)
        if by > 0:
            self._quoted_by_message[id(message)] = self._quoted_names(facts)
        for counter, names in (
            (self.names, facts.names),
            (self.quoted, self._quoted_by_message[id(message)]),
            (self.user_texts, facts.user_texts),
        ):
            for name in names:
                counter[name] += by

    def _quoted_names(self, facts: MessageFacts) -> frozenset[str]:
        if facts.key in self._original_keys:
            return facts.names
        return frozenset().union(*(names for line, names in facts.lines.items() if line in self._original_lines))


def _is_visible(name: str, counts: Mapping[str, int]) -> bool:
    """Whether a name is there itself, or as whole parts of a longer path."""
    if counts.get(name, 0) > 0:
        return True
    paths = [path for path, count in counts.items() if count > 0 and name in path and "/" in path]
    if not paths:
        return False
    whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return any(whole.search(path) for path in paths)


def request_messages(wire: Wire, body: Mapping[str, object]) -> list[object]:
    messages = body[wire.list_key]
    assert isinstance(messages, list), "a replayed request has a list of messages"
    return messages


def answer_messages(wire: Wire, response: Mapping[str, object] | None) -> list[object]:
    """The agent's answer as messages."""
    if response is None:
        return []
    return wire.replies.as_messages(wire.replies.from_recording(response, None))


def newest_texts(wire: Wire, messages: Sequence[object]) -> str:
    """The newest text of the user and of the agent: what a client could search for before the model answers."""
    newest = {"user": "", "assistant": ""}
    for message in reversed(messages):
        for block in reversed(wire.messages.split(message, wire.list_key)):
            is_text = is_user_text(block) or (block.role == "assistant" and block.kind == "text")
            if is_text and not newest[block.role]:
                newest[block.role] = block.text
        if all(newest.values()):
            break
    return "\n".join(newest.values()).strip()


def all_text(wire: Wire, messages: Sequence[object]) -> str:
    """Everything a model reads of messages: texts, results, and the arguments of tool calls."""
    blocks = (block for message in messages for block in wire.messages.split(message, wire.list_key))
    return "\n".join(text for block in blocks for text in block_texts(block))


def _common_prefix(before: Sequence[object], now: Sequence[object]) -> int:
    pairs = zip(before, now, strict=False)
    return next((n for n, (old, new) in enumerate(pairs) if old is not new), min(len(before), len(now)))
