"""Prints scores: as three small tables, with how far our bills are from the recorded ones, or as JSON or CSV.

JSON and CSV have every sum and every measure, and do not depend on when or where it ran.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ebbtide import screen
from ebbtide.core.text.preview import pluralize
from ebbtide.display import make_visible, round_number, short_number
from ebbtide.fronts.replay.verdict import comparable, describe_result
from ebbtide.prices import find_rates
from ebbtide.replay.frontier import Frontier
from ebbtide.replay.measures import CALIBRATION_FORMAT, GROUPS, MEASURES, Calibration, Measure, calibrate
from ebbtide.replay.measures import measure as measure_score
from ebbtide.replay.run import ReplayOptions, ReplayResult, failures, totals
from ebbtide.replay.score import Score

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_STARS = (
    "* = best of the policies with the fewest calls over the window, raw excluded; in cost and size, of those that "
    "also keep as many names as any."
)
_NONE = "-"
_BEST = "*"
_NAME_WIDTH = 15  # columns: so that the three tables align
_LISTED = 5  # files that could not be read
TOTAL = "TOTAL"
"""The `file` of the last rows of CSV."""
_NOTES = {
    "What it costs": (
        "of raw: share of the bill without Ebbtide. + recall: with a search for each missing name. + repair: with\n"
        "what recorded agents read again. no cache: without a prompt cache. breaks: requests that do not begin with\n"
        "the whole previous one"
    ),
    "Window": "over: calls above the window. shrunk: requests smaller than the last. freed: tokens, each time",
    "What is kept": (
        "available: names that the agent needs, last seen 10 or more calls ago, and still in the request.\n"
        "in context: within an original line. + search: or found by name. + request: or found with the newest\n"
        "texts. user: user messages kept word for word. changed, read: files that the last request still names"
    ),
}


def print_tables(results: Sequence[ReplayResult], options: ReplayOptions) -> None:
    scores = totals(results)
    screen.draw(_text(_heading(results, options)))
    screen.print_text(*describe_result(scores, options), _STARS)
    for title, measures in GROUPS.items():
        print()
        for part in _parts(measures, scores, screen.console().width):
            screen.draw(_table(title, part, scores))
        screen.draw(_text(_NOTES[title], style="dim"))
    print_trust(results)


def print_heading(results: Sequence[ReplayResult], options: ReplayOptions) -> None:
    screen.draw(_text(_heading(results, options)))
    print()


def print_trust(results: Sequence[ReplayResult]) -> None:
    """Print how far our bills are from the recorded ones, with which prices, and what could not be read."""
    print()
    for line in (*_trust(results), *_prices(results), *_unread(results)):
        screen.draw(_text(line))


def _heading(results: Sequence[ReplayResult], options: ReplayOptions) -> str:
    scored = [result for result in results if not result.error]
    calls = max((score.calls for score in totals(scored).values()), default=0)
    files = f"{pluralize(len(scored), 'session')}, {pluralize(calls, 'call')}"
    ttl = "an hour" if options.ttl > 300 else "5 minutes"
    recall = "" if options.has_recall else ", no recall"
    return f"{files}. Window {round_number(options.window)}, prompt cache of {ttl}{recall}."


def _parts(measures: Sequence[Measure], scores: Mapping[str, Score], width: int) -> Iterator[Sequence[Measure]]:
    """Split the columns into tables that fit the terminal."""
    raw = scores.get("raw") or Score()
    free = width - max(_NAME_WIDTH, *map(len, scores))
    start, room = 0, free
    for n, measure in enumerate(measures):
        # Two blanks before a column, and room for a mark after each figure.
        figures = (_amount(measure, measure.of(score, raw)) for score in scores.values())
        width = 3 + max(len(measure.title), *map(len, figures))
        if width > room and n > start:
            yield measures[start:n]
            start, room = n, free
        room -= width
    yield measures[start:]


def _table(title: str, measures: Sequence[Measure], scores: Mapping[str, Score]) -> RenderableType:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, no_wrap=True, min_width=max(_NAME_WIDTH, *map(len, scores)))
    for measure in measures:
        # The mark follows the number, so that the digits stay aligned.
        table.add_column(f"{measure.title} ", justify="right", no_wrap=True)
    best = {measure.key: _best(measure, scores) for measure in measures}
    raw = scores.get("raw") or Score()
    for name, score in scores.items():
        cells = [_cell(_amount(measure, measure.of(score, raw)), name in best[measure.key]) for measure in measures]
        table.add_row(Text(make_visible(name), style="dim" if name == "raw" else ""), *cells)
    return table


def _cell(text: str, best: bool) -> Text:
    from rich.text import Text  # noqa: PLC0415

    return Text(text + (_BEST if best else " "), style="bold green" if best else "")


def _text(text: str, style: str = "") -> Text:
    """Let the terminal wrap a text if it is narrower than its lines."""
    from rich.text import Text  # noqa: PLC0415

    narrow = screen.console().width < max(map(len, text.split("\n")))
    return Text(text.replace("\n", " ") if narrow else text, style=style)


def _best(measure: Measure, scores: Mapping[str, Score]) -> set[str]:
    """The best of comparable policies as far as the figures show; none if more than half of all are equally good."""
    raw = scores.get("raw") or Score()
    values = {name: measure.of(score, raw) for name, score in scores.items() if name != "raw"}
    known = {name: value for name, value in values.items() if value is not None}
    candidates = [name for name in comparable(measure, scores) if name in known]
    if not measure.better or len(known) < 2 or not candidates:
        return set()
    top = _amount(measure, (min if measure.better == "low" else max)(known[name] for name in candidates))
    equal = {name for name, value in known.items() if _amount(measure, value) == top}
    return set() if 2 * len(equal) > len(known) else equal.intersection(candidates)


def _amount(measure: Measure, value: float | None) -> str:
    if value is None:
        return _NONE
    match measure.unit:
        case "dollars":
            return f"${value:,.2f}"
        case "ratio":
            return f"{value:.2f}"
        case "share":
            # Never round up to 100 %: 99.96 % valid is a fault.
            return f"{min(value, 0.999) if value < 1 else 1.0:.1%}"
        case "tokens":
            return short_number(round(value))
        case "count":
            return f"{value:,.0f}"


def _trust(results: Sequence[ReplayResult]) -> Iterator[str]:
    """Compare our bill for the recorded requests with the provider's."""
    claude, every = calibrate(results, CALIBRATION_FORMAT), calibrate(results)
    if not every.files:
        yield "Calibration: no bill was recorded to compare ours with."
        return
    if claude.files:
        yield f"Calibration, Claude Code as recorded: {_describe(claude)}"
    if every.files > claude.files:
        yield f"Calibration, all files with a bill:   {_describe(every)}"


def _describe(calibration: Calibration) -> str:
    verdict = "within 5 %" if calibration.holds else "NOT within 5 %: the bills may be wrong"
    files = pluralize(calibration.files, "file")
    bills = f"ours ${calibration.simulated:,.2f}, the provider's ${calibration.billed:,.2f}"
    return f"{bills} ({calibration.drift:+.1%}, {files}): {verdict}"


def _prices(results: Sequence[ReplayResult]) -> Iterator[str]:
    """The rows of the price table that were used, the most used first."""
    models = Counter(model for result in results for model in result.models)
    rows = []
    for model, _ in models.most_common():
        rates = find_rates(model)
        rows.append(rates.basis if rates else f"{model} as claude-sonnet-4-5, because the table does not know it")
    if rows:
        yield make_visible(f"Prices: {'; '.join(dict.fromkeys(rows))}.")


def _unread(results: Sequence[ReplayResult]) -> Iterator[str]:
    failed = failures(results)
    failed += [(result.path, "it has no model call") for result in results if not result.error and not result.models]
    if not failed:
        return
    yield f"Left out, {len(failed)} of {pluralize(len(results), 'file')}:"
    for path, reason in failed[:_LISTED]:
        yield make_visible(f"  {path}: {reason}")
    if len(failed) > _LISTED:
        yield f"  and {len(failed) - _LISTED} more: --json lists all"


def build_document(
    results: Sequence[ReplayResult], options: ReplayOptions, frontier: Frontier | None = None
) -> dict[str, object]:
    chosen = {"frontier": frontier.as_dict()} if frontier else {}
    return chosen | {
        "terms": {
            "policies": list(options.policies),
            "window": options.window,
            "ttl": options.ttl,
            "model": options.model,
            "recall": options.has_recall,
        },
        "totals": _scores(totals(results)),
        "files": [
            {
                "file": result.path,
                "format": result.format,
                "models": list(result.models),
                "scores": _scores(result.scores),
            }
            for result in results
            if not result.error
        ],
        "calibration": {
            CALIBRATION_FORMAT: _calibration(calibrate(results, CALIBRATION_FORMAT)),
            "all": _calibration(calibrate(results)),
        },
        "failed": [{"file": path, "reason": reason} for path, reason in failures(results)],
    }


def _scores(scores: dict[str, Score]) -> dict[str, object]:
    raw = scores.get("raw")
    return {name: {"sums": score.as_dict(), "measures": measure_score(score, raw)} for name, score in scores.items()}


def _calibration(calibration: Calibration) -> dict[str, object]:
    return {**asdict(calibration), "drift": calibration.drift, "holds": calibration.holds}


def print_csv(results: Sequence[ReplayResult]) -> None:
    """Print the measures, then the sums they are computed from."""
    keys, sums = [measure.key for measure in MEASURES], list(Score().as_dict())
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["file", "format", "policy", *keys, *(f"sum_{name}" for name in sums)])
    files = [(result.path, result.format, result.scores) for result in results if not result.error]
    for file, format, scores in [*files, (TOTAL, "", totals(results))]:
        for name, score in scores.items():
            measures, totals_by_name = measure_score(score, scores.get("raw")), score.as_dict()
            cells = ["" if measures[key] is None else measures[key] for key in keys]
            writer.writerow([file, format, name, *cells, *(totals_by_name[key] for key in sums)])
