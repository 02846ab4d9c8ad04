"""Faults that other programs cause: eight writers on one session, a clock that jumps, `gc` next to live sessions.

Each class is a function like those of `disk`, and `CLASSES` has both kinds.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.disk import (
    ROOM,
    failing_calls,
    flipped,
    housekeeping,
    kill,
    steps,
    torn,
    waited,
)
from benchmarks.faults.sessions import (
    BEGAN,
    PAUSE,
    STEPS,
    NoSync,
    Opened,
    Place,
    Tally,
    check_kept,
    check_sound,
    go_on,
    named_files,
    under_fault,
)

from ebbtide.core.errors import EbbtideError
from ebbtide.store import DirectoryStore

WRITERS = 8


def writers(place: Place, points: int, rng: random.Random) -> Tally:
    """Eight processes continue one session at the same time, each with its own requests and answers."""
    tally = Tally()
    for number in range(points):
        place.restore()
        where = f"{place.story.name}, round {number}"
        results = place.where / "results"
        results.mkdir(exist_ok=True)
        pids = [_start_writer(place, one, results / str(one), rng.random() / 100) for one in range(WRITERS)]
        for pid in pids:
            if (ended := waited(pid)) != "done":
                tally.count("hung" if ended == "hung" else "unusable", where, f"a writer {ended}")
        tally.points += WRITERS
        for one in range(WRITERS):
            tally.add(_read_tally(results / str(one)))
        _check_writers(tally, place, where)
        go_on(tally, place, place.story.start + STEPS, where)
        check_sound(tally, place, where)
    return tally


def _start_writer(place: Place, number: int, result: Path, pause: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        place.seen = place.where / f"seen-{number}"
        place.seen.unlink(missing_ok=True)
        time.sleep(pause)
        tally = Tally()
        with place.context() as ctx:
            for at in steps(place):
                under_fault(tally, place, ctx, at, f"{place.story.name}, writer {number}")
        result.write_text(repr([tally.requests, tally.refused, tally.bad, tally.examples]))
        code = 0
    finally:
        os._exit(code)


def _read_tally(path: Path) -> Tally:
    if not path.exists():
        return Tally()
    requests, refused, bad, examples = eval(path.read_text())  # what our own child wrote
    path.unlink()
    return Tally(requests=requests, refused=refused, bad=bad, examples=examples)


def _check_writers(tally: Tally, place: Place, where: str) -> None:
    for number in range(WRITERS):
        seen = place.seen
        place.seen = place.where / f"seen-{number}"
        check_kept(tally, place, f"{where}, writer {number}")
        place.seen = seen
    check_kept(tally, place, where)


# --- clocks and gc ----------------------------------------------------------------------------------------------------

JUMPS = (-3600.0, 86_400.0, -BEGAN, 2**31 - BEGAN + 1, 4e9 - BEGAN, -86_400.0 * 400, 0.5, 86_400.0 * 365)
"""Seconds: an hour back, a day on, to 1970, past 2038, past 2096, a year back, less than a tick, a year on."""


def clocks(place: Place, points: int, rng: random.Random) -> Tally:
    """The clock jumps before, between and after requests and answers."""
    tally = Tally()
    for number in range(points):
        place.restore()
        jumps = [rng.choice(JUMPS) if rng.random() < 0.5 else 0.0 for _ in range(40)]
        jumps[number % 12] = JUMPS[number % len(JUMPS)]
        where = f"{place.story.name}, clock {number}"
        readings = _readings(jumps)
        with place.context(clock=lambda readings=readings: next(readings)) as ctx:
            for at in steps(place):
                under_fault(tally, place, ctx, at, where)
            housekeeping(ctx)
        tally.points += 1
        go_on(tally, place, place.story.start + STEPS, where)
        check_kept(tally, place, where)
        check_sound(tally, place, where)
    return tally


def _readings(jumps: list[float]) -> Iterator[float]:
    now = BEGAN
    for number in range(10**6):
        now += PAUSE / 4
        yield max(0.0, now + (jumps[number] if number < len(jumps) else 0.0))
        if not math.isfinite(now):
            return


OLD = 86_400.0 * 10
"""Seconds: ten days, older than anything that `gc` keeps."""


def collected(place: Place, points: int, rng: random.Random) -> Tally:
    """`gc` runs next to a live session that was idle for days, and next to a reader of removed text."""
    tally = Tally()
    for number in range(points):
        place.restore()
        older = (None, 86_400.0 * 7)[number % 2]
        rest = rng.randrange(place.story.start, place.story.start + STEPS)
        where = f"{place.story.name}, gc {'of old sessions' if older else 'of unnamed results'} before request {rest}"
        with place.context() as ctx:
            for at in range(place.story.start, rest):
                place.step(ctx, at)
            if rest == place.story.start:
                ctx.context.edits()  # it knows its session
            _age(place)
            pid = _start_collecting(place, older)
            for at in range(rest, place.story.start + STEPS):
                under_fault(tally, place, ctx, at, where)
                _read_all(tally, place, ctx, where)
            if waited(pid) != "done":
                tally.count("hung", where, "gc did not end")
            tally.points += 1
            go_on(tally, place, place.story.start + STEPS, where, ctx)
        go_on(tally, place, len(place.story.requests) - 1, f"{where}, fresh")
        if older is None:
            check_kept(tally, place, where)
        check_sound(tally, place, where)
    return tally


def _age(place: Place) -> None:
    for path in place.files():
        old = path.stat().st_mtime - OLD
        os.utime(path, (old, old))


def _start_collecting(place: Place, older: float | None) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        store = DirectoryStore(place.root, fs=NoSync())
        for _ in range(8):
            store.gc(older_than=older, now=time.time())
        code = 0
    finally:
        os._exit(code)


def _read_all(tally: Tally, place: Place, ctx: Opened, where: str) -> None:
    """Check that every handle of the last request opens, or is refused with an error message."""
    last = ctx.context._last
    for path in named_files(place.root, last.body) if last else ():
        try:
            if path.parent.name == "tool-results":
                ctx.context.read(path.name)
        except EbbtideError as error:
            tally.count("dangling", where, error)
        except OSError as error:
            tally.count("unusable", where, f"raw {type(error).__name__}: {error}")


CLASSES: dict[str, Callable[[Place, int, random.Random], Tally]] = {
    "kill": kill,
    "eio": failing_calls("EIO"),
    "enospc": failing_calls("ENOSPC", ROOM),
    "eintr": failing_calls("EINTR"),
    "short": failing_calls("short", ("write",)),
    "torn": torn,
    "flips": flipped,
    "writers": writers,
    "clocks": clocks,
    "gc": collected,
}
