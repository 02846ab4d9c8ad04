"""Add up what each edit saved over all calls, without a loop over all edits in every call.

In most calls every active edit saves the same for each token. So we keep running sums over calls: what an edit saved
between two calls is the growth of a sum times its tokens. Only savings that differ, in calls for which an edit was made
or undone, are added one by one. The work is calls plus edits, not calls times edits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.accounting.calls import EditCost


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEffect:
    """What one call means for the edits, which are given by their index."""

    each: float
    """What each removed token of an active edit saves."""
    own: Mapping[int, float]
    """What edits save that do not save by `each`, active or not."""
    drift: float | None
    """What the bill adds to all savings, mostly negative; None without a bill."""
    blamed: Sequence[int]
    """Edits of `own` that share the drift. If empty, all active edits and all of `own` share it."""
    entered: Iterable[int] = ()
    """Edits that become active with this call."""
    left: Iterable[int] = ()
    """Edits that were active up to the call before."""


_NOISE = 1e-12
"""The relative error of a sum, which depends on the order of its parts: a smaller difference counts as none."""


@dataclass(slots=True)
class EditTotals:
    """What one edit saved so far."""

    tokens: int
    expected: float = 0.0
    sure: float = 0.0
    """Of that, in calls with a bill."""
    billed: float = 0.0
    """The same with its share of the drift."""
    calls: int = 0
    """How many calls it was active in."""
    paid: int | None = None
    """Number of the call since which the balance was never below zero."""

    @property
    def weight(self) -> int:
        """By which it shares in the drift."""
        return max(1, self.tokens)

    @property
    def balance(self) -> float:
        return self.billed + self.expected - self.sure


@dataclass(frozen=True, slots=True)
class _Sums:
    """Over all calls so far."""

    calls: int = 0
    each: float = 0.0
    sure: float = 0.0
    drift: float = 0.0
    """What a unit of weight had to bear."""


class Attribution:
    """Takes the calls of a session one by one, and adds up what each edit saved."""

    def __init__(self, edits: Sequence[EditCost]) -> None:
        self.rows = [EditTotals(edit.tokens) for edit in edits]
        self._sums = _Sums()
        self._since: dict[int, tuple[_Sums, float]] = {}
        """By active edit: the sums, and the height of its slope, up to which it is counted."""
        self._weight = 0
        """Of all active edits."""
        self._slopes: dict[float, _Slope] = {}

    def take(self, step: CallEffect) -> None:
        """Add the next call."""
        self.settle(n for n in (*step.left, *step.own) if n in self._since)
        for n in step.left:
            del self._since[n]
            self._weight -= self.rows[n].weight
        for n in step.entered:
            self._open(n)
            self._weight += self.rows[n].weight
        others = sum(self.rows[n].weight for n in step.own if n not in self._since)
        total_weight = sum(self.rows[n].weight for n in step.blamed) or self._weight + others
        share = step.drift / total_weight if step.drift is not None and total_weight else 0.0
        self._grow(step.each, step.drift is not None, 0.0 if step.blamed else share)
        for n, gain in step.own.items():
            bears = share if not step.blamed or n in step.blamed else 0.0
            self._add(n, gain, bears * self.rows[n].weight, billed=step.drift is not None)

    def holds(self, n: int) -> bool:
        """Whether the edit was active in the last call."""
        return n in self._since

    def settle(self, places: Iterable[int]) -> None:
        """Add to these what they gained since they were last counted."""
        for n in places:
            row, (then, height), now = self.rows[n], self._since[n], self._sums
            self._slopes[row.tokens / row.weight].update_paid(row, then.calls, height)
            row.calls += now.calls - then.calls
            row.expected += row.tokens * (now.each - then.each)
            row.sure += row.tokens * (now.sure - then.sure)
            row.billed += row.tokens * (now.sure - then.sure) + row.weight * (now.drift - then.drift)
            self._open(n)

    def finish(self) -> list[EditTotals]:
        self.settle(tuple(self._since))
        return self.rows

    def _open(self, n: int) -> None:
        slope = self._slopes.setdefault(self.rows[n].tokens / self.rows[n].weight, _Slope())
        self._since[n] = self._sums, slope.height

    def _grow(self, each: float, billed: bool, drift: float) -> None:
        now = self._sums
        self._sums = _Sums(now.calls + 1, now.each + each, now.sure + each * billed, now.drift + drift)
        for tokens, slope in self._slopes.items():
            slope.grow(self._sums.calls, tokens * each + drift)

    def _add(self, n: int, gain: float, drift: float, *, billed: bool) -> None:
        """Add a gain of one edit in the newest call."""
        row = self.rows[n]
        row.expected += gain
        if billed:
            row.sure += gain
            row.billed += gain + drift
        if row.balance < 0:
            row.paid = None
        elif row.paid is None:
            row.paid = self._sums.calls
        if n in self._since:
            row.calls += 1
            self._open(n)


@dataclass(slots=True)
class _Slope:
    """How the balance per unit of weight moved, for all edits with the same tokens per unit of weight.

    That is one token, except for edits that removed nothing. An edit's balance is below zero where the height is below
    a level, so the last call with such a height says since when the edit has paid for itself.
    """

    height: float = 0.0
    _lows: list[tuple[float, int]] = field(default_factory=list)
    """Heights that all later ones are above, rising, each with its call."""

    def grow(self, call: int, more: float) -> None:
        self.height += more
        while self._lows and self._lows[-1][0] >= self.height:
            self._lows.pop()
        self._lows.append((self.height, call))

    def update_paid(self, row: EditTotals, since: int, height: float) -> None:
        """Set since when the edit has paid for itself. It was last counted in call `since`, at this height."""
        newest = self._lows[-1][1] if self._lows else since
        if newest == since:
            return
        level = height - row.balance / row.weight
        under = bisect_left(self._lows, (level - _NOISE * (abs(height) + abs(level)), 0))
        low = self._lows[under - 1][1] if under else 0
        if low == newest:
            row.paid = None
        elif low > since:
            row.paid = low + 1
        elif row.paid is None:
            row.paid = since + 1
