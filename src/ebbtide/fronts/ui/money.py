"""A session's books, in input tokens at full price, and in dollars where every model called in it has a price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.accounting.calls import books
from ebbtide.accounting.savings import Entry, Savings, Tariff, closed
from ebbtide.audit.history import History
from ebbtide.core.errors import BadConfig
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.prices import Rates, find_rates

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    tokens: Savings
    dollars: Savings | None
    basis: tuple[str, ...]
    """Rows of the price table that were used."""

    def by_batch(self) -> Mapping[str, Sequence[tuple[Entry, Entry | None]]]:
        """The edits of each batch, in order, in both currencies."""
        paid = self.dollars.entries if self.dollars else (None,) * len(self.tokens.entries)
        found: dict[str, list[tuple[Entry, Entry | None]]] = {}
        for one, usd in zip(self.tokens.entries, paid, strict=True):
            found.setdefault(one.change.batch, []).append((one, usd))
        return found

    def costs(self) -> list[float | None]:
        """Dollars of each call, its reply included: as billed, else as expected."""
        if self.dollars is None:
            return [None] * len(self.tokens.lines)
        found: list[float | None] = []
        for line in self.dollars.lines:
            replied = line.call.usage.output * line.tariff.output if line.call.usage else 0.0
            found.append((line.expected if line.billed is None else line.billed) + replied)
        return found


def accounts_of(history: History) -> Accounts:
    kept = books(history.records)
    found = [_rates(model) for model in dict.fromkeys(call.model for call in kept.calls)]
    known = [one.basis for one in found if one is not None]
    priced = bool(found) and len(known) == len(found)
    return Accounts(tokens=closed(kept), dollars=closed(kept, _tariff) if priced else None, basis=tuple(known))


def _tariff(model: str, ttl: float, prompt: int) -> Tariff:
    one = _rates(model, ttl, prompt)
    assert one is not None, "looked up before"
    whole, read, write, output = (price / _MILLION for price in (one.input, one.read, one.write, one.output))
    return Tariff(input=whole, read=read, write=write, output=output)


def _rates(model: str, ttl: float = FIVE_MINUTES, prompt: int = 0) -> Rates | None:
    """None for a model without a price, and where the table is not installed."""
    try:
        return find_rates(model, ttl=ttl, prompt=prompt)
    except BadConfig:
        return None
