"""Draws the audit: the verdict first, then by project and by month."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ebbtide import screen
from ebbtide.core.text.preview import pluralize
from ebbtide.display import one_line
from ebbtide.fronts.audit.measure import AuditRow, Measured, add_up
from ebbtide.money import format_usd

MAX_PROJECTS = 8
_PROJECT = 28
_FIGURES = ("sessions", "calls", "cost", "with Ebbtide", "saved", "%", "missing")
LEAST_SHARE = 0.02
"""A smaller saving is within what a replay cannot tell."""


def draw_audit(results: Sequence[Measured], *, rest: int = 0) -> RenderableType:
    """`rest` is how many sessions are still to be replayed."""
    measured = [result for result in results if result.row.calls]
    total = add_up(result.row for result in measured)
    lines = [Text(line, style="bold" if n == 0 else "") for n, line in enumerate(verdict(total, rest))]
    if not measured:
        return Group(*lines)
    parts: list[RenderableType] = [*lines, Text()]
    parts += [_table("project", by_project(measured)), Text(), _table("month", by_month(measured))]
    return Group(*parts, Text(), *(Text(line, style="dim") for line in basis(total, len(results) - len(measured))))


def verdict(total: AuditRow, rest: int = 0) -> Iterator[str]:
    so_far = f"So far, {pluralize(rest, 'session')} to go: " if rest else ""
    if not total.calls:
        yield f"{so_far}no session with a model call."
        return
    sizes = f"{pluralize(total.sessions, 'session')}, {pluralize(total.calls, 'call')}"
    cost, ours = format_usd(total.cost), format_usd(total.with_ebbtide)
    if total.saved_share >= LEAST_SHARE:
        saved = f"{format_usd(total.saved)} ({total.saved_share:.0%}) less"
        yield f"{so_far}{sizes}: {cost}. With Ebbtide {ours}, {saved}."
    elif total.saved_share <= -LEAST_SHARE:
        yield f"{so_far}{sizes}: {cost}. With Ebbtide {ours}: on these sessions it does not pay."
    else:
        yield f"{so_far}{sizes}: {cost}, with Ebbtide {ours}. These sessions are too short for it to matter."
    yield missing_sentence(total)
    if total.over:
        fit = f"{total.over_with_ebbtide:,} still would" if total.over_with_ebbtide else "none would"
        yield f"{pluralize(total.over, 'call')} had more tokens than the window; with Ebbtide {fit}."
    if (not rest and abs(total.saved_share) < LEAST_SHARE) or total.saved < 0:
        yield "To see what it would do from now on without changing anything: ebb run --shadow -- claude"


def missing_sentence(total: AuditRow) -> str:
    if not total.needed:
        return "No name was needed again after more than ten calls, so nothing would have been missing."
    share = total.missing / total.needed
    found = f", {total.found:,} of them found by one search" if total.missing else ""
    return (
        f"Of {total.needed:,} names that were needed again later, {total.missing:,} ({share:.1%}) would have been "
        f"missing from the request{found}."
    )


def basis(total: AuditRow, unread: int) -> Iterator[str]:
    if total.error is None:
        yield "No bill was recorded to check this against."
    else:
        within = "" if total.is_calibrated else " That is more than 5 %: do not rely on the figures."
        yield (
            f"Checked: the providers billed {format_usd(total.billed)} for the prompts of recorded calls; this "
            f"simulation says {format_usd(total.ours_for_billed)} ({total.error:+.1%}).{within}"
        )
    yield "Cost: prompts as their client sent them, with its own compactions. Replies cost the same either way."
    if unread:
        yield f"{pluralize(unread, 'file')} without a model call or not readable: --json says which and why."


def by_project(results: Sequence[Measured]) -> list[tuple[str, AuditRow]]:
    """The most expensive projects; the others are one row."""
    rows = _grouped(results, lambda result: result.project or "unknown")
    rows.sort(key=lambda row: (-row[1].cost, row[0]))
    rest = rows[MAX_PROJECTS:]
    if len(rest) < 2:
        return rows
    return [*rows[:MAX_PROJECTS], (f"{len(rest)} others", add_up(row for _, row in rest))]


def by_month(results: Sequence[Measured]) -> list[tuple[str, AuditRow]]:
    return sorted(_grouped(results, lambda result: result.month), reverse=True)


def _grouped(results: Sequence[Measured], key: Callable[[Measured], str]) -> list[tuple[str, AuditRow]]:
    groups: dict[str, AuditRow] = {}
    for result in results:
        groups[key(result)] = groups.get(key(result), AuditRow()).plus(result.row)
    return list(groups.items())


def cells(row: AuditRow) -> list[str]:
    """The figures of a row, in the order of the columns."""
    missing = f"{row.missing / row.needed:.1%}" if row.needed else "-"
    amounts = (format_usd(amount) for amount in (row.cost, row.with_ebbtide, row.saved))
    return [f"{row.sessions:,}", f"{row.calls:,}", *amounts, f"{row.saved_share:.0%}", missing]


def _table(name: str, rows: Sequence[tuple[str, AuditRow]]) -> RenderableType:
    lines = [[one_line(title, _PROJECT), *cells(row)] for title, row in rows]
    return screen.table((name, *_FIGURES), lines, figures=_FIGURES, clips=name)


COLUMNS = _FIGURES
