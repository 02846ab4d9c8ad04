"""What a session cost and saved, in input tokens at full price, and in dollars if a price is known.

There are no dollars if the price table (extra `replay`) is missing or knows none of the models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from ebbtide.accounting.calls import CallCost, add_usage, build_ledger
from ebbtide.accounting.savings import (
    CallSavings,
    EditSavings,
    Savings,
    Tariff,
    Tariffs,
    relative_tariff,
    savings_from_ledger,
)
from ebbtide.core.errors import BadConfig
from ebbtide.core.records import usage_from_record
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import COMPACTION_PASSES, Usage
from ebbtide.display import short_number
from ebbtide.prices import Rates, find_rates

_MILLION = 1_000_000
Price = float | str | None
"""Dollars per million uncached input tokens, or the model whose prices to use; None: those of the models called."""


@dataclass(frozen=True, kw_only=True)
class SessionCost:
    """The cost and savings of one session in two currencies."""

    tokens: Savings
    """In input tokens at full price."""
    dollars: Savings | None
    basis: str
    """Which prices were used, or why there are none."""
    price_rows: tuple[str, ...] = ()
    """Rows of the price table that were used."""

    @cached_property
    def by_batch(self) -> Mapping[str, Sequence[tuple[EditSavings, EditSavings | None]]]:
        """The edits of each batch, in order, in both currencies."""
        batches: dict[str, list[tuple[EditSavings, EditSavings | None]]] = {}
        for entry, dollars in self.entries():
            batches.setdefault(entry.edit.batch, []).append((entry, dollars))
        return batches

    def entries(self) -> Iterable[tuple[EditSavings, EditSavings | None]]:
        dollars = self.dollars.edits if self.dollars else (None,) * len(self.tokens.edits)
        return zip(self.tokens.edits, dollars, strict=True)

    @property
    def lines(self) -> Sequence[CallSavings]:
        """Each call with its sizes, in dollars if there is a price."""
        return (self.dollars or self.tokens).calls

    def call_costs(self) -> list[float | None]:
        """Dollars of each call with its reply: as billed, else as expected."""
        if self.dollars is None:
            return [None] * len(self.tokens.calls)
        return [
            (line.expected if line.billed is None else line.billed) + _output_tokens(line.call) * line.tariff.output
            for line in self.dollars.calls
        ]


def _output_tokens(call: CallCost) -> int:
    usage = call.usage or (call.simulated.sent if call.simulated else None)
    return usage.output if usage else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """The figures about one session that every command, page and picture shows."""

    calls: int
    tokens: int
    """Of the newest request."""
    tokens_without: int
    """Of the same request without Ebbtide."""
    peak: int
    """Tokens of the largest request."""
    peak_without: int
    cost: float
    """Of all prompts."""
    cost_without: float
    saved: float
    """What may be claimed after cache prices; negative if the edits cost more than they saved."""
    in_dollars: bool
    """Otherwise amounts are input tokens at full price."""

    @property
    def saved_share(self) -> float:
        """Of the cost without Ebbtide."""
        return self.saved / self.cost_without if self.cost_without > 0 else 0.0

    def amount(self, value: float) -> str:
        return format_usd(value) if self.in_dollars else f"{format_tokens(value)} tokens"


def session_figures(cost: SessionCost) -> SessionFigures:
    savings = cost.dollars or cost.tokens
    calls = savings.calls
    return SessionFigures(
        calls=len(calls),
        tokens=calls[-1].tokens if calls else 0,
        tokens_without=calls[-1].untouched_tokens if calls else 0,
        peak=max((call.tokens for call in calls), default=0),
        peak_without=max((call.untouched_tokens for call in calls), default=0),
        cost=savings.total_cost,
        cost_without=savings.cost_without_edits,
        saved=savings.claimed,
        in_dollars=cost.dollars is not None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigures:
    """What a status line and `ebb top` show of a session that may be running."""

    figures: SessionFigures
    model: str
    hit_rate: float | None
    """Share of the billed prompt tokens that the cache served; None without a bill."""
    last_summary_at: float
    """When old turns were last replaced by a summary; 0 if never."""
    last_at: float
    """Of the newest request."""


def live_figures(records: Sequence[Mapping[str, object]]) -> LiveFigures:
    cost = session_cost(records)
    calls = cost.tokens.calls
    billed = [line.call.usage for line in calls if line.call.usage]
    prompt = sum(usage.prompt for usage in billed)
    summaries = {entry.edit.call for entry in cost.tokens.edits if entry.edit.by in COMPACTION_PASSES}
    return LiveFigures(
        figures=session_figures(cost),
        model=calls[-1].call.model if calls else "",
        hit_rate=sum(usage.cache_read for usage in billed) / prompt if prompt else None,
        last_summary_at=max((calls[number - 1].call.at for number in summaries if number <= len(calls)), default=0.0),
        last_at=calls[-1].call.at if calls else 0.0,
    )


def session_cost(records: Iterable[Mapping[str, object]], price: Price = None) -> SessionCost:
    """Add up a session's log records."""
    calls = build_ledger(records)
    models = [model for model, _ in Counter(call.model for call in calls.calls).most_common()]
    tariffs, basis, rows = _fixed_price(price) if isinstance(price, float) else _table_prices(models, price)
    dollars = savings_from_ledger(calls, tariffs) if tariffs else None
    return SessionCost(tokens=savings_from_ledger(calls), dollars=dollars, basis=basis, price_rows=rows)


def _fixed_price(price: float) -> tuple[Tariffs, str, tuple[str, ...]]:
    def tariff(model: str, ttl: float, prompt: int) -> Tariff:
        return _per_token(relative_tariff(model, ttl, prompt), price)

    return tariff, f"at ${price:g} per million input tokens, as set with --price", ()


def _table_prices(models: Sequence[str], only: str | None) -> tuple[Tariffs | None, str, tuple[str, ...]]:
    """Look prices up by model. A model without a price gets those of the most used model that has one."""
    models = [only] if only else models
    try:
        rates = {model: find_rates(model) for model in models}
    except BadConfig as error:
        return None, str(error), ()
    priced, unpriced = [model for model in models if rates[model]], [model for model in models if not rates[model]]
    if only and not priced:
        raise BadConfig(f"no price is known for {only}: give dollars per million input tokens, such as --price 3")
    if not priced:
        names = ", ".join(filter(None, models))
        reason = f"no price is known for {names}; set one with --price" if names else "no model is named; see --price"
        return None, reason, ()

    def tariff(model: str, ttl: float, prompt: int) -> Tariff:
        # Both sides get the price tier of the request that was sent; without Ebbtide it may have been a higher one.
        model_rates = find_rates(model if rates.get(model) else priced[0], ttl=ttl, prompt=prompt)
        assert model_rates is not None, "looked up before"
        return _per_token(model_rates, 1.0)

    rows = tuple(dict.fromkeys(row.basis for model in priced if (row := rates[model])))
    return (
        tariff,
        f"prices of {', '.join(rows)}" + (f"; {', '.join(unpriced)} as {priced[0]}" if unpriced else ""),
        rows,
    )


def _per_token(prices: Rates | Tariff, factor: float) -> Tariff:
    """Prices per million tokens, times `factor`, as prices per token."""
    input, read, write, output, write_1h = (
        price * factor / _MILLION for price in (prices.input, prices.read, prices.write, prices.output, prices.write_1h)
    )
    return Tariff(input=input, read=read, write=write, output=output, write_1h=write_1h)


@dataclass(slots=True)
class UsageBill:
    """What a running session has cost so far."""

    calls: list[tuple[str, Usage]] = field(default_factory=list)
    """The model and usage of each call, including requests for summaries."""

    def add(self, model: str, usage: Usage) -> None:
        self.calls.append((model, usage))

    @property
    def usage(self) -> Usage:
        return reduce(add_usage, (usage for _, usage in self.calls), Usage())

    @property
    def dollars(self) -> float | None:
        """None if a model has no known price."""
        total = 0.0
        for model, usage in self.calls:
            try:
                rates = find_rates(model, prompt=usage.prompt)
            except BadConfig:
                return None
            if rates is None:
                return None
            total += rates.cost(usage)
        return total


def bill_records(records: Iterable[Mapping[str, object]], model: str) -> UsageBill:
    """Read the bill from a session's log. Records of summaries do not name their model: it is the session's."""
    bill = UsageBill()
    for record in records:
        if record.get("kind") == "usage":
            bill.add(str(record.get("model") or model), usage_from_record(record))
        usage = record.get("usage")
        if record.get("kind") == "answer" and isinstance(usage, Mapping) and usage:
            bill.add(model, usage_from_record(usage))
    return bill


def format_usd(amount: float) -> str:
    sign, amount = ("-" if amount < 0 else ""), abs(amount)
    return f"{sign}${amount:,.2f}" if amount >= 0.1 or amount < 0.00005 else f"{sign}${amount:.4f}"


def format_tokens(tokens: float) -> str:
    return f"{'-' if round(tokens) < 0 else ''}{short_number(round(abs(tokens)))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditTotals:
    """What several edits removed, cost and saved together."""

    tokens: int
    rewritten: int
    """Tokens that the provider had to write to its cache again."""
    saved: float
    """In input tokens at full price."""
    usd: float | None
    requests: int
    """The most in which one of them was active."""
    break_even_calls: float
    is_paid: bool

    @property
    def paid_back(self) -> str:
        """Whether they have paid for themselves, and after how many calls they do."""
        if self.break_even_calls == 0:
            return "at once"
        if math.isinf(self.break_even_calls):
            return "never"
        calls = pluralize(math.ceil(self.break_even_calls), "call")
        return f"after {calls}" if self.is_paid else f"not yet; after {calls}"


def add_up(pairs: Sequence[tuple[EditSavings, EditSavings | None]]) -> EditTotals:
    """Add up edits, each given in tokens and in dollars."""
    entries, dollars = [entry for entry, _ in pairs], [entry.claimed for _, entry in pairs if entry]
    return EditTotals(
        tokens=sum(entry.edit.tokens for entry in entries),
        rewritten=sum(entry.edit.rewritten_tokens for entry in entries),
        saved=sum(entry.claimed for entry in entries),
        usd=sum(dollars) if dollars else None,
        requests=max((entry.calls for entry in entries), default=0),
        break_even_calls=max((entry.break_even_calls for entry in entries), default=0),
        is_paid=all(entry.paid_since is not None for entry in entries),
    )


def edit_as_dict(entry: EditSavings, dollars: EditSavings | None) -> dict[str, object]:
    change = entry.edit
    return {
        "by": change.by,
        "why": change.reason,
        "request": change.call,
        "tokens": change.tokens,
        "rewritten": change.rewritten_tokens,
        "requests_held": entry.calls,
        "worth": round(entry.claimed, 1),
        "usd": round(dollars.claimed, 6) if dollars else None,
        "expected": round(entry.expected, 1),
        "billed": round(entry.billed, 1),
        "breaks_even": None if math.isinf(entry.break_even_calls) else round(entry.break_even_calls, 2),
        "paid_at": entry.paid_since,
    }


def savings_as_dict(cost: SessionCost) -> dict[str, object]:
    tokens, dollars, figures = cost.tokens, cost.dollars, session_figures(cost)
    return {
        "requests": len(tokens.calls),
        "tokens": figures.tokens,
        "tokens_without": figures.tokens_without,
        "peak": figures.peak,
        "peak_without": figures.peak_without,
        "billed_requests": tokens.bill_count,
        "tokens_out": tokens.removed_tokens,
        "rewritten": tokens.rewritten_tokens,
        "saved": round(tokens.claimed, 1),
        "saved_usd": round(dollars.claimed, 6) if dollars else None,
        "share": round(tokens.saved_share, 4),
        "expected": round(tokens.expected, 1),
        "billed": None if tokens.billed is None else round(tokens.billed, 1),
        "without_bill": round(tokens.pending, 1),
        "bill": round(tokens.total_cost, 1),
        "bill_usd": round(dollars.total_cost, 6) if dollars else None,
        "bill_without": round(tokens.cost_without_edits, 1),
        "bill_without_usd": round(dollars.cost_without_edits, 6) if dollars else None,
        "drift": round(tokens.drift, 1),
        "prices": cost.basis,
    }
