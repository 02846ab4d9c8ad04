"""Whether recall finds what a compaction removed: recorded sessions, no model.

At each recorded compaction it takes the identifiers that the agent uses in its next 30 calls, had seen before, and no
longer sees in the request after the compaction. It searches for each by name, and separately with a query made only of
what is visible at its first use: the last text of the user and of the agent. An identifier is found if one of the first
five hits contains it. Long texts contain more, so the mean size of a hit is measured too; and each half of the
recordings by itself, because the ranking was chosen on one of them (`recordings.py`).

Then it measures how long a query takes in the longest session, and how long the index takes to build.

    python benchmarks/recall.py [--data DIR] [--json]    all recordings with compactions; about three minutes
    python benchmarks/recall.py --speed                  only the times
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from recordings import halves

import ebbtide
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.types import Item
from ebbtide.recall.search import RecallSearch
from ebbtide.runtime.session_log import Transcript
from ebbtide.store import DirectoryStore, Log, Store
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_\-./]{6,79}|\b[0-9a-f]{7,40}\b|\b\d{4,}\b")
CALLS, TOP = 30, 5
LONGEST = "entityprocess-agentv/019ed99c-d00d-7613-b2e7-d2f512f78afd.jsonl.gz"
"""3.01 million characters."""


@dataclass
class Tally:
    points: int = 0
    asked: int = 0
    by_name: int = 0
    by_request: int = 0
    hits: int = 0
    """For the queries by request."""
    hit_chars: int = 0
    missed: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """For each query by name."""

    def add(self, other: Tally) -> None:
        self.points += other.points
        self.asked += other.asked
        self.by_name += other.by_name
        self.by_request += other.by_request
        self.hits += other.hits
        self.hit_chars += other.hit_chars
        self.missed += other.missed
        self.times += other.times


class Search(Protocol):
    """Our recall, or another kind of search."""

    def search(self, query: str, *, limit: int = TOP) -> Sequence[Any]: ...

    def read(self, handle: str, start: int = 0, end: int | None = None) -> Any: ...


@dataclass
class Session:
    """A recorded session, with its log as it would have grown."""

    wire: str
    log: Log
    reader: Reader = field(init=False)
    transcript: Transcript = field(init=False)
    texts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = Reader(DEFAULT, wire=WIRES[self.wire])
        self.transcript = Transcript(session=self.log.session)

    def say(self, request: Any) -> tuple[Item, ...]:
        read = self.reader.read(request)
        self.log.commit(self.transcript.records_for_request(read, 0.0), at=0.0)
        self.texts |= {item.id: item.text for item in read.items}
        return read.items


def search_folder(session: Session, store: Store) -> RecallSearch:
    return RecallSearch(session.log, store)


def measure(
    path: Path,
    store: Store,
    make_search: Callable[[Session, Store], Search] = search_folder,
) -> Tally:
    recording = ebbtide.load(path)
    calls = list(recording.requests())
    tally = Tally()
    if not any(call.compacted for call in calls):
        return tally
    session = Session(wire=recording.wire, log=store.open(path.name, now=0.0))
    recall = make_search(session, store)
    for n, call in enumerate(calls):
        if call.compacted:
            tally.add(at_point(session, recall, calls, n))
        session.say(call.request)
    return tally


def at_point(session: Session, recall: Search, calls: Sequence[Any], n: int) -> Tally:
    tally = Tally(points=1)
    seen = "\n".join(session.texts.values())
    wanted: dict[str, int] = {}
    shown = "\n".join(item.text for item in items_of(session.wire, calls[n].request))
    for j, call in enumerate(calls[n : n + CALLS]):
        for name in IDENTIFIER.findall(output(session.wire, call.response)):
            if name not in wanted and name in seen and name not in shown:
                wanted[name] = n + j
    held: dict[int, list[str]] = {}
    recall.search("warm")  # so that no query time includes the index
    for name, j in wanted.items():
        tally.asked += 1
        begun = clocks()
        hits = recall.search(name, limit=TOP)
        tally.times.append(took(begun))
        if any(name in recall.read(hit.handle, end=hit.total).text for hit in hits):
            tally.by_name += 1
        else:
            tally.missed.append(name)
        if j not in held:
            asked = visible(session.wire, calls[j].request)
            hits = recall.search(asked, limit=TOP) if asked else ()
            held[j] = [recall.read(hit.handle, end=hit.total).text for hit in hits]
            tally.hits += len(hits)
            tally.hit_chars += sum(hit.total for hit in hits)
        tally.by_request += any(name in text for text in held[j])
    return tally


def output(wire: str, response: Any) -> str:
    """Return the agent's text and the arguments of its calls."""
    return "\n".join(block.text for block in blocks_of(wire, response) if block.kind in ("text", "call"))


def blocks_of(wire: str, response: Any) -> Iterator[Any]:
    shape = WIRES[wire]
    for message in shape.replies.as_messages(response) if response else ():
        yield from shape.messages.split(message, shape.list_key)


def items_of(wire: str, request: Any) -> tuple[Item, ...]:
    return Reader(DEFAULT, wire=WIRES[wire]).read(request).items


def visible(wire: str, request: Any) -> str:
    """Return the last text of the user, and of the agent."""
    items = items_of(wire, request)
    words = [
        next((item.text for item in reversed(items) if item.kind == "text" and item.source == source), "")
        for source in ("user", "assistant")
    ]
    return "\n".join(words).strip()


def speed(data: Path, folder: Path) -> dict[str, Any]:
    recording = ebbtide.load(data / LONGEST)
    store = DirectoryStore(folder / "speed", durable=False)
    session = Session(wire=recording.wire, log=store.open("longest", now=0.0))
    for call in recording.uncompacted():
        session.say(call.request)
    names = sorted({name for text in session.texts.values() for name in IDENTIFIER.findall(text)})
    asked = random.Random(3).sample(names, min(1000, len(names)))
    recall = RecallSearch(session.log, store)
    begun = clocks()
    recall.search(asked[0])
    wall, cpu = took(begun)
    queries = {
        "one identifier": asked,
        "a part of one": [name[1:-1] for name in asked],
        "two identifiers": [f"{a} {b}" for a, b in zip(asked[::2], asked[1::2], strict=False)],
        "words that are nowhere": [f"{name}zqx" for name in asked],
        "a request's last words": [
            said for call in recording.requests() if (said := visible(recording.wire, call.request))
        ],
    }
    return {
        "characters": sum(map(len, session.texts.values())),
        "items": len(session.texts),
        "index_bytes": (folder / "speed" / "index.sqlite").stat().st_size,
        "build_seconds": {"wall": wall, "cpu": cpu},
        "queries_ms": {what: times_of([timed(recall, query) for query in some]) for what, some in queries.items()},
    }


def timed(recall: RecallSearch, query: str) -> tuple[float, float]:
    begun = clocks()
    recall.search(query)
    return took(begun)


def clocks() -> tuple[float, float]:
    """Return wall and CPU seconds: the machine may be busy."""
    return time.perf_counter(), time.process_time()


def took(begun: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = clocks()
    return wall - begun[0], cpu - begun[1]


def times_of(times: list[tuple[float, float]]) -> dict[str, float]:
    """Milliseconds."""
    found: dict[str, float] = {"queries": len(times)}
    for what, values in zip(("wall", "cpu"), zip(*times, strict=True), strict=True):
        found[f"{what}_p50"] = 1e3 * statistics.median(values)
        found[f"{what}_p95"] = 1e3 * statistics.quantiles(values, n=20)[18]
    return found


def found_again(data: Path, folder: Path) -> dict[str, Any]:
    """Run all recordings that have something to search for."""
    whole, files, own_half = Tally(), {}, halves(data)
    by_half = {"search": Tally(), "report": Tally()}
    for n, path in enumerate(sorted(data.glob("*/*.jsonl.gz"))):
        tally = measure(path, DirectoryStore(folder / str(n) / "store", durable=False))
        if tally.asked:
            files[f"{path.parent.name}/{path.name[:13]}"] = shares(tally) | {"missed": tally.missed[:4]}
            by_half[own_half[f"{path.parent.name}/{path.name}"]].add(tally)
            whole.add(tally)
    parts = {half: shares(tally) for half, tally in by_half.items()}
    return shares(whole) | {"by_name_ms": times_of(whole.times), "halves": parts, "files": files}


def shares(tally: Tally) -> dict[str, Any]:
    return {
        "compactions": tally.points,
        "asked": tally.asked,
        "by_name": tally.by_name / tally.asked,
        "by_request": tally.by_request / tally.asked,
        "hit_characters": tally.hit_chars / max(1, tally.hits),
    }


def shown(told: dict[str, Any]) -> Iterator[str]:
    one = told["speed"]
    built = f"index of {one['index_bytes'] / 1e6:.1f} MB built in {one['build_seconds']['wall']:.2f} s"
    yield f"{one['characters']:,} characters in {one['items']:,} items; {built}"
    yield f"  ({one['build_seconds']['cpu']:.2f} s of CPU)"
    for what, times in one["queries_ms"].items():
        yield f"  {what:<24} {_times(times)}"
    if again := told.get("found"):
        for name, row in again["files"].items():
            counts = f"{row['compactions']:2} points {row['asked']:4} identifiers"
            yield f"{name:<38} {counts} {_found(row)}  {row['missed']}"
        yield f"\n{again['compactions']} compactions, {again['asked']} identifiers that left; in the first {TOP} hits:"
        yield f"  {_found(again)}"
        yield from (f"  {_found(row)}, half `{half}`" for half, row in again["halves"].items())
        yield f"  a query by name takes {_times(again['by_name_ms'])}"


def _found(row: dict[str, Any]) -> str:
    size = f"hits of {row['hit_characters']:,.0f} characters"
    return f"{row['by_name']:7.2%} by name, {row['by_request']:6.1%} by the visible request ({size})"


def _times(one: dict[str, float]) -> str:
    parts = (f"{what} p50 {one[f'{what}_p50']:5.2f} p95 {one[f'{what}_p95']:6.2f} ms" for what in ("wall", "cpu"))
    return f"{'  '.join(parts)}  ({one['queries']:,} queries)"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    if not given.data.is_dir():
        print(f"no recordings in {given.data}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="recall-") as scratch:
        told: dict[str, Any] = {"speed": speed(given.data, Path(scratch))}
        if not given.speed:
            told["found"] = found_again(given.data, Path(scratch))
    if given.json:
        json.dump(told, sys.stdout, indent=1)
        return 0
    print(*shown(told), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
