"""The fault campaign: `python -m benchmarks.faults [--only kill,eio] [--quick] [--jobs 2] [--seed 1]`.

It injects every class of faults at its points and makes the same checks each time: is the session usable afterwards,
is everything there that was acknowledged, does every stub name an existing file, does `verify` report the damage, does
a client of the proxy get the whole answer or a clear error? The result of each class goes to
`benchmarks/results/faults.json` when it ends, and the table in `docs/explanation/faults.md` is rewritten. `--quick`
tries a handful of points of each class and writes nothing unless you pass `--results`. The exit code is 1 if anything
went wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.all import machine
from benchmarks.faults import disk, others, proxies, streams
from benchmarks.faults.sessions import DATA, GENERATED, Place, Story, Tally, generated, recorded
from benchmarks.faults.table import RECORDED, RESULTS, as_dict, merged, write_page

Task = Callable[[], Tally]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a class is tried."""

    points: int
    """Points in total; 0 for every call once in each story."""
    stories: Sequence[int] = range(len(GENERATED))
    """Indexes into `GENERATED`."""


FULL = {
    "kill": Size(2_160),
    "eio": Size(0, [0]),
    "enospc": Size(0, [1]),
    "eintr": Size(0, [2]),
    "short": Size(0),
    "torn": Size(400),
    "flips": Size(800),
    "writers": Size(32),
    "clocks": Size(200),
    "gc": Size(120),
}
QUICK = {name: Size(3, [0]) for name in FULL} | {"writers": Size(1, [0])}
STREAMS, POSITIONS = 30, 200
RECORDED_SESSIONS, RECORDED_POINTS = 20, 4
TURNS, LATE_TURNS = 28, 12
_SKIPPED = "skipped: the recorded sessions are not beside the project"
PIECES = 4
"""Number of parts that the points of a story are split into, so that all processes stay busy to the end."""


# Each of these runs in its own process, so it must be at the top level of the module.


def try_story(name: str, story: Story, points: int, seed: int) -> Tally:
    where = Path(tempfile.mkdtemp(prefix="ebb-faults-"))
    try:
        place = Place(where, story)
        disk.check_unfaulted(place)
        return others.CLASSES[name](place, points, random.Random(seed))
    finally:
        shutil.rmtree(where, ignore_errors=True)


def try_generated(name: str, number: int, points: int, seed: int) -> Tally:
    wire, window = GENERATED[number]
    return try_story(name, generated(wire, window, seed % 7 * 50), points, seed)


def try_streams(count: int, positions: int, seed: int) -> Tally:
    return streams.upstream_faults(count, positions, seed, _silent)


def try_recorded_streams(stories: Sequence[Story], seed: int) -> Tally:
    return streams.recorded_faults(stories, 2, seed, _silent)


def try_proxies(turns: int, load: int, seed: int) -> Tally:
    return proxies.two_proxies(turns, seed, _silent, load=load)


def try_late(turns: int, seed: int) -> Tally:
    return proxies.late(turns, seed, _silent)


def _silent(_: int) -> None:
    """Print progress for each task."""


def tasks(name: str, *, quick: bool, seed: int, stories: Sequence[Story]) -> list[Task]:
    """Return the tasks of a class."""
    if name == "upstream":
        count, positions = (2, 1) if quick else (STREAMS, POSITIONS)
        return [
            partial(try_streams, 1 if quick else 3, positions, seed + n) for n in range(0, count, 1 if quick else 3)
        ]
    if name == "two-proxies":
        turns, load = (2, 0) if quick else (TURNS, 2 * (os.cpu_count() or 1))
        return [partial(try_proxies, turns, load, seed + n) for n in range(1 if quick else 6)]
    if name == "late":
        return [partial(try_late, 2 if quick else LATE_TURNS, n) for n in ((1,) if quick else range(9))]
    if name.startswith(RECORDED):
        inner = name.removeprefix(RECORDED)
        if inner == "upstream":
            return [partial(try_recorded_streams, [one], seed + n) for n, one in enumerate(stories)]
        return [partial(try_story, inner, one, RECORDED_POINTS, seed + n) for n, one in enumerate(stories)]
    size = (QUICK if quick else FULL)[name]
    if not size.points or quick:
        # Every call: one piece, or some would be tried twice.
        return [partial(try_generated, name, story, size.points, seed) for story in size.stories]
    each = -(-size.points // (PIECES * len(size.stories)))
    numbers = [(piece, story) for piece in range(PIECES) for story in size.stories]
    return [partial(try_generated, name, story, each, seed + piece) for piece, story in numbers]


CLASSES = (*FULL, "upstream", "two-proxies", "late", *(f"{RECORDED}{name}" for name in (*FULL, "upstream")))


def timed(task: Task) -> tuple[Tally, float]:
    began = time.monotonic()
    return task(), time.monotonic() - began


def campaign(names: Sequence[str], jobs: int, *, quick: bool, seed: int, results: Path | None) -> dict[str, Tally]:
    """Run all classes at once, so that no process is idle. Print and save each when its last task ends."""
    stories = recorded(DATA, 1 if quick else RECORDED_SESSIONS) if any(n.startswith(RECORDED) for n in names) else []
    found = {name: Tally() for name in names}
    seconds, before = dict.fromkeys(names, 0.0), machine()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        todo = {name: tasks(name, quick=quick, seed=seed, stories=stories) for name in names}
        futures = {pool.submit(timed, task): name for name in names for task in todo[name]}
        left = {name: len(todo[name]) for name in names}
        for name in names:
            if not todo[name]:
                found[name].note = _SKIPPED
                _end(name, found[name], 0.0, before, results)
        for done in as_completed(futures):
            name = futures[done]
            tally, took = done.result()
            found[name].add(tally)
            seconds[name] += took
            left[name] -= 1
            _tell(name, len(todo[name]) - left[name], len(todo[name]), found[name])
            if not left[name]:
                _end(name, found[name], seconds[name], before, results)
    return found


def _end(name: str, tally: Tally, seconds: float, before: dict[str, object], results: Path | None) -> None:
    if results is not None:
        merged(results, name, as_dict(tally, seconds, before))
    print(f"{name}: {_sentence(tally)}", flush=True)


def _tell(name: str, done: int, of: int, tally: Tally) -> None:
    if done < of:
        print(f"{name}: {done} of {of}, {tally.points} points", file=sys.stderr, flush=True)


def _sentence(tally: Tally) -> str:
    wrong = [f"{count} {kind}" for kind, count in tally.bad.items() if count]
    said = f"{tally.points:,} points, {tally.requests:,} requests checked, {', '.join(wrong) or 'nothing wrong'}"
    return "\n  ".join([tally.note or said, *tally.examples])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="CLASS,...", default=",".join(CLASSES), help=f"of {', '.join(CLASSES)}")
    parser.add_argument("--quick", action="store_true", help="try a handful of points of each class")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="default: benchmarks/results/faults.json, with --quick nowhere")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := [name for name in names if name not in CLASSES]:
        parser.error(f"no such class: {', '.join(unknown)}")
    results = given.results or (None if given.quick else RESULTS)
    found = campaign(names, given.jobs, quick=given.quick, seed=given.seed, results=results)
    if results == RESULTS:
        write_page()
    return 1 if any(any(tally.bad.values()) for tally in found.values()) else 0
