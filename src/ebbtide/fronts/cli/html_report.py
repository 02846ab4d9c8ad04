"""The report as one HTML page that can be sent to others: no script, nothing loaded from elsewhere, all text escaped.

Its Content-Security-Policy allows only its own style sheet, by hash, so that even a mistake here could run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from itertools import accumulate
from string import Template

from ebbtide import __version__
from ebbtide.accounting.savings import MIN_BILLS, Savings
from ebbtide.core.text.preview import pluralize
from ebbtide.display import make_visible, round_number, short_number
from ebbtide.fronts.cli.statement import EditGroup, Statement, usage_of
from ebbtide.fronts.cli.svg_plots import Series, draw_bars, draw_curves
from ebbtide.money import EditTotals, format_tokens, format_usd, session_figures

_MAX_ROWS = 400  # of the table of edits: a browser still scrolls through them easily
Format = Callable[[float], str]


def build_page(statements: Sequence[Statement]) -> str:
    style, page = (files(__package__).joinpath(f"html_report.{kind}").read_text("utf-8") for kind in ("css", "html"))
    return Template(page).substitute(
        digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        name=_text(statements[0].session if len(statements) == 1 else f"{len(statements)} sessions"),
        style=style,
        sessions="\n".join(part for statement in statements for part in _session(statement)),
        prices=_text("; ".join(dict.fromkeys(statement.cost.basis for statement in statements))),
        version=escape(__version__),
    )


def _session(report: Statement) -> list[str]:
    savings, amount, axis_amount = _currency(report)
    return [
        _header(report, savings, amount),
        _tiles(report, savings, amount),
        _section("Tokens per call", "What was sent, and what would have been sent without Ebbtide.", _sizes(report)),
        _section("Bill per call", _bill_note(report), _bills(report, axis_amount)),
        _section(
            "Savings over time",
            "The sum over the calls, after cache prices. Below zero: not paid back yet.",
            _savings_plot(savings, axis_amount),
        ),
        _edits(report),
        _largest(report),
    ]


def _currency(report: Statement) -> tuple[Savings, Format, Format]:
    """The savings to show, and how to write a sum and a mark on an axis."""
    if report.cost.dollars:
        return report.cost.dollars, format_usd, _axis_usd
    return report.cost.tokens, lambda amount: f"{format_tokens(amount)} tokens", format_tokens


def _axis_usd(amount: float) -> str:
    """At least two decimals, and up to four if needed."""
    whole, _, cents = f"{abs(amount):,.4f}".partition(".")
    return f"{'-' if amount < 0 else ''}${whole}.{cents[:2]}{cents[2:].rstrip('0')}"


def _header(report: Statement, savings: Savings, amount: Format) -> str:
    parts = [
        ", ".join(report.models),
        pluralize(report.calls, "call"),
        f"window {round_number(report.window)}" if report.window else "",
        f"{report.began[:16]} to {report.ended[:16]} UTC" if report.began else "",
        "" if report.stored else f"replayed under the policy {report.policy or 'default'}",
    ]
    return (
        f"<header><h1>{_text(report.session)}</h1>"
        f'<p class="soft">{_text(" · ".join(part for part in parts if part))}</p>'
        f'<p class="verdict">{_verdict(report, savings, amount)}</p></header>'
    )


def _verdict(report: Statement, savings: Savings, amount: Format) -> str:
    if not report.edits:
        return "Nothing was removed from this conversation, so nothing was saved."
    if savings.claimed < 0:
        cost = _text(amount(-savings.claimed))
        verdict = f'So far the edits have cost <strong class="bad">{cost}</strong> more than they saved.'
    else:
        verdict = (
            f'{pluralize(report.edits, "edit")} saved <strong class="good">{_text(amount(savings.claimed))}</strong>, '
            f"{savings.saved_share:.1%} of the cost without Ebbtide."
        )
    if savings.billed_calls:
        return f"{verdict} The provider's bills show this."
    if report.stored:
        return f"{verdict} This is an estimate: no bill was recorded for these calls."
    return f"{verdict} This is a replay of a recording: both bills are simulated."


def _tiles(report: Statement, savings: Savings, amount: Format) -> str:
    tokens, figures = report.cost.tokens, session_figures(report.cost)
    look = "good" if savings.claimed >= 0 else "bad"
    share = f"{figures.saved_share:.1%} of {amount(figures.cost_without)} without Ebbtide"
    rewritten = f"tokens; {short_number(tokens.rewritten_tokens)} written to the cache again"
    last = f"tokens, instead of {short_number(figures.tokens_without)}"
    tiles = [
        ("Saved", amount(savings.claimed), share, look),
        ("Bill for prompts", amount(savings.total_cost), _bill_count(report, savings), ""),
        ("Last call", short_number(figures.tokens), last, ""),
        ("Removed", short_number(tokens.removed_tokens), rewritten, ""),
        ("Paid back", f"{report.paid} of {report.edits}", "edits, so far", ""),
        *_drift_tile(savings),
    ]
    if report.recorded is not None:
        tiles.insert(2, ("When it was recorded", amount(report.recorded), "its client paid for its prompts", ""))
    drawn = [
        f'<div class="tile"><dt>{name}</dt><dd><div class="figure {look}">{_text(figure)}</div>'
        f'<div class="note">{_text(note)}</div></dd></div>'
        for name, figure, note, look in tiles
    ]
    return f'<dl class="tiles">{"".join(drawn)}</dl>'


def _bill_count(report: Statement, savings: Savings) -> str:
    if savings.is_simulated:
        return f"simulated, for {pluralize(report.calls, 'call')}"
    if not savings.bill_count:
        return "estimated; no call was billed"
    if savings.bill_count == report.calls:
        return "as billed"
    return f"{savings.bill_count} of {pluralize(report.calls, 'call')} billed, the rest estimated"


def _drift_tile(savings: Savings) -> list[tuple[str, str, str, str]]:
    """How far the bills are from the estimates. One or two bills say nothing."""
    expected = sum(line.expected for line in savings.calls if line.billed is not None)
    if savings.bill_count < MIN_BILLS or expected <= 0:
        return []
    note = f"over {pluralize(savings.bill_count, 'call')}"
    return [("Bill against estimate", f"{savings.drift / expected:+.1%}", note, "")]


def _sizes(report: Statement) -> str:
    lines = report.cost.tokens.calls
    untouched = [float(line.untouched_tokens) for line in lines]
    series = [
        Series(name="without Ebbtide", look="without", values=untouched),
        Series(name="sent", look="with", values=[float(line.tokens) for line in lines]),
    ]
    if report.window and report.window < 1.5 * max(untouched, default=0):
        series.append(Series(name="window", look="window", values=[float(report.window)] * len(lines)))
    title = "Tokens per call, with and without edits"
    return draw_curves(title, series, lambda n: round_number(round(n))) + _legend(series)


def _bill_note(report: Statement) -> str:
    tokens = report.cost.tokens
    note = "As billed" if tokens.bill_count == report.calls else "As billed, and estimated for calls without a bill"
    if tokens.is_simulated:
        note = "As a provider would bill it"
    return f"{note}, by kind of token." + ("" if report.cost.dollars else " In input tokens at full price.")


def _bills(report: Statement, axis_amount: Format) -> str:
    rows = [(dollars or tokens, usage_of(tokens)) for tokens, dollars in report.lines]
    kinds = (
        ("read from the cache", "read", "cache_read"),
        ("written to the cache", "write", "cache_write"),
        ("not cached", "input", "input"),
        ("replies", "output", "output"),
    )
    series = [
        Series(name=name, look=look, values=[getattr(line.tariff, look) * getattr(usage, kind) for line, usage in rows])
        for name, look, kind in kinds
    ]
    series = [kind for kind in series if any(kind.values)]
    return draw_bars("Bill per call by kind of token", series, axis_amount) + _legend(series)


def _savings_plot(savings: Savings, axis_amount: Format) -> str:
    expected = list(accumulate(line.gain for line in savings.calls))
    series = [Series(name="expected", look="expected" if savings.billed_calls else "billed", values=expected)]
    if savings.billed_calls:
        sums = accumulate(line.saved or 0.0 for line in savings.calls)
        billed = [total if line.saved is not None else None for total, line in zip(sums, savings.calls, strict=True)]
        series.append(Series(name="as billed", look="billed", values=billed))
    return draw_curves("Savings over the calls", series, axis_amount) + _legend(series)


def _legend(series: Sequence[Series]) -> str:
    rows = [f'<li><i class="{entry.look}"></i>{escape(entry.name)}</li>' for entry in series]
    return f'<ul class="legend">{"".join(rows)}</ul>'


def _edits(report: Statement) -> str:
    if not report.groups:
        return ""
    head = ["call", "by", "what", "why", "tokens", "rewritten", "saved", "paid back"]
    note = "Each batch by pass and reason. Rewritten: tokens after the edit that were written to the cache again."
    hidden = len(report.groups) - _MAX_ROWS
    if hidden > 0:
        note += f" --json prints {pluralize(hidden, 'more row')}."
    return _section("Edits", note, _table(head, [_edit_row(group) for group in report.groups[:_MAX_ROWS]]))


def _edit_row(group: EditGroup) -> list[tuple[str, str]]:
    return [
        (str(group.call), "n"),
        (group.by, ""),
        (group.what, "words gone" if group.undone else "words"),
        (group.why, "words"),
        (short_number(group.totals.tokens), "n"),
        (short_number(group.totals.rewritten), "n"),
        _saved(group.totals),
        (group.totals.paid_back, "good" if group.totals.is_paid else ""),
    ]


def _largest(report: Statement) -> str:
    if not report.largest:
        return ""
    head = ["what", "call", "by", "tokens", "saved", "stored as"]
    rows = [
        [
            (item.what, "words gone" if item.undone else "words"),
            (str(item.call), "n"),
            (item.by, ""),
            (short_number(item.totals.tokens), "n"),
            _saved(item.totals),
            (item.stored_name or "in the log", "kept"),
        ]
        for item in report.largest
    ]
    return _section("The largest items removed", "None is lost: each can be read back.", _table(head, rows))


def _saved(totals: EditTotals) -> tuple[str, str]:
    amount = format_tokens(totals.saved) if totals.usd is None else format_usd(totals.usd)
    return amount, "n good" if totals.saved >= 0 else "n bad"


def _table(head: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    numbers = {n for n, (_, look) in enumerate(rows[0]) if look.startswith("n")} if rows else set()
    top = "".join(f"<th{' class=n' if n in numbers else ''}>{escape(name)}</th>" for n, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f'<td class="{look}">{_text(cell)}</td>' for cell, look in row) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _section(title: str, note: str, content: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{content}</section>'


def _text(text: str) -> str:
    """Escape text for HTML, and make invisible characters visible."""
    return escape(make_visible(text), quote=True)
