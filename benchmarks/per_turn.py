"""What a turn costs before the model is called as the conversation grows, compared with others in the same run.

    python benchmarks/per_turn.py [--sizes 200,1000,5000] [--turns 30] [--only idle,acting,read] [--json]

*Idle*: one more exchange in a known conversation, nothing to do. *Acting*: the turn in which old results are removed.
All subjects take turns, so that a busy machine slows all of them; ratios are of CPU time. Garbage collection is off. A
peer that is not installed is skipped and named; `requirements/bench.txt` has them.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice, product
from typing import Any

from conversation import TASK, Step, anthropic, request, steps
from peers import ENDLESS, Subject, Turns, installed

import ebbtide
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.policy import preset
from ebbtide.policy.levels import shares
from ebbtide.wire.reader import Reader

OURS = "ebbtide prepare"
EDITING, HARNESS = "langchain ContextEditingMiddleware", "harness ClearToolResults"
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Milliseconds of one subject over some turns."""

    wall: float
    """Median."""
    cpu: float
    """Median of the process's own time."""
    least: float
    """The fastest turn's CPU time: what the work takes when nothing disturbs it."""
    turns: int


def timed(subjects: Mapping[str, Turns], turns: int, warm_up: int = 2, in_a_row: int = 1) -> dict[str, Timing]:
    """Run the subjects in rounds, each for this many turns in a row."""
    due = {name: next(subject) for name, subject in subjects.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in subjects}
    gc.collect()
    gc.disable()
    for n in range(turns + warm_up):
        for name, subject in (pair for pair in subjects.items() for _ in range(in_a_row)):
            wall, cpu = time.perf_counter(), time.process_time()
            out = due[name]()
            spent = time.perf_counter() - wall, time.process_time() - cpu
            due[name] = subject.send(out)
            if n >= warm_up:
                taken[name].append(spent)
    gc.enable()
    return {name: _timing(spent) for name, spent in taken.items()}


def _timing(spent: list[tuple[float, float]]) -> Timing:
    wall, cpu = ([1000 * one for one in column] for column in zip(*spent, strict=True))
    return Timing(wall=statistics.median(wall), cpu=statistics.median(cpu), least=min(cpu), turns=len(cpu))


# --- Ebbtide ---------------------------------------------------------------------------------------------------------


def _talk(messages: int) -> tuple[list[dict[str, Any]], Generator[Step, None, None]]:
    more: Any = steps()
    talk: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    for step in islice(more, messages // 2):
        talk += anthropic(step)
    return talk, more


def _reply(message: Mapping[str, Any], ready: ebbtide.Ready) -> dict[str, object]:
    # Read from the cache, as if nothing had changed: a policy may remove uncached content at no cost.
    usage = {"input_tokens": 10, "cache_read_input_tokens": ready.report.tokens_after - 10, "output_tokens": 60}
    return {"role": "assistant", "content": message["content"], "usage": usage}


def prepare(messages: int) -> Turns:
    """Your own loop: the list grows, and its dicts are the same objects as before."""
    talk, more = _talk(messages)
    ctx = ebbtide.Context(model="claude-sonnet-5", window=ENDLESS)
    body = request(talk)
    ready = ctx.prepare(body)
    while True:
        pair = anthropic(next(more))
        ctx.record(_reply(pair[0], ready))
        talk += pair
        ready = yield partial(ctx.prepare, body)
        assert not ready.report.edits


def record(messages: int) -> Turns:
    """The second half of our turn: record the reply and its usage."""
    talk, more = _talk(messages)
    ctx = ebbtide.Context(model="claude-sonnet-5", window=ENDLESS)
    body = request(talk)
    while True:
        pair = anthropic(next(more))
        yield partial(ctx.record, _reply(pair[0], ctx.prepare(body)))
        talk += pair


def prepare_bytes(messages: int) -> Turns:
    """A proxy: every request arrives complete and extends the previous one byte for byte."""
    talk, more = _talk(messages)
    ctx = ebbtide.Context(model="claude-sonnet-5", window=ENDLESS)
    while True:
        raw = json.dumps(request(talk)).encode()
        ready = yield partial(ctx.prepare, raw)
        assert ready.body is raw
        talk += anthropic(next(more))


def _marked(talk: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put a cache breakpoint on the newest message only."""
    last = talk[-1]
    content = [*last["content"][:-1], {**last["content"][-1], "cache_control": {"type": "ephemeral"}}]
    return [*talk[:-1], {**last, "content": content}]


def moving_mark(messages: int) -> Turns:
    """As Claude Code does: the breakpoint moves to the newest message, so the one before it changes."""
    talk, more = _talk(messages)
    ctx = ebbtide.Context(model="claude-sonnet-5", window=ENDLESS)
    while True:
        yield partial(ctx.prepare, request(_marked(talk)))
        talk += anthropic(next(more))


def moving_mark_bytes(messages: int) -> Turns:
    talk, more = _talk(messages)
    ctx = ebbtide.Context(model="claude-sonnet-5", window=ENDLESS)
    while True:
        yield partial(ctx.prepare, json.dumps(request(_marked(talk))).encode())
        talk += anthropic(next(more))


def _tight(talk: list[dict[str, Any]], pair: list[dict[str, Any]]) -> ebbtide.Context:
    """Return a session that knows this conversation and acts when the pair is added."""
    tokens = ebbtide.Context(window=ENDLESS).prepare(request(talk)).report.tokens_before
    more = ebbtide.Context(window=ENDLESS).prepare(request(talk + pair)).report.tokens_before
    # Below `auto` it depends on prices whether a cached prefix is changed; here we must know which turn acts.
    levels = shares(warning=0.8, soft=0.8, auto=0.8, hard=0.95, low=0.5)
    window = math.ceil((tokens + more) / 2 / 0.8) + 8000
    ctx = ebbtide.Context(model="claude-sonnet-5", window=window, policy=replace(preset("default"), levels=levels))
    ctx.record(_reply(pair[0], ctx.prepare(request(talk))))
    return ctx


def prepare_acting(messages: int) -> Turns:
    """Each turn needs a new session: an edit is recorded once, and the next turn is idle again."""
    talk, more = _talk(messages)
    while True:
        pair = anthropic(next(more))
        ctx = _tight(talk, pair)
        ready = yield partial(ctx.prepare, request(talk + pair))
        assert ready.report.edits
        talk += pair


def _after(messages: int, written: Callable[[dict[str, Any]], Any]) -> Turns:
    """One more exchange after old results were removed: recorded edits are applied."""
    talk, more = _talk(messages)
    pair = anthropic(next(more))
    ctx = _tight(talk, pair)
    talk += pair
    ready = ctx.prepare(written(request(talk)))
    assert ready.report.edits
    while True:
        pair = anthropic(next(more))
        ctx.record(_reply(pair[0], ready))
        talk += pair
        ready = yield partial(ctx.prepare, written(request(talk)))
        assert ready.report.held
        assert not ready.report.edits


def prepare_after(messages: int) -> Turns:
    return _after(messages, lambda body: body)


def prepare_after_bytes(messages: int) -> Turns:
    return _after(messages, lambda body: json.dumps(body).encode())


def reading(act: Callable[[], object]) -> Turns:
    while True:
        yield act


def first_reads() -> dict[str, Turns]:
    """A body of one megabyte, seen for the first time; `json.loads` of it for scale."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    size = len(json.dumps(request(talk)))
    for step in steps():
        pair = anthropic(step)
        size += len(json.dumps(pair))
        if size > MEGABYTE:
            break
        talk += pair
    body = request(talk)
    raw = json.dumps(body).encode()
    fresh = partial(ebbtide.Context, model="claude-sonnet-5", window=ENDLESS)
    return {
        "json.loads": reading(lambda: json.loads(raw)),
        "read, bytes": reading(lambda: Reader(DEFAULT).read(raw)),
        "read, dict": reading(lambda: Reader(DEFAULT).read(body)),
        "prepare, bytes": reading(lambda: fresh().prepare(raw)),
        "prepare, dict": reading(lambda: fresh().prepare(body)),
        "fit, bytes, fits": reading(lambda: ebbtide.fit(raw, window=ENDLESS)),
        "fit, bytes, 200k window": reading(lambda: ebbtide.fit(raw, window=200_000)),
    }


# --- the run ---------------------------------------------------------------------------------------------------------

ROW = 10
"""Turns in a row: the first finds the caches of another subject, and the median ignores it."""
Results = dict[str, dict[str, dict[str, Timing]]]
"""By case, size and subject."""

IDLE: dict[str, Callable[[int], Turns]] = {
    OURS: prepare,
    "ebbtide record": record,
    "ebbtide prepare, bytes": prepare_bytes,
    "ebbtide prepare, edits held": prepare_after,
    "ebbtide prepare, edits held, bytes": prepare_after_bytes,
    "ebbtide prepare, mark moves": moving_mark,
    "ebbtide prepare, mark moves, bytes": moving_mark_bytes,
}


def run(sizes: list[int], turns: int, only: list[str], peers: Mapping[str, Subject]) -> Results:
    results: Results = {case: {} for case in only}
    for size in sizes:
        # A session must be read completely before each acting turn, so long sessions get fewer turns.
        acting = max(5, min(turns, 6000 // size))
        if "idle" in only:
            theirs = {name: peer(size, False) for name, peer in peers.items()}
            results["idle"][str(size)] = timed({**{name: made(size) for name, made in IDLE.items()}, **theirs}, turns)
        if "row" in only:
            theirs = {name: peer(size, False) for name, peer in peers.items()}
            both = {OURS: prepare(size), **theirs}
            results["row"][str(size)] = timed(both, -(-turns // ROW), in_a_row=ROW)
        if "acting" in only:
            theirs = {name: peer(size, True) for name, peer in peers.items()}
            results["acting"][str(size)] = timed({OURS: prepare_acting(size), **theirs}, acting, warm_up=1)
    if "read" in only:
        results["read"]["1 MB"] = timed(first_reads(), turns)
    return results


def table(case: str, by_size: Mapping[str, Mapping[str, Timing]]) -> str:
    scale = "json.loads" if case == "read" else OURS
    names = list(next(iter(by_size.values())))
    lines = [f"{case:36}" + "".join(f"{size:>38}" for size in by_size)]
    lines.append(" " * 36 + f"{'cpu ms     least      wall      x':>38}" * len(by_size))
    for name in names:
        cells = [_cell(taken[name], taken[scale]) for taken in by_size.values()]
        lines.append(f"{name:36}" + "".join(cells))
    return "\n".join(lines)


def _cell(one: Timing, scale: Timing) -> str:
    return f"{one.cpu:11.3f}{one.least:10.3f}{one.wall:10.3f}{one.cpu / scale.cpu:7.1f}"


def promises(results: Results) -> list[str]:
    """Print the project's promises that this run can check."""
    said = []
    for case, (size, times) in product(("idle", "row"), (("1000", 50), ("5000", 100))):
        taken = results.get(case, {}).get(size, {})
        where = f"{case}, {size}"
        if EDITING in taken:
            ratio = taken[EDITING].cpu / taken[OURS].cpu
            said.append(
                _verdict(f"{where}: {ratio:.0f} times faster than ContextEditingMiddleware", times, ratio >= times)
            )
        if HARNESS in taken:
            ratio = taken[OURS].cpu / taken[HARNESS].cpu
            said.append(_verdict(f"{where}: {ratio:.1f} times the harness", 3, ratio <= 3))
    for name in ("read, bytes", "read, dict"):
        if read := results.get("read", {}).get("1 MB", {}).get(name):
            said.append(_verdict(f"first read of 1 MB, {name}: {read.cpu:.1f} ms of CPU", 25, read.cpu <= 25))
    return said


def _verdict(what: str, promised: int, met: bool) -> str:
    return f"{'met   ' if met else 'MISSED'} {what} (promised: {promised})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="200,1000,5000")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--only", default="idle,row,acting,read")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    peers, versions = installed()
    results = run([int(size) for size in given.sizes.split(",")], given.turns, given.only.split(","), peers)
    if given.json:
        json.dump({"versions": versions, "results": results}, sys.stdout, default=asdict, indent=1)
        return
    print("python", sys.version.split()[0], *(f"{name} {version}" for name, version in versions.items()), sep="; ")
    print("\n\n".join(table(case, by_size) for case, by_size in results.items() if by_size))
    print("x: CPU time over ours, or over json.loads\n")
    print("\n".join(promises(results)))


if __name__ == "__main__":
    main()
