"""Faults of the disk and of the process: kills, failing calls, torn tails, flipped bits, many writers, clocks, `gc`.

Each class is a function `(place, points, rng) -> Tally` over one story, and repeats that story's last steps once for
each of its points.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.sessions import (
    BEGAN,
    SESSION,
    STEPS,
    Acknowledged,
    NoSync,
    Opened,
    Place,
    Tally,
    check_kept,
    check_ready,
    check_sound,
    digest,
    go_on,
    place_records,
    under_fault,
)

from ebbtide.core.errors import EbbtideError
from ebbtide.store import DirectoryStore, FileSystem
from ebbtide.store.directory.verify import verify_log

LONGEST = 120.0
"""Seconds that any child may take before it counts as hung."""
_CLOCKLESS = ("ticks", "wait")
CALLS = tuple(name for name in vars(FileSystem) if not name.startswith("_") and name not in _CLOCKLESS)
"""Every call that the store makes to the operating system."""
ROOM = ("write", "write_at", "mkdir", "link", "rename", "sync", "sync_folder", "open")
"""Calls that a full disk fails."""


class Failing(NoSync):
    """Fail the Nth call: `kill` before it, `died` after it, `short` writes half, else the name of an errno.

    A kill during a write leaves half of it behind. `sticky` fails all later calls, until `healed`.
    """

    def __init__(self, fault: str, when: int, *, only: tuple[str, ...] = CALLS, sticky: bool = False) -> None:
        self.fault, self.when, self.only, self.sticky = fault, when, only, sticky
        self.calls, self.fired, self.healed = 0, False, False

    def due(self, name: str) -> bool:
        if name not in self.only or self.healed:
            return False
        self.calls += 1
        due = self.calls == self.when or (self.sticky and self.calls > self.when)
        self.fired = self.fired or due
        return due


def _failing(name: str) -> Callable[..., object]:
    real = getattr(NoSync, name)

    def call(self: Failing, *args: object, **options: object) -> object:
        if not self.due(name):
            return real(self, *args, **options)
        if self.fault == "short":
            fd, data = args[:2]
            return os.write(fd, bytes(data)[: max(1, len(data) // 2)])  # type: ignore[arg-type]
        if self.fault in ("kill", "died"):
            if self.fault == "died":
                real(self, *args, **options)
            elif name == "write":
                fd, data = args[:2]
                os.write(fd, bytes(data)[: len(data) // 2])  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)
        if name == "close":
            real(self, *args, **options)  # the descriptor is closed, whatever the system says
        code = getattr(errno, self.fault)
        raise OSError(code, os.strerror(code))

    return call


for _name in CALLS:
    setattr(Failing, _name, _failing(_name))


def steps(place: Place) -> range:
    return range(place.story.start, place.story.start + STEPS)


def housekeeping(ctx: Opened) -> None:
    """What people do with a session besides sending requests."""
    store = ctx.store
    with contextlib.suppress(EbbtideError):
        ctx.context.recall("queue lock")
    with contextlib.suppress(EbbtideError):
        store.fork(SESSION, "fork", now=ctx.now)
    with contextlib.suppress(EbbtideError):
        store.list_sessions()
    with contextlib.suppress(EbbtideError):
        store.gc(now=ctx.now)


def calls_of(place: Place, only: tuple[str, ...] = CALLS) -> int:
    """Return how many calls the steps make without a fault."""
    place.restore()
    files = Failing("none", 0, only=only)
    with place.context(files) as ctx:
        for at in steps(place):
            place.step(ctx, at)
        housekeeping(ctx)
    return files.calls


def spread(total: int, points: int, rng: random.Random) -> Iterator[int]:
    """Choose this many of the calls from 1 to `total`: first each once, then at random."""
    order = list(range(1, total + 1))
    rng.shuffle(order)
    for number in range(points):
        yield order[number % total]


# --- kill -9 ----------------------------------------------------------------------------------------------------------


def in_child(do: Callable[[], object], *, kill_after: float | None = None) -> str:
    """Run this in a process and return how it ended: `done`, `killed`, `failed` or `hung`."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            do()
            code = 0
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return waited(pid)


def waited(pid: int) -> str:
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return "killed" if os.WIFSIGNALED(status) else "failed" if os.WEXITSTATUS(status) else "done"
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"


def kill(place: Place, points: int, rng: random.Random) -> Tally:
    """Kill a process that prepares and records: at a call, during a write, after a call, or at a random moment.

    Every tenth time the process that opens the session again is killed too.
    """
    tally = Tally()
    calls = calls_of(place)
    began = time.monotonic()
    _live(place, None)
    usual = time.monotonic() - began
    for number, when in enumerate(spread(calls, points, rng)):
        fault = ("kill", "died", "moment")[0 if number % 5 < 2 else 1 if number % 5 < 4 else 2]
        where = f"{place.story.name}, {fault} at call {when}"
        place.restore()
        files = Failing(fault, when) if fault != "moment" else None
        after = rng.uniform(0, usual) if files is None else None
        ends = [in_child(lambda files=files: _live(place, files), kill_after=after)]
        if number % 10 == 9:
            again = Failing("kill", rng.randrange(1, 120))
            ends.append(in_child(lambda again=again: _live(place, again, resumed=True)))
        for ended in ends:
            if ended in ("hung", "failed"):
                tally.count("hung" if ended == "hung" else "unusable", where, f"the process {ended}")
        tally.points += ends.count("killed")
        at = max(Acknowledged.read(place.seen).step, place.story.start)
        at += number % 3 == 2  # the client tries again, or has continued meanwhile
        go_on(tally, place, min(at, len(place.story.requests) - 2), where)
        check_kept(tally, place, where)
        check_sound(tally, place, where)
        _check_fork(tally, place, where)
    return tally


def _live(place: Place, files: FileSystem | None, *, resumed: bool = False) -> None:
    begin = max(Acknowledged.read(place.seen).step, place.story.start) if resumed else place.story.start
    with place.context(files) as ctx:
        for at in range(begin, place.story.start + STEPS):
            place.step(ctx, at)
        housekeeping(ctx)


def _check_fork(tally: Tally, place: Place, where: str) -> None:
    path = place.log.with_name("fork.jsonl")
    if path.exists() and path.stat().st_size and not verify_log(path).ok:
        # A process that opens a torn beginning sets it aside.
        DirectoryStore(place.root).open("fork", now=BEGAN)
        found = verify_log(path)
        if not found.ok:
            tally.count("lost", where, f"the fork: {found.problems} {found.damage}")


# --- a call that fails ------------------------------------------------------------------------------------------------


def failing_calls(fault: str, only: tuple[str, ...] = CALLS) -> Callable[[Place, int, random.Random], Tally]:
    """Make each call fail once. At every eighth point all calls fail until the steps end and the disk recovers."""

    def each(place: Place, points: int, rng: random.Random) -> Tally:
        tally = Tally()
        calls = calls_of(place, only)
        for number, when in enumerate(spread(calls, points or calls, rng)):
            files = Failing(fault, when, only=only, sticky=number % 8 == 7)
            _fail(tally, place, files, f"{place.story.name}, {fault} at call {when}{' on' if files.sticky else ''}")
        return tally

    return each


def _fail(tally: Tally, place: Place, files: Failing, where: str) -> None:
    place.restore()
    try:
        opened = place.context(files)
    except EbbtideError:
        # Refused with an error message before anything was done: the client tries again.
        tally.refused += 1
        files.healed = True
        opened = place.context(files)
    with opened as ctx:
        for at in steps(place):
            under_fault(tally, place, ctx, at, where)
        try:
            housekeeping(ctx)
        except OSError as error:
            tally.count("unusable", where, f"raw {type(error).__name__}: {error}")
        tally.points += files.fired
        files.healed = True
        # The process that saw the fault continues, and so does one that did not.
        go_on(tally, place, place.story.start + STEPS, where, ctx)
    go_on(tally, place, len(place.story.requests) - 1, f"{where}, fresh")
    check_kept(tally, place, where)
    check_sound(tally, place, where)
    _check_fork(tally, place, where)


# --- damage -----------------------------------------------------------------------------------------------------------


def _finish(place: Place) -> None:
    place.restore()
    with place.context() as ctx:
        for at in steps(place):
            place.step(ctx, at)


def torn(place: Place, points: int, rng: random.Random) -> Tally:
    """Cut the log at a byte of its newest commits, or append bytes that are no commit."""
    tally = Tally()
    _finish(place)
    whole, seen = place.log.read_bytes(), place.seen.read_bytes()
    lock, before = place.log.with_suffix(".lock").read_bytes(), place_records(place)
    blobs = {path: path.read_bytes() for path in place.files()}
    newest = max(0, len(whole) - 40_000)
    for number in range(points):
        for path, data in blobs.items():
            path.write_bytes(data)
        for path in place.log.parent.glob(f"{SESSION}.torn-*"):
            path.unlink()
        place.seen.write_bytes(seen)
        cut = rng.randrange(newest, len(whole)) if number % 4 else len(whole)
        tail = [b"", b"", bytes(300), b'{"half', rng.randbytes(80)][number % 5] if cut < len(whole) else b'{"type":"eb'
        place.log.write_bytes(whole[:cut] + tail)
        place.log.with_suffix(".lock").write_bytes(lock)
        _check_torn(tally, place, before, f"{place.story.name}, cut at {cut} of {len(whole)}", cut < len(whole))
    return tally


def _check_torn(tally: Tally, place: Place, before: list[dict[str, object]], where: str, damaged: bool) -> None:
    tally.points += 1
    found = verify_log(place.log)
    tally.reported += not found.ok
    if damaged and found.ok:
        tally.count("silent", where, "verify passes although the end was cut off")
    records = place_records(place)
    if records != before[: len(records)]:
        tally.count("silent", where, "what is read is no beginning of what was written")
    if not damaged and len(records) != len(before):
        tally.count("lost", where, "a whole commit before the torn tail is not read")
    go_on(tally, place, place.story.start + STEPS, where)
    after = place_records(place)
    if after[: len(records)] != records:
        tally.count("lost", where, "what was read before going on is not there after it")
    if damaged and verify_log(place.log).ok:
        tally.count("silent", where, "verify forgets the end that was cut off")
    if not damaged:
        check_sound(tally, place, where)


def flipped(place: Place, points: int, rng: random.Random) -> Tally:
    """Flip one bit in one file of the store."""
    tally = Tally()
    _finish(place)
    before, seen = [digest(one) for one in place_records(place)], place.seen.read_bytes()
    kept = {path: path.read_bytes() for path in place.files()}
    heavy = [path for path, data in kept.items() if data]
    for number in range(points):
        for path, data in kept.items():
            path.write_bytes(data)
        for path in set(place.files()) - set(kept):
            path.unlink()
        place.seen.write_bytes(seen)
        path = place.log if number % 2 else rng.choice(heavy)
        data = bytearray(kept[path])
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        _check_flip(tally, place, path, before, f"{place.story.name}, bit at {at} of {path.name}")
    return tally


def _check_flip(tally: Tally, place: Place, path: Path, before: list[str], where: str) -> None:
    tally.points += 1
    found = verify_log(place.log)
    tally.reported += not found.ok
    told = found.ok and (path == place.log or path.parent.name == "tool-results")
    if told:
        tally.count("silent", where, "verify passes")
    known, records = set(before), [digest(one) for one in place_records(place)]
    if [one for one in records if one not in known]:
        tally.count("silent", where, "a record is read that was never written")
    if path.parent.name == "tool-results":
        _check_damaged_blob(tally, place, path, where)
    go_on(tally, place, place.story.start + STEPS, where)
    after = [digest(one) for one in place_records(place)]
    if [one for one in records if one not in after]:
        tally.count("lost", where, "what was read before going on is not there after it")


def _check_damaged_blob(tally: Tally, place: Place, path: Path, where: str) -> None:
    log = DirectoryStore(place.root).peek(SESSION)
    log.read()
    try:
        log.read_blob(path.name)
    except EbbtideError:
        return
    tally.count("silent", where, "a damaged result is read without a word")


def check_unfaulted(place: Place) -> None:
    """Check that nothing is wrong without a fault; otherwise the oracle itself is wrong."""
    tally = Tally()
    place.restore()
    with place.context() as ctx:
        for at in steps(place):
            check_ready(tally, place, at, place.step(ctx, at), "no fault")
    go_on(tally, place, place.story.start + STEPS, "no fault")
    check_kept(tally, place, "no fault")
    check_sound(tally, place, "no fault")
    assert not any(tally.bad.values()), tally.examples
