"""`ebb explain`: each edit with the pass that made it, its reason, and what it saved."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO, TypeAlias

from ebbtide import screen
from ebbtide.accounting.savings import EditSavings
from ebbtide.audit.history import History, Step
from ebbtide.audit.reasons import explain_reasons
from ebbtide.core.stub import stored_names
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Edit
from ebbtide.display import one_line, short_number, token_count
from ebbtide.fronts.cli.describe import MAX_PATH, describe_edit, format_time
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command
from ebbtide.fronts.cli.sources import load_histories
from ebbtide.fronts.cli.statement import amount_names, amounts, group_edits
from ebbtide.money import (
    EditTotals,
    Price,
    SessionCost,
    add_up,
    edit_as_dict,
    format_tokens,
    format_usd,
    savings_as_dict,
    session_cost,
    session_figures,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

Pair: TypeAlias = tuple[EditSavings, EditSavings | None]


TOP = 5
"""How many of the largest edits are shown without --all."""
_SHORT_PATH = 20  # characters: enough for the name of a file


def add(commands: Commands) -> None:
    parser = command(commands, "explain", run, "target", "--example", "--price", *READING, codes=FITTING)
    parser.group("output").add_argument("--all", action="store_true", help="show every edit, batch by batch")


def run(args: argparse.Namespace) -> int:
    """what was removed, by which rule, why, and what it saved

    Says what Ebbtide saved in a conversation, by which rules, and which removals were the largest; --all
    lists every edit with its reason. A stored session is read; a session recorded by another program is
    replayed in memory, call by call, under the policy you name; a request body is fitted once.

    "saved" is what an edit has saved so far, in input tokens at full price: what the removed tokens would
    have cost in each call since, less what the provider had to write to its cache again. If the provider's
    bills show less, the bills count. Dollars come from the price table of the extra 'replay', or from
    --price. 'ebb report' shows the same call by call, with plots.

    examples:
        ebb explain --example
        ebb explain request.json --window 32k --all
        ebb explain --claude last --window 100k
        ebb explain last --price 3
    """
    histories = load_histories(args)
    if args.json:
        screen.print_json([_as_dict(history, args.price) for history in histories])
        return 0
    for history in histories:
        if len(histories) > 1:
            print(one_line(f"=== {history.session}"))
        print_steps(history, history.steps, price=args.price, shows_all=args.all)
    return 0


def print_steps(
    history: History,
    steps: Sequence[Step],
    *,
    price: Price = None,
    shows_all: bool = False,
    file: TextIO | None = None,
) -> None:
    """Print the answer first: what was saved. Then the rules, and the largest removals or every edit."""
    cost = session_cost(history.records, price)
    if not steps:
        screen.print_text(f"Nothing was removed, in {pluralize(len(history.turns), 'call')}.", file=file)
    else:
        screen.print_text(*describe_savings(cost), file=file)
        screen.draw(screen.styled_text(("", "")), file=file)
        screen.draw(_rule_table(steps, cost), file=file)
        screen.draw(screen.styled_text(("", "")), file=file)
        print_edits = _print_all if shows_all else _print_largest
        print_edits(history, steps, cost, file)
    screen.print_text(*history.refusals, file=file)


def _rule_table(steps: Sequence[Step], cost: SessionCost) -> RenderableType:
    """One row for each rule, the one that removed most first."""
    groups: dict[str, list[Pair]] = {}
    for step in steps:
        for pair in cost.by_batch.get(step.batch.id, ()):
            groups.setdefault(pair[0].edit.by, []).append(pair)
    totals = sorted(((by, len(pairs), add_up(pairs)) for by, pairs in groups.items()), key=lambda row: -row[2].tokens)
    figures = ("edits", *amount_names(cost))
    rows = [[by, str(edits), *amounts(total)] for by, edits, total in totals]
    return screen.table(("removed by", *figures), rows, figures=figures)


def _print_largest(history: History, steps: Sequence[Step], cost: SessionCost, file: TextIO | None) -> None:
    rows = [(step, edits, totals) for step in steps for edits, totals in _groups(step, cost)]
    rows.sort(key=lambda row: -row[2].tokens)
    figures = ("call", "tokens")
    cells = [
        [
            str(step.turn.number),
            short_number(totals.tokens),
            _describe(edits, step, _SHORT_PATH),
            explain_reasons(history, step, edits),
        ]
        for step, edits, totals in rows[:TOP]
    ]
    screen.draw(screen.table(("call", "tokens", "the largest", "why"), cells, figures=figures, clips="why"), file=file)
    count = sum(len(step.batch.edits) for step in steps)
    screen.print_text(
        f"{pluralize(count, 'edit')} in {_batches(len(steps))}; --all lists every edit. "
        "'ebb why TEXT' finds what removed a text, and how to get it back.",
        file=file,
    )


def _print_all(history: History, steps: Sequence[Step], cost: SessionCost, file: TextIO | None) -> None:
    figures = amount_names(cost)
    columns = ("by", "what", "why", *figures, "paid back")
    for step in steps:
        screen.draw(screen.styled_text((one_line(_headline(step)), "bold")), file=file)
        screen.draw(screen.table(columns, _rows(history, step, cost), figures=figures, wraps="what"), file=file)
        screen.print_text(_summarize(step, cost), "", file=file)


def _groups(step: Step, cost: SessionCost) -> Iterator[tuple[list[Edit], EditTotals]]:
    """Edits that would read the same, such as thirty blocks of old thinking."""
    return group_edits(step, cost, lambda edit: (edit.by, describe_edit(edit, step), edit.reason))


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count:,} batches"


def _describe(edits: Sequence[Edit], step: Step, width: int = MAX_PATH) -> str:
    return describe_edit(edits[0], step, width) + (f" × {len(edits)}" if len(edits) > 1 else "")


def _rows(history: History, step: Step, cost: SessionCost) -> list[list[str]]:
    return [
        [
            edits[0].by,
            _describe(edits, step),
            explain_reasons(history, step, edits),
            *amounts(totals),
            totals.paid_back,
        ]
        for edits, totals in _groups(step, cost)
    ]


def describe_savings(cost: SessionCost) -> list[str]:
    """The answer: what the edits of a session saved, and whether that is from bills."""
    tokens, figures = cost.tokens, session_figures(cost)
    verb = "Saved" if figures.saved >= 0 else "Not paid back yet:"
    bill = f"{figures.amount(figures.cost)} instead of {figures.amount(figures.cost_without)} without Ebbtide"
    last = (
        f"The last call sends {short_number(figures.tokens)} tokens instead of {short_number(figures.tokens_without)}"
    )
    lines = [
        f"{verb} {figures.amount(abs(figures.saved))}, {abs(figures.saved_share):.1%}: {bill}, {_basis(cost)}.",
        f"{last}; the largest request has {short_number(figures.peak)}.",
    ]
    if tokens.billed_calls:
        pending = f"; {format_tokens(tokens.pending)} more expected from calls without a bill" if tokens.pending else ""
        drift = f"the bills differ from the estimate by {format_tokens(tokens.drift)} tokens{pending}"
        lines.append(f"Expected {format_tokens(tokens.expected - tokens.pending)}; {drift}.")
    return [*lines, f"Dollars: {cost.basis}."]


def _basis(cost: SessionCost) -> str:
    tokens = cost.tokens
    calls = pluralize(len(tokens.calls), "call")
    if tokens.is_simulated:
        return f"in a replay of {calls}"
    if tokens.billed_calls:
        return f"from {pluralize(tokens.bill_count, 'bill')} for {calls}"
    return f"estimated for {calls}; no call with an edit was billed"


def _headline(step: Step) -> str:
    record = step.batch.record
    before, after = (short_number(_int(record.get(key))) for key in ("tokens_before", "tokens_after"))
    parts = [
        f"{step.batch.id}, for call {step.turn.number}",
        format_time(step.batch.at),
        f"{record.get('policy')} at level {record.get('level')}",
        f"{before} → {after} tokens",
        "undone" if step.undone else "",
    ]
    return " · ".join(part for part in parts if part)


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _summarize(step: Step, cost: SessionCost) -> str:
    totals = add_up(cost.by_batch.get(step.batch.id, ()))
    parts = [
        f"{pluralize(len(step.batch.edits), 'edit')}, {token_count(totals.tokens)} removed",
        f"active in {pluralize(totals.requests, 'call')}",
        f"{token_count(totals.rewritten)} written to the cache again" if totals.rewritten else "",
        f"saved {format_tokens(totals.saved)}" + (f" ({format_usd(totals.usd or 0.0)})" if cost.dollars else ""),
    ]
    return "; ".join(part for part in parts if part)


def _as_dict(history: History, price: Price) -> dict[str, object]:
    cost = session_cost(history.records, price)
    return {
        "session": history.session,
        "requests": len(history.turns),
        "refusals": list(history.refusals),
        "savings": savings_as_dict(cost),
        "batches": [_batch_as_dict(step, cost) for step in history.steps],
    }


def _batch_as_dict(step: Step, cost: SessionCost) -> dict[str, object]:
    record, pairs = step.batch.record, cost.by_batch.get(step.batch.id, ())
    totals = add_up(pairs)
    edits = [
        {
            **edit_as_dict(entry, dollars),
            "id": edit.id,
            "what": describe_edit(edit, step),
            "first": edit.first,
            "last": edit.last,
            "kept": stored_names(edit),
        }
        for edit, (entry, dollars) in zip(step.batch.edits, pairs, strict=False)
    ]
    return {
        "id": step.batch.id,
        "request": step.turn.number,
        "at": step.batch.at,
        **{key: record.get(key) for key in ("policy", "level", "tokens_before", "tokens_after")},
        "undone": step.undone,
        "requests_held": totals.requests,
        "rewritten": totals.rewritten,
        "net": round(totals.saved, 1),
        "net_usd": round(totals.usd or 0.0, 6) if cost.dollars else None,
        "edits": edits,
    }
