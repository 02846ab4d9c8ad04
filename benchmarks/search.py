"""Search for the default's numbers, and measure them on the sessions that were not searched.

`python benchmarks/search.py --data DIR` tries settings on the half of the recordings whose sha256 in the manifest is
even, at random with a seed, next to the current default. `--report` replays the default on the other half, in several
windows and with both cache lifetimes. More availability costs more money, so the table is sorted by bill, and settings
that another one beats on both are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from ebbtide.formats import load
from ebbtide.passes import clear_results, summarize
from ebbtide.policy import Policy
from ebbtide.policy import default as ours
from ebbtide.policy.adjust import pass_name
from ebbtide.policy.default import offload_large, offload_paste, watermarks
from ebbtide.replay.contenders import EngineContender, RawContender
from ebbtide.replay.score import Score, Scorer, names_used_by_call
from ebbtide.replay.session import ReplaySession, sessions_in

GRID: Mapping[str, tuple[float, ...]] = {
    "auto": (0.6, 0.7, 0.8, 0.9),
    "soft": (0.85, 0.95, 1.0),  # share of auto: from here on a batch is made early, if it pays
    "low": (0.25, 0.35, 0.45, 0.55, 0.65),
    "tidy": (70_000, 100_000, 130_000),
    "telling": (0.0, 0.15, 0.3, 0.4, 0.6),
    "most": (400, 1_200, 3_000),
    "large": (4_000, 8_000, 12_500, 25_000),
    "ledger": (8_000, 14_000, 25_000),
    "tail": (4_000, 8_000, 16_000),
}
CHOSEN = {
    "auto": 0.8, "soft": 0.95, "low": 0.35, "tidy": 100_000, "telling": 0.4, "most": 1_200, "large": 12_500,
    "ledger": 14_000, "tail": 8_000,
}  # fmt: skip
WINDOWS = (32_000, 64_000, 128_000, 200_000, 1_000_000)


def policy(settings: Mapping[str, float]) -> Policy:
    marks = watermarks(
        low=min(settings["low"], settings["auto"]),
        soft=max(settings["low"], settings["auto"] * settings["soft"]),
        auto=settings["auto"],
        tidy=int(settings["tidy"]),
    )
    cleared = partial(clear_results, telling=settings["telling"], telling_tokens=int(settings["most"]))
    folded = partial(
        summarize,
        ledger_tokens=int(settings["ledger"]),
        keep_tokens=int(settings["tail"]),
    )
    return replace(
        ours,
        levels=marks,
        arrival=(partial(offload_large, limit=int(settings["large"])), offload_paste),
        pressure=tuple(cleared if pass_name(one) == "clear_results" else one for one in ours.pressure),
        folds=(folded,),
    )


def sessions(data: Path, half: str, every: int) -> list[str]:
    """Return files of one half with more than a handful of calls, largest first; only every `every`-th."""
    with (data / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    odd = half == "report"
    mine = [row for row in rows if int(row["sha256"], 16) % 2 == odd and int(row["api_calls"] or 0) >= 10]
    mine.sort(key=lambda row: (-int(row["raw_bytes"]), row["file"]))
    return [row["file"] for row in mine][::every]


@lru_cache(maxsize=64)
def _tapes(path: Path) -> tuple[tuple[ReplaySession, tuple[frozenset[str], ...]], ...]:
    return tuple((tape, tuple(names_used_by_call(tape))) for tape in sessions_in(load(path), path.name))


def play(job: tuple[Path, list[Mapping[str, float] | None], int, float]) -> list[Score]:
    """Run one file under all settings; None means that requests are never changed."""
    path, trials, window, ttl = job
    scores = [Score() for _ in trials]
    for tape, used in _tapes(path):
        for n, settings in enumerate(trials):
            arm = RawContender(tape) if settings is None else EngineContender(tape, policy(settings), window)
            scores[n] = scores[n].plus(Scorer(tape, arm, window, ttl, used, has_recall=False).run())
    return scores


def played(
    data: Path, half: str, every: int, trials: list[Mapping[str, float]], window: int, ttl: float
) -> Iterator[dict[str, float]]:
    """Return the scores of each trial, relative to never changing a request."""
    files = sessions(data, half, every)
    sums = [Score() for _ in range(len(trials) + 1)]
    with ProcessPoolExecutor() as pool:
        jobs = [(data / file, [None, *trials], window, ttl) for file in files]
        for scores in pool.map(play, jobs):
            sums = [whole.plus(one) for whole, one in zip(sums, scores, strict=True)]
    raw, *rest = sums
    for score in rest:
        yield {
            "bill": round(score.bill / raw.bill, 4),
            "available": round(score.available / max(1, score.used), 4),
            "in_context": round(score.in_context / max(1, score.used), 4),
            "mean_tokens": score.tokens // score.calls,
            "peak_tokens": score.peak,
            "over": score.over,
            "breaks": score.breaks,
            "invalid": score.invalid,
            "calls": score.calls,
            "uses": score.used,
        }


def search(data: Path, trials: int, seed: int, every: int) -> list[dict[str, object]]:
    chance = random.Random(seed)  # a seeded search, nothing secret
    tried: list[Mapping[str, float]] = [CHOSEN]
    tried += [{name: chance.choice(values) for name, values in GRID.items()} for _ in range(trials)]
    found = list(played(data, "search", every, tried, 200_000, 300.0))
    rows = [{"settings": settings, **score} for settings, score in zip(tried, found, strict=True)]
    return sorted(rows, key=lambda row: float(str(row["bill"])))


def unbeaten(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    best, kept = -1.0, []
    for row in rows:
        if float(str(row["available"])) > best:
            best = float(str(row["available"]))
            kept.append(row)
    return kept


def report(data: Path) -> dict[str, object]:
    told: dict[str, object] = {}
    for window in WINDOWS:
        for name, ttl in (("5m", 300.0), ("1h", 3600.0)):
            (told[f"{window} {name}"],) = played(data, "report", 1, [CHOSEN], window, ttl)
            print(f"{window:>9,} {name}  {told[f'{window} {name}']}", flush=True)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=3, help="replay only every Nth session, for speed")
    parser.add_argument("--report", action="store_true", help="measure the default on the half that is not searched")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.report:
        result: object = report(args.data)
    else:
        rows = search(args.data, args.trials, args.seed, args.every)
        result = rows
        for row in unbeaten(rows):
            mine = " <- the default" if row["settings"] is CHOSEN else ""
            print(f"{row['bill']:.3f}  {row['available']:.3f}  {row['in_context']:.3f}  {row['settings']}{mine}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
