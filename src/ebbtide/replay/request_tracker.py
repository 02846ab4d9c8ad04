"""A request as a provider sees it: a chain of messages. What is the same as in the last one is not looked at again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.replay.message_index import Sheet
from ebbtide.replay.provider import Prefix
from ebbtide.wire.protocol import Wire


@dataclass(slots=True)
class Line:
    """The newest request, and what of it is new. The first place is the system prompt with the tools."""

    sheet: Sheet
    messages: list[object] = field(default_factory=list)
    chain: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chain, self.tokens, self.blocks = [0], [self.sheet.overhead], [1]

    def take(self, messages: Sequence[object]) -> tuple[list[object], list[object], bool]:
        """What left and what came since the last request, and whether its bytes still lead."""
        same = _shared(self.messages, messages)
        gone, came = self.messages[same:], list(messages[same:])
        keys_before = self.chain[-1]
        count = len(self.messages)
        del self.chain[same + 1 :], self.tokens[same + 1 :], self.blocks[same + 1 :]
        for message in came:
            facts = self.sheet.of(message)
            # Of numbers alone, so that it is the same in every process.
            self.chain.append(hash((self.chain[-1], int.from_bytes(facts.key, "big"))))
            self.tokens.append(self.tokens[-1] + self.sheet.tokens(message))
            self.blocks.append(self.blocks[-1] + facts.blocks)
        self.messages = list(messages)
        extends = len(self.chain) > count and self.chain[count] == keys_before
        return gone, came, extends

    def weigh(self, tokens: int) -> None:
        """The whole takes so many: what the messages do not explain stands with the system prompt."""
        more = max(-self.tokens[0], tokens - self.tokens[-1])
        self.tokens = [one + more for one in self.tokens]

    def prefix(self, marks: Sequence[int] = ()) -> Prefix:
        return Prefix(chain=self.chain, tokens=self.tokens, blocks=self.blocks, marks=marks)

    def marks(self, wire: Wire) -> list[int]:
        """Messages that carry a breakpoint of their own."""
        if wire.name != "anthropic":
            return []
        return [n + 1 for n, message in enumerate(self.messages) if wire.breakpoints(message)]


def messages_of(wire: Wire, body: Mapping[str, object]) -> list[object]:
    found = body[wire.key]
    assert isinstance(found, list), "a replayed request has a list of messages"
    return found


def answer_of(wire: Wire, response: Mapping[str, object] | None) -> list[object]:
    """What the agent wrote, as messages."""
    if response is None:
        return []
    if wire.name == "openai_responses":
        output = response.get("output")
        return output if isinstance(output, list) else []
    return [{"role": "assistant", **{key: response[key] for key in ("content", "tool_calls") if key in response}}]


def _shared(before: Sequence[object], now: Sequence[object]) -> int:
    same = 0
    for one, other in zip(before, now, strict=False):
        if one is not other:
            break
        same += 1
    return same
