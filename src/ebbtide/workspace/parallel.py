"""Reads several sources at the same time. A source that is late or fails is skipped and reported."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")
OnSkip = Callable[[str, str], None]
"""Receives the source that was skipped, and why."""

_log = logging.getLogger(__name__)


def log_skip(source: str, reason: str) -> None:
    _log.warning("skipped %s: %s", source, reason)


def gather(sources: Mapping[str, Callable[[], T]], timeout: float, on_skip: OnSkip) -> Iterator[tuple[str, T]]:
    """Run all sources in threads. Yield the results that arrive in time, in the order of the sources."""
    results: dict[str, T] = {}
    failures = dict.fromkeys(sources, "took too long")

    def run(name: str, source: Callable[[], T]) -> None:
        try:
            result = source()
        except Exception as error:  # noqa: BLE001  # a source that fails is only skipped
            failures[name] = f"{type(error).__name__}: {error}"
            return
        if result is None:
            failures[name] = "gave nothing"
        else:
            results[name] = result

    # Daemon threads: one that hangs must not keep the process alive.
    threads = {name: threading.Thread(target=run, args=(name, source), daemon=True) for name, source in sources.items()}
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + timeout
    for name, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        if name in results:
            yield name, results[name]
        else:
            on_skip(name, failures[name])


def gather_attachments(
    providers: Mapping[str, Callable[[], str]], *, timeout: float = 1.0, on_skip: OnSkip = log_skip
) -> list[tuple[str, str]]:
    """Get each provider's text for this turn, for `Conversation.inject`. Late or failing ones are left out."""
    texts = gather(providers, timeout, on_skip)
    return [(f"attachment:{name}", text) for name, text in texts if text.strip()]
