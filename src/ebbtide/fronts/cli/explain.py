"""`ebb explain`: each edit with the pass that made it, its reason, and what it saved."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TextIO

from ebbtide import screen
from ebbtide.audit.history import History, Step
from ebbtide.core.stub import stored_names
from ebbtide.core.text.preview import pluralize
from ebbtide.display import one_line, short_number, token_count
from ebbtide.fronts.cli.describe import describe_edit, format_time
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command
from ebbtide.fronts.cli.sources import load_histories
from ebbtide.fronts.cli.statement import amount_names, amounts, group_edits
from ebbtide.money import (
    Price,
    SessionCost,
    add_up,
    edit_as_dict,
    format_tokens,
    format_usd,
    savings_as_dict,
    session_cost,
)


def add(commands: Commands) -> None:
    command(commands, "explain", run, "target", "--example", "--price", *READING, codes=FITTING)


def run(args: argparse.Namespace) -> int:
    """each edit: who, what, why, tokens, money

    Lists what was removed from a conversation, by which pass, for what reason, and what it saved. A stored
    session is read; a session recorded by another program is replayed in memory, call by call, under the
    policy you name; a request body is fitted once.

    "saved" is what an edit has saved so far, in input tokens at full price: what the removed tokens would
    have cost in each request since, less what the provider had to write to its cache again. If the provider's
    bills show less, the bills count. Dollars come from the price table of the extra 'replay', or from
    --price. 'ebb report' shows the same call by call, with plots.

    examples:
        ebb explain request.json --window 32k
        ebb explain --claude last --window 100k
        ebb explain last --price 3
    """
    histories = load_histories(args)
    if args.json:
        screen.print_json([_as_dict(history, args.price) for history in histories])
        return 0
    with_edits = [history for history in histories if history.steps or history.refusals]
    for history in with_edits:
        if len(histories) > 1:
            print(one_line(f"=== {history.session}"))
        print_steps(history, history.steps, price=args.price)
    if not with_edits:
        requests = sum(len(history.turns) for history in histories)
        print(f"Nothing was removed, in {pluralize(requests, 'request')}.")
    return 0


def print_steps(history: History, steps: Sequence[Step], *, price: Price = None, file: TextIO | None = None) -> None:
    """Print each batch as a table with a summary, then the savings of the session."""
    cost = session_cost(history.records, price)
    figures = amount_names(cost)
    columns = ("by", "what", "why", *figures, "pays after")
    for step in steps:
        screen.draw(screen.styled_text((one_line(_headline(step)), "bold")), file=file)
        screen.draw(screen.table(columns, _rows(step, cost), figures=figures, wraps="what"), file=file)
        screen.print_text(_summarize(step, cost), "", file=file)
    screen.print_text(*describe_savings(cost), *history.refusals, file=file)


def _rows(step: Step, cost: SessionCost) -> list[list[str]]:
    """One row for all edits that would read the same, such as thirty blocks of old thinking."""
    rows = []
    for edits, totals in group_edits(step, cost, lambda edit: (edit.by, describe_edit(edit, step), edit.reason)):
        what = describe_edit(edits[0], step) + (f" × {len(edits)}" if len(edits) > 1 else "")
        rows.append([edits[0].by, what, edits[0].reason, *amounts(totals), totals.break_even])
    return rows


def describe_savings(cost: SessionCost) -> list[str]:
    """What the edits of a session saved, and whether that is from bills."""
    tokens = cost.tokens
    requests = pluralize(len(tokens.calls), "request")
    basis = f"estimated from {requests}; no request with an edit was billed"
    if tokens.billed_calls:
        basis = f"from {pluralize(tokens.bill_count, 'bill')} for {requests}"
    dollars = f" ({format_usd(abs(cost.dollars.claimed))})" if cost.dollars else ""
    verb = "Saved" if tokens.claimed >= 0 else "Not paid back yet:"
    share = f"{abs(tokens.saved_share):.1%} of the cost without Ebbtide"
    lines = [f"{verb} {format_tokens(abs(tokens.claimed))} input tokens{dollars}, {share}; {basis}."]
    if tokens.billed_calls:
        pending = f"; {format_tokens(tokens.pending)} more expected from calls without a bill" if tokens.pending else ""
        expected = format_tokens(tokens.expected - tokens.pending)
        lines.append(
            f"Expected {expected}; the bills differ from the estimate by {format_tokens(tokens.drift)}{pending}."
        )
    return [*lines, f"Dollars: {cost.basis}."]


def _headline(step: Step) -> str:
    record = step.batch.record
    before, after = (short_number(_int(record.get(key))) for key in ("tokens_before", "tokens_after"))
    parts = [
        f"{step.batch.id}, for request {step.turn.number}",
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
        f"active in {pluralize(totals.requests, 'request')}",
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
