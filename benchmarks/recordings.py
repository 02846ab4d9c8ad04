"""Which recorded sessions the benchmarks replay. All of them choose files here, so that their figures can be compared.

A file belongs to the half `search` if its sha256 in the manifest is even, otherwise to `report`. Choices are made on
the first half, figures are measured on the second.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from ebbtide.replay.score import Score

SMALL = 140_000
"""Sessions that never pass this many tokens are also counted as a class of their own."""


def halves(data: Path) -> dict[str, str]:
    """Return the half of each file in the manifest."""
    with (data / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["file"]: "report" if int(row["sha256"], 16) % 2 else "search" for row in rows}


def choose_files(data: Path, half: str, every: int = 1) -> dict[str, Path]:
    """Return the files of one half (or of `all`), largest first; only every `every`-th."""
    names = [name for name, own in halves(data).items() if half in ("all", own) and (data / name).exists()]
    names.sort(key=lambda name: (-(data / name).stat().st_size, name))
    return {name: data / name for name in names[::every]}


def shares(scores: dict[str, Score]) -> dict[str, dict[str, float]]:
    """Return the scores as a report shows them: costs relative to raw, and shares."""
    raw = scores["raw"]
    return {
        name: {
            "bill": _share(one.bill, raw.bill),
            "bill_without_surcharge": _share(one.bill - one.surcharge, raw.bill - raw.surcharge),
            "bill_without_cache": _share(one.uncached, raw.uncached),
            "bill_of_its_own_calls": _share(one.asked, raw.bill),
            "bill_with_recalls": _share(one.bill + one.recalled, raw.bill),
            "bill_with_repairs": _share(one.bill + one.repaired, raw.bill),
            "available": _share(one.available, one.used),
            "in_context": _share(one.in_context, one.used),
            "available_or_recoverable": _share(one.available + one.recoverable, one.used),
            "user_words": _share(one.verbatim, one.said),
            "hit_rate": _share(one.read, one.read + one.written + one.fresh),
            "peak": one.peak,
            "mean": round(_share(one.tokens, one.calls)),
            "over": one.over,
            "breaks": one.breaks,
            "invalid": one.invalid,
        }
        for name, one in scores.items()
    }


def add_data_arguments(parser: argparse.ArgumentParser, half: str) -> None:
    """Add the options that say which sessions to replay, and on how many cores."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="the folder with MANIFEST.csv")
    parser.add_argument("--half", choices=("search", "report", "all"), default=half)
    parser.add_argument("--every", type=int, default=1, help="only every Nth file, largest first: a sample, for speed")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for one per core")


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0
