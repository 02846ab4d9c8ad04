"""Whether what a compaction took out is found again: recorded sessions, no model.

At each recorded compaction, identifiers that the agent goes on to use in its next 30 calls, that it had seen before and
that the request after the compaction no longer shows. Asked for by name; and, apart, with a query made only of what
is visible when it is first used: the last words of the user and of the agent. Found: one of the first five hits holds
it. Then how long a query takes over the longest session, and how long the index takes to build.

    python benchmarks/recall.py [DATA]            all recordings with compactions; about three minutes
    python benchmarks/recall.py --speed [DATA]    only the times
"""

from __future__ import annotations

import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ebbtide
from ebbtide.core.tokens import DEFAULT
from ebbtide.core.types import Item
from ebbtide.drive.messages import Transcript
from ebbtide.drive.recalling import Recall
from ebbtide.store import DirectoryStore, Log
from ebbtide.wire import WIRES
from ebbtide.wire.reading import Reader

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
    missed: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """Of each query by name."""

    def add(self, other: Tally) -> None:
        self.points += other.points
        self.asked += other.asked
        self.by_name += other.by_name
        self.by_request += other.by_request
        self.missed += other.missed
        self.times += other.times


@dataclass
class Session:
    """A recorded session as its log would have grown."""

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
        self.log.commit(self.transcript.advance(read, 0.0), at=0.0)
        self.texts |= {item.id: item.text for item in read.items}
        return read.items


def measure(path: Path, folder: Path) -> Tally:
    recording = ebbtide.load(path)
    calls = list(recording.requests())
    tally = Tally()
    if not any(call.compacted for call in calls):
        return tally
    store = DirectoryStore(folder / "store", durable=False)
    session = Session(wire=recording.wire, log=store.open(path.name, now=0.0))
    recall = Recall(session.log, store)
    for n, call in enumerate(calls):
        if call.compacted:
            tally.add(at_point(session, recall, calls, n))
        session.say(call.request)
    return tally


def at_point(session: Session, recall: Recall, calls: Sequence[Any], n: int) -> Tally:
    tally = Tally(points=1)
    seen = "\n".join(session.texts.values())
    wanted: dict[str, int] = {}
    shown = "\n".join(item.text for item in items_of(session.wire, calls[n].request))
    for j, call in enumerate(calls[n : n + CALLS]):
        for name in IDENTIFIER.findall(output(session.wire, call.response)):
            if name not in wanted and name in seen and name not in shown:
                wanted[name] = n + j
    held: dict[int, list[str]] = {}
    recall.search("warm")  # so that no query is charged with the index
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
        tally.by_request += any(name in text for text in held[j])
    return tally


def output(wire: str, response: Any) -> str:
    """What the agent said and what it called with."""
    return "\n".join(block.text for block in blocks_of(wire, response) if block.kind in ("text", "call"))


def blocks_of(wire: str, response: Any) -> Iterator[Any]:
    shape = WIRES[wire]
    for message in shape.reply(response) if response else ():
        yield from shape.blocks(message, shape.key)


def items_of(wire: str, request: Any) -> tuple[Item, ...]:
    return Reader(DEFAULT, wire=WIRES[wire]).read(request).items


def visible(wire: str, request: Any) -> str:
    """The last words of the user, and of the agent."""
    items = items_of(wire, request)
    words = [
        next((item.text for item in reversed(items) if item.kind == "text" and item.source == source), "")
        for source in ("user", "assistant")
    ]
    return "\n".join(words).strip()


def speed(data: Path, folder: Path) -> None:
    recording = ebbtide.load(data / LONGEST)
    store = DirectoryStore(folder / "speed", durable=False)
    session = Session(wire=recording.wire, log=store.open("longest", now=0.0))
    for call in recording.uncompacted():
        session.say(call.request)
    chars = sum(map(len, session.texts.values()))
    names = sorted({name for text in session.texts.values() for name in IDENTIFIER.findall(text)})
    asked = random.Random(3).sample(names, min(1000, len(names)))
    recall = Recall(session.log, store)
    begun = clocks()
    recall.search(asked[0])
    wall, cpu = took(begun)
    size = (folder / "speed" / "index.sqlite").stat().st_size
    print(
        f"{chars:,} characters in {len(session.texts):,} items; index of {size / 1e6:.1f} MB built in {wall:.2f} s",
        end="",
    )
    print(f" ({cpu:.2f} s of CPU)")
    queries = {
        "one identifier": asked,
        "a part of one": [name[1:-1] for name in asked],
        "two identifiers": [f"{a} {b}" for a, b in zip(asked[::2], asked[1::2], strict=False)],
        "words that are nowhere": [f"{name}zqx" for name in asked],
        "a request's last words": [
            said for call in recording.requests() if (said := visible(recording.wire, call.request))
        ],
    }
    for what, some in queries.items():
        times = []
        for query in some:
            begun = clocks()
            recall.search(query)
            times.append(took(begun))
        print(f"  {what:<24} {told(times)}  ({len(times)} queries)")


def clocks() -> tuple[float, float]:
    """Seconds on the wall and of CPU: the machine may be busy."""
    return time.perf_counter(), time.process_time()


def took(begun: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = clocks()
    return wall - begun[0], cpu - begun[1]


def told(times: list[tuple[float, float]]) -> str:
    parts = []
    for what, values in zip(("wall", "CPU"), zip(*times, strict=True), strict=True):
        middle, late = statistics.median(values), statistics.quantiles(values, n=20)[18]
        parts.append(f"{what} p50 {middle * 1e3:5.2f} p95 {late * 1e3:6.2f} ms")
    return "  ".join(parts)


def main(arguments: list[str]) -> int:
    paths = [one for one in arguments if not one.startswith("-")]
    data = Path(paths[0]) if paths else DATA
    if not data.is_dir():
        print(f"no recordings in {data}")
        return 2
    with tempfile.TemporaryDirectory(prefix="recall-") as scratch:
        speed(data, Path(scratch))
        if "--speed" in arguments:
            return 0
        whole = Tally()
        for n, path in enumerate(sorted(data.glob("*/*.jsonl.gz"))):
            tally = measure(path, Path(scratch) / str(n))
            if not tally.asked:
                continue
            name = f"{path.parent.name}/{path.name[:13]}"
            share = f"{tally.by_name / tally.asked:6.1%} by name {tally.by_request / tally.asked:6.1%} by request"
            print(f"{name:<38} {tally.points:2} points {tally.asked:4} identifiers {share}  {tally.missed[:4]}")
            whole.add(tally)
    print(f"\n{whole.points} compactions, {whole.asked} identifiers no longer visible; in the first {TOP} hits:")
    print(f"  {whole.by_name / whole.asked:.2%} by name, {whole.by_request / whole.asked:.1%} by the visible request")
    print(f"  a query by name takes {told(whole.times)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
