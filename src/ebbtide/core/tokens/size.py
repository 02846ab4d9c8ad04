"""How full the window is. A policy chooses one gauge; each says which usage it believes and what it estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ebbtide.core.tokens.calibration import Calibration, prior, reentering, scale_from_anchor, scale_from_anchor_upper
from ebbtide.core.tokens.estimator import Estimator
from ebbtide.core.types import Usage


class SizeInputs(NamedTuple):
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
    remaining: int | None = None
    """What edits left of that bill, and what came to the view since; None where the bill is the newer one."""
    anchor: Usage | None = None
    """Of the longest request that this one extends."""
    reply: int = 0
    """The reply to that request, as estimated; it has come back as history."""
    since: int = 0
    """What came after that reply."""
    window: int = 0
    """0 where nobody knows it."""

    @property
    def estimate(self) -> int:
        return self.estimator.total(self.view + self.system + self.tools, self.messages)


SizeRule = Callable[[SizeInputs], int]

_FAR = 4
"""An estimate is never so far off: of 3,611 recorded calls none was billed less than 0.46 of it."""
_FEW = 2_000
"""Tokens below which nothing is lost by believing a bill."""
_UNSEEN = 4_000
"""Tokens that somebody may add on the way, to a request of no length."""


def anchored_usage(readings: SizeInputs) -> int:
    """Ours: the usage of the longest sent prefix, and a calibrated estimate of what came after it (R029, D3)."""
    usage = readings.anchor
    if usage is not None:
        anchor = usage.prompt + reentering(usage.output, readings.reply)
        warm = scale_from_anchor(anchor, readings.since, readings.calibration, readings.model)
        if not _of_another(readings, warm):
            return warm
    return scale_from_anchor(0, readings.estimate, readings.calibration, readings.model)


def upper_bound(readings: SizeInputs) -> int:
    """What usage will rarely exceed: for a promise to fit."""
    usage = readings.anchor
    if usage is not None:
        anchor = usage.prompt + reentering(usage.output, readings.reply)
        warm = scale_from_anchor_upper(anchor, readings.since, readings.calibration, readings.model)
        if not _of_another(readings, warm):
            return warm
    return readings.estimator.upper(scale_from_anchor(0, readings.estimate, readings.calibration, readings.model))


def _of_another(readings: SizeInputs, tokens: int) -> bool:
    """Whether a count that rests on a bill shows that the bill was not of this conversation: a gateway that says
    nothing but zeros, or sums up all calls. The one would have us never act, the other refuse for ever.

    Too much is doubted only where it would be a refusal: what a recording left out, and a gateway added, is billed too.
    """
    estimate, refused = readings.estimate, 0 < readings.window < tokens
    if not refused and estimate < tokens * 2:  # as on nearly every turn
        return False
    expected = estimate * prior(readings.model)
    return tokens * _FAR < expected > _FEW or (refused and tokens > expected * _FAR + _UNSEEN)


def billed_input(readings: SizeInputs) -> int:
    """mini-claude: the last call's uncached input, nothing else (R028). Before the first call, an estimate."""
    if readings.remaining is not None:
        return readings.remaining
    return readings.last.input if readings.last else readings.estimate


def billed_context(readings: SizeInputs) -> int:
    """OpenCode: input, cache reads and output of the last call (R030). Before the first call, an estimate."""
    if readings.remaining is not None:
        return readings.remaining
    last = readings.last
    return last.input + last.cache_read + last.output if last else readings.estimate


def estimated_tokens(readings: SizeInputs) -> int:
    """region: all of the request, by estimate (R036)."""
    return readings.estimate


def estimated_with_tools(readings: SizeInputs) -> int:
    """sage: messages and tools (R033)."""
    return readings.estimator.total(readings.view + readings.tools, readings.messages)


def estimated_messages(readings: SizeInputs) -> int:
    """claude-code and learn-v5: the messages alone (R031, R039)."""
    return readings.estimator.total(readings.view, readings.messages)
