"""Whether this proxy should get requests: apart from being alive.

A proxy that has never reached its database knows no recorded edit, so another one must answer. One that loses the
database later goes on with what it knows: all proxies have lost it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.core.errors import StoreError
from ebbtide.fronts.proxy.meters import Meters
from ebbtide.store import Store, is_database
from ebbtide.store.protocol import DatabaseStore

_RETRY_SECONDS = 1.0


@dataclass(slots=True)
class Readiness:
    """`database` is None for sessions in a folder or in memory, which are always ready."""

    database: DatabaseStore | None = None
    was_reached: bool = False
    is_stopping: bool = False

    @property
    def is_ready(self) -> bool:
        return not self.is_stopping and (self.database is None or self.was_reached)

    def fields(self) -> dict[str, object]:
        """For the pages: nothing that only our own machines may know."""
        if self.database is None:
            return {"ready": self.is_ready}
        return {"ready": self.is_ready, "database": "reached" if self.database.is_reachable else "away"}

    def gauges(self) -> dict[str, int]:
        """For the metrics."""
        reached = {} if self.database is None else {"ebb_database_reached": int(self.database.is_reachable)}
        return {"ebb_ready": int(self.is_ready), **reached}

    async def reach(self, meters: Meters) -> None:
        """Connect to the database, again and again until it answers. Raise `BadConfig` if it cannot be used."""
        database = self.database
        if database is None:
            return
        database.observe(_timer(meters))
        while not self.was_reached:
            try:
                await asyncio.to_thread(database.check)
                self.was_reached = True
            except StoreError as error:
                meters.log.line("store", said=str(error))
                await asyncio.sleep(_RETRY_SECONDS)


def readiness_of(where: str, store: Store | None) -> Readiness:
    return Readiness(store if is_database(where) and isinstance(store, DatabaseStore) else None)


def _timer(meters: Meters) -> Callable[[str, float], None]:
    """Meters belong to the event loop; the database is asked in threads."""
    loop = asyncio.get_running_loop()

    def report(name: str, seconds: float) -> None:
        with suppress(RuntimeError):  # the loop has stopped
            loop.call_soon_threadsafe(meters.observe, name, seconds)

    return report
