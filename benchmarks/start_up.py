"""What a user waits for: `ebb`, `ebb run -- true` and 40 calls behind `ebb run`, beside the same without Ebbtide.

    python -m benchmarks.start_up                                       the start
    python -m benchmarks.start_up --into ~/clients --runs 5             and Claude Code, a second a call

All take turns, so that a busy machine slows all of them; the median of each counts. A session reads 40 small files in
a window that they do not fill, and the provider takes a second for each answer. The exit code is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.client_programs import CLIENTS, GuidedWalk  # noqa: E402
from scripts.install_clients import default_place, found  # noqa: E402

from clients.guided_provider import file_name, text  # noqa: E402
from clients.programs import environment  # noqa: E402
from upstream.finding import Body  # noqa: E402
from upstream.script import Part  # noqa: E402
from upstream.server import Upstream  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "start_up.json"
EBB = [sys.executable, "-m", "ebbtide"]
STARTS = {
    "python": [sys.executable, "-c", "pass"],
    "ebb --version": [*EBB, "--version"],
    "ebb": EBB,
    "import aiohttp": [sys.executable, "-c", "import aiohttp"],
    "ebb run -- true": [*EBB, "run", "--", "true"],
}
PROMISES = (
    ("ebb --version", "python", "cpu", 5.0),
    ("ebb", "python", "cpu", 5.0),
    ("ebb run -- true", "import aiohttp", "cpu", 1.5),
    ("session behind ebb run", "session", "wall", 1.03),
)
"""What takes at most how many times as much as what."""
_LINES = 12
"""Of a file: 40 of them are a tenth of the window."""
_WINDOW = 200_000
_LIMIT = 300.0
"""Seconds for one session."""


@dataclass(slots=True)
class Paced:
    """A provider that takes a second for each answer."""

    walk: GuidedWalk

    def __call__(self, body: Body) -> list[Part]:
        time.sleep(1.0)
        return self.walk(body)


def spend(command: Sequence[str], environ: Mapping[str, str], cwd: str | None = None) -> dict[str, float]:
    """Return seconds of CPU and of wall time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        list(command), env=dict(environ), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, timeout=_LIMIT, check=True,
    )  # fmt: skip
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": wall}


def run_session(file: Path, *, is_behind: bool) -> dict[str, float]:
    client = next(client for client in CLIENTS if client.name == "claude")
    with tempfile.TemporaryDirectory(prefix="ebb-start-") as folder:
        work, home = Path(folder, "work"), Path(folder, "home")
        work.mkdir()
        home.mkdir()
        for part in range(1, client.calls + 1):
            (work / file_name(part)).write_text(text(part, _LINES), encoding="utf-8")
        walk = GuidedWalk(client, opens=False)
        with Upstream(Paced(walk), window=_WINDOW) as upstream:
            started = client.start(file, upstream.url, home)
            ebb = [*EBB, "run", "--store", str(Path(folder, "store")), "--"] if is_behind else []
            spent = spend([*ebb, *started.command], environment(home, started.environ), str(work))
        if walk.at != client.calls + 1:
            raise SystemExit(f"the session had {walk.at} calls of {client.calls + 1}")
        return spent


def measure(runs: int, sessions: int, file: Path | None) -> dict[str, list[dict[str, float]]]:
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in STARTS}
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "HOME": home, "EBB_HOME": str(Path(home, "store"))}
        for turn in range(runs + 1):
            for name, command in STARTS.items():
                spent = spend(command, environ)
                if turn:  # the first writes byte code
                    taken[name].append(spent)
    for turn in range(sessions if file else 0):
        for is_behind in (bool(turn % 2), not turn % 2):
            name = "session behind ebb run" if is_behind else "session"
            taken.setdefault(name, []).append(run_session(file, is_behind=is_behind))
            print(f"{name:24} {taken[name][-1]['wall']:.1f} s", flush=True)
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--into", type=Path, default=default_place(), help="where the clients are")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    args = parser.parse_args()
    load = [round(value, 1) for value in os.getloadavg()]
    taken = measure(args.runs, args.sessions, found("claude", args.into))
    medians = {
        name: {kind: round(statistics.median(one[kind] for one in spent), 4) for kind in ("cpu", "wall")}
        for name, spent in taken.items()
    }
    ratios, is_kept = {}, True
    for name, beside, kind, most in PROMISES:
        if name in medians:
            ratio = medians[name][kind] / medians[beside][kind]
            ratios[name] = round(ratio, 3)
            is_kept &= ratio <= most
            verdict = "met   " if ratio <= most else "MISSED"
            print(f"{verdict} {name}: {ratio:.2f} times the {kind} of {beside}, at most {most}")
    print(f"load when it began: {load[0]}")
    if args.write:
        RESULT.write_text(
            json.dumps({"load": load, "medians": medians, "ratios": ratios}, indent=1) + "\n", encoding="utf-8"
        )
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
