"""Compare the CPU time of an idle `prepare` under two installed versions of Ebbtide.

    python benchmarks/idle_versions.py OLD_PYTHON NEW_PYTHON [--rounds 5] [--marks]

Both interpreters run in turns, so that a slow minute of the machine hits both. Each request adds one exchange to a
conversation of 1,000 messages; nothing is near a threshold, so nothing is edited. With `--marks` the engine also sets
cache breakpoints, as it does by default; older versions set none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

MESSAGES, REQUESTS = 1_000, 150
CASES = [(share, form, store) for share in (0.10, 0.55) for form in ("dict", "bytes") for store in ("memory", "folder")]


def exchange(number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"pytest tests/t{number}.py"}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"tests/t{number}.py failed\n" * 8}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def measure(share: float, form: str, store: str, *, marks: bool) -> float:
    """Return the median milliseconds of CPU time for one idle request. Runs in the interpreter under test."""
    import ebbtide  # noqa: PLC0415 - only in the interpreters that are compared

    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the failing test."}]
    while len(messages) < MESSAGES:
        messages += exchange(len(messages))
    fields = {"model": "claude-sonnet-5", "max_tokens": 500}

    def body() -> Any:
        request = {**fields, "messages": [*messages]}
        return json.dumps(request).encode() if form == "bytes" else request

    tokens = ebbtide.Context(window=10_000_000).prepare(body()).report.tokens_before
    times = []
    with tempfile.TemporaryDirectory() as folder:
        options = {"store": folder if store == "folder" else None, "marks": marks}
        context = ebbtide.Context(window=int(tokens / share), **options)
        context.prepare(body())
        for _ in range(REQUESTS):
            messages += exchange(len(messages))
            request = body()
            start = time.process_time()
            ready = context.prepare(request)
            times.append(time.process_time() - start)
            assert not ready.report.edits, "the request is not idle"
    return 1000 * median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--marks", action="store_true", help="let both set cache breakpoints")
    options = parser.parse_args()
    print(f"{'window':>7} {'body':>6} {'store':>7} {'old ms':>8} {'new ms':>8} {'new/old':>8}")
    for case in CASES:
        times: dict[str, list[float]] = {options.old: [], options.new: []}
        for _ in range(options.rounds):
            for python, values in times.items():
                command = [python, str(Path(__file__).resolve()), "--measure", *map(str, case), str(options.marks)]
                values.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        old, new = median(times[options.old]), median(times[options.new])
        print(f"{case[0]:>7.0%} {case[1]:>6} {case[2]:>7} {old:>8.3f} {new:>8.3f} {new / old:>8.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(measure(float(sys.argv[2]), sys.argv[3], sys.argv[4], marks=sys.argv[5] == "True"))
    else:
        main()
