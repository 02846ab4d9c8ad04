"""How long a commit takes, and how long a large log takes to read: `python benchmarks/store.py [megabytes]`."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from ebbtide.store import DirectoryStore, verify


def percentiles(act: Callable[[], object], times: int) -> str:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        taken.append(1000 * (time.perf_counter() - start))
    cuts = statistics.quantiles(taken, n=100)
    return f"p50 {cuts[49]:.3f} ms, p99 {cuts[98]:.3f} ms"


RECORD: dict[str, object] = {"type": "user", "message": {"role": "user", "content": "x" * 4000}}


def commits(place: str, durable: bool) -> None:
    log = DirectoryStore(place, durable=durable).open("s", now=0.0)
    print(f"commit of one 4 kB record, durable={durable}:", percentiles(lambda: log.commit([RECORD], at=0.0), 300))
    end = log.read().position
    print("  since, nothing new:", percentiles(lambda: log.since(end), 1000))


def recovery(place: str, megabytes: int) -> None:
    store = DirectoryStore(place, durable=False)
    log = store.open("s", now=0.0)
    for _ in range(megabytes):
        log.commit([RECORD] * 250, at=0.0)
    acts: dict[str, Callable[[], object]] = {
        "open": lambda: store.open("s", now=0.0),
        "read": lambda: store.open("s", now=0.0).read(),
        "verify": lambda: verify(f"{place}/projects/_/s.jsonl"),
    }
    for name, act in acts.items():
        start, cpu = time.perf_counter(), time.process_time()
        act()
        taken, worked = time.perf_counter() - start, time.process_time() - cpu
        print(f"{name} {megabytes} MB: {taken:.2f} s, of which {worked:.2f} s work")


def main(megabytes: int) -> None:
    for durable in (False, True):
        with tempfile.TemporaryDirectory() as place:
            commits(place, durable)
    with tempfile.TemporaryDirectory() as place:
        recovery(place, megabytes)
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
