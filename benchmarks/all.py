"""Run the benchmarks and write their results: `python benchmarks/all.py [--only store,memory]`.

Each script runs in its own process, one after the other. Its output goes to `results/`, with a description of the
machine. If a script fails, it is named, its last result stays, and the others run. To compare with other packages, use
an environment with `requirements/bench.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SPEED = ("install_size", "import_time", "per_turn", "acting", "memory", "store", "store_bytes", "proxy")
KEPT = ("tokens", "retention", "folds", "recall", "questions")
"""Benchmarks of counting, retention and recall. On a busy machine only the query times change."""
TRUST = ("isolation",)
SCRIPTS = (*SPEED, *KEPT, *TRUST)
OPTIONS = {"retention": ["--fold", "context"]}
"""Arguments besides `--json`: measure what users get."""


def machine() -> dict[str, object]:
    """Describe what the figures depend on, without host names and paths."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _line("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "load": round(os.getloadavg()[0], 1),
    }


def _line(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "unknown")


def run(name: str) -> str:
    """Return why it failed, or an empty text."""
    before, start = machine(), time.perf_counter()
    options = [*OPTIONS.get(name, []), "--json"]
    command = [sys.executable, "-W", "ignore", str(HERE / f"{name}.py"), *options]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return f"exit code {done.returncode}"
    told: Any = json.loads(done.stdout)
    seconds = round(time.perf_counter() - start, 1)
    asked = f"python benchmarks/{name}.py {' '.join(options)}"
    result = {"command": asked, "machine": before, "seconds": seconds, "result": told}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(_rounded(result), indent=1) + "\n")
    return ""


def _rounded(value: Any) -> Any:
    """Round to four digits: the rest is noise and would show in every diff."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(SCRIPTS))
    failed = 0
    for name in parser.parse_args().only.split(","):
        print(f"{name} ...", end=" ", flush=True)
        why = run(name) if name in SCRIPTS else f"no such script; there are {', '.join(SCRIPTS)}"
        print(why or f"results/{name}.json")
        failed += bool(why)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
