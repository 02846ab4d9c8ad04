"""The arms of `tasks.py`: ways to keep a conversation inside a window, and how a model reaches what they removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from ebbtide.core.types import Usage
from ebbtide.policy import PRESETS
from ebbtide.replay.contenders import Contender, ContenderRequest, EngineContender, MakeContender
from ebbtide.replay.policies import contender
from ebbtide.replay.session import ReplayCall, ReplaySession

try:
    from peers_arms import makings
except ImportError as error:
    MISSING = str(error)

    def makings(window: int) -> dict[str, MakeContender]:
        """Without their packages there are no peers."""
        del window
        return {}
else:
    MISSING = ""

TOOL, PROGRAM = "tool", "program"
"""Who searches what was removed: the model with the recall tools, or the program, once, with the question."""


class Recalls(Protocol):
    """An arm that answers the recall tools."""

    def answer(self, name: str, arguments: Mapping[str, object] | str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    make: Callable[[ReplaySession], Contender]
    recall: str = ""
    """`TOOL`, `PROGRAM`, or nobody."""


class WithRecall(EngineContender):
    """Ebbtide, with answers to the recall tools."""

    def answer(self, name: str, arguments: Mapping[str, object] | str) -> str:
        return self._context.recall_answer(name, arguments)


class Truncation:
    """Drops the oldest turns until the rest fits. The newest turn always stays."""

    def __init__(self, session: ReplaySession, window: int) -> None:
        self._session, self._window = session, window

    def send(self, call: ReplayCall) -> ContenderRequest:
        index, key = self._session.messages, self._session.wire.list_key
        messages = call.raw[key]
        assert isinstance(messages, list)
        front = [message for message in messages if message.get("role") == "system"]
        messages = messages[len(front) :]
        starts = [n for n, message in enumerate(messages) if index.facts(message).user_texts]
        room = self._window - index.overhead - int(str(call.raw["max_tokens"])) - sum(map(index.tokens, front))
        first = next((n for n in starts if sum(map(index.tokens, messages[n:])) <= room), starts[-1])
        return ContenderRequest(body={**call.raw, key: [*front, *messages[first:]]})

    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        """Usage changes nothing here."""

    def recall(self, query: str) -> str | None:
        del query
        return None


def arms(window: int) -> dict[str, Arm]:
    """Return all arms for a window, ours first."""

    def ours(policy: str) -> Callable[[ReplaySession], Contender]:
        return lambda session: WithRecall(session, policy, window)

    dial = [name for name in ("keep-more", "default", "spend-less") if name in PRESETS]
    default = Arm(make=ours("default"))
    return {
        "raw": Arm(make=contender("raw", window)),
        **{name: Arm(make=ours(name), recall=TOOL) for name in dial},
        "default-program-searches": replace(default, recall=PROGRAM),
        "default-no-recall": default,
        "truncation": Arm(make=partial(Truncation, window=window)),
        **{name: Arm(make=contender(name, window)) for name in ("masking", "clear-tool-uses")},
        **{name: Arm(make=make) for name, make in makings(window).items() if name.endswith("-tuned")},
    }
