"""The shipped session, played through the real engine. Every number in a moment was measured while it played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ebbtide import example
from ebbtide.accounting.calls import build_ledger
from ebbtide.accounting.savings import Tariff, Tariffs, relative_tariff, savings_from_ledger
from ebbtide.audit.history import Step, build_history
from ebbtide.core.errors import BadConfig
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Edit
from ebbtide.display import short_number
from ebbtide.formats import RecordedCall, load
from ebbtide.policy import Policy
from ebbtide.policy.adjust import with_passes
from ebbtide.prices import Rates, find_rates
from ebbtide.runtime import Context, Ready
from ebbtide.store import open_store

WINDOW = 80_000
"""Tokens. The session has 160k in the end and asks for replies of 32k: all that the engine can do happens once."""
MIN_SAVINGS = 2_000
"""What a fold must free in a demonstration (R284). Policies made for long sessions ask for ten times that."""
QUERY = "no station"
"""Said once and early, in an error that nobody would think of keeping."""
PRICED_AS = "claude-sonnet-5"
"""The recorded model is nobody's, so a real one's prices are taken."""
_SESSION = "demo"

Kind = Literal["overflow", "offload", "ebb", "fold", "recall"]

_NAMES = {
    "clear_results": "result",
    "snip_results": "result",
    "prune_results": "result",
    "truncate_results": "result",
    "limit_output": "result",
    "drop_calls": "call",
    "clear_media": "picture",
    "shorten_text": "text",
    "strip_thinking": "thought",
    "thinking": "thought",
    "evict": "run of message",
    "evict_messages": "run of message",
}
_FOLDS = ("summarize", "fold_regions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth a line."""

    kind: Kind
    call: int
    told: str
    saved: int = 0
    """Tokens that left for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Of all calls so far, with and without Ebbtide."""

    raw: float
    ours: float
    dollars: bool
    """Else input tokens at full price."""

    @property
    def saved(self) -> float:
        """As a share of the raw one."""
        return 1 - self.ours / self.raw if self.raw else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One call, and what happened for it."""

    call: int
    calls: int
    window: int
    acts_at: int
    raw: int
    """Tokens of the request had nothing ever been taken out."""
    before: int
    """What would have gone out without the edits made for this call."""
    ours: int
    made_of: tuple[tuple[str, int], ...]
    """What went out, by kind."""
    bill: Bill
    events: tuple[Event, ...]


def told(policy: Policy, *, window: int = WINDOW) -> Iterator[Moment]:
    """Call by call, on the clock of the recording. The store is in memory: nothing is written anywhere."""
    return _Stage(policy, window, list(load(example.path()).requests())).played()


class _Stage:
    def __init__(self, policy: Policy, window: int, calls: Sequence[RecordedCall]) -> None:
        self._calls, self._now, self._overflowed = calls, 0.0, False
        self._store = open_store(None)
        self._price = _price()
        self._tariffs = _tariffs(self._price) if self._price else relative_tariff
        self._context = Context(
            model=calls[0].model,
            window=window,
            policy=showing_folds(policy),
            store=self._store,
            session=_SESSION,
            clock=lambda: self._now,
        )

    def played(self) -> Iterator[Moment]:
        for number, call in enumerate(self._calls, 1):
            self._now = call.at if call.at is not None else self._now + 1.0
            ready = self._context.prepare(call.request)
            events = [*self._overflow(number, ready), *self._events(number, ready)]
            if number == len(self._calls):
                events += self._recall(number, ready)
            yield self._moment(number, ready, events)

    def _moment(self, number: int, ready: Ready, events: list[Event]) -> Moment:
        report = ready.report
        books_now = savings_from_ledger(build_ledger(self._store.peek(_SESSION).read().records), self._tariffs)
        raw = books_now.bill + books_now.told + books_now.pending
        return Moment(
            call=number,
            calls=len(self._calls),
            window=report.window,
            acts_at=report.auto_at,
            raw=report.tokens_untouched,
            before=report.tokens_before,
            ours=report.tokens_after,
            made_of=tuple(report.made_of.messages.items()),
            bill=Bill(raw=raw, ours=books_now.bill, dollars=self._price is not None),
            events=tuple(events),
        )

    def _overflow(self, number: int, ready: Ready) -> Iterator[Event]:
        if self._overflowed or ready.report.tokens_untouched <= ready.report.window:
            return
        self._overflowed = True
        size = f"{short_number(ready.report.tokens_untouched)} tokens"
        yield Event(kind="overflow", call=number, told=f"untouched it would be {size}: refused from here on")

    def _events(self, number: int, ready: Ready) -> Iterator[Event]:
        if not ready.report.edits:
            return
        step = build_history(self._store.peek(_SESSION).read().records, session=_SESSION).steps[-1]
        groups: dict[Kind, list[Edit]] = {}
        for edit in ready.report.edits:
            groups.setdefault(_kind(edit), []).append(edit)
        for kind, edits in groups.items():
            saved = sum(edit.saved for edit in edits)
            yield Event(kind=kind, call=number, told=_WORDS[kind](step, edits), saved=saved)

    def _recall(self, number: int, ready: Ready) -> Iterator[Event]:
        hit = next((one for one in self._context.recall(QUERY) if one.message >= 0), None)
        if hit is None:
            return
        page = self._context.read(hit.handle)
        answer = page.text.strip().splitlines()[-1]
        where = "still there" if answer in str(ready.body) else "gone"
        yield Event(kind="recall", call=number, told=f"“{QUERY}” → “{answer}” (message {page.message}, {where})")


def showing_folds(policy: Policy) -> Policy:
    """With the demonstration's least saving, where the policy has a fold that asks for one."""
    with suppress(BadConfig):
        return with_passes(policy, {"summarize": {"min_savings": MIN_SAVINGS}})
    return policy


def _kind(edit: Edit) -> Kind:
    if edit.by in _FOLDS:
        return "fold"
    return "offload" if edit.by.startswith("offload") else "ebb"


def _offloaded(step: Step, edits: Sequence[Edit]) -> str:
    items = [item for edit in edits for item in step.covered(edit)]
    whole, stubs = sum(item.tokens for item in items), sum(item.tokens for edit in edits for item in edit.replacement)
    what = f"a result of {items[0].name}" if len(items) == 1 and items[0].name else pluralize(len(items), "result")
    leave = "leaves" if len(items) == 1 else "leave"
    return f"{what}, {short_number(whole)} tokens, {leave} for the store; {short_number(stubs)} stay"


def _ebbed(_: Step, edits: Sequence[Edit]) -> str:
    (first, most), *others = Counter(_NAMES.get(edit.by, edit.by) for edit in edits).most_common()
    more = "".join(f", {pluralize(number, name)}" for name, number in others)
    return f"{pluralize(most, f'old {first}')}{more} ebb out"


def _folded(step: Step, edits: Sequence[Edit]) -> str:
    messages = len({item.message for edit in edits for item in step.covered(edit)})
    report = sum(item.tokens for edit in edits for item in edit.replacement if not item.id)
    return f"{messages} messages fold into a report of {short_number(report)}; the user's own words stay"


_WORDS = {"offload": _offloaded, "ebb": _ebbed, "fold": _folded}


def _price() -> Rates | None:
    try:
        return find_rates(PRICED_AS)
    except BadConfig:
        return None


def _tariffs(price: Rates) -> Tariffs:
    tariff = Tariff(input=price.input / 1e6, read=price.read / 1e6, write=price.write / 1e6, output=price.output / 1e6)
    return lambda _model, _ttl, _prompt: tariff
