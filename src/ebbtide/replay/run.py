"""Replays many recordings under many policies, on all cores or on a Ray cluster. Results do not depend on the order.

The unit of work is one file under all policies, so that its messages are indexed once.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import active_children, get_context
from multiprocessing.sharedctypes import Synchronized
from typing import ClassVar

from ebbtide.core.errors import BadRequest, EbbtideError
from ebbtide.core.types import FIVE_MINUTES
from ebbtide.replay.contenders import MakeContender, WatchedContender
from ebbtide.replay.policies import contender
from ebbtide.replay.score import CallPoint, Score, Scorer, calibrate_session, names_used_by_call
from ebbtide.replay.session import sessions_in
from ebbtide.replay.sources import Source, StoredSession, load_source, size_of

OnProgress = Callable[[int, int, int], None]
"""Called with the number of files done, of all files, and of calls replayed: a call counts once for each policy."""
_CONNECT_SECONDS = 10.0
_POLL_SECONDS = 0.2
"""How often the calls of other processes are counted."""


def _no_progress(files: int, total: int, calls: int) -> None:
    del files, total, calls


def _no_call() -> None:
    """The default of `on_call`."""


class _SharedCount:
    """Counts the calls that all processes of a pool have replayed."""

    value: ClassVar[Synchronized[int] | None] = None

    @classmethod
    def join(cls, value: Synchronized[int]) -> None:
        cls.value = value

    @classmethod
    def add(cls) -> None:
        if cls.value is not None:
            with cls.value.get_lock():
                cls.value.value += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    policies: tuple[str, ...] = ("raw", "recorded", "default")
    window: int = 200_000
    ttl: float = FIVE_MINUTES
    """Seconds that the provider keeps a prefix."""
    model: str = ""
    """Use the prices and cache rules of this model instead of the recorded one."""
    has_recall: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """One file under all policies."""

    path: str
    format: str = ""
    scores: dict[str, Score] = field(default_factory=dict)
    points: dict[str, tuple[CallPoint, ...]] = field(default_factory=dict)
    """Calls of its longest conversation, for plots."""
    simulated_usd: float = 0.0
    """Our bill for the recorded requests that have a bill."""
    billed_usd: float = 0.0
    """The recorded bills of the same calls, at the same prices."""
    models: tuple[str, ...] = ()
    """The models whose prices were used."""
    error: str = ""
    """Why the file could not be read."""


def replay_file(
    path: str | os.PathLike[str] | StoredSession,
    options: ReplayOptions,
    extra: dict[str, MakeContender] | None = None,
    on_call: Callable[[], None] = _no_call,
) -> ReplayResult:
    """Replay one session under the named policies and the `extra` contenders. The result says if it cannot be read."""
    factories = {name: contender(name, options.window) for name in options.policies} | (extra or {})
    try:
        recording = load_source(path)
    except (EbbtideError, OSError, UnicodeError) as error:
        return ReplayResult(path=str(path), error=str(error))
    scores = {name: Score() for name in factories}
    points: dict[str, tuple[CallPoint, ...]] = {}
    simulated_usd = billed_usd = 0.0
    longest = 0
    models: dict[str, None] = {}
    for session in sessions_in(recording, str(path), model=options.model, ttl=options.ttl):
        models |= dict.fromkeys(call.model for call in session.calls)
        names_used = names_used_by_call(session) if factories else []
        simulated, billed = calibrate_session(session, options.ttl)
        simulated_usd, billed_usd = simulated_usd + simulated, billed_usd + billed
        for name, make in factories.items():
            watched = WatchedContender(make(session), on_call)
            scorer = Scorer(session, watched, options.window, options.ttl, names_used, options.has_recall)
            scores[name] = scores[name].plus(scorer.run())
            if len(session.calls) >= longest:
                points[name] = tuple(scorer.points)
        longest = max(longest, len(session.calls))
    return ReplayResult(
        path=str(path),
        format=recording.format,
        scores=scores,
        points=points,
        simulated_usd=simulated_usd,
        billed_usd=billed_usd,
        models=tuple(models),
    )


def replay(
    paths: Sequence[Source], options: ReplayOptions, *, workers: int = 0, on_progress: OnProgress = _no_progress
) -> list[ReplayResult]:
    """Replay all files in `workers` processes; 0 means one per core."""
    workers = min(workers or os.cpu_count() or 1, len(paths)) or 1
    results: dict[int, ReplayResult] = {}
    if workers == 1:
        calls = count(1)
        for n, path in enumerate(paths):
            results[n] = replay_file(path, options, on_call=lambda: on_progress(len(results), len(paths), next(calls)))
        on_progress(len(results), len(paths), next(calls) - 1)
        return list(results.values())
    processes = get_context("spawn")
    calls_done = processes.Value("q", 0)
    with (
        ProcessPoolExecutor(workers, processes, _SharedCount.join, (calls_done,)) as pool,
        _kill_children_on_error(),
    ):
        with _without_ctrl_c():
            tasks: dict[Future[ReplayResult], int] = {
                pool.submit(replay_file, paths[n], options, on_call=_SharedCount.add): n for n in _largest_first(paths)
            }
        pending = set(tasks)
        while pending:
            done, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
            results |= {tasks[task]: task.result() for task in done}
            on_progress(len(results), len(paths), calls_done.value)
    return [results[n] for n in range(len(paths))]


def _largest_first(paths: Sequence[Source]) -> list[int]:
    """Indexes of the files. A large file at the end would leave all cores but one idle."""
    return sorted(range(len(paths)), key=lambda n: -size_of(paths[n]))


@contextmanager
def _kill_children_on_error() -> Iterator[None]:
    """End the processes started inside at once after an error or Ctrl-C."""
    others = set(active_children())
    try:
        yield
    except BaseException:
        for child in set(active_children()) - others:
            child.kill()
        raise


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, and so print no traceback. Windows has no such mask."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def replay_on_ray(
    paths: Sequence[Source], options: ReplayOptions, address: str, *, on_progress: OnProgress = _no_progress
) -> list[ReplayResult]:
    """Replay all sessions on a Ray cluster. Its machines must see the files under the same names, or the database."""
    try:
        import ray  # noqa: PLC0415 - an extra, and half a second
    except ImportError as error:
        raise BadRequest("a replay on Ray needs the extra: pip install 'ebbtide[ray]'") from error
    try:
        _check_reachable(address)
        # With "local" Ray starts a cluster here, even if the environment names another.
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises nothing more specific if its processes do not start.
        raise BadRequest(f"no Ray cluster answers at {address}: {error}") from error
    try:
        remote_replay = ray.remote(replay_file)
        indexes = {remote_replay.remote(paths[n], options): n for n in _largest_first(paths)}
        results: dict[int, ReplayResult] = {}
        pending = list(indexes)
        while pending:
            done, pending = ray.wait(pending)
            for task in done:
                results[indexes[task]] = ray.get(task)
            calls = sum(score.calls for result in results.values() for score in result.scores.values())
            on_progress(len(results), len(paths), calls)
    finally:
        ray.shutdown()
    return [results[n] for n in range(len(paths))]


def _check_reachable(address: str) -> None:
    """Fail fast on a host with a port, where Ray would retry for minutes. Other addresses are left to Ray."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


def totals(results: Iterable[ReplayResult]) -> dict[str, Score]:
    """Add up the scores of each policy."""
    sums: dict[str, Score] = {}
    for result in results:
        for name, score in result.scores.items():
            sums[name] = sums.get(name, Score()).plus(score)
    return sums


def failures(results: Iterable[ReplayResult]) -> list[tuple[str, str]]:
    """Path and error of each file that could not be read."""
    return [(result.path, result.error) for result in results if result.error]
