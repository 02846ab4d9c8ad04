"""Everything that a report on one session says, without its form. Secrets are masked here, for all forms at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.accounting.savings import CallSavings, EditSavings
from ebbtide.audit.history import History, Step
from ebbtide.core.stub import stored_names
from ebbtide.core.text.redact import redact
from ebbtide.core.types import Edit, Usage
from ebbtide.display import short_number
from ebbtide.fronts.cli.describe import describe_edit, format_time
from ebbtide.money import EditTotals, Price, SessionCost, add_up, format_tokens, format_usd, session_cost
from ebbtide.window_usage import describe_learned_window

LARGEST = 12
"""How many of the largest removed items are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditGroup:
    """Edits of one batch, shown as one row."""

    call: int
    by: str
    why: str
    what: str
    edits: int
    totals: EditTotals
    stored_name: str
    """The name to read the first one back by; empty if only the log has it."""
    undone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    session: str
    stored: bool
    """Read from a log; otherwise it is a replay, which no provider billed."""
    models: tuple[str, ...]
    policy: str
    window: int
    learned: str
    """The window learned from a provider's refusal, and when; empty if none was."""
    began: str
    ended: str
    cost: SessionCost
    groups: tuple[EditGroup, ...]
    largest: tuple[EditGroup, ...]
    """The largest removed items, each alone."""
    refusals: tuple[str, ...]

    @property
    def lines(self) -> Sequence[tuple[CallSavings, CallSavings | None]]:
        """Calls in tokens, and in dollars if they are known."""
        dollars = self.cost.dollars
        return list(zip(self.cost.tokens.calls, dollars.calls if dollars else [None] * self.calls, strict=True))

    @property
    def calls(self) -> int:
        return len(self.cost.tokens.calls)

    @property
    def edits(self) -> int:
        return len(self.cost.tokens.edits)

    @property
    def paid(self) -> int:
        """Edits that have paid for themselves."""
        return sum(entry.paid_since is not None for entry in self.cost.tokens.edits)

    @property
    def recorded(self) -> float | None:
        """What the client was billed, in dollars or tokens; only for a replay."""
        lines = (self.cost.dollars or self.cost.tokens).calls
        amounts = [line.recorded for line in lines if line.recorded is not None]
        return sum(amounts) if amounts and not self.stored else None


def build_statement(history: History, price: Price = None) -> Statement:
    cost = session_cost(history.records, price)
    times = [turn.at for turn in history.turns if format_time(turn.at)]
    plan = history.steps[-1].batch.record if history.steps else {}
    window = plan.get("window")
    return Statement(
        # Only the name of a file: the page may be sent to others.
        session=mask(history.session if history.stored else os.path.basename(history.session)),
        stored=history.stored,
        models=tuple(mask(model) for model in dict.fromkeys(turn.model for turn in history.turns)),
        policy=str(plan.get("policy")) if plan else "",
        window=window if isinstance(window, int) else 0,
        learned=_describe_window(history),
        began=format_time(min(times)) if times else "",
        ended=format_time(max(times)) if times else "",
        cost=cost,
        groups=tuple(_rows(history, cost, lambda edit: (edit.by, edit.reason))),
        largest=tuple(sorted(_rows(history, cost, id), key=lambda row: -row.totals.tokens)[:LARGEST]),
        refusals=tuple(mask(refusal) for refusal in history.refusals),
    )


def _describe_window(history: History) -> str:
    """The learned window of the last model."""
    learned = history.learned_window(history.turns[-1].model) if history.turns else None
    return describe_learned_window(learned[0], format_time(learned[1]) or "an unknown day") if learned else ""


def usage_of(line: CallSavings) -> Usage:
    """The billed usage of a call, else the simulated or the expected one."""
    call = line.call
    if call.usage is not None:
        return call.usage
    if call.simulated is not None:
        return call.simulated.sent
    output = call.recorded.output if call.recorded else 0
    read = round(line.cached_tokens) if call.cached else 0
    fresh = max(0, line.tokens - read)
    writes = call.cached and line.tariff.write != line.tariff.input
    return Usage(input=0 if writes else fresh, cache_read=read, cache_write=fresh if writes else 0, output=output)


def mask(text: str) -> str:
    return redact(text)[0]


def group_edits(
    step: Step, cost: SessionCost, key: Callable[[Edit], object]
) -> Iterator[tuple[list[Edit], EditTotals]]:
    """The edits of a batch for which `key` is equal, with what they cost together."""
    groups: dict[object, list[tuple[Edit, tuple[EditSavings, EditSavings | None]]]] = {}
    for edit, pair in zip(step.batch.edits, cost.by_batch.get(step.batch.id, ()), strict=False):
        groups.setdefault(key(edit), []).append((edit, pair))
    for group in groups.values():
        yield [edit for edit, _ in group], add_up([pair for _, pair in group])


def amount_names(cost: SessionCost) -> tuple[str, ...]:
    """The columns of `amounts`."""
    return ("tokens", "rewritten", "saved", *(["USD"] if cost.dollars else []))


def amounts(totals: EditTotals) -> list[str]:
    """The cells of a table that say what edits removed, cost and saved."""
    dollars = [] if totals.usd is None else [format_usd(totals.usd)]
    return [short_number(totals.tokens), short_number(totals.rewritten), format_tokens(totals.saved), *dollars]


def _rows(history: History, cost: SessionCost, key: Callable[[Edit], object]) -> Iterator[EditGroup]:
    for step in history.steps:
        for edits, totals in group_edits(step, cost, key):
            others = f", and {len(edits) - 1} more" if len(edits) > 1 else ""
            yield EditGroup(
                call=step.turn.number,
                by=edits[0].by,
                why=mask(edits[0].reason),
                what=mask(describe_edit(edits[0], step)) + others,
                edits=len(edits),
                totals=totals,
                stored_name=mask(", ".join(stored_names(edits[0])[:1])),
                undone=step.undone,
            )
