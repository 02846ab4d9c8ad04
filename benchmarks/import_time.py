"""What `import ebbtide` costs, next to others: `python benchmarks/import_time.py [--runs 10] [--top 12] [--json]`.

Each import runs in its own process, with its own folder for byte code, which the first round fills. The time of bare
Python is subtracted. All take turns, so that a busy machine slows all of them. Then come the modules that take most of
our import time, by `-X importtime`, with what they import.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BARE = "pass"
OURS = "import ebbtide"
USED = "import ebbtide; ebbtide.Context"
"""Names are loaded on first use, so the cost of the first use of the engine is measured too."""
PEERS = {
    "langchain.agents": "import langchain.agents",
    "langchain_core.messages": "from langchain_core.messages import trim_messages",
    "pydantic_ai": "import pydantic_ai",
    "pydantic_ai_harness": "import pydantic_ai_harness.compaction",
    "haystack": "import haystack.hooks.compaction",
}
PROMISED = 120
"""Milliseconds."""


def python(*given: str) -> str:
    """Return what a process writes to stderr."""
    command = [sys.executable, "-W", "ignore", *given]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=_environment()).stderr


@functools.cache
def _environment() -> dict[str, str]:
    """Byte code must be written, whatever the caller's environment says: users compile a package only once."""
    kept = tempfile.TemporaryDirectory()
    atexit.register(kept.cleanup)
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PYTHONPYCACHEPREFIX": kept.name}


def spent(code: str) -> tuple[float, float]:
    """Return wall and CPU milliseconds of one process."""
    wall, cpu = time.perf_counter(), _children()
    python("-c", code)
    return 1000 * (time.perf_counter() - wall), 1000 * (_children() - cpu)


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def measured(codes: dict[str, str], runs: int) -> dict[str, dict[str, float]]:
    """Return medians minus those of bare Python, in rounds. The first round writes byte code and does not count."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in codes}
    for n in range(runs + 1):
        for name, code in codes.items():
            one = spent(code)
            if n:
                taken[name].append(one)
    wall = {name: statistics.median(one[0] for one in runs_of) for name, runs_of in taken.items()}
    cpu = {name: statistics.median(one[1] for one in runs_of) for name, runs_of in taken.items()}
    bare_wall, bare_cpu = wall.pop("bare"), cpu.pop("bare")
    return {name: {"wall": wall[name] - bare_wall, "cpu": cpu[name] - bare_cpu} for name in wall}


def modules() -> list[tuple[int, int, str]]:
    """Return own and cumulative microseconds of each module that only our import loads."""
    told = python("-X", "importtime", "-c", USED)
    rows = [line.removeprefix("import time:").split("|") for line in told.splitlines() if "|" in line]
    found = [(int(own), int(whole), name.strip()) for own, whole, name in rows if own.strip().isdigit()]
    # Python's own startup ends with `site`.
    start = next(n for n, (_, _, name) in enumerate(found) if name == "site")
    return found[start + 1 :]


def table(times: dict[str, dict[str, float]], missing: list[str], top: int) -> str:
    ours = times["ebbtide"]
    lines = [f"{'import':28}{'wall ms':>10}{'cpu ms':>10}{'x':>8}"]
    lines += [
        f"{name:28}{one['wall']:10.0f}{one['cpu']:10.0f}{one['cpu'] / ours['cpu']:8.1f}" for name, one in times.items()
    ]
    lines += [f"{name:28}not installed: skipped" for name in missing]
    met = "met   " if ours["wall"] < PROMISED else "MISSED"
    lines += ["", f"{met} import ebbtide under {PROMISED} ms", ""]
    found = modules()
    own = sum(one for one, _, name in found if name.partition(".")[0] == "ebbtide")
    lines.append(f"{len(found)} modules, {sum(one for one, _, _ in found) / 1000:.0f} ms; ours {own / 1000:.0f} ms")
    lines.append(f"{'own ms':>8}{'with its imports':>18}  module")
    for one, whole, name in sorted(found, reverse=True)[:top]:
        lines.append(f"{one / 1000:8.1f}{whole / 1000:18.1f}  {name}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--top", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    there = {name: code for name, code in PEERS.items() if importlib.util.find_spec(name.partition(".")[0])}
    times = measured({"bare": BARE, "ebbtide": OURS, "ebbtide.Context, first use": USED, **there}, given.runs)
    if given.json:
        json.dump(times, sys.stdout, indent=1)
        return
    print(table(times, [name for name in PEERS if name not in there], given.top))


if __name__ == "__main__":
    main()
