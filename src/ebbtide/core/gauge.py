"""How full the window is. A policy chooses one gauge; each says which usage it believes and what it estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ebbtide.core.tokens import Calibration, Estimator, anchored, anchored_upper, reentering
from ebbtide.core.types import Usage


class Readings(NamedTuple):
    """What a gauge may go by, for one request. Token figures are the estimator's own, no ratio applied."""

    estimator: Estimator
    calibration: Calibration = Calibration()
    model: str = ""
    view: int = 0
    """All entries."""
    messages: int = 0
    system: int = 0
    tools: int = 0
    last: Usage | None = None
    """Of the newest call, whatever it sent."""
    anchor: Usage | None = None
    """Of the longest request that this one extends."""
    reply: int = 0
    """The reply to that request, as estimated; it has come back as history."""
    since: int = 0
    """What came after that reply."""

    @property
    def whole(self) -> int:
        return self.estimator.total(self.view + self.system + self.tools, self.messages)


Gauge = Callable[[Readings], int]


def anchored_usage(readings: Readings) -> int:
    """Ours: the usage of the longest sent prefix, and a calibrated estimate of what came after it (R029, D3)."""
    usage = readings.anchor
    if usage is None:
        return anchored(0, readings.whole, readings.calibration, readings.model)
    anchor = usage.prompt + reentering(usage.output, readings.reply)
    return anchored(anchor, readings.since, readings.calibration, readings.model)


def upper_bound(readings: Readings) -> int:
    """What usage will rarely exceed: for a promise to fit."""
    usage = readings.anchor
    if usage is None:
        cold = anchored(0, readings.whole, readings.calibration, readings.model)
        return readings.estimator.upper(cold)
    anchor = usage.prompt + reentering(usage.output, readings.reply)
    return anchored_upper(anchor, readings.since, readings.calibration, readings.model)


def billed_input(readings: Readings) -> int:
    """mini-claude: the last call's uncached input, nothing else (R028). Before the first call, an estimate."""
    return readings.last.input if readings.last else readings.whole


def billed_context(readings: Readings) -> int:
    """OpenCode: input, cache reads and output of the last call (R030). Before the first call, an estimate."""
    last = readings.last
    return last.input + last.cache_read + last.output if last else readings.whole


def estimated(readings: Readings) -> int:
    """region: all of the request, by estimate (R036)."""
    return readings.whole


def estimated_with_tools(readings: Readings) -> int:
    """sage: messages and tools (R033)."""
    return readings.estimator.total(readings.view + readings.tools, readings.messages)


def estimated_messages(readings: Readings) -> int:
    """claude-code and learn-v5: the messages alone (R031, R039)."""
    return readings.estimator.total(readings.view, readings.messages)
