"""The result of a replay, in sentences before the tables, and which figures get a star in them.

A policy that sends what a provider refuses is not the best in anything, and one that is cheap because it loses what the
agent needs later is not the best in cost. So stars compare only policies that are alike in that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ebbtide.core.text.preview import pluralize
from ebbtide.display import round_number
from ebbtide.replay.measures import KEPT, Measure
from ebbtide.replay.run import ReplayOptions
from ebbtide.replay.score import Score

RAW = "raw"
_OURS = "default"
_KEEPS_AS_MUCH = 0.01
"""Of the names used later: two policies this close keep as much as each other."""


def comparable(measure: Measure, scores: Mapping[str, Score]) -> list[str]:
    """Policies that may get a star: the fewest calls over the window and, except for what is kept, as many names."""
    names = [name for name in scores if name != RAW]
    fewest = min((scores[name].over for name in names), default=0)
    names = [name for name in names if scores[name].over == fewest]
    if measure in KEPT:
        return names
    most = max((_kept(scores[name]) for name in names), default=0.0)
    return [name for name in names if _kept(scores[name]) >= most - _KEEPS_AS_MUCH]


def describe_result(scores: Mapping[str, Score], options: ReplayOptions) -> Iterator[str]:
    """What our policy costs and keeps, and which others cost less, with what they lose. Empty without `default`."""
    raw, ours = scores.get(RAW), scores.get(_OURS)
    if raw is None or ours is None or not raw.bill:
        return
    saved = 1 - ours.bill / raw.bill
    difference = f"{saved:.0%} less" if saved >= 0.005 else "no less"
    costs = f"default costs ${ours.bill:,.2f} instead of ${raw.bill:,.2f} without Ebbtide, {difference}."
    yield f"{costs}{_describe_kept(ours)}"
    if raw.over:
        over = f"{raw.over:,} of {pluralize(raw.calls, 'call')} are over the window of {round_number(options.window)}"
        yield f"Without Ebbtide, {over}; with it, {f'{ours.over:,}' if ours.over else 'none'}."
    cheaper = [name for name, score in scores.items() if score.bill < ours.bill and score.over <= ours.over]
    for name in sorted(cheaper, key=lambda name: scores[name].bill)[:1]:
        yield f"{name} costs less, ${scores[name].bill:,.2f}.{_describe_kept(scores[name])}"


def _kept(score: Score) -> float:
    """The share of names used later that are in the request, or that a search finds."""
    return (score.available + score.recoverable) / score.used if score.used else 1.0


def _describe_kept(score: Score) -> str:
    if not score.used or score.available == score.used:
        return " Every name that the agent used later was still there." if score.used else ""
    there, missing = score.available / score.used, score.used - score.available
    if score.recoverable == missing:
        rest = "a search finds the others"
    elif score.recoverable:
        rest = f"a search finds {score.recoverable:,} of the {missing:,} others"
    else:
        rest = "the others are lost"
    return f" Of the names that the agent used later, {there:.1%} were still there; {rest}."
