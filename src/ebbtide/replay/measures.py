"""What a score says, each as one number. The formulas are here and in docs/reference/replay.md, and nowhere else.

Scores are sums, so that those of many sessions add up; a measure is made of the sums, last. None where there is nothing
to divide by: nothing was used, so nothing was missing, and that is no 100 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ebbtide.replay.run import Played
from ebbtide.replay.score import Score

Unit = Literal["dollars", "ratio", "share", "tokens", "count"]
Side = Literal["low", "high", ""]
"""Which is better; neither where a number is only told."""

CALIBRATED = 0.05
"""Our bill for what was recorded may be off by so much of what was billed."""
CALIBRATED_ON = "claude-code"
"""The format whose clients place marks as we take it that all do, and record what each call was billed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    key: str
    """In JSON and CSV."""
    title: str
    unit: Unit
    better: Side
    of: Callable[[Score, Score], float | None]
    """From an arm's score and that of `raw` on the same sessions."""


def _by(part: float, whole: float) -> float | None:
    return part / whole if whole else None


COST = (
    Measure(key="bill", title="bill", unit="dollars", better="low", of=lambda own, _: own.bill),
    Measure(key="against_raw", title="of raw", unit="ratio", better="low", of=lambda own, raw: _by(own.bill, raw.bill)),
    Measure(
        key="with_recall",
        title="+ recall",
        unit="ratio",
        better="low",
        of=lambda own, raw: _by(own.bill + own.recalled, raw.bill),
    ),
    Measure(
        key="without_cache",
        title="no cache",
        unit="ratio",
        better="low",
        of=lambda own, raw: _by(own.uncached, raw.uncached),
    ),
    Measure(
        key="hit_rate",
        title="hit rate",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.read, own.read + own.written + own.fresh),
    ),
    Measure(key="breaks", title="breaks", unit="count", better="low", of=lambda own, _: own.breaks),
)

WINDOW = (
    Measure(key="peak", title="peak", unit="tokens", better="low", of=lambda own, _: own.peak),
    Measure(key="mean", title="mean", unit="tokens", better="low", of=lambda own, _: _by(own.tokens, own.calls)),
    Measure(key="over", title="over", unit="count", better="low", of=lambda own, _: own.over),
    Measure(
        key="valid",
        title="valid",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.calls - own.invalid, own.calls),
    ),
    Measure(key="folds", title="folds", unit="count", better="", of=lambda own, _: own.shrunk),
    Measure(
        key="freed_per_fold",
        title="freed",
        unit="tokens",
        better="",
        of=lambda own, _: _by(own.freed, own.shrunk),
    ),
)

KEPT = (
    Measure(
        key="available", title="available", unit="share", better="high", of=lambda own, _: _by(own.available, own.used)
    ),
    Measure(
        key="in_context",
        title="in context",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.in_context, own.used),
    ),
    Measure(
        key="available_or_recoverable",
        title="+ search",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.available + own.recoverable, own.used),
    ),
    Measure(
        key="available_or_by_request",
        title="+ request",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.available + own.by_request, own.used),
    ),
    Measure(key="verbatim", title="user", unit="share", better="high", of=lambda own, _: _by(own.verbatim, own.said)),
    Measure(
        key="changed_named",
        title="changed",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.changed_named, own.changed),
    ),
    Measure(
        key="read_named",
        title="read",
        unit="share",
        better="high",
        of=lambda own, _: _by(own.read_named, own.read_files),
    ),
)

GROUPS: Mapping[str, tuple[Measure, ...]] = {
    "What it costs": COST,
    "Window": WINDOW,
    "What is kept": KEPT,
}
MEASURES = (*COST, *WINDOW, *KEPT)


def measured(score: Score, raw: Score | None) -> dict[str, float | None]:
    """All measures by key; without a `raw` beside it, those that are made against it are None."""
    return {one.key: one.of(score, raw or Score()) for one in MEASURES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Recorded requests as we bill them, and as they were billed, in dollars at the same prices."""

    files: int
    simulated: float
    billed: float

    @property
    def drift(self) -> float | None:
        return self.simulated / self.billed - 1 if self.billed else None

    @property
    def holds(self) -> bool:
        return self.drift is not None and abs(self.drift) <= CALIBRATED


def calibrated(played: Iterable[Played], format: str = "") -> Calibration:
    """Over all files that have a bill, or over those of one format."""
    billed = [one for one in played if one.billed and format in ("", one.format)]
    return Calibration(
        files=len(billed),
        simulated=sum(one.simulated for one in billed),
        billed=sum(one.billed for one in billed),
    )
