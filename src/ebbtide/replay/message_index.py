"""Facts about each message, computed once: its hash, its tokens, and the identifiers in it.

All contenders send mostly the same message objects, so that the facts are looked up by identity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.tool_calls import argument_strings
from ebbtide.core.types import USER
from ebbtide.wire.blocks import Block
from ebbtide.wire.protocol import Wire

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_\-./]{6,79}|\b[0-9a-f]{7,40}\b|\b\d{4,}\b")
"""An identifier. Long words of prose match too: the measure errs on the side of asking for more."""
_ESCAPE = re.compile(r"(?<!\\)\\+(?:[nrtbf\"']|u[0-9a-fA-F]{4})")
"""An escape of JSON or of a program's text: the letter of `\\n` is no part of the name after it."""


class MessageFacts(NamedTuple):
    """Facts about one message."""

    key: bytes
    """Hash of its bytes without cache breakpoints."""
    estimate: int
    blocks: tuple[int, ...]
    """The estimate of each block."""
    lifetimes: tuple[float, ...]
    """For how many seconds each block asks to be cached; 0 for one without a breakpoint."""
    names: frozenset[str]
    lines: Mapping[str, frozenset[str]]
    """Lines that contain names, with these names."""
    user_texts: tuple[str, ...]
    """Texts that the user wrote."""


@dataclass(frozen=True, slots=True)
class MessageIndex:
    """The messages of one conversation."""

    wire: Wire
    estimator: Estimator
    has_names: bool = True
    """Whether `names` and `lines` of facts are filled: finding them takes most of the time."""
    billed_tokens: Mapping[bytes, float] = field(default_factory=dict)
    """Measured tokens, by key."""
    ratio: float = 1.0
    """Billed to estimated tokens, for all other messages."""
    overhead: int = 0
    """Tokens of system prompt and tools."""
    _facts: dict[int, tuple[object, MessageFacts]] = field(default_factory=dict)
    """By identity. Holding the message keeps its id from being reused."""

    @classmethod
    def without_names(cls, wire: Wire, estimator: Estimator) -> MessageIndex:
        """An index for who needs only tokens and hashes."""
        return cls(wire, estimator, has_names=False)

    def facts(self, message: object) -> MessageFacts:
        if id(message) not in self._facts:
            self._facts[id(message)] = (message, self._read(message))
        return self._facts[id(message)][1]

    def tokens(self, message: object) -> int:
        facts = self.facts(message)
        return round(self.billed_tokens.get(facts.key, facts.estimate * self.ratio))

    def _read(self, message: object) -> MessageFacts:
        blocks = self.wire.messages.split(message, self.wire.list_key)
        lines = _named_lines(blocks) if self.has_names else {}
        # What a message costs besides its blocks counts with the first, as in the estimate of a request.
        extra = (self.estimator.per_message, *[0] * len(blocks))
        estimates = tuple(self._tokens(block) + more for block, more in zip(blocks, extra, strict=False))
        lifetimes = (*self.wire.cache.lifetimes(message), *[0.0] * len(blocks))
        return MessageFacts(
            key=_content_key(message),
            estimate=sum(estimates),
            blocks=estimates,
            lifetimes=lifetimes[: len(blocks)],
            names=frozenset().union(*lines.values()),
            lines=lines,
            user_texts=tuple(block.text for block in blocks if is_user_text(block)),
        )

    def _tokens(self, block: Block) -> int:
        if block.signature:
            return self.estimator.thinking(block.text, block.signature)
        media = sum(self.estimator.image(pixels) for pixels in block.pixels) + self.estimator.document(block.pages)
        return self.estimator.block(block.kind, block.text) + (media if block.media else 0)


def _named_lines(blocks: Sequence[Block]) -> dict[str, frozenset[str]]:
    """The lines of a message that contain names, with these names."""
    lines: dict[str, frozenset[str]] = {}
    for line in (line for block in blocks for text in block_texts(block) for line in text.split("\n")):
        if names := find_names(line):
            lines[line.strip()] = frozenset(names)
    return lines


def find_names(line: str) -> list[str]:
    """Return the identifiers in one line."""
    return IDENTIFIER.findall(_ESCAPE.sub(" ", line) if "\\" in line else line)


def block_texts(block: Block) -> Iterator[str]:
    """A block's text. A tool call gives the strings in its arguments, so that JSON escapes do not join names."""
    if block.kind == "thinking":
        return
    yield from argument_strings(block.text) if block.kind == "call" else (block.text,)


def is_user_text(block: Block) -> bool:
    return block.role == "user" and block.kind == "text" and block.tier <= USER and bool(block.text.strip())


def _content_key(message: object) -> bytes:
    if isinstance(message, Mapping) and isinstance(message.get("content"), str):
        # For the provider a string is one text block. A client writes the block to put a breakpoint on it.
        message = {**message, "content": [{"type": "text", "text": message["content"]}]}
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
    if '"cache_control"' in text:
        text = json.dumps(_strip_cache_control(message), ensure_ascii=False, separators=(",", ":"), default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _strip_cache_control(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _strip_cache_control(child) for key, child in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_strip_cache_control(child) for child in value]
    return value
