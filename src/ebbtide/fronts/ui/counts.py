"""Adds up one session for the list: from its log, or, for another program's file, from the bills in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ebbtide.core.records import int_in
from ebbtide.formats import Recording
from ebbtide.formats.steps import ModelReply
from ebbtide.fronts.ui.figures import Figures
from ebbtide.fronts.ui.listing import SessionRow
from ebbtide.money import SessionCost, UsageBill, session_cost, session_figures


def count_records(
    records: Iterable[Mapping[str, object]], window_for: Callable[[str], int], *, simulated: bool = False
) -> Figures:
    """Add up a log of ours."""
    records = list(records)
    cost = session_cost(records)
    calls = cost.tokens.calls
    model = calls[-1].call.model if calls else ""
    windows = (int_in(record, "window") for record in reversed(records) if record.get("kind") == "turn")
    return Figures(
        calls=len(calls),
        model=model,
        tokens=calls[-1].tokens if calls else 0,
        window=next(filter(None, windows), 0) or window_for(model),
        cost=dollars_spent(cost),
        saved_usd=dollars_saved(cost),
        simulated=simulated,
    )


def count_recording(recording: Recording, row: SessionRow, window_for: Callable[[str], int]) -> Figures:
    """Add up another program's file: what was billed, as far as the file says."""
    bill, count = UsageBill(), 0
    for episode in recording.episodes:
        for step in episode.steps:
            if isinstance(step, ModelReply) and step.usage is not None:
                bill.add(step.model, step.usage)
            count += isinstance(step, ModelReply)
    model = row.model or (bill.calls[-1][0] if bill.calls else "")
    return Figures(
        calls=count,
        model=model,
        tokens=row.tokens or (bill.calls[-1][1].total if bill.calls else 0),
        window=row.window or window_for(model),
        cost=bill.dollars if bill.calls else None,
        saved_usd=None,
        simulated=False,
    )


def dollars_spent(cost: SessionCost) -> float | None:
    calls = [dollars for dollars in cost.call_costs() if dollars is not None]
    return round(sum(calls), 6) if calls else None


def dollars_saved(cost: SessionCost) -> float | None:
    """After cache prices, as every command and page says it."""
    figures = session_figures(cost)
    return round(figures.saved, 6) if figures.in_dollars else None
