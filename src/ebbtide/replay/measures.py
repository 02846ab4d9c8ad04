"""What is computed from scores: one number per measure, and how far our bills are from the recorded ones.

The formulas are here and in docs/reference/replay.md. Scores are sums, so that those of many sessions add up; measures
are computed last. A measure is None if there is nothing to divide by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ebbtide.replay.run import ReplayResult
from ebbtide.replay.score import Score

Unit = Literal["dollars", "ratio", "share", "tokens", "count"]
Side = Literal["low", "high", ""]
"""Which value is better; empty if neither is."""

MAX_DRIFT = 0.05
"""Our bill for the recorded requests counts as calibrated up to this share away from what was billed."""
CALIBRATION_FORMAT = "claude-code"
"""Its clients set cache breakpoints where we assume all do, and record what each call was billed."""


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    """The name in JSON and CSV."""
    title: str
    unit: Unit
    better: Side
    of: Callable[[Score, Score], float | None]
    """Computes it from a policy's score and the score of `raw` on the same sessions."""


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


COST = (
    Measure("bill", "bill", "dollars", "low", lambda own, _: own.bill),
    Measure("against_raw", "of raw", "ratio", "low", lambda own, raw: _ratio(own.bill, raw.bill)),
    Measure("with_recall", "+ recall", "ratio", "low", lambda own, raw: _ratio(own.bill + own.recalled, raw.bill)),
    Measure("with_repair", "+ repair", "ratio", "low", lambda own, raw: _ratio(own.bill + own.repaired, raw.bill)),
    Measure("without_cache", "no cache", "ratio", "low", lambda own, raw: _ratio(own.uncached, raw.uncached)),
    Measure("hit_rate", "hit rate", "share", "high", lambda own, _: _ratio(own.read, own.prompt)),
    Measure("breaks", "breaks", "count", "low", lambda own, _: own.breaks),
)
WINDOW = (
    Measure("peak", "peak", "tokens", "low", lambda own, _: own.peak),
    Measure("mean", "mean", "tokens", "low", lambda own, _: _ratio(own.tokens, own.calls)),
    Measure("over", "over", "count", "low", lambda own, _: own.over),
    Measure("valid", "valid", "share", "high", lambda own, _: _ratio(own.calls - own.invalid, own.calls)),
    Measure("folds", "shrunk", "count", "", lambda own, _: own.shrunk),
    Measure("freed_per_fold", "freed", "tokens", "", lambda own, _: _ratio(own.freed, own.shrunk)),
)
KEPT = (
    Measure("available", "available", "share", "high", lambda own, _: _ratio(own.available, own.used)),
    Measure("in_context", "in context", "share", "high", lambda own, _: _ratio(own.in_context, own.used)),
    Measure(
        *("available_or_recoverable", "+ search", "share", "high"),
        lambda own, _: _ratio(own.available + own.recoverable, own.used),
    ),
    Measure(
        *("available_or_by_request", "+ request", "share", "high"),
        lambda own, _: _ratio(own.available + own.by_request, own.used),
    ),
    Measure("verbatim", "user", "share", "high", lambda own, _: _ratio(own.verbatim, own.said)),
    Measure("changed_named", "changed", "share", "high", lambda own, _: _ratio(own.changed_named, own.changed)),
    Measure("read_named", "read", "share", "high", lambda own, _: _ratio(own.read_named, own.read_files)),
)
GROUPS: Mapping[str, tuple[Measure, ...]] = {"What it costs": COST, "Window": WINDOW, "What is kept": KEPT}
MEASURES = (*COST, *WINDOW, *KEPT)


def measure(score: Score, raw: Score | None) -> dict[str, float | None]:
    """All measures by key. Without a score of `raw`, those relative to it are None."""
    return {measure.key: measure.of(score, raw or Score()) for measure in MEASURES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The recorded requests as we bill them and as the provider billed them, in dollars at the same prices."""

    files: int
    simulated: float
    billed: float

    @property
    def drift(self) -> float | None:
        return self.simulated / self.billed - 1 if self.billed else None

    @property
    def holds(self) -> bool:
        return self.drift is not None and abs(self.drift) <= MAX_DRIFT


def calibrate(results: Iterable[ReplayResult], format: str = "") -> Calibration:
    """Compare the bills of all files that have one, or of those in one format."""
    billed = [result for result in results if result.billed_usd and format in ("", result.format)]
    return Calibration(
        files=len(billed),
        simulated=sum(result.simulated_usd for result in billed),
        billed=sum(result.billed_usd for result in billed),
    )
