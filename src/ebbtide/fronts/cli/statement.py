"""A session's books as people read them: sums, calls, batches, and the largest things that left.

All words in it come from a transcript or a log. Secrets are masked here, once, so that no form of the report has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.accounting.savings import CallSavings, EditSavings
from ebbtide.audit.history import History, Step
from ebbtide.core.text.redact import redact
from ebbtide.core.types import Usage
from ebbtide.display import describe_learned_window
from ebbtide.fronts.cli.phrases import covered_told, moment, way_back
from ebbtide.money import Price, SessionCost, all_paid, describe_break_even, session_cost

LARGEST = 12
"""Things that left which are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Edits of one batch by one author for one reason."""

    batch: str
    call: int
    by: str
    why: str
    what: str
    edits: int
    tokens: int
    rewritten: int
    saved: float
    usd: float | None
    pays: str
    paid: bool
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One thing that left."""

    what: str
    call: int
    by: str
    tokens: int
    saved: float
    usd: float | None
    kept: str
    """The name under which it can be read back; empty where only the log has it."""
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    session: str
    stored: bool
    """Read from a log. Else it is a replay: nobody billed what is expected here."""
    models: tuple[str, ...]
    policy: str
    window: int
    learned: str
    """Which window a refusal of the provider taught, and when; empty where none did."""
    began: str
    ended: str
    accounts: SessionCost
    rows: tuple[Row, ...]
    largest: tuple[Left, ...]
    refusals: tuple[str, ...]

    @property
    def lines(self) -> Sequence[tuple[CallSavings, CallSavings | None]]:
        """Calls in tokens, and in dollars where they are known."""
        paid = self.accounts.dollars
        return list(zip(self.accounts.tokens.lines, paid.lines if paid else [None] * self.calls, strict=True))

    @property
    def calls(self) -> int:
        return len(self.accounts.tokens.lines)

    @property
    def edits(self) -> int:
        return len(self.accounts.tokens.entries)

    @property
    def paid(self) -> int:
        """Edits that have paid for themselves."""
        return sum(entry.paid is not None for entry in self.accounts.tokens.entries)

    @property
    def recorded(self) -> float | None:
        """What the client was billed, in dollars or tokens: of a replay, where all of its calls say."""
        lines = (self.accounts.dollars or self.accounts.tokens).lines
        known = [line.recorded for line in lines if line.recorded is not None]
        return sum(known) if known and not self.stored else None


def statement(history: History, price: Price = None) -> Statement:
    accounts = session_cost(history.records, price)
    times = [turn.at for turn in history.turns if moment(turn.at)]
    plans = [step.batch.record for step in history.steps]
    window = plans[-1].get("window") if plans else 0
    return Statement(
        # A page that is sent around need not tell where its maker keeps files.
        session=masked(history.session if history.stored else os.path.basename(history.session)),
        stored=history.stored,
        models=tuple(masked(model) for model in dict.fromkeys(turn.model for turn in history.turns)),
        policy=str(plans[-1].get("policy")) if plans else "",
        window=window if isinstance(window, int) else 0,
        learned=_learned(history),
        began=moment(min(times)) if times else "",
        ended=moment(max(times)) if times else "",
        accounts=accounts,
        rows=tuple(row for step in history.steps for row in _rows(step, accounts)),
        largest=_largest(history, accounts),
        refusals=tuple(masked(one) for one in history.refusals),
    )


def _learned(history: History) -> str:
    """Of the model that was asked last."""
    found = history.learned_window(history.turns[-1].model) if history.turns else None
    return describe_learned_window(found[0], moment(found[1]) or "an unknown day") if found else ""


def bill_of(line: CallSavings) -> Usage:
    """As billed; else as expected, with the reply that was recorded."""
    call = line.call
    if call.usage is not None:
        return call.usage
    output = call.recorded.output if call.recorded else 0
    read = round(line.read) if call.cached else 0
    fresh = max(0, line.tokens - read)
    writes = call.cached and line.tariff.write != line.tariff.input
    return Usage(input=0 if writes else fresh, cache_read=read, cache_write=fresh if writes else 0, output=output)


def masked(text: str) -> str:
    return redact(text)[0]


def _rows(step: Step, accounts: SessionCost) -> Iterator[Row]:
    sums: dict[tuple[str, str], list[tuple[str, EditSavings, EditSavings | None]]] = {}
    for edit, (entry, usd) in zip(step.batch.edits, accounts.by_batch.get(step.batch.id, ()), strict=False):
        what = covered_told(step.covered(edit), edit, step)
        sums.setdefault((edit.by, edit.reason), []).append((what, entry, usd))
    for (by, why), all in sums.items():
        entries = [entry for _, entry, _ in all]
        dollars = [usd.told for _, _, usd in all if usd]
        yield Row(
            batch=step.batch.id,
            call=step.turn.number,
            by=by,
            why=masked(why),
            what=masked(all[0][0]) + (f", and {len(all) - 1} more" if len(all) > 1 else ""),
            edits=len(all),
            tokens=sum(one.change.tokens for one in entries),
            rewritten=sum(one.change.after for one in entries),
            saved=sum(one.told for one in entries),
            usd=sum(dollars) if dollars else None,
            pays=describe_break_even(entries),
            paid=all_paid(entries),
            undone=step.undone,
        )


def _largest(history: History, accounts: SessionCost) -> tuple[Left, ...]:
    found = [
        (entry.change.tokens, step, edit, entry, usd)
        for step in history.steps
        for edit, (entry, usd) in zip(step.batch.edits, accounts.by_batch.get(step.batch.id, ()), strict=False)
    ]
    found.sort(key=lambda one: -one[0])
    return tuple(
        Left(
            what=masked(covered_told(step.covered(edit), edit, step)),
            call=step.turn.number,
            by=edit.by,
            tokens=tokens,
            saved=entry.told,
            usd=usd.told if usd else None,
            kept=masked(", ".join(way_back(edit)[:1])),
            undone=step.undone,
        )
        for tokens, step, edit, entry, usd in found[:LARGEST]
    )
