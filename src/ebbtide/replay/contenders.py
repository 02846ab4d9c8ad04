"""The contenders of a replay: each takes the uncompacted request of a call and returns what it would send instead.

A contender may ask a model for a summary, and pays for it. A replay calls no model, so all of them get the same canned
summary: the agent's own newest texts, about as long as the summaries that Claude Code writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ebbtide.core.errors import WontFit
from ebbtide.core.tool_calls import SEARCH_TOOL
from ebbtide.core.types import Usage
from ebbtide.policy import Policy
from ebbtide.recall.tools import TAG
from ebbtide.replay.session import Body, ReplayCall, ReplaySession
from ebbtide.runtime import Context

SUMMARY_TOKENS = 3_000
"""11,900 characters is the median of 77 summaries that Claude Code wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCall:
    """A model call that the contender makes for itself, such as a summary."""

    body: Body
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContenderRequest:
    """What a contender sends for one recorded call."""

    body: Body
    side_calls: tuple[SideCall, ...] = ()
    does_not_fit: bool = False
    """The contender could not make it fit. It is sent unchanged, and counts as over the window."""


class Contender(Protocol):
    """One way to manage the context of one recorded session."""

    def send(self, call: ReplayCall) -> ContenderRequest: ...
    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        """Learn what the provider charged for the request."""

    def recall(self, query: str) -> str | None:
        """Answer a recall query as the model would see it; None if the contender has no recall."""


MakeContender: TypeAlias = Callable[[ReplaySession], Contender]


class WatchedContender:
    """Passes everything on to a contender, and says when a call was made."""

    def __init__(self, contender: Contender, on_call: Callable[[], None]) -> None:
        self._contender, self._on_call = contender, on_call

    def send(self, call: ReplayCall) -> ContenderRequest:
        self._on_call()
        return self._contender.send(call)

    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        self._contender.record_usage(call, usage)

    def recall(self, query: str) -> str | None:
        return self._contender.recall(query)


class RawContender:
    """Never removes anything."""

    def __init__(self, session: ReplaySession) -> None:
        del session

    def send(self, call: ReplayCall) -> ContenderRequest:
        return ContenderRequest(body=call.raw)

    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        """Usage changes nothing here."""

    def recall(self, query: str) -> str | None:
        del query
        return None


class RecordedContender(RawContender):
    """Sends what the client sent when the session was recorded."""

    def send(self, call: ReplayCall) -> ContenderRequest:
        return ContenderRequest(body=call.recorded)


@dataclass(slots=True)
class EngineContender:
    """Runs a policy in the same `Context` that users have, at the recorded times."""

    session: ReplaySession
    policy: Policy | str
    window: int
    has_model: bool = False
    """Whether there is a model to ask for summaries. It returns the canned summary."""
    can_recall: bool = True
    is_library: bool = False
    """Whether our library sets the cache breakpoints, because the program that uses it sets none."""
    marks: bool = True
    """Whether the library does so. False shows what a program pays without any."""
    _now: float = 0.0
    _side_calls: list[SideCall] = field(default_factory=list)
    _does_not_fit: bool = False
    _context: Context = field(init=False)

    def __post_init__(self) -> None:
        self._context = Context(
            model=self.session.calls[0].model,
            window=self.window,
            policy=self.policy,
            wire=self.session.wire.name,
            summarizer=self._summarize if self.has_model else None,
            clock=lambda: self._now,
            marks=self.is_library and self.marks,
        )

    def send(self, call: ReplayCall) -> ContenderRequest:
        self._now = call.at
        self._side_calls.clear()
        self._does_not_fit = False
        request = call.unmarked if self.is_library else call.raw
        try:
            body = self._context.prepare(request).body
        except WontFit:
            self._does_not_fit, body = True, request
        return ContenderRequest(body=body, side_calls=tuple(self._side_calls), does_not_fit=self._does_not_fit)

    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        if call.response is not None and not self._does_not_fit:
            self._context.record(self.session.wire.replies.from_recording(call.response, usage))

    def recall(self, query: str) -> str | None:
        if not self.can_recall:
            return None
        answer = self._context.recall_answer(SEARCH_TOOL, {"query": query})
        # An answer without matches repeats the query, which would count as finding it.
        return answer if answer.startswith(f"<{TAG}") else ""

    def _summarize(self, body: Body) -> str:
        summary = canned_summary(body, self.session)
        self._side_calls.append(SideCall(body=body, output_tokens=self.session.messages.estimator.text(summary)))
        return summary


def canned_summary(body: Mapping[str, object], session: ReplaySession) -> str:
    """Join the agent's newest texts in a request, up to the length of a summary."""
    wire, count = session.wire, session.messages.estimator.text
    messages = body.get(wire.list_key)
    texts: list[str] = []
    tokens_left = SUMMARY_TOKENS
    for message in reversed(messages if isinstance(messages, list) else []):
        for block in reversed(wire.messages.split(message, wire.list_key)):
            if block.role != "assistant" or block.kind != "text" or not block.text.strip():
                continue
            tokens_left -= count(block.text)
            if tokens_left < 0:
                return "\n".join(reversed(texts)) or block.text[: 3 * SUMMARY_TOKENS]
            texts.append(block.text)
    return "\n".join(reversed(texts)) or "Nothing was said."
