"""Run every arm on the same recorded sessions: our policies, rules of others, and the real code of three peers.

The peers run from their packages, so they need their environment (requirements/bench.txt); without it they are left
out, and the output says so. Each has two rows: one with the settings in its documentation, and one with those that it
suggests for a window of this size. They run behind a client that sets its cache breakpoints, as `default` and the
presets do; `default+library` is for a program that sets none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from recordings import SMALL, add_data_arguments, choose_files, halves, shares

from ebbtide.replay.policies import NAMES
from ebbtide.replay.run import ReplayOptions, replay_file
from ebbtide.replay.score import Score

try:
    from peers_arms import SETTINGS, idle, makings, versions
except ImportError as error:
    SETTINGS, MISSING = {}, str(error)
else:
    MISSING = ""

Row = dict[str, dict[str, float]]
"""The sums of a file, by arm."""


def _played(path: Path, terms: ReplayOptions, wanted: frozenset[str]) -> tuple[Row, str]:
    warnings.simplefilter("ignore")  # From the packages: some of their features are beta.
    more = {name: made for name, made in makings(terms.window).items() if name in wanted} if SETTINGS else {}
    done = replay_file(path, replace(terms, policies=tuple(name for name in terms.policies if name in wanted)), more)
    return {name: score.as_dict() for name, score in done.scores.items()}, done.error


def check(found: Iterable[Path], terms: ReplayOptions) -> bool:
    """Check that each peer sends exactly the raw request while it has no reason to act. Print where one does not."""
    good = True
    for path in found:
        done = replay_file(path, replace(terms, policies=("raw",), has_recall=False), idle())
        wrong = [name for name, score in done.scores.items() if score != done.scores["raw"]]
        print(f"{path.name}: {', '.join(wrong) or 'as raw'}")
        good = good and not wrong
    return good


# --- which files ------------------------------------------------------------------------------------------------------


def rows(found: dict[str, Path], terms: ReplayOptions, given: argparse.Namespace) -> Iterator[tuple[str, Row, str]]:
    """Return the tasks, largest first, so that all cores stay busy. Arms saved by an earlier run are not run again."""
    arms = frozenset((*terms.policies, *SETTINGS))
    known, again = _kept(given.kept), frozenset(given.again.split(","))
    wanted = {name: arms - (known.get(name, {}).keys() - again) for name in found}
    yield from ((name, known[name], "") for name in found if name in known)
    left = sorted((name for name in found if wanted[name]), key=lambda name: -found[name].stat().st_size)
    with ProcessPoolExecutor(given.jobs or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_played, found[name], terms, wanted[name]): name for name in left}
        for n, done in enumerate(as_completed(waiting), 1):
            name, (row, failed) = waiting[done], done.result()
            print(f"\r{n} of {len(left)} files", end="", file=sys.stderr)
            if given.kept is not None and not failed:
                with given.kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, row]) + "\n")
            yield name, row, failed
    print(file=sys.stderr)


def _kept(path: Path | None) -> dict[str, Row]:
    """Return saved rows by file; of two rows for one arm, the later one."""
    known: dict[str, Row] = {}
    if path is not None and path.exists():
        for name, row in map(json.loads, path.read_text("utf-8").splitlines()):
            known.setdefault(name, {}).update(row)
    return known


# --- what is shown ----------------------------------------------------------------------------------------------------


def summed(rows: Iterable[Row]) -> dict[str, Score]:
    whole: dict[str, Score] = {}
    for row in rows:
        for name, values in row.items():
            whole[name] = whole.get(name, Score()).plus(Score(**values))  # type: ignore[arg-type]
    return whole


COLUMNS = {
    "bill": "bill",
    "bill_without_surcharge": "short prices",
    "bill_without_cache": "uncached",
    "bill_of_its_own_calls": "own calls",
    "bill_with_recalls": "+ recall",
    "bill_with_repairs": "+ repair",
    "available": "available",
    "in_context": "in context",
    "available_or_recoverable": "or found",
    "user_words": "user words",
    "mean": "mean",
    "peak": "peak",
    "over": "over",
    "breaks": "breaks",
    "invalid": "invalid",
}


def table(scores: dict[str, Score]) -> str:
    lines = ["| arm | " + " | ".join(COLUMNS.values()) + " |", "|" + "---|" * (1 + len(COLUMNS))]
    for name, one in shares(scores).items():
        cells = (f"{one[key]:.3f}" if isinstance(one[key], float) else f"{one[key]:,}" for key in COLUMNS)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def told(results: dict[str, Row], terms: ReplayOptions, data: Path, failed: dict[str, str]) -> dict[str, Any]:
    known = halves(data)
    found: dict[str, Any] = {
        "versions": versions() if SETTINGS else {},
        "window": terms.window,
        "ttl_seconds": terms.ttl,
        "settings": {name: words for name, (words, _) in SETTINGS.items()},
        "failed": failed,
        "halves": {},
    }
    small = {name for name, row in results.items() if row["raw"]["peak"] <= SMALL}
    for half in ("search", "report", "all", "small"):
        rows = {
            name: row
            for name, row in results.items()
            if half in ("all", known.get(name)) or (half == "small" and name in small)
        }
        if rows:
            scores = summed(rows.values())
            raw = scores["raw"]
            part = {"files": list(rows), "calls": raw.calls, "uses": raw.used, "raw_dollars": round(raw.bill, 2)}
            found["halves"][half] = {**part, "arms": shares(scores)}
    return found


def main() -> None:
    given = _arguments()
    if MISSING:
        print(f"without the peers: {MISSING}", file=sys.stderr)
    arms = ("raw", *(name for name in given.arms.split(",") if name != "raw"))
    terms = ReplayOptions(policies=arms, window=given.window, ttl=given.ttl)
    found = choose_files(given.data, given.half, given.every)
    if given.check:
        sys.exit(0 if check(found.values(), terms) else 1)
    results: dict[str, Row] = {}
    failed: dict[str, str] = {}
    for name, row, reason in rows(found, terms, given):
        if reason:
            failed[name] = reason.replace(str(given.data), "")
        else:
            results.setdefault(name, {}).update(row)
    results = _in_order(results, (*terms.policies, *SETTINGS))
    print(f"{len(results)} files, half: {given.half}, window {terms.window:,}; bills against raw's\n")
    print(table(summed(results.values())))
    for name, reason in failed.items():
        print(f"left out: {name}: {reason}", file=sys.stderr)
    if given.json:
        given.json.parent.mkdir(exist_ok=True)
        given.json.write_text(json.dumps(told(results, terms, given.data, failed), indent=1) + "\n", "utf-8")


def _in_order(results: dict[str, Row], arms: Iterable[str]) -> dict[str, Row]:
    """Sort files by name and arms as requested, in whatever order they finished."""
    order = list(arms)
    return {name: {arm: row[arm] for arm in order if arm in row} for name, row in sorted(results.items())}


def _tokens(text: str) -> int:
    return int(text[:-1]) * 1_000 if text[-1] in "kK" else int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_data_arguments(parser, "all")
    parser.add_argument("--window", type=_tokens, default=200_000)
    parser.add_argument("--ttl", type=float, default=300.0, help="seconds that the provider caches a prefix")
    parser.add_argument("--arms", default=",".join(NAMES), help="policies to run besides the real peers")
    parser.add_argument("--kept", type=Path, help="save finished results in this file, and continue from it")
    parser.add_argument("--again", default="", help="arms to run again although they are saved")
    parser.add_argument("--check", action="store_true", help="only check that idle peers send the raw request")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
