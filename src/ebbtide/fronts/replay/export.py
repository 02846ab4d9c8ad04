"""Prints scores as JSON or CSV: every sum and every measure. The output does not depend on when or where it ran."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict

from ebbtide.replay.measures import CALIBRATION_FORMAT, MEASURES, Calibration, calibrate, measure
from ebbtide.replay.run import ReplayOptions, ReplayResult, failures, totals
from ebbtide.replay.score import Score

TOTAL = "TOTAL"
"""The `file` of the last rows."""


def build_document(results: Sequence[ReplayResult], options: ReplayOptions) -> dict[str, object]:
    return {
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
    return {name: {"sums": score.as_dict(), "measures": measure(score, raw)} for name, score in scores.items()}


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
            measures, totals_by_name = measure(score, scores.get("raw")), score.as_dict()
            cells = ["" if measures[key] is None else measures[key] for key in keys]
            writer.writerow([file, format, name, *cells, *(totals_by_name[key] for key in sums)])
