"""What each session in the list holds, cost and saved. A separate thread adds it up, the newest session first.

A log must be read to its end for that, which takes a second for a large one. So the list is shown at once, and the
figures appear as they are known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ebbtide.core.errors import EbbtideError

_MAX_BYTES = 200 << 20
"""Of a log that is added up unasked."""
_REST = 20.0
"""A session that grows is added up again after this many times the seconds that it took, so a twentieth of a core."""
_PAUSE = 0.05
"""Seconds between two looks whether the page still waits for something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The page reads the fields by name."""

    calls: int
    model: str
    tokens: int
    """Of the newest request."""
    window: int
    cost: float | None
    """Dollars; None without a price."""
    saved_usd: float | None
    """Dollars, after cache prices; None without a price, and where Ebbtide took no part."""
    simulated: bool
    """Whether `saved_usd` is what Ebbtide would have saved."""


class Countable(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def modified(self) -> str: ...
    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    stamp: tuple[str, int]
    figures: Figures | None
    fresh_until: float
    """On the monotonic clock: until then a growing session is not added up again."""


class FigureCounter:
    """Adds up sessions in the background, and waits while the page opens one. Thread-safe."""

    def __init__(self, count: Callable[[str], Figures]) -> None:
        self._count = count
        self._known: dict[str, _Known] = {}
        self._queue: list[Countable] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._busy = 0
        self._closed = False

    def known(self, rows: Iterable[Countable]) -> tuple[Mapping[str, Figures], int]:
        """Return what is known of these rows by key, and how many are still to be added up. Go on with those."""
        rows = [row for row in rows if row.bytes <= _MAX_BYTES]
        with self._lock:
            self._queue = [row for row in rows if not self._is_fresh(row)]
            if self._queue and self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            known = {row.key: entry.figures for row in rows if (entry := self._known.get(row.key))}
            waiting = sum(row.key not in self._known for row in self._queue)
            return {key: figures for key, figures in known.items() if figures is not None}, waiting

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Do nothing in the background for as long as the block runs."""
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def close(self) -> None:
        self._closed = True
        thread = self._thread
        if thread is not None:
            thread.join(timeout=5)

    def _is_fresh(self, row: Countable) -> bool:
        known = self._known.get(row.key)
        return known is not None and (known.stamp == _stamp(row) or time.monotonic() < known.fresh_until)

    def _run(self) -> None:
        try:
            while (row := self._next()) is not None:
                self._add_up(row)
        finally:
            with self._lock:
                self._thread = None

    def _add_up(self, row: Countable) -> None:
        start = time.monotonic()
        try:
            figures = self._count(row.key)
        except (EbbtideError, OSError, ValueError, LookupError):
            figures = None  # The page says what is wrong with it when it is opened.
        end = time.monotonic()
        with self._lock:
            fresh_until = end + _REST * (end - start)
            self._known[row.key] = _Known(stamp=_stamp(row), figures=figures, fresh_until=fresh_until)

    def _next(self) -> Countable | None:
        while self._busy and not self._closed:
            time.sleep(_PAUSE)
        with self._lock:
            return None if self._closed or not self._queue else self._queue.pop(0)


def _stamp(row: Countable) -> tuple[str, int]:
    return row.modified, row.bytes
