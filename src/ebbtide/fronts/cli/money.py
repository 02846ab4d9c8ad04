"""A session's books in tokens at full price, and in dollars where a price is known: told, or from the table.

Where the extra with the table is not installed, or it does not know a model, there are simply no dollars.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from ebbtide.accounting.calls import Books, books
from ebbtide.accounting.savings import Entry, Savings, Tariff, Tariffs, closed, relative
from ebbtide.audit.history import History
from ebbtide.core.errors import BadConfig
from ebbtide.core.text.pluralize import counted
from ebbtide.display import short_number
from ebbtide.fronts.cli.help import Parser
from ebbtide.fronts.cli.settings import ENGINE
from ebbtide.prices import find_rates

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """The same books in two currencies."""

    tokens: Savings
    """In input tokens at full price."""
    dollars: Savings | None
    basis: str
    """Where the prices are from, or why there are none."""

    def of(self, batch: str) -> Sequence[tuple[Entry, Entry | None]]:
        """The edits of a batch, in order."""
        return self._batches.get(batch, ())

    @cached_property
    def _batches(self) -> Mapping[str, Sequence[tuple[Entry, Entry | None]]]:
        found: dict[str, list[tuple[Entry, Entry | None]]] = {}
        paid = self.dollars.entries if self.dollars else (None,) * len(self.tokens.entries)
        for one, usd in zip(self.tokens.entries, paid, strict=True):
            found.setdefault(one.change.batch, []).append((one, usd))
        return found


Price = float | str | None
"""Dollars for a million uncached input tokens, or a model whose prices to take; None: of the models called."""


def accounts_of(history: History, price: Price = None) -> Accounts:
    kept = books(history.records)
    tariffs, basis = _told(price) if isinstance(price, float) else _known(kept, price)
    return Accounts(tokens=closed(kept), dollars=closed(kept, tariffs) if tariffs else None, basis=basis)


def add_price(parser: Parser) -> None:
    parser.group(ENGINE).add_argument(
        "--price",
        type=_price,
        metavar="USD|MODEL",
        help="dollars for a million input tokens, or a model whose prices to take; default: of the models called",
    )


def _price(text: str) -> float | str:
    with suppress(ValueError):
        price = float(text)
        if not 0 <= price < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not a price")
        return price
    return text


def usd(amount: float) -> str:
    """With a sign only where it is a loss."""
    sign, amount = ("-" if amount < 0 else ""), abs(amount)
    return f"{sign}${amount:,.2f}" if amount >= 0.1 or amount < 0.00005 else f"{sign}${amount:.4f}"


def units(tokens: float) -> str:
    return f"{'-' if round(tokens) < 0 else ''}{short_number(round(abs(tokens)))}"


def even(entries: Sequence[Entry]) -> str:
    """When edits that are one row pay for themselves, and whether they have."""
    latest = max(entries, key=lambda one: one.breaks_even)
    if latest.breaks_even == 0:
        return "at once"
    if math.isinf(latest.breaks_even):
        return "never"
    calls = math.ceil(latest.breaks_even)
    paid = all(one.paid is not None for one in entries)
    return counted(calls, "call") + (", reached" if paid else "")


def booked(entry: Entry, dollars: Entry | None) -> dict[str, object]:
    """An edit as JSON."""
    change = entry.change
    return {
        "by": change.by,
        "why": change.reason,
        "request": change.call,
        "tokens": change.tokens,
        "rewritten": change.after,
        "requests_held": entry.calls,
        "worth": round(entry.told, 1),
        "usd": round(dollars.told, 6) if dollars else None,
        "expected": round(entry.expected, 1),
        "billed": round(entry.billed, 1),
        "breaks_even": None if math.isinf(entry.breaks_even) else round(entry.breaks_even, 2),
        "paid_at": entry.paid,
    }


def summed(accounts: Accounts) -> dict[str, object]:
    """The session as JSON."""
    told, paid = accounts.tokens, accounts.dollars
    return {
        "requests": len(told.lines),
        "billed_requests": told.bills,
        "tokens_out": told.tokens_out,
        "rewritten": told.rewritten,
        "saved": round(told.told, 1),
        "saved_usd": round(paid.told, 6) if paid else None,
        "share": round(told.share, 4),
        "expected": round(told.expected, 1),
        "billed": None if told.billed is None else round(told.billed, 1),
        "without_bill": round(told.pending, 1),
        "bill": round(told.bill, 1),
        "bill_usd": round(paid.bill, 6) if paid else None,
        "drift": round(told.drift, 1),
        "prices": accounts.basis,
    }


def _told(price: float) -> tuple[Tariffs, str]:
    def tariff(model: str, ttl: float, prompt: int) -> Tariff:
        one = relative(model, ttl, prompt)
        return _scaled(one.input * price, one.read * price, one.write * price, one.output * price)

    return tariff, f"at ${price:g} for a million input tokens, as told"


def _known(kept: Books, only: str | None) -> tuple[Tariffs | None, str]:
    models = [only] if only else [model for model, _ in Counter(call.model for call in kept.calls).most_common()]
    try:
        found = {model: find_rates(model) for model in models}
    except BadConfig as missing:
        return None, str(missing)
    known, unknown = [one for one in models if found[one]], [one for one in models if not found[one]]
    if only and not known:
        raise BadConfig(f"no price is known for {only}: give dollars for a million input tokens, as in --price 3")
    if not known:
        named = ", ".join(filter(None, models))
        return None, f"no price is known for {named}; --price tells one" if named else "no model is named; see --price"

    def tariff(model: str, ttl: float, prompt: int) -> Tariff:
        # The tier of the request that went out, for both sides: the untouched one may have cost more.
        one = find_rates(model if found.get(model) else known[0], ttl=ttl, prompt=prompt)
        assert one is not None, "looked up before"
        return _scaled(one.input, one.read, one.write, one.output)

    told = ", ".join(dict.fromkeys(one.basis for model in known if (one := found[model])))
    return tariff, f"prices of {told}" + (f"; {', '.join(unknown)} as {known[0]}" if unknown else "")


def _scaled(whole: float, read: float, write: float, output: float) -> Tariff:
    return Tariff(input=whole / _MILLION, read=read / _MILLION, write=write / _MILLION, output=output / _MILLION)
