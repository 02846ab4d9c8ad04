"""Windows of models, and rules that turn a window into thresholds (D1).

A threshold below half of the window becomes half of it. Otherwise a rule made for 200K windows would be negative at
32K, and a session would compact on every request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from ebbtide.core.planner import Thresholds


class LevelRule(Protocol):
    """From the window, the tokens reserved for the reply, and those of system prompt and tools, to thresholds (D1).

    The reference agents ignore system prompt and tools.
    """

    def __call__(self, window: int, output: int, overhead: int = 0, /) -> Thresholds: ...


class SpaceRule(Protocol):
    """From the same three to the tokens that count as the whole window when utilisation is measured."""

    def __call__(self, window: int, output: int, overhead: int = 0, /) -> int: ...


def at_least_half(window: int, tokens: float) -> int:
    return max(int(tokens), window // 2)


def beside_reply(window: int, output: int, _overhead: int = 0) -> int:
    """The window without the tokens reserved for the reply."""
    return at_least_half(window, window - output)


def shares(*, warning: float, soft: float, auto: float, hard: float, low: float) -> LevelRule:
    """For your own policy: thresholds as shares of the window without the reply."""

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
    """For an agent with one threshold, exceeded above it: `warning`, `soft` and `auto` are the same.

    These agents have no `low`; it is half of the threshold, so that acting stays rare. `hard` is ours too: there the
    reply would no longer fit, and the summary has not come.
    """

    def rule(window: int, output: int, _overhead: int = 0) -> Thresholds:
        auto = at_least_half(window, threshold(window, output))
        hard = max(auto, beside_reply(window, output))
        return Thresholds(warning=auto, soft=auto, auto=auto, hard=hard, blocking=max(hard, window), low=auto // 2)

    return rule


# --- windows of models ------------------------------------------------------------------------------------------------


_WINDOWS = (
    (r"gpt-4o|gpt-4-turbo|o1-mini", 128_000),
    (r"gpt-4\.1|gemini", 1_000_000),
    (r"gpt-4", 8_192),
    (r"gpt-5|codex", 272_000),
    (r"o[134]", 200_000),
    (r"claude", 200_000),
)
"""First match wins, so `gpt-4o` comes before `gpt-4` (R011)."""
FALLBACK_WINDOW = 200_000


def known_window(model: str) -> int | None:
    """The window, or None if the name is not known."""
    return next((window for pattern, window in _WINDOWS if re.search(pattern, model.lower())), None)


def window_for_model(model: str) -> int:
    return known_window(model) or FALLBACK_WINDOW
