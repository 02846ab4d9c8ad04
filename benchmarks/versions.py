"""What a long tool session costs in each of several versions: `python benchmarks/versions.py PYTHON PYTHON ...`.

Each interpreter has a version of Ebbtide installed. They run the same made-up session in turns, in memory and without a
model, and the fastest of several runs counts. Equal digests mean that the versions send the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from conversation import TASK, Step, anthropic, steps

NAMES_PER_STEP = 40
"""New names in each result, as in the output of real tools: with few names a compaction has nothing to choose."""


def steps_with_names(exchanges: int) -> Iterator[Step]:
    dice = random.Random(11)
    for step in islice(steps(), exchanges):
        names = "\n".join(f"{step.tool.lower()}_{dice.randrange(16**8):08x}.field{n}" for n in range(NAMES_PER_STEP))
        yield replace(step, result=f"{step.result}\n{names}")


def run_session(exchanges: int, window: int) -> dict[str, Any]:
    """CPU milliseconds of all requests, of the compactions among them and of the last one; and the digest."""
    from ebbtide import Context  # noqa: PLC0415 - a parent compares versions without one of its own

    context = Context(window=window, model="claude-sonnet-4-5")
    messages: list[Any] = [{"role": "user", "content": TASK}]
    compactions: list[float] = []
    total, digest = 0.0, hashlib.blake2b(digest_size=10)
    for step in steps_with_names(exchanges):
        messages += anthropic(step)
        start = time.process_time()
        ready = context.prepare({"model": "claude-sonnet-4-5", "max_tokens": 8_000, "messages": [*messages]})
        cpu = 1000 * (time.process_time() - start)
        total += cpu
        if any(edit.by == "summarize" for edit in ready.report.edits):
            compactions.append(cpu)
        digest.update(json.dumps(ready.body).encode())
    return {
        "requests": total,
        "compactions": sum(compactions),
        "last compaction": compactions[-1] if compactions else 0.0,
        "number of compactions": len(compactions),
        "digest": digest.hexdigest(),
    }


def compare(pythons: list[str], exchanges: int, window: int, runs: int) -> None:
    results: dict[str, list[dict[str, Any]]] = {python: [] for python in pythons}
    for _ in range(runs):
        for python in pythons:
            command = [python, __file__, "--exchanges", str(exchanges), "--window", str(window)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            results[python].append(json.loads(output))
    for figure in ("requests", "compactions", "last compaction"):
        best = [min(result[figure] for result in results[python]) for python in pythons]
        print(figure.ljust(22), *(f"{ms:10,.0f} ms {ms / best[0]:5.2f}" for ms in best))
    for figure in ("number of compactions", "digest"):
        print(figure.ljust(22), *(results[python][0][figure] for python in pythons))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", help="interpreters; the first is what the others are compared with")
    parser.add_argument("--exchanges", type=int, default=1_200)
    parser.add_argument("--window", type=int, default=64_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.pythons:
        compare(
            [str(Path(python).absolute()) for python in options.pythons],
            options.exchanges,
            options.window,
            options.runs,
        )
    else:
        json.dump(run_session(options.exchanges, options.window), sys.stdout)


if __name__ == "__main__":
    main()
