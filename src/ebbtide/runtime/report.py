"""What was done to one request, in numbers and words. Only what is known is claimed: money follows from the bill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from ebbtide.accounting.savings import Savings, compute_savings
from ebbtide.core.plan_input import PlanInput
from ebbtide.core.types import Composition, Edit, Item
from ebbtide.core.view import View
from ebbtide.store import LogReader

Listener = Callable[["Event"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth knowing that happened. `fields` are those of the seeds' telemetry where they have it."""

    kind: str
    """`result_persisted` (R114), `microcompact` (R244), `edit`, `repair`, `fallback`, `store`, `warning`, `cache`."""
    session: str
    fields: Mapping[str, object]


class ReportBasis(NamedTuple):
    """What the larger figures of a report follow from. They are worked out when somebody asks."""

    plan_input: PlanInput
    view: View
    """As it went out."""
    tokens: int
    """The same in tokens, by the gauge."""
    overhead: tuple[int, int]
    """Tokens of system prompt and tools."""
    ends: Sequence[int]
    """Estimated tokens up to and with each message."""
    unchanged_messages: int
    """Leading messages that this request's own edits left as they were."""
    log: LogReader

    def bill(self) -> tuple[int, float, float]:
        """What is warm of this request, its input bill, and that of one never touched; see `Report`."""
        situation, tokens = self.plan_input, self.tokens
        prices, scale = situation.prices, situation.scale
        messages = min(self.unchanged_messages, situation.cached_entries)
        warm = min(tokens, round(self.ends[messages - 1] * scale)) if messages else 0
        new = sum(entry.tokens for entry in self.view.entries[situation.first_unsent :])
        whole = self.tokens_untouched()
        known = max(0, whole - round(new * scale)) if situation.cached_entries else 0
        return (
            warm,
            warm * prices.read + (tokens - warm) * prices.write,
            known * prices.read + (whole - known) * prices.write,
        )

    def tokens_untouched(self) -> int:
        """What the request would be with everything that edits took out still in it."""
        view = self.view
        if not view.edits:
            return self.tokens
        return self.tokens + round((sum(item.tokens for item in view.originals) - view.tokens) * self.plan_input.scale)

    def composition(self) -> Composition:
        kinds: dict[str, int] = {}
        for entry in self.view.entries:
            kinds[entry.kind] = kinds.get(entry.kind, 0) + entry.tokens
        return Composition(system=self.overhead[0], tools=self.overhead[1], messages=kinds)

    def savings(self) -> Savings:
        return compute_savings(self.log.read().records)

    def figures(self) -> ReportFigures:
        return ReportFigures(self.bill(), self.tokens_untouched(), self.composition(), self.savings())


class ReportFigures(NamedTuple):
    """The same as figures, as they stood: a log and its lock cannot go where a pickled report goes."""

    billed: tuple[int, float, float]
    untouched: int
    made_of: Composition
    saved: Savings

    def bill(self) -> tuple[int, float, float]:
        return self.billed

    def tokens_untouched(self) -> int:
        return self.untouched

    def composition(self) -> Composition:
        return self.made_of

    def savings(self) -> Savings:
        return self.saved

    def figures(self) -> ReportFigures:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One request, before and after."""

    tokens_before: int = 0
    tokens_after: int = 0
    level: str = "calm"
    """Before anything was done."""
    window: int = 0
    auto_at: int = 0
    """Where the policy acts by itself."""
    edits: tuple[Edit, ...] = ()
    """Made for this request. Earlier ones that still hold are in `held`."""
    held: int = 0
    """Edits that hold in what went out."""
    marks: tuple[str, ...] = ()
    """Cache breakpoints that we added, as in `messages.41.0`."""
    behind: ReportBasis | ReportFigures | None = field(default=None, repr=False, compare=False)
    """What all else follows from; None where the request was passed through."""
    repairs: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    """Files whose content the model no longer sees (R145): a reader should read them again before editing."""
    notes: tuple[str, ...] = ()

    @property
    def context_left(self) -> float:
        """Share left until the policy acts, never below zero (R051)."""
        return max(0.0, 1 - self.tokens_after / self.auto_at) if self.auto_at else 0.0

    @property
    def warm(self) -> int:
        """Tokens that the provider should still have cached."""
        return self.behind.bill()[0] if self.behind else 0

    @property
    def cost(self) -> float:
        """Expected input bill, in tokens at full price: cached ones count for what they cost."""
        return self.behind.bill()[1] if self.behind else 0.0

    @property
    def cost_untouched(self) -> float:
        """The same for the conversation had nothing ever been taken out of it, all but what is new still cached."""
        return self.behind.bill()[2] if self.behind else 0.0

    @property
    def tokens_untouched(self) -> int:
        """What this request would have been had nothing ever been taken out of it."""
        return self.behind.tokens_untouched() if self.behind else 0

    @property
    def savings(self) -> Savings:
        """Of each edit and of the whole session, closed against the bills that are there by now: all that the log says,
        also what was billed after the request went out."""
        return self.behind.savings() if self.behind else compute_savings(())

    @property
    def made_of(self) -> Composition:
        """What the tokens that went out are made of, by kind, as estimated."""
        return self.behind.composition() if self.behind else Composition()

    @property
    def saved(self) -> int:
        """Tokens that this request's own edits took out."""
        return max(0, self.tokens_before - self.tokens_after)

    # Answers of a wrapped client carry a report, and programs copy and pickle answers.
    def __deepcopy__(self, _: object) -> Report:
        return self

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Report], tuple[dict[str, Any]]]:
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        return _report_from, ({**told, "behind": self.behind and self.behind.figures()},)

    def as_dict(self) -> dict[str, object]:
        """All of it as plain values, for a log."""
        told: dict[str, object] = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "behind"}
        told["made_of"] = asdict(self.made_of)
        told["edits"] = [
            {"by": edit.by, "reason": edit.reason, "saved": edit.saved, "first": edit.first, "last": edit.last}
            for edit in self.edits
        ]
        told |= {"warm": self.warm, "cost": self.cost, "cost_untouched": self.cost_untouched}
        return {**told, "context_left": self.context_left, "saved": self.saved}


def _report_from(told: dict[str, Any]) -> Report:
    return Report(**told)


class Prepared(NamedTuple):
    """A request, ready to go out."""

    body: Any
    report: Report
    turn: int
    """Which request of the session it is; 0 where nothing was recorded."""
    model: str = ""
    estimated: int = 0
    """Tokens as the estimator counts them, no ratio applied: what the usage will be held against."""
    retried: bool = False
    """Written anew after the provider refused it for its size."""
    items: tuple[Item, ...] = ()
    """As they came: its reply is told by what stands before it, whatever else went out meanwhile."""
