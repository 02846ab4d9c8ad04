"""The three settings of the dial on your own sessions: what each costs, what it keeps, and which one to choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ebbtide.policy import DIAL
from ebbtide.replay.score import Score

RAW = "raw"
ARMS = (RAW, "recorded", *DIAL)
"""What is replayed for a frontier."""
BALANCED = "balanced"
_FLOOR = 0.02
"""A setting that keeps so much less than `balanced` is not chosen: what nobody knows to be missing has no price."""
_SAME = 0.01
"""Totals that differ by less, as a share of raw's bill, count as equal: the replay is not more exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One way to run the sessions. Money is in dollars, for input."""

    name: str
    bill: float
    repairs: float
    """What the missing names would cost, repaired as recorded agents do."""
    recalls: float
    """What they would cost if each were searched for, which is an upper bound."""
    raw_bill: float
    used: int
    """Names that the agent used again after more than ten calls."""
    missed: int
    """Those of them that were not in the request."""
    in_context: float | None
    over: int
    """Calls above the window."""

    @property
    def total(self) -> float:
        return self.bill + self.repairs

    @property
    def available(self) -> float | None:
        return 1 - self.missed / self.used if self.used else None

    def of_raw(self, dollars: float) -> float:
        return dollars / self.raw_bill if self.raw_bill else 0.0

    def as_dict(self) -> dict[str, object]:
        shares = {"against_raw": self.of_raw(self.bill), "total_against_raw": self.of_raw(self.total)}
        return {**asdict(self), "total": self.total, "available": self.available, **shares}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    points: Mapping[str, Point]
    choice: str
    reason: str
    """One sentence."""

    def as_dict(self) -> dict[str, object]:
        points = {name: point.as_dict() for name, point in self.points.items()}
        return {"points": points, "choice": self.choice, "reason": self.reason}


def build_frontier(scores: Mapping[str, Score]) -> Frontier:
    """Read the points from the scores of `ARMS`, and choose one of the dial."""
    points = {name: _point(name, scores[name], scores[RAW]) for name in ARMS}
    choice = _choose(points)
    return Frontier(points=points, choice=choice, reason=_reason(points, choice))


def _point(name: str, score: Score, raw: Score) -> Point:
    return Point(
        name=name,
        bill=score.bill,
        repairs=score.repaired,
        recalls=score.recalled,
        raw_bill=raw.bill,
        used=score.used,
        missed=score.used - score.available,
        in_context=score.in_context / score.used if score.used else None,
        over=score.over,
    )


def _choose(points: Mapping[str, Point]) -> str:
    """The cheapest total under a floor of what stays; among equals the one that keeps more, and else `balanced`."""
    fewest = min(points[name].over for name in DIAL)
    fitting = [points[name] for name in DIAL if points[name].over == fewest]
    allowed = [point for point in fitting if _lost_points(points, point) <= _FLOOR] or fitting
    least = min(point.total for point in allowed)
    equal = [point for point in allowed if point.of_raw(point.total - least) <= _SAME]
    best = max(equal, key=lambda point: (_share(point), point.name == BALANCED))
    return best.name


def _share(point: Point) -> float:
    return 1.0 if point.available is None else point.available


def _lost_points(points: Mapping[str, Point], point: Point) -> float:
    """How much less a point keeps than `balanced`, as a share of the names that were needed."""
    return _share(points[BALANCED]) - _share(point)


def _reason(points: Mapping[str, Point], choice: str) -> str:
    """Say in one sentence why this one and not its neighbour."""
    chosen, balanced = points[choice], points[BALANCED]
    others = [points[name] for name in DIAL if name != choice]
    if all(chosen.of_raw(abs(one.total - chosen.total)) <= _SAME and one.missed == chosen.missed for one in others):
        return "all three cost and keep the same here, because these sessions stay far below the window"
    if choice != BALANCED:
        saved = balanced.total - chosen.total
        money = f"{_dollars(abs(saved))} {'less' if saved >= 0 else 'more'} than balanced, with what misses cost"
        if not chosen.used:
            return f"it costs {money}, and the agent used no name again after ten calls"
        return f"it costs {money}, and {_kept(chosen)} stay available ({_kept(balanced)} with balanced)"
    cheaper = points["spend-less"]
    saved = chosen.total - cheaper.total
    if _lost_points(points, cheaper) > _FLOOR and saved > 0:
        return (
            f"spend-less would save another {_dollars(saved)}, but keep only {_kept(cheaper)} of what the agent used"
            f" again, instead of {_kept(chosen)}"
        )
    more = points["keep-more"]
    little = f"save only {_dollars(saved)}" if saved > 0 else "save nothing"
    extra = _dollars(max(0.0, more.total - chosen.total))
    return f"it costs {extra} less than keep-more, and spend-less would {little} once its misses are paid"


def _kept(point: Point) -> str:
    return f"{min(_share(point), 0.999) if point.missed else 1.0:.1%}"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"
