"""What a plan goes by: the gauge, warmth and budget for one request, from the session's state. No effects here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from ebbtide.core.cache import anchor, prices_for, warm_messages
from ebbtide.core.chain import shared
from ebbtide.core.engine import Budget, Folding, Pass, Situation
from ebbtide.core.gauge import Gauge, Readings
from ebbtide.core.journal import State
from ebbtide.core.shelf import Shelf
from ebbtide.core.types import Item, Sent, Trigger, Usage
from ebbtide.core.view import View
from ebbtide.drive.projection import Projection
from ebbtide.policy import Policy
from ebbtide.wire.overflow import Overflow
from ebbtide.wire.reading import Request

_TTL = 300.0


class Stages(TypedDict):
    """What runs, and when."""

    arrival: Sequence[Pass]
    always: Sequence[Pass]
    pressure: Sequence[Pass]
    last_resort: Sequence[Pass]


def steps_of(policy: Policy, trigger: Trigger) -> Stages:
    """A person who asks for a fold gets a fold; else all that the policy has, gentlest first."""
    if trigger == "manual":
        return Stages(arrival=(), always=(), pressure=policy.folds, last_resort=())
    folds = policy.folds if policy.overflow in ("summarize", "auto-compact") else ()
    return Stages(
        arrival=policy.arrival,
        always=policy.always,
        pressure=(*policy.pressure, *folds),
        last_resort=policy.last_resort if policy.overflow != "error" else (),
    )


def window_told(found: Overflow, sent: int, budget: Budget | None) -> int:
    """The window that a refusal speaks of. Where it gives no number, a tenth less than was sent is a beginning."""
    told = found.limit if found.unit == "tokens" and found.limit else sent * 9 // 10
    if found.output and budget is not None and budget.levels.blocking + found.output > told:
        # This provider holds the reply's reservation against the window, and our levels counted on a part of it.
        return max(told - found.output, told // 8)
    return told


class Moment(NamedTuple):
    """One request of a session, before anything new is planned for it."""

    policy: Policy
    budget: Budget
    state: State
    request: Request
    view: View
    projection: Projection
    """The view as it would go out with nothing new."""
    before: View | None
    """The view that the last request carried."""
    now: float

    def situation(
        self, *, gauge: Gauge, trigger: Trigger, target: int | None, shelf: Shelf | None, folding: Folding
    ) -> Situation:
        newest = self.state.sent[-1] if self.state.sent else None
        readings = self.readings()
        tokens = gauge(readings)
        scale = _scale(gauge, readings, tokens)
        return Situation(
            budget=self.budget,
            tokens=tokens,
            scale=scale or 1.0,
            scale_new=scale,
            utilisation=tokens / max(1, self.policy.usable(self.budget.window, self.budget.max_output)),
            warm=self._warm(),
            new=self._first_new(),
            idle=max(0.0, self.now - newest.at) if newest else None,
            trigger=trigger,
            target=target,
            growth=_growth(self.state.sent, tokens),
            prices=prices_for(self.request.model, newest.ttl if newest else _TTL),
            count=self.policy.estimator.text,
            shelf=shelf,
            bound=self.request.bound,
            cleared=self.state.cleared,
            folding=folding,
            now=self.now,
        )

    def _warm(self) -> int:
        request, sent = self.request, self.state.sent
        if not sent:
            return 0
        return warm_messages(
            sent, now=self.now, model=request.model, system=request.system, tools=request.tools,
            prefix=self.projection.chain,
        )  # fmt: skip

    def _first_new(self) -> int:
        """Place of the first entry that no request has carried."""
        before, view, chain = self.before, self.view, self.projection.chain
        if before is not None and before.edits is view.edits and len(before.items) <= len(view.items):
            return len(before.entries)
        carried = max((shared(one.prefix, chain) for one in self.state.sent), default=0)
        return len(view.entries) - entries_in_last(view, len(chain) - carried) if carried else 0

    def readings(self) -> Readings:
        """What gauges may go by."""
        request, view, chain = self.request, self.view, self.projection.chain
        reach, usage = anchor(
            self.state.sent, model=request.model, system=request.system, tools=request.tools, prefix=chain
        )
        tail = _last(view, len(chain) - reach) if usage else ()
        reply = _sum(_leading(tail))
        system, tools = request.overhead
        return Readings(
            estimator=self.policy.estimator,
            calibration=self.state.calibration,
            model=request.model,
            view=view.tokens,
            messages=len(self.projection.starts),
            system=system,
            tools=tools,
            last=_last_bill(self.state),
            anchor=usage,
            reply=reply,
            since=_sum(tail) - reply,
        )


def _scale(gauge: Gauge, readings: Readings, tokens: int) -> float:
    """How far the gauge falls for each estimated token that leaves; 0 where it only believes bills.

    What such a gauge has billed still falls by what an edit frees (R043), at one to one.
    """
    step = min(1000, readings.view)
    if not step:
        return 1.0
    less = readings._replace(view=readings.view - step, since=readings.since - step)
    return (tokens - gauge(less)) / step


def _last_bill(state: State) -> Usage | None:
    """The newest usage, unless history was folded or evicted since: a bill from before would have it done again (R044).

    Without this a retry, or a provider that reports no usage, would lose more of the history on every request.
    """
    for back, one in enumerate(reversed(state.sent)):
        if one.usage is not None:
            return None if _folded_since(state, state.turns - back) else one.usage
    return None


def _folded_since(state: State, turn: int) -> bool:
    later = [batch for batch in state.batches if batch.turn > turn and batch.id not in state.undone]
    return any(edit.first != edit.last for batch in later for edit in batch.edits)


def _growth(sent: Sequence[Sent], tokens: int) -> int:
    """Tokens that a call added, on average over the requests remembered."""
    return max(0, (tokens - sent[0].tokens) // len(sent)) if sent else 0


def _last(view: View, messages: int) -> Sequence[Item]:
    return view.entries[len(view.entries) - entries_in_last(view, messages) :]


def entries_in_last(view: View, messages: int) -> int:
    """How many entries stand in the last messages."""
    at = len(view.entries)
    while messages > 0 and at > 0:
        at -= 1
        if at == 0 or view.entries[at - 1].message != view.entries[at].message:
            messages -= 1
    return len(view.entries) - at


def _sum(entries: Sequence[Item]) -> int:
    return sum([entry.tokens for entry in entries])


def _leading(entries: Sequence[Item]) -> list[Item]:
    """The assistant's items at the start: the reply that the usage already counts as output."""
    found: list[Item] = []
    for entry in entries:
        if entry.role != "assistant":
            break
        found.append(entry)
    return found
