"""Who decides what goes out. An arm gets each request as if nothing had ever been taken out, and says what it sends.

An arm may ask a model on the way; what it asks is billed to it. No model is at hand in a replay, so every arm that
needs a summary is given the same stand-in: the agent's own newest words, as many as Claude Code's summaries have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ebbtide.core.errors import WontFit
from ebbtide.core.recall_limits import SEARCH_TOOL
from ebbtide.core.types import Usage
from ebbtide.policy import Policy
from ebbtide.recall.tools import TAG
from ebbtide.replay.recorded_session import Body, Take, Tape
from ebbtide.runtime import Context
from ebbtide.wire.protocol import Wire

SUMMARY = 3_000
"""Tokens of the stand-in summary: 11,900 characters is the median of 77 that Claude Code wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A model call of the arm's own."""

    body: Body
    output: int
    """Tokens that came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """What an arm sends."""

    body: Body
    asked: tuple[Asked, ...] = ()
    refused: bool = False
    """The arm found no way to make it fit. The request goes out as it came, and counts as one over the window."""


class Arm(Protocol):
    """One way to keep a conversation, for one tape."""

    def send(self, take: Take) -> Out: ...
    def billed(self, take: Take, usage: Usage) -> None:
        """What the provider charged for what was sent."""

    def found(self, query: str) -> str | None:
        """What one recall query brings, as the model gets it; None where the arm has no recall."""


Making: TypeAlias = Callable[[Tape], Arm]


class Untouched:
    """Nothing is ever taken out."""

    def __init__(self, tape: Tape) -> None:
        del tape

    def send(self, take: Take) -> Out:
        return Out(body=take.raw)

    def billed(self, take: Take, usage: Usage) -> None:
        """It does not look at bills."""

    def found(self, query: str) -> str | None:
        del query
        return None


class Recorded(Untouched):
    """What the client itself did when the session was recorded."""

    def send(self, take: Take) -> Out:
        return Out(body=take.recorded)


@dataclass(slots=True)
class Engine:
    """A policy, run by the same `Context` that users have, on the recorded times."""

    tape: Tape
    policy: Policy | str
    window: int
    model: bool = False
    """Whether there is a model to ask for summaries: the stand-in."""
    recall: bool = True
    _now: float = 0.0
    _asked: list[Asked] = field(default_factory=list)
    _refused: bool = False
    _context: Context = field(init=False)

    def __post_init__(self) -> None:
        self._context = Context(
            model=self.tape.takes[0].model,
            window=self.window,
            policy=self.policy,
            wire=self.tape.wire.name,
            summarizer=self._summary if self.model else None,
            clock=lambda: self._now,
        )

    def send(self, take: Take) -> Out:
        self._now = take.at
        self._asked.clear()
        self._refused = False
        try:
            body = self._context.prepare(take.raw).body
        except WontFit:
            self._refused, body = True, take.raw
        return Out(body=body, asked=tuple(self._asked), refused=self._refused)

    def billed(self, take: Take, usage: Usage) -> None:
        if take.response is not None and not self._refused:
            self._context.record(_answered(self.tape.wire, take.response, usage))

    def found(self, query: str) -> str | None:
        if not self.recall:
            return None
        told = self._context.recall_answer(SEARCH_TOOL, {"query": query})
        # That nothing was found is told with the query itself, and that is not finding it.
        return told if told.startswith(f"<{TAG}") else ""

    def _summary(self, body: Body) -> str:
        told = stand_in(body, self.tape)
        self._asked.append(Asked(body=body, output=self.tape.sheet.estimator.text(told)))
        return told


def stand_in(body: Mapping[str, object], tape: Tape) -> str:
    """The agent's newest words in a request, up to the length of a summary."""
    wire, count = tape.wire, tape.sheet.estimator.text
    messages = body.get(wire.key)
    chosen: list[str] = []
    room = SUMMARY
    for message in reversed(messages if isinstance(messages, list) else []):
        for block in reversed(wire.blocks(message, wire.key)):
            if block.role != "assistant" or block.kind != "text" or not block.text.strip():
                continue
            room -= count(block.text)
            if room < 0:
                return "\n".join(reversed(chosen)) or block.text[: 3 * SUMMARY]
            chosen.append(block.text)
    return "\n".join(reversed(chosen)) or "Nothing was said."


def _answered(wire: Wire, response: Mapping[str, object], usage: Usage) -> dict[str, object]:
    """A recorded response with another bill."""
    if wire.name == "anthropic":
        billed = {
            "input_tokens": usage.input,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
            "output_tokens": usage.output,
        }
        return {**response, "usage": billed}
    if wire.name == "openai_chat":
        counted = {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        }
        return {"choices": [{"message": response}], "usage": counted}
    told = {
        "input_tokens": usage.prompt,
        "output_tokens": usage.output,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
    }
    return {**response, "usage": told}


__all__ = ["Arm", "Asked", "Engine", "Making", "Out", "Recorded", "Untouched", "stand_in"]
