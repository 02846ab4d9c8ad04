"""Several sources are asked at once; one that is late or broken is left out, and said."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
OnSkip = Callable[[str, str], None]
"""Told the source that was skipped, and why."""

_log = logging.getLogger(__name__)


def warn(source: str, reason: str) -> None:
    _log.warning("skipped %s: %s", source, reason)


class _Task(threading.Thread, Generic[T]):
    """A daemon: one that hangs must not keep the process alive."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.done: T | None = None
        self.failed = "took too long"

    def run(self) -> None:
        try:
            self.done = self._work()
            self.failed = "" if self.done is not None else "gave nothing"
        except Exception as error:  # noqa: BLE001  # Fail open: one source less, and the report says which.
            self.failed = f"{type(error).__name__}: {error}"


def gather(work: Mapping[str, Callable[[], T]], timeout: float, report: OnSkip) -> Iterator[tuple[str, T]]:
    """All at once; what came in time, in the order asked for, not in the order it came."""
    tasks = {name: _Task(one) for name, one in work.items()}
    for task in tasks.values():
        task.start()
    deadline = time.monotonic() + timeout
    for name, task in tasks.items():
        task.join(max(0.0, deadline - time.monotonic()))
        done, failed = task.done, task.failed
        if task.is_alive() or done is None:
            report(name, failed)
            continue
        yield name, done


def gather_attachments(
    providers: Mapping[str, Callable[[], str]], *, timeout: float = 1.0, report: OnSkip = warn
) -> list[tuple[str, str]]:
    """What each provider has to say before this turn, for `Conversation.inject`. Late or broken ones are left out."""
    found = gather(providers, timeout, report)
    return [(f"attachment:{name}", text) for name, text in found if text.strip()]
