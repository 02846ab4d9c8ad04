"""Search for the default's numbers, and measure them on the sessions that were not searched.

`python benchmarks/search.py --data DIR` tries settings on the half of the recordings whose sha256 in the manifest is
even, at random with a seed, next to the current default. `--report` replays the default on the other half, in several
windows and with both cache lifetimes. More availability costs more money, so the table is sorted by bill, and settings
that another one beats on both are left out. Files and scores are those of `replay_peers.py`; `--every 6` is a sample.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from recordings import add_data_arguments, choose_files, shares

from ebbtide.policy import Policy
from ebbtide.policy import default as ours
from ebbtide.policy.adjust import with_passes
from ebbtide.policy.default import offload_large, offload_paste, watermarks
from ebbtide.replay.contenders import EngineContender, MakeContender
from ebbtide.replay.run import ReplayOptions, replay_file
from ebbtide.replay.score import Score

GRID: Mapping[str, tuple[float, ...]] = {
    "patience": (0.75, 1.0, 1.25, 1.5, 2.0, 3.0),  # times the cheapest spread
    "low": (0.25, 0.35, 0.45),
    "tidy": (50_000, 60_000, 80_000, 100_000),
    "calls": (60, 120, 250, 500),  # an old call with more tokens is dropped
    "call_lines": (0.0, 0.25, 0.5),
    "telling": (0.15, 0.3, 0.4, 0.6),
    "most": (400, 1_200, 3_000),
    "large": (4_000, 8_000, 12_500, 25_000),
    "ledger": (8_000, 14_000, 25_000),
    "tail": (4_000, 8_000, 16_000),
}
CHOSEN = {
    "patience": 1.5, "low": 0.35, "tidy": 60_000, "calls": 500, "call_lines": 0.5, "telling": 0.4, "most": 1_200,
    "large": 12_500, "ledger": 14_000, "tail": 8_000,
}  # fmt: skip
WINDOWS = (32_000, 64_000, 128_000, 200_000, 1_000_000)


def policy(settings: Mapping[str, float]) -> Policy:
    levels = watermarks(
        low=settings["low"], soft=0.76, auto=0.80, max_low=int(settings["tidy"]), patience=settings["patience"]
    )
    changes: Mapping[str, Mapping[str, object]] = {
        "drop_calls": {"min_tokens": int(settings["calls"]), "telling": settings["call_lines"]},
        "clear_results": {"telling": settings["telling"], "telling_tokens": int(settings["most"])},
        "summarize": {"ledger_tokens": int(settings["ledger"]), "keep_tokens": int(settings["tail"])},
    }
    arrival = (partial(offload_large, limit=int(settings["large"])), offload_paste)
    return with_passes(replace(ours, levels=levels, arrival=arrival), changes)


Trial = Mapping[str, float]


def _replay(path: Path, trials: list[Trial], options: ReplayOptions, is_library: bool) -> dict[str, Score]:
    """Replay one file under all settings, as `replay_peers.py` does."""
    more: dict[str, MakeContender] = {
        str(n): partial(
            EngineContender, policy=policy(settings), window=options.window, is_library=is_library, can_recall=True
        )
        for n, settings in enumerate(trials)
    }
    result = replay_file(path, options, more)
    if result.error:
        print(f"left out: {path.name}: {result.error}", file=sys.stderr)
    return result.scores


def played(
    given: argparse.Namespace, trials: list[Trial], window: int, ttl: float = 300.0
) -> Iterator[dict[str, float]]:
    """Return the figures of each trial, relative to never changing a request."""
    options = ReplayOptions(policies=("raw",), window=window, ttl=ttl, has_recall=given.recall)
    files = list(choose_files(given.data, given.half, given.every).values())
    play = partial(_replay, trials=trials, options=options, is_library=given.library)
    sums: dict[str, Score] = {}
    with ProcessPoolExecutor(given.jobs or None, mp_context=get_context("spawn")) as pool:
        for scores in pool.map(play, files):
            for name, score in scores.items():
                sums[name] = sums.get(name, Score()).plus(score)
    figures = shares(sums)
    for n in range(len(trials)):
        yield {**figures[str(n)], "calls": sums["raw"].calls, "uses": sums["raw"].used}


def search(given: argparse.Namespace) -> list[dict[str, object]]:
    chance = random.Random(given.seed)  # a seeded search, nothing secret
    tried: list[Trial] = [CHOSEN]
    tried += [{name: chance.choice(values) for name, values in GRID.items()} for _ in range(given.trials)]
    found = list(played(given, tried, 200_000))
    rows = [{"settings": settings, **score} for settings, score in zip(tried, found, strict=True)]
    return sorted(rows, key=lambda row: float(str(row["bill"])))


def unbeaten(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    best, kept = -1.0, []
    for row in rows:
        if float(str(row["available"])) > best:
            best = float(str(row["available"]))
            kept.append(row)
    return kept


def report(given: argparse.Namespace) -> dict[str, object]:
    figures: dict[str, object] = {}
    for window in WINDOWS:
        for name, ttl in (("5m", 300.0), ("1h", 3600.0)):
            (figures[f"{window} {name}"],) = played(given, [CHOSEN], window, ttl)
            print(f"{window:>9,} {name}  {figures[f'{window} {name}']}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_arguments(parser, "search")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", action="store_true", help="for a program that sets no cache breakpoints itself")
    parser.add_argument("--recall", action="store_true", help="also charge a query for each missing name; slower")
    parser.add_argument("--report", action="store_true", help="measure the default in all windows on the report half")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.report:
        given.half = "report"
        result: object = report(given)
    else:
        rows = search(given)
        result = rows
        for row in unbeaten(rows):
            mine = " <- the default" if row["settings"] is CHOSEN else ""
            print(f"{row['bill']:.3f}  {row['available']:.3f}  {row['in_context']:.3f}  {row['settings']}{mine}")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
