"""Reads several sources at the same time. A source that is late or fails is skipped and reported."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
OnSkip = Callable[[str, str], None]
"""Receives the source that was skipped, and why."""

_log = logging.getLogger(__name__)


def log_skip(source: str, reason: str) -> None:
    _log.warning("skipped %s: %s", source, reason)


class _Task(threading.Thread, Generic[T]):
    """A daemon thread: if it hangs, it must not keep the process alive."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.result: T | None = None
        self.failure = "took too long"

    def run(self) -> None:
        try:
            self.result = self._work()
            self.failure = "" if self.result is not None else "gave nothing"
        except Exception as error:  # noqa: BLE001  # a source that fails is only skipped
            self.failure = f"{type(error).__name__}: {error}"


def gather(sources: Mapping[str, Callable[[], T]], timeout: float, on_skip: OnSkip) -> Iterator[tuple[str, T]]:
    """Run all sources in threads. Yield the results that arrive in time, in the order of the sources."""
    tasks = {name: _Task(source) for name, source in sources.items()}
    for task in tasks.values():
        task.start()
    deadline = time.monotonic() + timeout
    for name, task in tasks.items():
        task.join(max(0.0, deadline - time.monotonic()))
        result, failure = task.result, task.failure
        if task.is_alive() or result is None:
            on_skip(name, failure)
            continue
        yield name, result


def gather_attachments(
    providers: Mapping[str, Callable[[], str]], *, timeout: float = 1.0, on_skip: OnSkip = log_skip
) -> list[tuple[str, str]]:
    """Get each provider's text for this turn, for `Conversation.inject`. Late or failing ones are left out."""
    texts = gather(providers, timeout, on_skip)
    return [(f"attachment:{name}", text) for name, text in texts if text.strip()]
