"""What a turn costs when it acts: `python benchmarks/acting.py [--data ../shared/data] [--sessions N] [--json]`.

It replays recorded sessions as if their clients had never compacted: the default policy, no model, in memory, billed
for what was sent. CPU times are grouped by what the turn did. Every session is replayed several times, and the fastest
time of each turn counts, because the machine may be busy; the slowest of all is printed too. If LangChain is installed,
its `ContextEditingMiddleware` gets the same conversations. At the end it prints how many recorded calls of the first
three sessions `ebb replay` replays and scores in a second under one policy, recall queries included.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebbtide.core.types import Usage
from ebbtide.formats import load
from ebbtide.replay.contenders import EngineContender
from ebbtide.replay.run import ReplayOptions, replay_file
from ebbtide.replay.session import ReplaySession, sessions_in

WINDOWS = (200_000, 128_000, 64_000)
PROMISED = 150
"""CPU milliseconds of a turn that acts, at up to 200,000 tokens."""
CALLS = 40
"""A session with fewer never fills a window."""
FOLDS, ARRIVAL = frozenset({"summarize", "fold_regions"}), frozenset({"offload_results", "offload_input"})
REPLAYED = 3
"""Sessions that `ebb replay` is timed with."""
PEER = "langchain ContextEditingMiddleware"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    did: str
    """`idle`, `offloading` on arrival, `clearing` or `folding`."""
    tokens: int
    """Before the turn did anything."""
    cpu: float
    """Milliseconds of the fastest replay."""
    slowest: float


def recordings(data: Path, most: int) -> list[Path]:
    """Return the sessions that are long enough, in an order that does not depend on their content."""
    with (data / "MANIFEST.csv").open() as manifest:
        rows = [row for row in csv.DictReader(manifest) if row["kind"] == "session"]
    long = [row for row in rows if row["api_calls"].isdigit() and int(row["api_calls"]) >= CALLS]
    return [data / row["file"] for row in sorted(long, key=lambda row: row["sha256"])[:most]]


def ours(tape: ReplaySession, window: int) -> Iterator[tuple[str, int, float]]:
    """Return what each turn did, its tokens, and its time."""
    engine = EngineContender(tape, "default", window)
    for take in tape.calls:
        start = time.process_time()
        out = engine.send(take)
        cpu = 1000 * (time.process_time() - start)
        if out.does_not_fit:
            yield "refused", 0, cpu
            continue
        report = engine._context._last.report  # type: ignore[union-attr]
        by = {edit.by for edit in report.edits}
        did = "folding" if by & FOLDS else "clearing" if by - ARRIVAL else "offloading" if by else "idle"
        yield did, report.tokens_before, cpu
        engine.record_usage(take, Usage(input=10, cache_read=max(0, report.tokens_after - 10)))


def theirs(tape: ReplaySession, window: int) -> Iterator[tuple[str, int, float]]:
    """Time the middleware's own call, with the settings suggested for this window. Messages are converted before."""
    from langchain.agents.middleware import ClearToolUsesEdit  # noqa: PLC0415 - may not be installed
    from langchain.agents.middleware.types import ModelRequest  # noqa: PLC0415
    from peers_langchain import Editing  # noqa: PLC0415

    arm = Editing(tape, window, lambda window: [ClearToolUsesEdit(trigger=window * 8 // 10, keep=10)])
    for take in tape.calls:
        arm.hear(take)
        arm.thread.keep()
        request = ModelRequest(model=arm._model, messages=list(arm.thread.state))
        start = time.process_time()
        edited: Any = arm._middleware.wrap_model_call(request, lambda given: given)
        cpu = 1000 * (time.process_time() - start)
        pairs = zip(edited.messages, request.messages, strict=True)
        yield ("clearing" if any(one.content != was.content for one, was in pairs) else "idle"), 0, cpu


def played(files: list[Path], window: int, subject: Any, times: int) -> list[Turn]:
    found: list[Turn] = []
    for path in files:
        for tape in sessions_in(load(path), path.name):
            # The recording belongs to the benchmark, not to the subject, so the collector need not look at it.
            gc.collect()
            gc.freeze()
            runs = [list(subject(tape, window)) for _ in range(times)]
            gc.unfreeze()
            for same in zip(*runs, strict=True):
                took = [cpu for _, _, cpu in same]
                found.append(Turn(did=same[0][0], tokens=same[0][1], cpu=min(took), slowest=max(took)))
    return found


def told(turns: list[Turn]) -> dict[str, dict[str, float]]:
    kinds = dict.fromkeys(["idle", "offloading", "clearing", "folding", *(turn.did for turn in turns)])
    by = {kind: sorted((turn for turn in turns if turn.did == kind), key=lambda turn: turn.cpu) for kind in kinds}
    return {
        kind: {
            "turns": len(some),
            "median": some[len(some) // 2].cpu,
            "p99": some[len(some) * 99 // 100].cpu,
            "max": some[-1].cpu,
            "tokens_at_max": some[-1].tokens,
            "over_150_ms": sum(turn.cpu > PROMISED for turn in some),
            "slowest": max(turn.slowest for turn in some),
        }
        for kind, some in by.items()
        if some
    }


def throughput(files: list[Path]) -> dict[str, float]:
    """`ebb replay` of these files under the default policy alone."""
    start, calls = time.process_time(), 0
    for path in files:
        calls += replay_file(path, ReplayOptions(policies=("default",))).scores["default"].calls
    cpu = time.process_time() - start
    return {"sessions": len(files), "calls": calls, "cpu_seconds": cpu, "calls_per_second": calls / cpu}


def measured(files: list[Path], windows: list[int], times: int) -> dict[str, Any]:
    # What a process compiles and imports at its first compaction is not part of a turn.
    played(files[:1], 32_000, ours, 1)
    try:
        import langchain  # noqa: F401, PLC0415
    except ImportError:
        peer = False
    else:
        peer = True
    found: dict[str, Any] = {}
    for window in windows:
        found[str(window)] = {"ebbtide": told(played(files, window, ours, times))}
        if peer:
            found[str(window)][PEER] = told(played(files, window, theirs, 1))
    return found


def table(found: dict[str, Any]) -> str:
    lines = [f"{'CPU ms':44}{'turns':>8}{'median':>9}{'p99':>9}{'max':>9}{'at tokens':>11}{'slowest':>9}"]
    for window, subjects in found["windows"].items():
        for name, kinds in subjects.items():
            for kind, one in kinds.items():
                label = f"{int(window):,} {name}, {kind}"[:44]
                figures = "".join(f"{one[key]:9.1f}" for key in ("median", "p99", "max"))
                lines.append(f"{label:44}{one['turns']:8}{figures}{one['tokens_at_max']:11,}{one['slowest']:9.1f}")
    replay = found["replay"]
    lines.append(
        f"replay: {replay['calls']} calls of {replay['sessions']} sessions, {replay['calls_per_second']:.0f} a second"
    )
    return "\n".join(lines)


def promises(found: dict[str, Any]) -> list[str]:
    said = []
    for window, subjects in found["windows"].items():
        acting = [one for kind, one in subjects["ebbtide"].items() if kind != "idle"]
        worst = max((one["max"] for one in acting), default=0.0)
        met = "met   " if worst <= PROMISED else "MISSED"
        said.append(f"{met} window {int(window):,}: an acting turn takes {worst:.0f} ms at the most ({PROMISED})")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--windows", default=",".join(map(str, WINDOWS)))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    files = recordings(given.data, given.sessions)
    windows = [int(window) for window in given.windows.split(",")]
    found = {
        "sessions": len(files),
        "times": given.times,
        "gc": "on; what was loaded is frozen",
        "windows": measured(files, windows, given.times),
        "replay": throughput(files[:REPLAYED]),
    }
    if given.json:
        json.dump(found, sys.stdout, default=asdict, indent=1)
        return
    print(table(found))
    print("\n".join(promises(found)))


if __name__ == "__main__":
    main()
