"""How much disk a message takes: `python benchmarks/store_bytes.py [--data ../shared/data] [--sessions N] [--json]`.

It replays every recorded session request by request, as if its client had never compacted: a window of 200,000 tokens,
the default policy, a directory store. It divides the bytes of all files except the search index by the number of
messages in the logs. No usage is reported back, because the recorded bills were for other requests. It also measures
the turns that removed something from a known conversation (CPU milliseconds).
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ebbtide
from ebbtide.core.errors import EbbtideError

WINDOW = 200_000
PROMISED = 4096
"""Bytes per message."""


def recordings(data: Path) -> list[Path]:
    with (data / "MANIFEST.csv").open() as manifest:
        rows = [row for row in csv.DictReader(manifest) if row["kind"] == "session"]
    return [data / row["file"] for row in sorted(rows, key=lambda row: row["sha256"])]


def live(path: Path, store: str, session: str, acting: list[float]) -> Counter[str]:
    """Replay one recorded session through a `Context`. Add the time of each turn that acts to `acting`."""
    now = 0.0
    ctx = ebbtide.Context(store=store, session=session, durable=False, window=WINDOW, clock=lambda: now)
    done: Counter[str] = Counter()
    for call in ebbtide.load(path).uncompacted():
        now = call.at or now + 10
        start = time.process_time()
        try:
            ready = ctx.prepare(call.request)
        except EbbtideError as refused:
            done[type(refused).__name__] += 1
            continue
        if done["requests"] and ready.report.edits:
            acting.append(1000 * (time.process_time() - start))
        done["requests"] += 1
        done["edits"] += len(ready.report.edits)
        if call.response:
            ready.record({key: value for key, value in call.response.items() if key != "usage"})
    return done


def counted(store: Path) -> tuple[Counter[str], Counter[str]]:
    """Return bytes and number of records or files, by kind."""
    taken: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for path in store.rglob("*"):
        if not path.is_file() or path.name.startswith("index.sqlite"):
            continue
        for kind, size in _lines(path) if path.suffix == ".jsonl" else [(_file(path), path.stat().st_size)]:
            taken[kind] += size
            number[kind] += 1
    return taken, number


def _file(path: Path) -> str:
    return "blobs" if path.parent.name == "tool-results" else "other files"


def _lines(path: Path) -> Iterator[tuple[str, int]]:
    with path.open("rb") as log:
        for line in log:
            record: dict[str, Any] = json.loads(line)
            ours = record.get("type") == "ebb"
            yield str(record.get("kind") or record.get("store")) if ours else "messages", len(line)


def measured(paths: list[Path]) -> dict[str, Any]:
    done: Counter[str] = Counter()
    acting: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        for n, path in enumerate(paths):
            done += live(path, place, f"s{n}", acting)
            if sys.stderr.isatty():
                print(f"\r{n + 1} of {len(paths)}", end="", file=sys.stderr)
        taken, number = counted(Path(place))
    return {
        "sessions": len(paths),
        **done,
        "messages": number["messages"],
        "bytes": dict(taken),
        "records": dict(number),
        "acting_ms": {"turns": len(acting), "p50": statistics.median(acting), "max": max(acting)} if acting else {},
        "bytes_per_message": sum(taken.values()) / max(1, number["messages"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--sessions", type=int, default=None)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not (given.data / "MANIFEST.csv").exists():
        sys.exit("no recorded sessions there: give --data")
    found = measured(recordings(given.data)[: given.sessions])
    if given.json:
        json.dump(found, sys.stdout, indent=1)
        return
    for kind, size in sorted(found["bytes"].items(), key=lambda one: -one[1]):
        print(f"{kind:14}{found['records'][kind]:8}{size:12,} bytes")
    print("turns that acted, CPU milliseconds:", found["acting_ms"])
    each = found["bytes_per_message"]
    print(f"{'met   ' if each <= PROMISED else 'MISSED'} {each:.0f} bytes a message (promised: {PROMISED})")


if __name__ == "__main__":
    main()
