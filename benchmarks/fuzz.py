"""Feed every reader of foreign bytes with inputs that no program writes: `python benchmarks/fuzz.py [--seconds 600]`.

    python benchmarks/fuzz.py --seconds 5            # a look at all of them
    python benchmarks/fuzz.py --only proxy,ui --jobs 2

Each target runs in its own process for this many seconds. A finding is an exception that is not ours, a broken promise
of the reader (`fuzz_targets.py`), an input that takes more CPU than a second plus fifty microseconds per byte, or more
than 4 GB of address space. If `atheris` is installed, it chooses inputs by the code that they reach; otherwise they are
mutated by their structure alone. `--findings FILE` saves each finding with its input.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "fuzz.json"
if __name__ == "__main__":
    # Instead of this directory, because packages of the tests have the same names as files here.
    sys.path[0] = str(HERE.parent)

_MOST_MEMORY = 4 << 30
_A_SECOND, _A_BYTE = 1.0, 50e-6
"""CPU seconds that an input may take, and that each byte adds: a hundred times what a reader needs."""
_STUCK = 120
"""Seconds after which an input that uses no CPU counts as hung."""
_MOST_FINDINGS = 40


class Slow(BaseException):
    """An input took too long. Not an `Exception`, so that readers that catch everything do not hide it."""


def _too_slow(*_: object) -> NoReturn:
    raise Slow


class Trial:
    """Runs the inputs of one target, counts them, and keeps the findings."""

    def __init__(self, check: Callable[[bytes], None], out: Path, seconds: float, about: dict[str, Any]) -> None:
        self.check, self.out, self.seconds, self.about = check, out, seconds, about
        self.began = self.told = time.monotonic()
        self.runs = self.octets = 0
        self.findings: dict[str, dict[str, Any]] = {}
        self.slowest: tuple[float, int] = (0.0, 0)
        self.rss = _rss()
        signal.signal(signal.SIGVTALRM, _too_slow)
        signal.signal(signal.SIGALRM, _too_slow)

    def run(self, data: bytes) -> None:
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _A_SECOND + _A_BYTE * len(data))
        signal.alarm(_STUCK)
        try:
            self.check(data)
        except (Exception, Slow) as broken:  # noqa: BLE001 - that is what is looked for
            self._keep(broken, data)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.alarm(0)
        spent = time.process_time() - begin
        self.slowest = max(self.slowest, (spent, len(data)))
        self.runs, self.octets = self.runs + 1, self.octets + len(data)
        if time.monotonic() - self.told > 2:
            self.tell()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.began >= self.seconds

    def tell(self) -> None:
        self.told = time.monotonic()
        told = {
            **self.about,
            "seconds": round(self.told - self.began, 1),
            "runs": self.runs,
            "bytes": self.octets,
            "slowest_cpu_seconds": round(self.slowest[0], 3),
            "slowest_bytes": self.slowest[1],
            "memory_before_mb": self.rss,
            "memory_mb": _rss(),
            "findings": list(self.findings.values()),
        }
        temporary = self.out.with_suffix(".new")
        temporary.write_text(json.dumps(told))
        temporary.replace(self.out)

    def _keep(self, broken: BaseException, data: bytes) -> None:
        """Keep one finding per place, with the shortest input."""
        place = _place(broken)
        name = f"{type(broken).__name__} {place}" if not isinstance(broken, Slow) else f"Slow {place}"
        known = self.findings.get(name)
        if known and known["bytes"] <= len(data):
            known["times"] += 1
            return
        if not known and len(self.findings) >= _MOST_FINDINGS:
            return
        said = "".join(traceback.format_exception(broken)[-6:])[-3000:]
        self.findings[name] = {
            "what": name,
            "said": str(broken)[:300],
            "times": known["times"] + 1 if known else 1,
            "bytes": len(data),
            "input": base64.b64encode(data).decode(),
            "trace": said,
        }


def _place(broken: BaseException) -> str:
    """Return the innermost line of Ebbtide, or of the check that failed."""
    frames = traceback.extract_tb(broken.__traceback__)
    ours = (
        [one for one in frames if "ebbtide" in one.filename]
        or [one for one in frames if "fuzz_" in one.filename]
        or list(frames)
    )
    words = f" {str(broken)[:60]}" if isinstance(broken, AssertionError) else ""
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}{words}" if ours else str(broken)[:80]


def _rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


# --- one target -----------------------------------------------------------------------------------------------------


def _guided() -> Any:
    return importlib.import_module("atheris") if importlib.util.find_spec("atheris") else None


def child(name: str, seconds: float, seed: int, out: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    atheris = _guided()
    with _instrumented(atheris):
        from benchmarks.fuzz_mutate import LONGEST, Mutator  # noqa: PLC0415

        target = {one.name: one for one in _targets()}[name]
    seeds = sorted({one for one in target.seeds() if one}, key=lambda one: (len(one), one))
    mutator = Mutator(seeds, Random(f"{seed} {name}"), target.words)
    about = {"name": name, "reads": target.reads, "seeds": len(seeds), "seed": seed, "guided": atheris is not None}
    with target.check() as check:
        trial = Trial(check, out, seconds, about)
        for one in seeds:
            trial.run(one)
        if atheris:
            _guide(atheris, trial, mutator, seeds, LONGEST)
        while not trial.is_over:
            trial.run(mutator.input())
        trial.tell()
        # Servers need not be waited for.
        os._exit(0)


@contextmanager
def _instrumented(atheris: Any) -> Iterator[None]:
    if atheris is None:
        yield
        return
    with atheris.instrument_imports(include=["ebbtide"]):
        yield


def _guide(atheris: Any, trial: Trial, mutator: Any, seeds: Sequence[bytes], longest: int) -> None:
    """Let libFuzzer choose inputs by coverage; half of the mutations change the input's structure."""
    corpus = tempfile.mkdtemp(prefix="fuzz-")
    for n, one in enumerate(seeds):
        Path(corpus, f"{n:04}").write_bytes(one[:longest])

    def one(data: bytes) -> None:
        trial.run(data)
        if trial.is_over:
            trial.tell()
            os._exit(0)

    def change(data: bytes, most: int, number: int) -> bytes:
        mutator.random.seed(number)
        try:
            changed: bytes = atheris.Mutate(data, most) if number % 2 else mutator.change(data)
        except Exception:  # noqa: BLE001 - a fault of ours: servers of the target would keep the process alive
            traceback.print_exc()
            os._exit(1)
        return changed[:most]

    options = [
        f"-max_len={longest}",
        f"-seed={trial.about['seed']}",
        "-rss_limit_mb=0",
        "-timeout=0",
        "-verbosity=0",
        "-handle_segv=0",
    ]
    atheris.Setup([sys.argv[0], corpus, *options], one, custom_mutator=change)
    atheris.Fuzz()


def _targets() -> list[Any]:
    from benchmarks import fuzz_places, fuzz_servers, fuzz_targets  # noqa: PLC0415

    return [*fuzz_targets.targets(), *fuzz_places.targets(), *fuzz_servers.targets()]


# --- all of them ----------------------------------------------------------------------------------------------------


def campaign(names: Sequence[str], seconds: float, seed: int, jobs: int) -> Iterator[dict[str, Any]]:
    waiting, running = list(names), dict[str, tuple[subprocess.Popen[bytes], Path, float]]()
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop(0)
                out = Path(folder, f"{name}.json")
                command = [
                    sys.executable,
                    "-W",
                    "ignore",
                    __file__,
                    "--child",
                    name,
                    "--seconds",
                    str(seconds),
                    "--seed",
                    str(seed),
                    "--out",
                    str(out),
                ]
                with Path(folder, f"{name}.log").open("wb") as log:
                    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
                running[name] = (process, out, time.monotonic() + seconds + 2 * _STUCK)
            time.sleep(0.5)
            for name, (process, out, limit) in list(running.items()):
                hung = time.monotonic() > limit
                if process.poll() is None and not hung:
                    continue
                process.kill()
                process.wait()
                del running[name]
                told = json.loads(out.read_text()) if out.exists() else {"name": name, "runs": 0, "findings": []}
                if hung or process.returncode:
                    last = out.with_suffix(".log").read_text(errors="replace")[-2000:]
                    told["findings"].append(
                        {"what": "hung" if hung else f"ended with {process.returncode}", "said": last, "times": 1}
                    )
                yield told


_SUMMED = ("seconds", "runs", "bytes")


def _merge(told: dict[str, Any]) -> None:
    """Update the table: times and runs add up, findings are those of the last campaign. Inputs are not stored."""
    from benchmarks.all import machine  # noqa: PLC0415

    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"result": []}
    rows = {one["name"]: one for one in before["result"]}
    old = rows.get(told["name"], {})
    findings = [{key: finding[key] for key in ("what", "times")} for finding in told["findings"]]
    summed = {key: round(old.get(key, 0) + told.get(key, 0), 1) for key in _SUMMED}
    mended = [*old.get("mended", []), *(one["what"] for one in old.get("findings", []))]
    still = {one["what"] for one in findings}
    rows[told["name"]] = {**told, **summed, "findings": findings, "mended": [one for one in mended if one not in still]}
    result = {
        "command": "python benchmarks/fuzz.py",
        "machine": machine(),
        "result": [rows[name] for name in sorted(rows)],
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


def table() -> str:
    """Return the results as a table for the page on security."""
    rows = ["| reads | seconds | inputs | found, fixed | left |", "|---|--:|--:|--:|--:|"]
    for one in json.loads(RESULTS.read_text())["result"]:
        counts = f"{one['seconds']:,.0f} | {one['runs']:,} | {len(one['mended'])} | {len(one['findings'])}"
        rows.append(f"| {one['reads']} | {counts} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", default="", help="comma-separated names; a name may end in *")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true", help="print the results so far, for the page on security")
    parser.add_argument("--findings", type=Path, help="write findings with their inputs to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        try:
            child(given.child, given.seconds, given.seed, given.out)
        except BaseException:  # noqa: BLE001 - as above
            traceback.print_exc()
            os._exit(1)
    if given.table:
        print(table())
        return 0
    os.nice(10)
    known = [one.name for one in _targets()]
    wanted = [one for one in known if not given.only or any(_matches(one, name) for name in given.only.split(","))]
    if given.list or not wanted:
        print("\n".join(known))
        return 0 if given.list else 2
    told = []
    for one in campaign(wanted, given.seconds, given.seed, given.jobs):
        told.append(one)
        print(
            f"{one['name']:24} {one.get('seconds', 0):7.0f} s {one['runs']:>10,} runs  {len(one['findings'])} found",
            flush=True,
        )
        for finding in one["findings"]:
            print(f"    {finding['what']} ({finding['times']} times)", flush=True)
        if given.findings:
            given.findings.write_text(
                json.dumps([{"name": row["name"], **f} for row in told for f in row["findings"]], indent=1)
            )
        _merge(one)
    return 1 if any(one["findings"] for one in told) else 0


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


if __name__ == "__main__":
    sys.exit(main())
