"""`ebb report`: what a session's edits saved, held against the bills: as a table, as data, or as a page to send."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.core.errors import BadRequest
from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import one_line, short_number, token_count
from ebbtide.formats.claude_folder import NEWEST
from ebbtide.fronts.cli import screen
from ebbtide.fronts.cli.explain import told_in_all
from ebbtide.fronts.cli.help import FITTING, Commands, command
from ebbtide.fronts.cli.options import OUTPUT, add_example, add_price, add_project, add_reading, resolve_settings
from ebbtide.fronts.cli.page import page
from ebbtide.fronts.cli.phrases import moment
from ebbtide.fronts.cli.sources import histories, wanted
from ebbtide.fronts.cli.statement import Statement, bill_of, masked, statement
from ebbtide.money import edit_as_dict, format_tokens, format_usd, savings_as_dict

if TYPE_CHECKING:
    from rich.console import RenderableType


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "report",
        run,
        brief="what a session's edits saved, held against the bills; --html for a page to send",
        about="""
            Adds up what taking things out of a conversation saved after cache prices, holds it against what the
            provider billed, and shows the drift. A stored session is read; a recorded session of another program is
            replayed, in memory, under the policy you name, with the usage that was recorded.

            Sums are in input tokens at full price, and in dollars where a price is known. Nothing is claimed that
            the bills do not show.
        """,
        examples="""
            ebb report last
            ebb report --example --window 60k --price claude-sonnet-5 --html report.html
            ebb report ~/.claude/projects/-home-me-app/4f1c.jsonl --window 100k --calls
            ebb report last --csv edits > edits.csv
        """,
        codes=FITTING,
    )
    parser.add_argument("target", nargs="?", default=NEWEST, metavar="FILE|SESSION", help="default: the newest session")
    parser.group(OUTPUT).add_argument(
        "--html", metavar="FILE", help="write one page with plots; it loads nothing and runs nothing"
    )
    parser.group(OUTPUT).add_argument("--calls", action="store_true", help="show every call: expected, billed, drift")
    parser.group(OUTPUT).add_argument(
        "--csv", nargs="?", const="calls", choices=("calls", "edits"), help="print CSV; default: calls"
    )
    for more in (add_example, add_price, add_reading, add_project):
        more(parser)


def run(args: argparse.Namespace) -> int:
    found = histories(wanted(args), resolve_settings(args), args.max_bytes, project=args.project)
    told = [statement(history, args.price) for history in found]
    if args.html:
        _write(Path(args.html), page(told))
        screen.say(f"wrote {args.html}")
    if args.csv:
        screen.data(_csv(told, args.csv).encode("utf-8", "replace"))
    elif args.json:
        screen.show_json([_as_dict(one) for one in told])
    elif not args.html:
        for one in told:
            show(one, calls=args.calls)
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror or error}") from None


def show(one: Statement, *, calls: bool) -> None:
    facts = [
        ", ".join(one.models),
        pluralize(one.calls, "call"),
        one.began,
        f"policy {one.policy}" if one.policy else "",
    ]
    screen.draw(screen.styled((one_line(" · ".join([one.session, *(fact for fact in facts if fact)])), "bold")))
    screen.tell(*([one.learned] if one.learned else []))
    if one.rows:
        screen.draw(_edits(one))
    if calls:
        screen.draw(_calls(one))
    if one.edits:
        screen.tell(f"{pluralize(one.edits, 'edit')}, {one.paid} paid back; {_moved(one)}.", *told_in_all(one.accounts))
    else:
        print("Nothing was taken out, so nothing was saved.")
    screen.tell(*one.refusals)


def _moved(one: Statement) -> str:
    told = one.accounts.tokens
    return f"{token_count(told.tokens_out)} out, {short_number(told.rewritten)} written again"


def _edits(one: Statement) -> RenderableType:
    dollars = [("USD", "right")] if one.accounts.dollars else []
    columns = [("call", "right"), ("by", "left"), ("what", "left"), ("edits", "right"), ("tokens", "right"),
               ("rewritten", "right"), ("worth", "right"), *dollars, ("pays after", "left")]  # fmt: skip
    rows = [
        [
            str(row.call), row.by, row.what + (" (undone)" if row.undone else ""), str(row.edits),
            short_number(row.tokens), short_number(row.rewritten), format_tokens(row.saved),
            *([format_usd(row.usd or 0.0)] if dollars else []), row.pays,
        ]
        for row in one.rows
    ]  # fmt: skip
    return screen.table(columns, rows, folds="what")


def _calls(one: Statement) -> RenderableType:
    names = ("call", "tokens", "untouched", "expected", "billed", "drift", "saved")
    rows = [
        [
            str(entry.call.number),
            short_number(entry.tokens),
            short_number(entry.tokens + entry.out),
            format_tokens(entry.expected),
            "" if entry.billed is None else format_tokens(entry.billed),
            "" if entry.drift is None else format_tokens(entry.drift),
            format_tokens(entry.gain if entry.saved is None else entry.saved),
        ]
        for entry in one.accounts.tokens.lines
    ]
    return screen.table([(name, "right") for name in names], rows)


def _as_dict(one: Statement) -> dict[str, object]:
    return {
        "session": one.session,
        "stored": one.stored,
        "models": list(one.models),
        "policy": one.policy,
        "window": one.window,
        "window_learned": one.learned,
        "savings": savings_as_dict(one.accounts),
        "calls": list(_call_rows(one)),
        "edits": list(_edit_rows(one)),
        "refusals": list(one.refusals),
    }


def _call_rows(one: Statement) -> Iterator[dict[str, object]]:
    for entry, dollars in one.lines:
        call, bill = entry.call, bill_of(entry)
        yield {
            "call": call.number,
            "at": moment(call.at),
            "model": call.model,
            "tokens": entry.tokens,
            "untouched": entry.tokens + entry.out,
            "read": bill.cache_read,
            "write": bill.cache_write,
            "input": bill.input,
            "output": bill.output,
            "expected": round(entry.expected, 1),
            "billed": _rounded(entry.billed, 1),
            "drift": _rounded(entry.drift, 1),
            "gain": round(entry.gain, 1),
            "saved": _rounded(entry.saved, 1),
            "gain_usd": _rounded(dollars.gain if dollars else None, 6),
            "saved_usd": _rounded(dollars.saved if dollars else None, 6),
        }


def _edit_rows(one: Statement) -> Iterator[dict[str, object]]:
    paid = one.accounts.dollars.entries if one.accounts.dollars else [None] * one.edits
    for entry, dollars in zip(one.accounts.tokens.entries, paid, strict=True):
        yield {"batch": entry.change.batch, **edit_as_dict(entry, dollars), "why": masked(entry.change.reason)}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _csv(told: Sequence[Statement], what: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = [(one.session, row) for one in told for row in (_call_rows(one) if what == "calls" else _edit_rows(one))]
    names = list(rows[0][1]) if rows else []
    writer.writerow(("session", *names))
    writer.writerows([_cell(session), *(_cell(row[name]) for name in names)] for session, row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """A spreadsheet runs what begins like a formula."""
    if isinstance(value, str):
        text = one_line(value)
        return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
    return "" if value is None else value
