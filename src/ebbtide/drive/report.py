"""What was done to one request, in numbers and words. Only what is known is claimed: money follows from the bill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

from ebbtide.core.savings import Savings, savings
from ebbtide.core.types import Composition, Edit
from ebbtide.store import Reader

Listener = Callable[["Event"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth knowing that happened. `fields` are those of the seeds' telemetry where they have it."""

    kind: str
    """`result_persisted` (R114), `microcompact` (R244), `edit`, `repair`, `fallback`, `store`, `warning`, `cache`."""
    session: str
    fields: Mapping[str, object]


_LAZY = ("compose", "price", "whole", "account")


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
    price: Callable[[], tuple[int, float, float]] = field(default=lambda: (0, 0.0, 0.0), repr=False, compare=False)
    """Works out `warm`, `cost` and `cost_untouched`, when somebody asks."""
    compose: Callable[[], Composition] = field(default=Composition, repr=False, compare=False)
    """Adds up `made_of`, when somebody asks."""
    whole: Callable[[], int] = field(default=lambda: 0, repr=False, compare=False)
    """Works out `tokens_untouched`, when somebody asks."""
    account: Callable[[], Savings] = field(default=partial(savings, ()), repr=False, compare=False)
    """Reads the log and adds up `savings`, when somebody asks."""
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
        return self.price()[0]

    @property
    def cost(self) -> float:
        """Expected input bill, in tokens at full price: cached ones count for what they cost."""
        return self.price()[1]

    @property
    def cost_untouched(self) -> float:
        """The same for the conversation had nothing ever been taken out of it, all but what is new still cached."""
        return self.price()[2]

    @property
    def tokens_untouched(self) -> int:
        """What this request would have been had nothing ever been taken out of it."""
        return self.whole()

    @property
    def savings(self) -> Savings:
        """Of each edit and of the whole session, closed against the bills that are there by now."""
        return self.account()

    @property
    def made_of(self) -> Composition:
        """What the tokens that went out are made of, by kind, as estimated."""
        return self.compose()

    @property
    def saved(self) -> int:
        return max(0, self.tokens_before - self.tokens_after)

    def as_dict(self) -> dict[str, object]:
        told: dict[str, object] = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _LAZY}
        told["made_of"] = asdict(self.made_of)
        told["edits"] = [
            {"by": edit.by, "reason": edit.reason, "saved": edit.saved, "first": edit.first, "last": edit.last}
            for edit in self.edits
        ]
        told |= {"warm": self.warm, "cost": self.cost, "cost_untouched": self.cost_untouched}
        return {**told, "context_left": self.context_left, "saved": self.saved}


def account(log: Reader) -> Savings:
    """All that the log says by now: also what was billed after the request went out."""
    return savings(log.read().records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
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
