"""Rules that turn one dial, the window, into levels (D1). Where a rule falls below half the window, half is used.

A rule made for 200K windows would otherwise be negative at 32K, and a session would compact on every turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ebbtide.core.planner import Thresholds


class LevelRule(Protocol):
    """From window and output reservation to levels (D1); and from what no pass can take out, system prompt and tools.

    The seeds do not look at the last.
    """

    def __call__(self, window: int, output: int, overhead: int = 0, /) -> Thresholds: ...


class SpaceRule(Protocol):
    """From the same three to the space that utilisation is measured against."""

    def __call__(self, window: int, output: int, overhead: int = 0, /) -> int: ...


def at_least_half(window: int, tokens: float) -> int:
    return max(int(tokens), window // 2)


def beside_reply(window: int, output: int, _overhead: int = 0) -> int:
    """What is left of the window when the reply has its room."""
    return at_least_half(window, window - output)


def shares(*, warning: float, soft: float, auto: float, hard: float, low: float) -> LevelRule:
    """For policies of one's own: shares of what is left of the window beside the reply."""

    def rule(window: int, output: int, _overhead: int = 0) -> Thresholds:
        usable = beside_reply(window, output)
        return Thresholds(
            warning=int(usable * warning),
            soft=int(usable * soft),
            auto=int(usable * auto),
            hard=int(usable * hard),
            blocking=usable,
            low=int(usable * low),
        )

    return rule


def single_threshold(threshold: Callable[[int, int], float]) -> LevelRule:
    """A seed with one threshold, reached above it: warning, soft and auto are the same line.

    Low water is not in these seeds: half of where they act, so that acting stays rare. Hard is ours too: where the
    reply would no longer fit and a summary, for which the threshold is meant, has not come.
    """

    def rule(window: int, output: int, _overhead: int = 0) -> Thresholds:
        auto = at_least_half(window, threshold(window, output))
        hard = max(auto, beside_reply(window, output))
        return Thresholds(warning=auto, soft=auto, auto=auto, hard=hard, blocking=max(hard, window), low=auto // 2)

    return rule
