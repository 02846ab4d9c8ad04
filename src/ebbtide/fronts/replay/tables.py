"""Scores for people: three small tables, one to a question, and below them whether the numbers can be believed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from ebbtide.core.text.pluralize import pluralize
from ebbtide.display import make_visible, round_number, short_number
from ebbtide.prices import find_rates
from ebbtide.replay.measures import CALIBRATION_FORMAT, GROUPS, Calibration, Measure, calibrate
from ebbtide.replay.run import ReplayOptions, ReplayResult, failures, totals
from ebbtide.replay.score import Score

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_NONE = "-"
_BEST = "*"
_WIDE = 100_000  # columns: in a pipe a table is as wide as its cells
_NAMES = 15  # columns: so that the three tables stand below each other
_TOLD = 5  # files that could not be read, one by one
_NOTES = {
    "What it costs": (
        "of raw: of the bill with nothing taken out. + recall: and each missing name searched for.\n"
        "no cache: the same, had no prefix been kept. breaks: requests that do not begin as the last one"
    ),
    "Window": "over: calls above the window. folds: requests smaller than the last; freed: tokens, each time",
    "What is kept": (
        "available: names that the agent uses, not seen for 10 calls, and still there. in context: in a line\n"
        "that held them. + search: or found by name. + request: or by its newest words. user: messages of\n"
        "the user, word for word at the last call. changed, read: files that it still names"
    ),
}


def console(file: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 - `ebb --version` does not wait for it

    made = Console(file=file, markup=False, highlight=False, emoji=False)
    if made.is_terminal:
        return made
    return Console(file=file, markup=False, highlight=False, emoji=False, width=_WIDE, no_color=True)


def show_tables(played: Sequence[ReplayResult], terms: ReplayOptions) -> None:
    scores = totals(played)
    _draw(_said(_heading(played, terms)))
    for title, measures in GROUPS.items():
        print()
        for part in _parts(measures, scores, console(sys.stdout).width):
            _draw(_table(title, part, scores))
        _draw(_said(_NOTES[title], style="dim"))
    print()
    for line in (*_trust(played), *_prices(played), *_unread(played)):
        _draw(_said(line))


def _heading(played: Sequence[ReplayResult], terms: ReplayOptions) -> str:
    good = [one for one in played if not one.error]
    calls = max((score.calls for score in totals(good).values()), default=0)
    files = f"{pluralize(len(good), 'session')}, {pluralize(calls, 'call')}"
    kept = "an hour" if terms.ttl > 300 else "5 minutes"
    recall = "" if terms.has_recall else ", no recall"
    return (
        f"{files}. Window {round_number(terms.window)}, prefixes kept for {kept}{recall}. {_BEST} is the best but raw."
    )


def _parts(measures: Sequence[Measure], scores: Mapping[str, Score], width: int) -> Iterator[Sequence[Measure]]:
    """So many columns as the terminal has room for, then the next: no figure is cut."""
    raw = scores.get("raw") or Score()
    free = width - max(_NAMES, *map(len, scores))
    begun, left = 0, free
    for n, one in enumerate(measures):
        # Two blanks before a column, and behind each of its figures the place of a mark.
        needs = 3 + max(len(one.title), *(len(_amount(one, one.of(score, raw))) for score in scores.values()))
        if needs > left and n > begun:
            yield measures[begun:n]
            begun, left = n, free
        left -= needs
    yield measures[begun:]


def _table(title: str, measures: Sequence[Measure], scores: Mapping[str, Score]) -> RenderableType:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    made.add_column(title, no_wrap=True, min_width=max(_NAMES, *map(len, scores)))
    for one in measures:
        # A best is marked behind the number, so that the digits still stand below each other.
        made.add_column(f"{one.title} ", justify="right", no_wrap=True)
    best = {one.key: _best(one, scores) for one in measures}
    for name, score in scores.items():
        values = [(one, one.of(score, scores.get("raw") or Score())) for one in measures]
        cells = [_cell(_amount(one, value), name in best[one.key]) for one, value in values]
        made.add_row(Text(make_visible(name), style="dim" if name == "raw" else ""), *cells)
    return made


def _cell(text: str, best: bool) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text(text + (_BEST if best else " "), style="bold green" if best else "")


def _said(text: str, style: str = "") -> Text:
    """Lines that are broken for a page are broken anew where the terminal is narrower."""
    from rich.text import Text  # noqa: PLC0415

    narrow = console(sys.stdout).width < max(map(len, text.split("\n")))
    return Text(text.replace("\n", " ") if narrow else text, style=style)


def _best(measure: Measure, scores: Mapping[str, Score]) -> set[str]:
    """Who is best, as far as it is shown. `raw` keeps all and pays all: it is no rival. Nobody, where most are."""
    raw = scores.get("raw") or Score()
    values = {name: measure.of(score, raw) for name, score in scores.items() if name != "raw"}
    known = {name: value for name, value in values.items() if value is not None}
    if not measure.better or len(known) < 2:
        return set()
    top = _amount(measure, (min if measure.better == "low" else max)(known.values()))
    first = {name for name, value in known.items() if _amount(measure, value) == top}
    return set() if 2 * len(first) > len(known) else first


def _amount(measure: Measure, value: float | None) -> str:
    if value is None:
        return _NONE
    match measure.unit:
        case "dollars":
            return f"${value:,.2f}"
        case "ratio":
            return f"{value:.2f}"
        case "share":
            # 100 % is said only of all: 99.96 % valid is a fault.
            return f"{min(value, 0.999) if value < 1 else 1.0:.1%}"
        case "tokens":
            return short_number(round(value))
        case "count":
            return f"{value:,.0f}"


def _trust(played: Sequence[ReplayResult]) -> Iterator[str]:
    """The recorded requests, billed by us and by the provider."""
    own, every = calibrate(played, CALIBRATION_FORMAT), calibrate(played)
    if not every.files:
        yield "Calibration: no bill was recorded, so ours cannot be held against it."
        return
    if own.files:
        yield f"Calibration, Claude Code as recorded: {_held(own)}"
    if every.files > own.files:
        yield f"Calibration, all that has a bill:     {_held(every)}"


def _held(found: Calibration) -> str:
    verdict = "within 5 %" if found.holds else "NOT within 5 %: read the bills with care"
    files = pluralize(found.files, "file")
    return f"we ${found.simulated:,.2f}, the provider ${found.billed:,.2f} ({found.drift:+.1%}, {files}): {verdict}"


def _prices(played: Sequence[ReplayResult]) -> Iterator[str]:
    """Which rows of the price table were used, the most used first."""
    models = Counter(model for one in played for model in one.models)
    told = []
    for model, _ in models.most_common():
        found = find_rates(model)
        told.append(found.basis if found else f"{model} as claude-sonnet-4-5, since the table does not know it")
    if told:
        yield make_visible(f"Prices: {'; '.join(dict.fromkeys(told))}.")


def _unread(played: Sequence[ReplayResult]) -> Iterator[str]:
    failed = list(failures(played))
    failed += [(one.path, "no model was called in it") for one in played if not one.error and not one.models]
    if not failed:
        return
    yield f"Left out, {len(failed)} of {pluralize(len(played), 'file')}:"
    for path, reason in failed[:_TOLD]:
        yield make_visible(f"  {path}: {reason}")
    if len(failed) > _TOLD:
        yield f"  and {len(failed) - _TOLD} more: --json has them all"


def _draw(what: RenderableType) -> None:
    """Without the blanks that rich pads lines with."""
    to = console(sys.stdout)
    if to.is_terminal:
        to.print(what)
        return
    with to.capture() as held:
        to.print(what)
    print("\n".join(row.rstrip() for row in held.get().splitlines()))
