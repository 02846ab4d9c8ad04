"""Marks the sessions that this process has open, so that nobody deletes them meanwhile."""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

_RENEW_SECONDS = 3600.0
"""A mark counts for a day; see `removal.py`."""
_TAKE = (
    "INSERT INTO ebbtide.lease (tenant, key, holder) VALUES (%s, %s, %s) "
    "ON CONFLICT (tenant, key, holder) DO UPDATE SET taken = now()"
)
_GIVE_BACK = "DELETE FROM ebbtide.lease WHERE tenant = %s AND key = %s AND holder = %s"
_Key = tuple[str, str]


@dataclass(slots=True)
class Leases:
    holder: str = field(default_factory=lambda: os.urandom(8).hex())
    counts: dict[_Key, int] = field(default_factory=dict)
    ended: list[_Key] = field(default_factory=list)
    """Of logs that the garbage collector has removed. It must not wait for a database, so the next user tells it."""

    def take(self, connection: psycopg.Connection[tuple[object, ...]], key: _Key, log: object, taken: float) -> float:
        """Mark the session for as long as `log` exists. Return when that was; 0 was never."""
        now = time.monotonic()
        if taken and now - taken < _RENEW_SECONDS:
            return taken
        connection.execute(_TAKE, (*key, self.holder))
        if not taken:
            self.counts[key] = self.counts.get(key, 0) + 1
            weakref.finalize(log, self._end, key)
        return now

    def give_back(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Remove the marks of logs that no longer exist."""
        while self.ended:
            key = self.ended.pop()
            if key not in self.counts:
                self._remove(connection, key)

    def give_back_all(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        """Remove all marks of this process, which ends."""
        for key in {*self.counts, *self.ended}:
            self._remove(connection, key)

    def _remove(self, connection: psycopg.Connection[tuple[object, ...]], key: _Key) -> None:
        # A mark that stays is only in the way for a day.
        with suppress(psycopg.Error), connection.transaction():
            connection.execute("SELECT set_config('ebbtide.tenant', %s, true)", key[:1])
            connection.execute(_GIVE_BACK, (*key, self.holder))

    def _end(self, key: _Key) -> None:
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
            self.ended.append(key)
