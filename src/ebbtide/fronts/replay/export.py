"""Scores for programs: every sum, and every measure made of them. Nothing in it depends on when or where it ran."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence

from ebbtide.replay import Played, Score, Terms, failures, totals
from ebbtide.replay.measures import CALIBRATED_ON, MEASURES, Calibration, calibrated, measured

TOTAL = "TOTAL"
"""In the column `file`, of the last rows."""


def show_json(played: Sequence[Played], terms: Terms) -> None:
    """Pure ASCII, so that it is as harmless on a terminal as it is exact in a pipe."""
    print(json.dumps(document(played, terms), indent=2))


def document(played: Sequence[Played], terms: Terms) -> dict[str, object]:
    return {
        "terms": {
            "policies": list(terms.arms),
            "window": terms.window,
            "ttl": terms.ttl,
            "model": terms.model,
            "recall": terms.recalls,
        },
        "totals": _scores(totals(played)),
        "files": [
            {"file": one.path, "format": one.format, "models": list(one.models), "scores": _scores(one.scores)}
            for one in played
            if not one.failed
        ],
        "calibration": {
            CALIBRATED_ON: _calibration(calibrated(played, CALIBRATED_ON)),
            "all": _calibration(calibrated(played)),
        },
        "failed": [{"file": path, "reason": reason} for path, reason in failures(played)],
    }


def _scores(scores: dict[str, Score]) -> dict[str, object]:
    raw = scores.get("raw")
    return {name: {"sums": score.as_dict(), "measures": measured(score, raw)} for name, score in scores.items()}


def _calibration(found: Calibration) -> dict[str, object]:
    return {
        "files": found.files,
        "simulated": found.simulated,
        "billed": found.billed,
        "drift": found.drift,
        "holds": found.holds,
    }


def show_csv(played: Sequence[Played]) -> None:
    """Measures first, then the sums they are made of."""
    measures = [one.key for one in MEASURES]
    sums = list(Score().as_dict())
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["file", "format", "policy", *measures, *(f"sum_{name}" for name in sums)])
    for file, format, scores in _blocks(played):
        raw = scores.get("raw")
        for name, score in scores.items():
            told, added = measured(score, raw), score.as_dict()
            cells = ["" if told[key] is None else told[key] for key in measures]
            out.writerow([file, format, name, *cells, *(added[key] for key in sums)])


def _blocks(played: Sequence[Played]) -> Iterator[tuple[str, str, dict[str, Score]]]:
    for one in played:
        if not one.failed:
            yield one.path, one.format, one.scores
    yield TOTAL, "", totals(played)
