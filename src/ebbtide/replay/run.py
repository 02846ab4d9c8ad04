"""Many recordings under many arms, on all cores or on a cluster. The results never depend on who was done first.

A unit of work is one file under all arms: what is known of its messages is found out once.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context
from pathlib import Path

from ebbtide.core.errors import BadRequest, EbbtideError
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.formats import load
from ebbtide.replay.contenders import Making
from ebbtide.replay.policies import arm
from ebbtide.replay.recorded_session import tapes
from ebbtide.replay.score import Point, Score, Scoring, calibration, uses

Told = Callable[[int, int], None]
"""Hears how many files are done, of how many."""


_REACHED = 10.0
"""Seconds in which a cluster's port must answer."""


def _to_nobody(done: int, of: int) -> None:
    del done, of


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a replay is made."""

    arms: tuple[str, ...] = ("raw", "recorded", "default")
    window: int = 200_000
    ttl: float = FIVE_MINUTES
    """Seconds for which the provider keeps a prefix."""
    model: str = ""
    """Prices and cache rules of this model instead of the recorded one."""
    recalls: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One file under all arms."""

    path: str
    format: str = ""
    scores: dict[str, Score] = field(default_factory=dict)
    points: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    """Of its longest conversation, for pictures."""
    simulated: float = 0.0
    """The recorded requests as we would have billed them, of the calls that have a bill."""
    billed: float = 0.0
    """What the same calls were billed, at the same prices."""
    models: tuple[str, ...] = ()
    """Whose prices were taken."""
    failed: str = ""
    """Why there is no score."""


def files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files that the paths mean, folders looked through, in the order of their names."""
    found: list[Path] = []
    for given in map(Path, paths):
        # `Path` raises where a name is too long or a folder is closed to us; there is no file then either.
        if os.path.isdir(given):
            found += sorted(one for one in given.rglob("*") if _is_session(one) and os.path.isfile(one))
        elif os.path.exists(given):
            found.append(given)
        else:
            raise BadRequest(f"there is no file {given}")
    return list(dict.fromkeys(found))


def _is_session(path: Path) -> bool:
    kinds = {".jsonl", ".json", ".traj", ".txt"}
    return path.suffix in kinds or (path.suffix == ".gz" and Path(path.stem).suffix in kinds)


def play(path: str | os.PathLike[str], terms: Terms, more: dict[str, Making] | None = None) -> Played:
    """One file under all arms, `more` beside those that go by name. A file that cannot be read is told, not raised."""
    makings = {name: arm(name, terms.window) for name in terms.arms} | (more or {})
    try:
        recording = load(path)
    except (EbbtideError, OSError, UnicodeError) as failed:
        return Played(path=str(path), failed=str(failed))
    scores = {name: Score() for name in makings}
    points: dict[str, tuple[Point, ...]] = {}
    simulated = billed = 0.0
    longest = 0
    models: dict[str, None] = {}
    for tape in tapes(recording, str(path), model=terms.model):
        models |= dict.fromkeys(take.model for take in tape.takes)
        used = uses(tape) if makings else []
        ours, theirs = calibration(tape, terms.ttl)
        simulated, billed = simulated + ours, billed + theirs
        for name, making in makings.items():
            scoring = Scoring(tape, making(tape), terms.window, terms.ttl, used, recalls=terms.recalls)
            scores[name] = scores[name].plus(scoring.run())
            if len(tape.takes) >= longest:
                points[name] = tuple(scoring.points)
        longest = max(longest, len(tape.takes))
    return Played(
        path=str(path),
        format=recording.format,
        scores=scores,
        points=points,
        simulated=simulated,
        billed=billed,
        models=tuple(models),
    )


def replay(paths: Sequence[Path], terms: Terms, *, workers: int = 0, told: Told = _to_nobody) -> list[Played]:
    """All files, on `workers` processes (0: as many as there are cores). `told` hears how many are done."""
    workers = min(workers or os.cpu_count() or 1, len(paths)) or 1
    if workers == 1:
        return [_after(play(path, terms), n, len(paths), told) for n, path in enumerate(paths, 1)]
    # Largest first, so that no core is left alone with one at the end.
    order = sorted(range(len(paths)), key=lambda n: -paths[n].stat().st_size)
    results: dict[int, Played] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool, _ended_with_us():
        with _without_ctrl_c():
            waiting: dict[Future[Played], int] = {pool.submit(play, paths[n], terms): n for n in order}
        for done in as_completed(waiting):
            results[waiting[done]] = done.result()
            told(len(results), len(paths))
    return [results[n] for n in range(len(paths))]


@contextmanager
def _ended_with_us() -> Iterator[None]:
    """Where this is left by an error or Ctrl-C, the processes begun in it end at once."""
    others = set(active_children())
    try:
        yield
    except BaseException:
        for child in set(active_children()) - others:
            child.kill()
        raise


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes begun in here do not hear it, and so say nothing about it. Windows has no such mask."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _after(played: Played, n: int, of: int, told: Callable[[int, int], None]) -> Played:
    told(n, of)
    return played


def on_ray(paths: Sequence[Path], terms: Terms, address: str, *, told: Told = _to_nobody) -> list[Played]:
    """The same on a Ray cluster. Its machines must see the files under the same names."""
    try:
        import ray  # noqa: PLC0415 - an extra, and half a second
    except ImportError as missing:
        raise BadRequest("a replay on Ray needs the extra: pip install 'ebbtide[ray]'") from missing
    try:
        _reach(address)
        # "local" is Ray's own word for: start one here, whatever cluster the environment names.
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as failed:  # Ray raises no more than that where its processes do not come up.
        raise BadRequest(f"no Ray cluster answers at {address}: {failed}") from failed
    try:
        far = ray.remote(play)
        order = sorted(range(len(paths)), key=lambda n: -paths[n].stat().st_size)
        names = {far.remote(str(paths[n]), terms): n for n in order}
        results: dict[int, Played] = {}
        left = list(names)
        while left:
            done, left = ray.wait(left)
            for one in done:
                results[names[one]] = ray.get(one)
            told(len(results), len(paths))
    finally:
        ray.shutdown()
    return [results[n] for n in range(len(paths))]


def _reach(address: str) -> None:
    """Ray itself tries for minutes. `auto`, `local` and what is no host with a port are left to it."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACHED).close()


def totals(played: Iterable[Played]) -> dict[str, Score]:
    """The sum of all scores by arm."""
    whole: dict[str, Score] = {}
    for one in played:
        for name, score in one.scores.items():
            whole[name] = whole.get(name, Score()).plus(score)
    return whole


def failures(played: Iterable[Played]) -> Iterator[tuple[str, str]]:
    for one in played:
        if one.failed:
            yield one.path, one.failed
