"""What a request shows of what was said before, kept up to date by what changed in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ebbtide.replay.message_index import Facts, Sheet, is_word_of_the_user, texts
from ebbtide.wire.protocol import Wire


@dataclass(slots=True)
class Seen:
    """Names and words in an arm's request, and how often each stands there."""

    sheet: Sheet
    names: Counter[str] = field(default_factory=Counter)
    quoted: Counter[str] = field(default_factory=Counter)
    """Names that stand in an original line."""
    said: Counter[str] = field(default_factory=Counter)
    _origin: set[bytes] = field(default_factory=set)
    """Keys of messages as the client made them."""
    _lines: set[str] = field(default_factory=set)
    """Lines of what the client sent. They are added before an arm can quote them, and never leave."""
    _counted: dict[int, frozenset[str]] = field(default_factory=dict)
    """What was counted as quoted, by message: the same is taken off again, whatever is known by then."""

    def originals(self, messages: Iterable[object]) -> None:
        """What the client sends, before anything is taken out of it."""
        for message in messages:
            facts = self.sheet.of(message)
            self._origin.add(facts.key)
            self._lines |= facts.lines.keys()

    def change(self, gone: Iterable[object], came: Iterable[object]) -> None:
        for message in gone:
            self._count(message, -1)
        for message in came:
            self._count(message, 1)

    def _count(self, message: object, by: int) -> None:
        facts = self.sheet.of(message)
        if by > 0:
            self._counted[id(message)] = self._quoted(facts)
        for name in facts.names:
            self.names[name] += by
        for name in self._counted[id(message)]:
            self.quoted[name] += by
        for words in facts.words:
            self.said[words] += by

    def _quoted(self, facts: Facts) -> frozenset[str]:
        if facts.key in self._origin:
            return facts.names
        return frozenset().union(*(names for line, names in facts.lines.items() if line in self._lines))


def newest_words(wire: Wire, messages: Sequence[object]) -> str:
    """The user's and the agent's: all that a client has to make a query of before the model says what it wants."""
    said = {"user": "", "assistant": ""}
    for message in reversed(messages):
        for block in reversed(wire.blocks(message, wire.key)):
            spoken = is_word_of_the_user(block) or (block.role == "assistant" and block.kind == "text")
            if spoken and not said[block.role]:
                said[block.role] = block.text
        if all(said.values()):
            break
    return "\n".join(said.values()).strip()


def shown(wire: Wire, messages: Sequence[object]) -> str:
    """All that a model reads of messages: texts, results, and the arguments of calls."""
    blocks = (block for message in messages for block in wire.blocks(message, wire.key))
    return "\n".join(text for block in blocks for text in texts(block))
