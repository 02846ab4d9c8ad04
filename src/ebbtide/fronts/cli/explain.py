"""`ebb explain`: each edit with its author, its reason, and what it is worth."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TextIO

from ebbtide.accounting.savings import EditSavings
from ebbtide.audit.history import History, Step
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Edit
from ebbtide.display import one_line, short_number, token_count
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.help import FITTING, Commands, command
from ebbtide.fronts.cli.options import add_example, add_price, add_reading, resolve_settings
from ebbtide.fronts.cli.phrases import covered_told, moment, way_back
from ebbtide.fronts.cli.sources import histories, wanted
from ebbtide.money import (
    Price,
    SessionCost,
    describe_break_even,
    edit_as_dict,
    format_tokens,
    format_usd,
    savings_as_dict,
    session_cost,
)


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "explain",
        run,
        brief="each edit: who, what, why, tokens, money",
        about="""
            Lists what was taken out of a conversation, by which pass, for what reason, and what it saves. A stored
            session is read; a recorded session of another program is replayed call by call, in memory, under the
            policy you name; a request body is fitted once.

            "worth" is what an edit saved so far, in input tokens at full price: tokens that it keeps out count for
            what they would have cost in each request since, and what it made the provider write again is taken off.
            Where the provider's bills show less than that, they are believed. Dollars come from the price table of
            the extra 'replay', or from --price. 'ebb report' shows the same call by call, and draws it.
        """,
        examples="""
            ebb explain request.json --window 32k
            ebb explain --claude last --window 100k
            ebb explain last --price 3
        """,
        codes=FITTING,
    )
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="FILE|SESSION", help="default: the newest session")
    for more in (add_example, add_price, add_reading):
        more(parser)


def run(args: argparse.Namespace) -> int:
    found = histories(wanted(args), resolve_settings(args), args.max_bytes)
    if args.json:
        screen.show_json([_as_dict(history, args.price) for history in found])
        return 0
    told = [history for history in found if history.steps or history.refusals]
    for history in told:
        if len(found) > 1:
            print(one_line(f"=== {history.session}"))
        tell(history, history.steps, price=args.price)
    if not told:
        requests = sum(len(history.turns) for history in found)
        print(f"Nothing was taken out, in {pluralize(requests, 'request')}.")
    return 0


def tell(history: History, steps: Sequence[Step], *, price: Price = None, file: TextIO | None = None) -> None:
    """The steps as tables, each under a line that sums it up, and the session in a line of its own."""
    accounts = session_cost(history.records, price)
    columns = [(name, "left") for name in ("by", "what", "why")]
    columns += [(name, "right") for name in ("tokens", "rewritten", "worth", *["USD"] * bool(accounts.dollars))]
    for step in steps:
        rows = [_row(told, entries) for told, entries in _alike(step, accounts)]
        screen.draw(screen.styled((one_line(_headline(step)), "bold")), file=file)
        screen.draw(screen.table([*columns, ("pays after", "left")], rows, folds="what"), file=file)
        screen.tell(_sum(step, accounts), "", file=file)
    screen.tell(*told_in_all(accounts), *history.refusals, file=file)


Pairs = Sequence[tuple[EditSavings, EditSavings | None]]
"""An edit in tokens, and in dollars where they are known."""


def _alike(step: Step, accounts: SessionCost) -> list[tuple[list[str], Pairs]]:
    """Edits that read the same are one row: thirty blocks of old thinking left for one reason."""
    sums: dict[tuple[str, str, str], list[tuple[EditSavings, EditSavings | None]]] = {}
    for edit, entry in zip(step.batch.edits, accounts.by_batch.get(step.batch.id, ()), strict=False):
        sums.setdefault((edit.by, _what(step, edit), edit.reason), []).append(entry)
    return [
        ([by, what if len(all) == 1 else f"{what} × {len(all)}", why], all) for (by, what, why), all in sums.items()
    ]


def _row(told: list[str], pairs: Pairs) -> list[str]:
    entries, dollars = [one for one, _ in pairs], [one for _, one in pairs if one]
    return [
        *told,
        short_number(sum(one.change.tokens for one in entries)),
        short_number(sum(one.change.after for one in entries)),
        format_tokens(sum(one.told for one in entries)),
        *([format_usd(sum(one.told for one in dollars))] if dollars else []),
        describe_break_even(entries),
    ]


def told_in_all(accounts: SessionCost) -> list[str]:
    """What the session's edits came to, and how that was found."""
    told, paid = accounts.tokens, accounts.dollars
    calls = pluralize(len(told.lines), "request")
    how = f"expected of {calls}; none with an edit was billed"
    if told.settled:
        how = f"by {pluralize(told.bills, 'bill')} for {calls}"
    dollars = f" ({format_usd(abs(paid.told))})" if paid else ""
    gone = "Saved" if told.told >= 0 else "Not paid back yet:"
    share = f"{abs(told.share):.1%} of what it would have cost untouched"
    lines = [f"{gone} {format_tokens(abs(told.told))} input tokens{dollars}, {share}; {how}."]
    if told.settled:
        more = f"; {format_tokens(told.pending)} more expected of calls without a bill" if told.pending else ""
        was = f"Expected {format_tokens(told.expected - told.pending)}"
        lines.append(f"{was}; the bills drifted by {format_tokens(told.drift)} from what was expected of them{more}.")
    return [*lines, f"Dollars: {accounts.basis}."]


def _what(step: Step, edit: Edit) -> str:
    return covered_told(step.covered(edit), edit, step)


def _headline(step: Step) -> str:
    told = step.batch.record
    when = moment(step.batch.at)
    parts = [
        f"{step.batch.id}, for request {step.turn.number}",
        when,
        f"{told.get('policy')} at level {told.get('level')}",
    ]
    parts.append(f"{_tokens(told, 'tokens_before')} → {_tokens(told, 'tokens_after')} tokens")
    return " · ".join(part for part in parts if part) + (" · undone" if step.undone else "")


def _sum(step: Step, accounts: SessionCost) -> str:
    pairs = list(accounts.by_batch.get(step.batch.id, ()))
    edits, tokens = len(step.batch.edits), sum(one.change.tokens for one, _ in pairs)
    held = max((one.calls for one, _ in pairs), default=0)
    told = f"{pluralize(edits, 'edit')}, {token_count(tokens)} out"
    told += f"; held in {pluralize(held, 'request')}"
    again = sum(one.change.after for one, _ in pairs)
    if again:
        told += f"; {token_count(again)} written again"
    dollars = f" ({format_usd(sum(one.told for _, one in pairs if one))})" if accounts.dollars else ""
    return f"{told}; net {format_tokens(sum(one.told for one, _ in pairs))}{dollars}"


def _tokens(record: object, key: str) -> str:
    value = record.get(key) if hasattr(record, "get") else 0
    return short_number(value if isinstance(value, int) else 0)


def _as_dict(history: History, price: Price) -> dict[str, object]:
    accounts = session_cost(history.records, price)
    return {
        "session": history.session,
        "requests": len(history.turns),
        "refusals": list(history.refusals),
        "savings": savings_as_dict(accounts),
        "batches": [_batch(step, accounts) for step in history.steps],
    }


def _batch(step: Step, accounts: SessionCost) -> dict[str, object]:
    told, pairs = step.batch.record, list(accounts.by_batch.get(step.batch.id, ()))
    edits = [
        {
            **edit_as_dict(entry, dollars),
            "id": edit.id,
            "what": _what(step, edit),
            "first": edit.first,
            "last": edit.last,
            "kept": way_back(edit),
        }
        for edit, (entry, dollars) in zip(step.batch.edits, pairs, strict=False)
    ]
    return {
        "id": step.batch.id,
        "request": step.turn.number,
        "at": step.batch.at,
        "policy": told.get("policy"),
        "level": told.get("level"),
        "tokens_before": told.get("tokens_before"),
        "tokens_after": told.get("tokens_after"),
        "undone": step.undone,
        "requests_held": max((one.calls for one, _ in pairs), default=0),
        "rewritten": sum(one.change.after for one, _ in pairs),
        "net": round(sum(one.told for one, _ in pairs), 1),
        "net_usd": round(sum(one.told for _, one in pairs if one), 6) if accounts.dollars else None,
        "edits": edits,
    }
