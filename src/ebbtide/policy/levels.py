"""Rules that turn one dial, the window, into levels (D1). Where a rule falls below half the window, half is used.

A rule made for 200K windows would otherwise be negative at 32K, and a session would compact on every turn.
"""

from __future__ import annotations

from collections.abc import Callable

from ebbtide.core.engine import Levels


def at_least_half(window: int, tokens: float) -> int:
    return max(int(tokens), window // 2)


def shares(*, warning: float, soft: float, auto: float, hard: float, low: float) -> Callable[[int, int], Levels]:
    """Ours: shares of what is left of the window beside the reply."""

    def rule(window: int, output: int) -> Levels:
        usable = at_least_half(window, window - output)
        return Levels(
            warning=int(usable * warning),
            soft=int(usable * soft),
            auto=int(usable * auto),
            hard=int(usable * hard),
            blocking=usable,
            low=int(usable * low),
        )

    return rule
