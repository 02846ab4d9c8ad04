"""What happens when the engine runs out of time: either its plan is recorded and sent, or neither.

A request that goes out without its edits must not have them in the log: thinking in its answer is signed for what was
sent, and every later request would carry the edits in front of it and be refused (A63).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Claim:
    """Decides between a plan that is about to be recorded and a client that waits no longer: the first one wins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._winner = ""

    def record(self) -> None:
        """The plan is recorded now. Raises `Abandoned` where the request has gone out without it."""
        if not self._is_won_by("plan"):
            raise Abandoned("the request has gone out without this plan")

    def abandon(self) -> bool:
        """The request goes out without its plan. False where the plan is recorded already: then it has to go out."""
        return self._is_won_by("request")

    def _is_won_by(self, name: str) -> bool:
        with self._lock:
            self._winner = self._winner or name
            return self._winner == name


class Abandoned(Exception):
    """Nobody waits for this plan any more, so nothing of it is recorded."""


class Late(Exception):
    """Ours took too long."""

    def __init__(
        self, why: str, under_way: Callable[[], Awaitable[Any]] | None = None, claim: Claim | None = None
    ) -> None:
        super().__init__(why)
        self.under_way = under_way
        """Waits for the very call that took too long; None where it was not begun."""
        self.claim = claim

    def may_send_without(self) -> bool:
        """Whether the request may go out without the plan. From then on the plan is not recorded."""
        return self.claim is None or self.claim.abandon()


def set_once(future: asyncio.Future[T], value: T) -> None:
    """Give a future its value, unless it has one."""
    if not future.done():
        future.set_result(value)


async def result_of(future: asyncio.Future[T]) -> T:
    """Wait for a future without cancelling it, should the wait be cancelled."""
    await asyncio.wait((future,))
    return future.result()
