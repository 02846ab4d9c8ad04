"""How long a commit takes, and how long it takes to resume a session of 100 MB.

    python benchmarks/store.py [--megabytes 100] [--json]

*Commit*: one record of 4 KB, synced to disk or not. *Resume*: opens a log of this many megabytes, written by a
real conversation, and restores its state from the checkpoint, and from all lines without a checkpoint. *Verify* checks
the sum of every line. Memory is the peak of a separate process, minus what it had before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conversation import TASK, anthropic, request, steps

import ebbtide
from ebbtide.store import DirectoryStore
from ebbtide.store.directory.verify import verify_log

RECORD: dict[str, object] = {"type": "user", "message": {"role": "user", "content": "x" * 4000}}
ENDLESS = 10**9
PROMISED = 1.0
"""Seconds to resume 100 MB."""


def percentiles(act: Callable[[], object], times: int) -> dict[str, float]:
    """Milliseconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - start))
    cuts = statistics.quantiles(taken, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


def commits(place: str, durable: bool) -> dict[str, dict[str, float]]:
    log = DirectoryStore(place, durable=durable).open("s", now=0.0)
    committed = percentiles(lambda: log.commit([RECORD], at=0.0), 300)
    end = log.read().position
    return {"commit": committed, "since, nothing new": percentiles(lambda: log.read_since(end), 1000)}


def written(place: str, megabytes: int) -> Path:
    """Write a session until its log is this large: a request for every two messages, each with its usage."""
    now = 0.0
    ctx = ebbtide.Context(window=ENDLESS, store=place, session="s", durable=False, clock=lambda: now)
    talk: list[dict[str, object]] = [{"role": "user", "content": TASK}]
    path = Path(place) / "projects" / "_" / "s.jsonl"
    for n, step in enumerate(steps()):
        now += 10.0
        ready = ctx.prepare(request(talk))
        pair = anthropic(step)
        usage = {"input_tokens": ready.report.tokens_after, "output_tokens": 60}
        ctx.record({"role": "assistant", "content": pair[0]["content"], "usage": usage})
        talk += pair
        if n % 100 == 0 and path.stat().st_size > megabytes * 1_000_000:
            return path
    raise AssertionError("steps never end")


def resumed(place: str) -> dict[str, float]:
    """Measure in this process: wall and CPU seconds, and peak megabytes."""
    assert ebbtide.Context, "imported before the clock starts"
    before = _most_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    ctx = ebbtide.Context(window=ENDLESS, store=place, session="s", durable=False)
    ctx.edits()
    spent = time.perf_counter() - wall, time.process_time() - cpu
    assert ctx.counters(), "its turns are known"
    return {"seconds": spent[0], "cpu_seconds": spent[1], "memory_mb": _most_memory() - before}


def _most_memory() -> float:
    """Return the peak memory of this process in megabytes; `getrusage` would start with its parent's."""
    told = Path("/proc/self/status")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def alone(place: str, runs: int) -> dict[str, float]:
    """Return the fastest of several processes: a busy machine slows the others."""
    command = [sys.executable, str(Path(__file__)), "--resume", place]
    told = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(runs)]
    found: list[dict[str, float]] = [json.loads(one) for one in told]
    return min(found, key=lambda one: one["seconds"])


def recovery(place: str, megabytes: int) -> dict[str, Any]:
    path = written(place, megabytes)
    memo = path.with_suffix(".resume")
    lines = path.read_bytes().count(b"\n")
    with_memo = alone(place, 5)
    covered = memo.stat().st_size if memo.exists() else 0
    memo.unlink(missing_ok=True)
    without = alone(place, 3)
    start, cpu = time.perf_counter(), time.process_time()
    assert verify_log(path).ok
    return {
        "log_bytes": path.stat().st_size,
        "log_lines": lines,
        "checkpoint_bytes": covered,
        "resume": with_memo,
        "resume, no checkpoint": without,
        "verify": {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu},
    }


def measured(megabytes: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, durable in (("durable", True), ("not durable", False)):
        with tempfile.TemporaryDirectory() as place:
            found[name] = commits(place, durable)
    with tempfile.TemporaryDirectory() as place:
        return {**found, "megabytes": megabytes, **recovery(place, megabytes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--resume", help="resume the log in this folder (used internally)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.resume:
        json.dump(resumed(given.resume), sys.stdout)
        return
    found = measured(given.megabytes)
    if given.json:
        json.dump(found, sys.stdout, indent=1)
        return
    for name in ("durable", "not durable"):
        for what, one in found[name].items():
            print(f"{name}, {what}: p50 {one['p50']:.3f} ms, p99 {one['p99']:.3f} ms")
    for name in ("resume", "resume, no checkpoint"):
        one = found[name]
        print(f"{name}: {one['seconds']:.2f} s, {one['cpu_seconds']:.2f} s of CPU, {one['memory_mb']:.0f} MB more")
    print(f"verify: {found['verify']['seconds']:.2f} s")
    met = found["resume"]["seconds"] <= PROMISED
    print(f"{'met   ' if met else 'MISSED'} resume of {given.megabytes} MB (promised: {PROMISED:.0f} s)")


if __name__ == "__main__":
    main()
