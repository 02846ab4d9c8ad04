"""Run every arm on the same recorded sessions: our policies, rules of others, and the real code of three peers.

The peers run from their packages, so this needs their environment (requirements/bench.txt). Each has two rows: one with
the settings in its documentation, and one with those that it suggests for a window of this size.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit
from peers_harness import Tiered, file_key
from peers_langchain import Editing, Summarization
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    DeduplicateFileReads,
    SummarizingCompaction,
    TieredCompaction,
)

from ebbtide.replay.contenders import MakeContender
from ebbtide.replay.policies import NAMES
from ebbtide.replay.run import ReplayOptions, find_sessions, replay_file
from ebbtide.replay.score import Score

ENDLESS = 10**9
"""A window that is never full."""
PACKAGES = ("langchain", "langchain-core", "pydantic-ai-harness", "pydantic-ai-slim")


def _tiered(window: int) -> TieredCompaction[Any]:
    """The example in its README. There a tier's own trigger is ignored."""
    del window
    tiers = [
        DeduplicateFileReads(file_key=file_key),
        ClearToolResults(max_tokens=1, keep_pairs=3),
        SummarizingCompaction(max_messages=1, keep_messages=20),
    ]
    return TieredCompaction(tiers=tiers, target_tokens=120_000)


def _tiered_for(window: int) -> TieredCompaction[Any]:
    """By a fraction of an explicit window, as its README recommends if the price table has a wrong one."""
    tiers = [
        DeduplicateFileReads(file_key=file_key),
        ClearToolResults(max_tokens=1, keep_pairs=3),
        SummarizingCompaction(max_messages=1, keep_tokens=window // 10),
    ]
    return TieredCompaction(tiers=tiers, target_fraction=0.8, context_window=window)


SETTINGS: dict[str, tuple[str, Callable[..., Any]]] = {
    "langchain-summary": (
        "SummarizationMiddleware(trigger=('fraction', 0.8)): else as by default, keep=('messages', 20), "
        "trim_tokens_to_summarize=4000. Without a trigger, its default, it never acts.",
        partial(Summarization, settings={"trigger": ("fraction", 0.8)}),
    ),
    "langchain-summary-tuned": (
        "trigger=('fraction', 0.85), keep=('fraction', 0.1), trim_tokens_to_summarize=None: "
        "what deepagents sets where the model's window is known",
        partial(
            Summarization,
            settings={"trigger": ("fraction", 0.85), "keep": ("fraction", 0.1), "trim_tokens_to_summarize": None},
        ),
    ),
    "langchain-editing": (
        "ContextEditingMiddleware(): ClearToolUsesEdit(trigger=100_000, keep=3)",
        partial(Editing, edits=lambda _: [ClearToolUsesEdit()]),
    ),
    "langchain-editing-tuned": (
        "ClearToolUsesEdit(trigger=80 % of the window, keep=10)",
        partial(Editing, edits=lambda window: [ClearToolUsesEdit(trigger=window * 4 // 5, keep=10)]),
    ),
    "harness-tiered": (
        "TieredCompaction([DeduplicateFileReads, ClearToolResults(keep_pairs=3), "
        "SummarizingCompaction(keep_messages=20)], target_tokens=120_000)",
        partial(Tiered, made=_tiered),
    ),
    "harness-tiered-tuned": (
        "the same tiers, SummarizingCompaction(keep_tokens=a tenth of the window), target_fraction=0.8",
        partial(Tiered, made=_tiered_for),
    ),
}

Row = dict[str, dict[str, float]]
"""The sums of a file, by arm."""


def makings(window: int) -> dict[str, MakeContender]:
    return {name: partial(made, window=window) for name, (_, made) in SETTINGS.items()}


def idle() -> dict[str, MakeContender]:
    """The same peers in a window that is never full: they must return their input."""
    return {name: made for name, made in makings(ENDLESS).items() if name.endswith("-tuned")}


def _played(path: Path, terms: ReplayOptions, wanted: frozenset[str]) -> tuple[Row, str]:
    warnings.simplefilter("ignore")  # From the packages: some of their features are beta.
    more = {name: made for name, made in makings(terms.window).items() if name in wanted}
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


def halves(data: Path) -> dict[str, str]:
    """Return the half of each file in the manifest, by the parity of its sha256, as in retention_points.py."""
    with (data / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["file"]: "report" if int(row["sha256"], 16) % 2 else "search" for row in rows}


def chosen(paths: Iterable[str], data: Path, half: str) -> dict[str, Path]:
    """Return the files of the requested half, by their names in the data folder."""
    known = halves(data)
    named = {os.path.relpath(path, data): path for path in find_sessions(list(paths) or [data])}
    return {name: path for name, path in named.items() if half == "all" or known.get(name) == half}


def rows(found: dict[str, Path], terms: ReplayOptions, given: argparse.Namespace) -> Iterator[tuple[str, Row, str]]:
    """Return the tasks, largest first, so that all cores stay busy. Arms saved by an earlier run are not run again."""
    arms = frozenset((*terms.policies, *SETTINGS))
    known, again = _kept(given.kept), frozenset(given.again.split(","))
    wanted = {name: arms - (known.get(name, {}).keys() - again) for name in found}
    yield from ((name, known[name], "") for name in found if name in known)
    left = sorted((name for name in found if wanted[name]), key=lambda name: -found[name].stat().st_size)
    with ProcessPoolExecutor(given.workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
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


def shares(scores: dict[str, Score]) -> dict[str, dict[str, float]]:
    """Return the scores: costs relative to raw, and shares."""
    raw = scores["raw"]
    return {
        name: {
            "bill": _share(one.bill, raw.bill),
            "bill_without_cache": _share(one.uncached, raw.uncached),
            "bill_of_its_own_calls": _share(one.asked, raw.bill),
            "bill_with_recalls": _share(one.bill + one.recalled, raw.bill),
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


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


COLUMNS = {
    "bill": "bill",
    "bill_without_cache": "uncached",
    "bill_of_its_own_calls": "own calls",
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
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "window": terms.window,
        "ttl_seconds": terms.ttl,
        "settings": {name: words for name, (words, _) in SETTINGS.items()},
        "failed": failed,
        "halves": {},
    }
    for half in ("search", "report", "all"):
        rows = {name: row for name, row in results.items() if half in ("all", known.get(name))}
        if rows:
            scores = summed(rows.values())
            raw = scores["raw"]
            part = {"files": list(rows), "calls": raw.calls, "uses": raw.used, "raw_dollars": round(raw.bill, 2)}
            found["halves"][half] = {**part, "arms": shares(scores)}
    return found


def main() -> None:
    given = _arguments()
    terms = ReplayOptions(policies=tuple(given.arms.split(",")), window=given.window, ttl=given.ttl)
    found = chosen(given.paths, given.data, given.half)
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
    parser.add_argument("paths", nargs="*", help="files or folders; default: the whole data folder")
    parser.add_argument("--data", type=Path, required=True, help="the folder with MANIFEST.csv")
    parser.add_argument("--half", choices=("search", "report", "all"), default="all")
    parser.add_argument("--window", type=_tokens, default=200_000)
    parser.add_argument("--ttl", type=float, default=300.0, help="seconds that the provider caches a prefix")
    parser.add_argument("--arms", default=",".join(NAMES), help="policies to run besides the real peers")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 for one per core")
    parser.add_argument("--kept", type=Path, help="save finished results in this file, and continue from it")
    parser.add_argument("--again", default="", help="arms to run again although they are saved")
    parser.add_argument("--check", action="store_true", help="only check that idle peers send the raw request")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
