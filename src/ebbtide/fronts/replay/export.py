"""Scores for programs: every sum, and every measure made of them. Nothing in it depends on when or where it ran."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence

from ebbtide.replay.measures import CALIBRATION_FORMAT, MEASURES, Calibration, calibrate, measure
from ebbtide.replay.run import ReplayOptions, ReplayResult, failures, totals
from ebbtide.replay.score import Score

TOTAL = "TOTAL"
"""In the column `file`, of the last rows."""


def show_json(played: Sequence[ReplayResult], terms: ReplayOptions) -> None:
    """Pure ASCII, so that it is as harmless on a terminal as it is exact in a pipe."""
    print(json.dumps(document(played, terms), indent=2))


def document(played: Sequence[ReplayResult], terms: ReplayOptions) -> dict[str, object]:
    return {
        "terms": {
            "policies": list(terms.policies),
            "window": terms.window,
            "ttl": terms.ttl,
            "model": terms.model,
            "recall": terms.has_recall,
        },
        "totals": _scores(totals(played)),
        "files": [
            {"file": one.path, "format": one.format, "models": list(one.models), "scores": _scores(one.scores)}
            for one in played
            if not one.error
        ],
        "calibration": {
            CALIBRATION_FORMAT: _calibration(calibrate(played, CALIBRATION_FORMAT)),
            "all": _calibration(calibrate(played)),
        },
        "failed": [{"file": path, "reason": reason} for path, reason in failures(played)],
    }


def _scores(scores: dict[str, Score]) -> dict[str, object]:
    raw = scores.get("raw")
    return {name: {"sums": score.as_dict(), "measures": measure(score, raw)} for name, score in scores.items()}


def _calibration(found: Calibration) -> dict[str, object]:
    return {
        "files": found.files,
        "simulated": found.simulated,
        "billed": found.billed,
        "drift": found.drift,
        "holds": found.holds,
    }


def show_csv(played: Sequence[ReplayResult]) -> None:
    """Measures first, then the sums they are made of."""
    measures = [one.key for one in MEASURES]
    sums = list(Score().as_dict())
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["file", "format", "policy", *measures, *(f"sum_{name}" for name in sums)])
    for file, format, scores in _blocks(played):
        raw = scores.get("raw")
        for name, score in scores.items():
            told, added = measure(score, raw), score.as_dict()
            cells = ["" if told[key] is None else told[key] for key in measures]
            out.writerow([file, format, name, *cells, *(added[key] for key in sums)])


def _blocks(played: Sequence[ReplayResult]) -> Iterator[tuple[str, str, dict[str, Score]]]:
    for one in played:
        if not one.error:
            yield one.path, one.format, one.scores
    yield TOTAL, "", totals(played)
