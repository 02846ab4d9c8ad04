"""Run engine work in a thread, under its session's lock and with a deadline.

A request that runs out of time either sends its plan or leaves nothing of it in the log: the thinking in its answer is
signed for what was sent, so a plan that was recorded but not sent would have every later request refused (A63).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from ebbtide.runtime.report import Event

T = TypeVar("T")
_WORKERS = 16
"""Threads. The engine is bound by one core; the others wait for disks and locks."""
_DRAIN_SECONDS = 5.0
"""For what is still being recorded when the proxy stops."""


class PendingResult(Generic[T]):
    """The result of work in a thread. The work may publish it before it ends.

    Between a plan that is about to be recorded and a request that stops waiting, the first to claim the result wins.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()
        self._lock = threading.Lock()
        self._owner = ""
        self.published: T | None = None

    def publish(self, value: T) -> None:
        """Called by the work: let the request go on with this value while the work continues."""
        self.published = value
        self._loop.call_soon_threadsafe(self.set, value)

    def claim_for_log(self) -> None:
        """Called by the work before it records a plan. Raises `PlanAbandoned` if the request was sent without it."""
        if not self._is_claimed_by("log"):
            raise PlanAbandoned("the request was sent without this plan")

    def abandon(self) -> bool:
        """Called by a request that stops waiting. False if the plan is recorded already and must be sent."""
        return self._is_claimed_by("request")

    async def result(self) -> T:
        """Wait for the value, or raise the work's error. The work goes on if the wait is cancelled."""
        await asyncio.wait((self.future,))
        return self.future.result()

    def fail(self, error: BaseException) -> None:
        """Let the request go on with this error, unless a value was published."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # mark it as seen: a request that stopped waiting never reads it

    def set(self, value: T) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def _is_claimed_by(self, name: str) -> bool:
        with self._lock:
            self._owner = self._owner or name
            return self._owner == name


class PlanAbandoned(Exception):
    """The request was sent without this plan, so nothing of the plan is recorded."""


class DeadlineExceeded(Exception):
    """The engine took too long."""

    def __init__(self, message: str, pending: PendingResult[Any] | None = None) -> None:
        super().__init__(message)
        self.pending = pending
        """The work that took too long and still runs; None if it was never started."""


@dataclass(slots=True)
class EngineGate:
    """Lets one call at a time into a session's engine."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the engine works, never while waiting for the network."""
    is_stuck: bool = False
    """Whether a call ran out of time and has not ended."""
    on_event: Callable[[Event], None] | None = None
    """Called with the engine's events during a call."""

    def forward(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)


class EngineThreads:
    """The threads that engine work runs in."""

    def __init__(self, summary_seconds: float) -> None:
        self._summary_seconds = summary_seconds
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="ebb-engine")
        self._background: set[asyncio.Future[Any]] = set()

    @property
    def is_busy(self) -> bool:
        return bool(self._background)

    async def run_with_deadline(
        self, gate: EngineGate, seconds: float, work: Callable[[], T], pending: PendingResult[T] | None = None,
        *, waits_for_stuck: bool = False,
    ) -> T:  # fmt: skip
        """Run `work` under the gate's lock. On timeout raise; the lock is released when the thread ends.

        `work` may publish its result early through `pending`. While it asks a model for a summary, the deadline moves.
        A session whose earlier work is stuck is refused at once, unless the caller waits for it.
        """
        if gate.is_stuck and not waits_for_stuck:
            raise DeadlineExceeded("an earlier call has not come back")
        loop = asyncio.get_running_loop()
        result: PendingResult[T] = pending or PendingResult()
        deadline = loop.time() + seconds

        def extend_deadline(event: Event) -> None:
            nonlocal deadline
            if event.kind == "fold_asks":
                deadline = loop.time() + self._summary_seconds + seconds

        def run() -> None:
            end: Callable[[], None]
            try:
                end = partial(result.set, work())
            except BaseException as error:  # noqa: BLE001 - the request raises it
                end = partial(result.fail, error)
            with suppress(RuntimeError):  # the proxy has stopped without waiting for this thread
                loop.call_soon_threadsafe(finish, end)

        def finish(end: Callable[[], None]) -> None:
            gate.is_stuck, gate.on_event = False, None
            gate.lock.release()
            end()
            ended.set_result(None)

        async with asyncio.timeout_at(deadline):
            await gate.lock.acquire()
        gate.on_event, ended = extend_deadline, loop.create_future()
        self._pool.submit(run)  # not `run_in_executor`: its futures cost as much as the change of threads
        self.keep(ended)
        while not result.future.done():
            remaining = deadline - loop.time()
            if remaining <= 0:
                gate.is_stuck = True
                raise DeadlineExceeded("out of time", result)
            await asyncio.wait((result.future,), timeout=remaining)
        return result.future.result()

    async def run_unlocked(self, seconds: float | None, work: Callable[[], T]) -> T:
        """Run `work` without a lock. On timeout raise `TimeoutError`; the thread goes on."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        return await asyncio.wait_for(asyncio.shield(future), seconds)

    def keep(self, future: asyncio.Future[Any]) -> None:
        """Let `drain` wait for it."""
        self._background.add(future)
        future.add_done_callback(self._background.discard)

    async def drain(self) -> bool:
        """Wait for what is under way, for a few seconds. False if something did not end."""
        if self._background:
            await asyncio.wait(self._background, timeout=_DRAIN_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not self._background
