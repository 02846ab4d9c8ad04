"""`ebb report`: what a session's edits saved according to the bills: as a table, as data, or as a page to send."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide import screen
from ebbtide.core.errors import BadRequest
from ebbtide.core.text.preview import pluralize
from ebbtide.display import one_line, short_number, token_count
from ebbtide.fronts.cli.describe import format_time
from ebbtide.fronts.cli.explain import describe_savings
from ebbtide.fronts.cli.html_report import build_page
from ebbtide.fronts.cli.parser import FITTING, READING, Commands, command
from ebbtide.fronts.cli.sources import load_histories
from ebbtide.fronts.cli.statement import Statement, amount_names, amounts, build_statement, mask, usage_of
from ebbtide.money import edit_as_dict, format_tokens, savings_as_dict

if TYPE_CHECKING:
    from rich.console import RenderableType


def add(commands: Commands) -> None:
    parser = command(commands, "report", run, "target", "--example", "--price", *READING, "--project", codes=FITTING)
    output = parser.group("output")
    output.add_argument("--html", metavar="FILE", help="write one page with plots; it loads nothing and runs no script")
    output.add_argument("--calls", action="store_true", help="show every call: expected, billed, difference")
    output.add_argument("--csv", nargs="?", const="calls", choices=("calls", "edits"), help="print CSV; default: calls")


def run(args: argparse.Namespace) -> int:
    """what a session's edits saved, compared with the bills; --html for a page to send

    Adds up what removing items from a conversation saved after cache prices, and compares it with what the
    provider billed. A stored session is read; a session recorded by another program is replayed in memory,
    under the policy you name, with the usage that was recorded.

    Sums are in input tokens at full price, and in dollars if a price is known. Nothing is claimed that the
    bills do not show.

    examples:
        ebb report last
        ebb report --example --html report.html
        ebb report ~/.claude/projects/-home-me-app/4f1c.jsonl --window 100k --calls
        ebb report last --csv edits > edits.csv
    """
    statements = [build_statement(history, args.price) for history in load_histories(args)]
    if args.html:
        _write(Path(args.html), build_page(statements))
        screen.notify(f"wrote {args.html}")
    if args.csv:
        screen.write_bytes(_csv(statements, args.csv).encode("utf-8", "replace"))
    elif args.json:
        screen.print_json([_as_dict(statement) for statement in statements])
    elif not args.html:
        for statement in statements:
            _print(statement, calls=args.calls)
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror or error}") from None


def _print(report: Statement, *, calls: bool) -> None:
    policy = f"policy {report.policy}" if report.policy else ""
    parts = [report.session, ", ".join(report.models), pluralize(report.calls, "call"), report.began, policy]
    screen.draw(screen.styled_text((one_line(" · ".join(part for part in parts if part)), "bold")))
    screen.print_text(*([report.learned] if report.learned else []))
    if report.edits:
        tokens = report.cost.tokens
        screen.print_text(*describe_savings(report.cost))
        rewritten = short_number(tokens.rewritten_tokens)
        removed = f"{token_count(tokens.removed_tokens)} removed, {rewritten} written to the cache again"
        screen.print_text(f"{pluralize(report.edits, 'edit')}, {report.paid} paid back; {removed}.")
        screen.draw(_edit_table(report))
    else:
        print("Nothing was removed, so nothing was saved.")
    if calls:
        screen.draw(_call_table(report))
    screen.print_text(*report.refusals)


def _edit_table(report: Statement) -> RenderableType:
    figures = ("edits", *amount_names(report.cost))
    rows = []
    for group in report.groups:
        what, totals = group.what + (" (undone)" if group.undone else ""), group.totals
        rows.append([str(group.call), group.by, what, str(group.edits), *amounts(totals), totals.paid_back])
    columns = ("call", "by", "what", *figures, "paid back")
    return screen.table(columns, rows, figures=("call", *figures), wraps="what")


def _call_table(report: Statement) -> RenderableType:
    names = ("call", "tokens", "without Ebbtide", "expected", "billed", "difference", "saved")
    rows = [
        [
            str(line.call.number),
            short_number(line.tokens),
            short_number(line.untouched_tokens),
            format_tokens(line.expected),
            "" if line.billed is None else format_tokens(line.billed),
            "" if line.drift is None else format_tokens(line.drift),
            format_tokens(line.gain if line.saved is None else line.saved),
        ]
        for line in report.cost.tokens.calls
    ]
    return screen.table(names, rows, figures=names)


def _as_dict(report: Statement) -> dict[str, object]:
    return {
        "session": report.session,
        "stored": report.stored,
        "models": list(report.models),
        "policy": report.policy,
        "window": report.window,
        "window_learned": report.learned,
        "savings": savings_as_dict(report.cost),
        "calls": list(_call_dicts(report)),
        "edits": list(_edit_dicts(report)),
        "refusals": list(report.refusals),
    }


def _call_dicts(report: Statement) -> Iterator[dict[str, object]]:
    for line, dollars in report.lines:
        call, usage = line.call, usage_of(line)
        yield {
            "call": call.number,
            "at": format_time(call.at),
            "model": call.model,
            "tokens": line.tokens,
            "untouched": line.untouched_tokens,
            "read": usage.cache_read,
            "write": usage.cache_write,
            "input": usage.input,
            "output": usage.output,
            "expected": round(line.expected, 1),
            "billed": _round(line.billed, 1),
            "drift": _round(line.drift, 1),
            "gain": round(line.gain, 1),
            "saved": _round(line.saved, 1),
            "gain_usd": _round(dollars.gain if dollars else None, 6),
            "saved_usd": _round(dollars.saved if dollars else None, 6),
        }


def _edit_dicts(report: Statement) -> Iterator[dict[str, object]]:
    for entry, dollars in report.cost.entries():
        yield {"batch": entry.edit.batch, **edit_as_dict(entry, dollars), "why": mask(entry.edit.reason)}


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _csv(statements: Sequence[Statement], kind: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    to_rows = _call_dicts if kind == "calls" else _edit_dicts
    rows = [(statement.session, row) for statement in statements for row in to_rows(statement)]
    names = list(rows[0][1]) if rows else []
    writer.writerow(("session", *names))
    writer.writerows([_cell(session), *(_cell(row[name]) for name in names)] for session, row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """Quote text that a spreadsheet would run as a formula."""
    if isinstance(value, str):
        text = one_line(value)
        return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
    return "" if value is None else value
