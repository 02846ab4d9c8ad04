"""What is known of a message, found out once: its bytes, its tokens, and the names in it.

Every arm sends mostly the same messages. They are known by identity, and what an arm wrote itself is read once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from ebbtide.core.tokens import Estimator
from ebbtide.core.types import USER
from ebbtide.wire.protocol import Block, Wire

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_\-./]{6,79}|\b[0-9a-f]{7,40}\b|\b\d{4,}\b")
"""What counts as an identifier. Long words of prose match too: a measure that errs on the side of asking for more."""


class Facts(NamedTuple):
    """Of one message."""

    key: bytes
    """Of its bytes, cache marks left out."""
    estimate: int
    blocks: int
    names: frozenset[str]
    lines: Mapping[str, frozenset[str]]
    """Lines with a name in them, and their names."""
    words: tuple[str, ...]
    """What the user said in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The facts of one conversation's messages."""

    wire: Wire
    estimator: Estimator
    billed: Mapping[bytes, float] = field(default_factory=dict)
    """Tokens of messages that a bill tells, by key."""
    ratio: float = 1.0
    """Of bill to estimate, for all other messages."""
    overhead: int = 0
    """Tokens of system prompt and tools."""
    _known: dict[int, tuple[object, Facts]] = field(default_factory=dict)
    """By identity. The message is kept, so that no other can take its place."""

    def of(self, message: object) -> Facts:
        known = self._known.get(id(message))
        if known is not None:
            return known[1]
        facts = self._read(message)
        self._known[id(message)] = (message, facts)
        return facts

    def tokens(self, message: object) -> int:
        facts = self.of(message)
        return round(self.billed.get(facts.key, facts.estimate * self.ratio))

    def _read(self, message: object) -> Facts:
        blocks = self.wire.blocks(message, self.wire.key)
        lines: dict[str, frozenset[str]] = {}
        for line in (line for block in blocks for text in texts(block) for line in text.split("\n")):
            if found := NAME.findall(line):
                lines[line.strip()] = frozenset(found)
        return Facts(
            key=_key(message),
            estimate=sum(self._tokens(block) for block in blocks),
            blocks=len(blocks),
            names=frozenset().union(*lines.values()),
            lines=lines,
            words=tuple(block.text for block in blocks if is_word_of_the_user(block)),
        )

    def _tokens(self, block: Block) -> int:
        if block.signature:
            return self.estimator.thinking(block.text, block.signature)
        media = sum(self.estimator.image(pixels) for pixels in block.pixels) + self.estimator.document(block.pages)
        return self.estimator.block(block.kind, block.text) + (media if block.media else 0)


def texts(block: Block) -> Iterator[str]:
    """A block's text; of a call, the strings in its arguments, so that an escape is no part of a name."""
    if block.kind == "thinking":
        return
    yield from strings(block.text) if block.kind == "call" else (block.text,)


def strings(arguments: str) -> Iterator[str]:
    """Those in a call's arguments; the text itself where it is not JSON."""
    try:
        yield from _leaves(json.loads(arguments))
    except ValueError:
        yield arguments


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    elif value is not None:
        yield str(value)


def is_word_of_the_user(block: Block) -> bool:
    return block.role == "user" and block.kind == "text" and block.tier <= USER and bool(block.text.strip())


def _key(message: object) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
    if '"cache_control"' in text:
        text = json.dumps(_unmarked(message), ensure_ascii=False, separators=(",", ":"), default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _unmarked(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _unmarked(one) for key, one in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    return value
