"""The report as one HTML page that can be sent to anybody: no script, nothing loaded from elsewhere, nothing unescaped.

The policy in its head allows its own style sheet by hash and nothing else, so that a mistake of ours could not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from html import escape
from itertools import accumulate

from ebbtide import __version__
from ebbtide.accounting.savings import Savings
from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import make_visible, round_number, short_number
from ebbtide.fronts.cli import plots
from ebbtide.fronts.cli.page_style import STYLE
from ebbtide.fronts.cli.plots import Series
from ebbtide.fronts.cli.statement import Row, Statement, bill_of
from ebbtide.money import format_tokens, format_usd

_ROWS = 400  # of the table of edits: what a browser still scrolls through with ease
Shown = Callable[[float], str]


def page(statements: Sequence[Statement]) -> str:
    name = statements[0].session if len(statements) == 1 else f"{len(statements)} sessions"
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>What the edits saved: {_text(name)}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            *(part for one in statements for part in _session(one)),
            _how(statements),
            f"<footer>Made by Ebbtide {escape(__version__)} with <code>ebb report</code>.</footer>",
            "</main></body></html>",
            "",
        )
    )


def _session(one: Statement) -> list[str]:
    books, shown, brief = _currency(one)
    return [
        _header(one, books, shown),
        _tiles(one, books, shown),
        _section(
            "Tokens per call", "What was sent, and what would have been sent with nothing taken out.", _tokens(one)
        ),
        _section("Bill per call", _billed_words(one), _bills(one, brief)),
        _section(
            "Savings over time",
            "Summed over the calls, after cache prices. Below zero: not paid back yet.",
            _sums(books, brief),
        ),
        _edits(one),
        _largest(one),
    ]


def _currency(one: Statement) -> tuple[Savings, Shown, Shown]:
    """The books to show, how a sum is written, and how a mark on an axis is."""
    if one.accounts.dollars:
        return one.accounts.dollars, format_usd, _axis_usd
    return one.accounts.tokens, lambda amount: f"{format_tokens(amount)} tokens", format_tokens


def _axis_usd(amount: float) -> str:
    """As many decimals as it has, and two at least."""
    whole, _, cents = f"{abs(amount):,.4f}".partition(".")
    return f"{'-' if amount < 0 else ''}${whole}.{cents[:2]}{cents[2:].rstrip('0')}"


def _header(one: Statement, books: Savings, shown: Shown) -> str:
    when = f"{one.began[:16]} to {one.ended[:16]} UTC" if one.began else ""
    kind = "" if one.stored else f"replayed under the policy {one.policy or 'default'}"
    window = f"window {round_number(one.window)}" if one.window else ""
    facts = [", ".join(one.models), pluralize(one.calls, "call"), window, when, kind]
    return (
        f"<header><h1>{_text(one.session)}</h1>"
        f'<p class="soft">{_text(" · ".join(fact for fact in facts if fact))}</p>'
        f'<p class="verdict">{_verdict(one, books, shown)}</p></header>'
    )


def _verdict(one: Statement, books: Savings, shown: Shown) -> str:
    if not one.edits:
        return "Nothing was taken out of this conversation, so nothing was saved."
    if books.told < 0:
        first = (
            f'The edits have cost <strong class="bad">{_text(shown(-books.told))}</strong> more than they saved so far.'
        )
    else:
        first = (
            f"Taking {pluralize(one.edits, 'thing')} out saved "
            f'<strong class="good">{_text(shown(books.told))}</strong>, '
            f"{books.share:.0%} of what the conversation would have cost."
        )
    if books.settled:
        return f"{first} This is what the provider's bills show."
    if one.stored:
        return f"{first} No bill was recorded for these calls: it is what is expected."
    return f"{first} It is a replay: nobody was billed for it."


def _tiles(one: Statement, books: Savings, shown: Shown) -> str:
    told = one.accounts.tokens
    whole = books.bill + books.told + books.pending
    tiles = [
        (
            "Saved",
            shown(books.told),
            f"{books.share:.1%} of {shown(whole)} untouched",
            "good" if books.told >= 0 else "bad",
        ),
        ("Bill for prompts", shown(books.bill), _counted(one, books), ""),
        (
            "Taken out",
            short_number(told.tokens_out),
            f"tokens; {short_number(told.rewritten)} written again for it",
            "",
        ),
        ("Paid back", f"{one.paid} of {one.edits}", "edits, by now", ""),
        _drift(books),
    ]
    if one.recorded is not None:
        tiles.insert(2, ("As recorded", shown(one.recorded), "what the client was billed for its prompts", ""))
    drawn = [
        f'<div class="tile"><dt>{name}</dt><dd><div class="figure {look}">{_text(figure)}</div>'
        f'<div class="note">{_text(note)}</div></dd></div>'
        for name, figure, note, look in tiles
    ]
    return f'<dl class="tiles">{"".join(drawn)}</dl>'


def _counted(one: Statement, books: Savings) -> str:
    if not books.bills:
        return "expected; no call was billed"
    if books.bills == one.calls:
        return "as billed"
    return f"{books.bills} of {pluralize(one.calls, 'call')} billed, the rest expected"


def _drift(books: Savings) -> tuple[str, str, str, str]:
    expected = sum(line.expected for line in books.lines if line.billed is not None)
    if not books.bills or expected <= 0:
        return "Drift of the bills", "none", "no call was billed", ""
    return (
        "Drift of the bills",
        f"{books.drift / expected:+.1%}",
        f"against what was expected of {pluralize(books.bills, 'call')}",
        "",
    )


def _tokens(one: Statement) -> str:
    lines = one.accounts.tokens.lines
    series = [
        Series(name="untouched", look="without", values=[float(line.tokens + line.out) for line in lines]),
        Series(name="sent", look="with", values=[float(line.tokens) for line in lines]),
    ]
    top = max((line.tokens + line.out for line in lines), default=0)
    if one.window and one.window < 1.5 * top:
        series.append(Series(name="window", look="window", values=[float(one.window)] * len(lines)))
    return plots.curves(
        "Tokens per call, with and without edits", series, lambda n: round_number(round(n)), filled=True
    ) + _legend(series)


def _billed_words(one: Statement) -> str:
    told = (
        "As billed" if one.accounts.tokens.bills == one.calls else "As billed, and as expected where there was no bill"
    )
    return f"{told}, by what each token cost." + ("" if one.accounts.dollars else " In input tokens at full price.")


def _bills(one: Statement, shown: Shown) -> str:
    rows = [(usd or tokens, bill_of(tokens)) for tokens, usd in one.lines]
    series = [
        Series(
            name="read from the cache", look="read", values=[line.tariff.read * bill.cache_read for line, bill in rows]
        ),
        Series(
            name="written to the cache",
            look="write",
            values=[line.tariff.write * bill.cache_write for line, bill in rows],
        ),
        Series(name="not cached", look="input", values=[line.tariff.input * bill.input for line, bill in rows]),
        Series(name="replies", look="output", values=[line.tariff.output * bill.output for line, bill in rows]),
    ]
    there = [one for one in series if any(one.values)]
    return plots.stacked("Bill per call by kind of token", there, shown) + _legend(there)


def _sums(books: Savings, shown: Shown) -> str:
    expected = list(accumulate(line.gain for line in books.lines))
    series = [Series(name="expected", look="expected" if books.settled else "billed", values=expected)]
    if books.settled:
        known = accumulate(line.saved or 0.0 for line in books.lines)
        billed = [total if line.saved is not None else None for total, line in zip(known, books.lines, strict=True)]
        series.append(Series(name="as billed", look="billed", values=billed))
    return plots.curves("Savings over the calls", series, shown, filled=True) + _legend(series)


def _legend(series: Sequence[Series]) -> str:
    rows = [f'<li><i class="{one.look}"></i>{escape(one.name)}</li>' for one in series]
    return f'<ul class="legend">{"".join(rows)}</ul>'


def _edits(one: Statement) -> str:
    if not one.rows:
        return ""
    head = ["call", "by", "what", "why", "tokens", "rewritten", "saved", "pays after"]
    words = "Each batch by author and reason. Rewritten: tokens kept behind the change, written to the cache again."
    more = len(one.rows) - _ROWS
    told = f" In the output of --json: {pluralize(more, 'more row')}." if more > 0 else ""
    return _section("Edits", words + told, _table(head, [_edit(row) for row in one.rows[:_ROWS]]))


def _edit(row: Row) -> list[tuple[str, str]]:
    gone = " gone" if row.undone else ""
    return [
        (str(row.call), "n"),
        (row.by, ""),
        (row.what, f"words{gone}"),
        (row.why, "words"),
        (short_number(row.tokens), "n"),
        (short_number(row.rewritten), "n"),
        (_money(row.saved, row.usd), "n good" if row.saved >= 0 else "n bad"),
        (row.pays, "good" if row.paid else ""),
    ]


def _largest(one: Statement) -> str:
    if not one.largest:
        return ""
    head = ["what", "call", "by", "tokens", "saved", "kept as"]
    rows = [
        [
            (left.what, "words gone" if left.undone else "words"),
            (str(left.call), "n"),
            (left.by, ""),
            (short_number(left.tokens), "n"),
            (_money(left.saved, left.usd), "n good" if left.saved >= 0 else "n bad"),
            (left.kept or "in the log", "kept"),
        ]
        for left in one.largest
    ]
    return _section("The largest things that left", "None is lost: each can be read back.", _table(head, rows))


def _money(tokens: float, dollars: float | None) -> str:
    return format_tokens(tokens) if dollars is None else format_usd(dollars)


def _table(head: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    numbers = {n for n, (_, look) in enumerate(rows[0]) if look.startswith("n")} if rows else set()
    top = "".join(f"<th{' class=n' if n in numbers else ''}>{escape(name)}</th>" for n, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f'<td class="{look}">{_text(cell)}</td>' for cell, look in row) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


_HOW = (
    (
        "saved",
        "what the same conversation would have cost untouched, in a window without end, less what it cost. Both are "
        "modelled alike: what the call before carried is read from the cache, the rest is written, and a pause longer "
        "than the cache lives makes all of it new.",
    ),
    (
        "bills",
        "where a bill exceeds the model for the tokens it was for, the excess is taken off the savings; where it is "
        "lower, nothing is added. Cache misses at the rate seen before the first edit are the client's own.",
    ),
    (
        "pays after",
        "calls until an edit has paid for what it made the provider write again: n* = ((w - r)(T + s) + C) / "
        "(r (S - s)), where S tokens were taken out and s put in, T were kept behind them, a token is read at r and "
        "written at w, and C is the price of asking a model.",
    ),
)


def _how(statements: Sequence[Statement]) -> str:
    prices = "; ".join(dict.fromkeys(one.accounts.basis for one in statements)) + "."
    rows = "".join(f"<dt>{name}</dt><dd>{_text(words)}</dd>" for name, words in (*_HOW, ("prices", prices)))
    return f'<section><h2>How this is counted</h2><dl class="how">{rows}</dl></section>'


def _section(title: str, words: str, inner: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(words)}</p>{inner}</section>'


def _text(words: str) -> str:
    """Words from anywhere: what a reader would obey or not see is written out, the rest escaped."""
    return escape(make_visible(words), quote=True)
