"""The connections of this process to one database. All stores of the same address share them.

`psycopg_pool` was tried: while the database is away, each of its callers waits for the whole timeout and then learns
only that there was none. Here a failed attempt says why, and for a second after it nobody else has to try.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from ebbtide.core.errors import BadConfig, StoreError
from ebbtide.store.postgres.leases import Leases
from ebbtide.store.postgres.schema import prepare_schema

# A connection that breaks is an error of ours. Without a handler Python would print psycopg's own line as well.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
Connection = psycopg.Connection[tuple[object, ...]]
Use = Literal["lock", "other"]
_LIMITS: dict[Use, int] = {"lock": 16, "other": 6}
"""Connections at once. Those that hold a session's lock are counted apart: they may need another to save a blob."""
_IDLE_SECONDS = 60.0
_DOWN_SECONDS = 1.0
"""After a failed attempt to connect, others fail at once for so long, unless they may wait."""
_RETRY_SECONDS = 0.2
_CONNECT_SECONDS = 5
_SETTINGS = """
SELECT set_config('idle_in_transaction_session_timeout', '60s', false), set_config('TimeZone', 'UTC', false),
    CASE current_setting('statement_timeout') WHEN '0' THEN set_config('statement_timeout', '60s', false) END
"""
"""A process that was paused in the middle of a plan loses its lock after a minute, and with it the connection."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is. The password is never shown."""

    url: str = field(repr=False)
    label: str
    """To be shown."""
    password: str = field(default="", repr=False)

    @staticmethod
    def read(url: str) -> Address:
        """Raise `BadConfig` if it is not an address, without repeating it: it may hold a password."""
        parts = None
        with suppress(psycopg.Error):
            parts = conninfo_to_dict(url)
        if parts is None:  # outside of the exception, which quotes the address
            raise BadConfig(
                "store: the address of the database cannot be read; "
                "write postgresql://USER@HOST/DATABASE, with % before the hexadecimal code of special characters"
            )
        user, database = parts.get("user"), parts.get("dbname") or ""
        host = ",".join(filter(None, [str(parts.get("host") or "localhost"), str(parts.get("port") or "")]))
        host = host.replace(",", ":") if host.count(",") == 1 else host
        label = f"postgresql://{f'{user}@' if user else ''}{host}/{database}"
        return Address(url, label, str(parts.get("password") or ""))

    def describe(self, error: BaseException) -> str:
        """The first line of an error, without the password."""
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        return text.replace(self.password, "***") if self.password else text


class Connections:
    """Lends connections. Safe for threads, and after a fork."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.user = ""
        """The role that connects; known after the first connection."""
        self.sees_all = False
        """Whether it is the owner of the tables, and so may see all tenants."""
        self.observers: weakref.WeakSet[Observer] = weakref.WeakSet()
        self._reset()
        weakref.finalize(self, _close_all, self._idle, self.leases)

    def _reset(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._idle: list[tuple[Connection, float]] = []
        self.leases = Leases()
        self._places = {use: threading.BoundedSemaphore(limit) for use, limit in _LIMITS.items()}
        self._is_ready = False
        self._down_until, self._down_reason = 0.0, ""

    @property
    def is_reachable(self) -> bool:
        """Whether the last attempt to connect succeeded; False before the first."""
        return self._is_ready and not self._down_reason

    @contextmanager
    def lend(
        self, use: Use = "other", *, timeout: float = _CONNECT_SECONDS, patient: bool = False
    ) -> Iterator[Connection]:
        """Lend a connection. With `patient`, try again until `timeout` while the database is away."""
        connection = self.take(use, timeout=timeout, patient=patient)
        try:
            yield connection
        finally:
            self.give_back(connection, use)

    def take(self, use: Use, *, timeout: float, patient: bool = False) -> Connection:
        """Lend a connection until `give_back`. With `patient`, wait for a database that is away."""
        if os.getpid() != self._process:
            self._reset()  # the parent's connections are not ours to use or to close
        deadline, place = time.monotonic() + timeout, self._places[use]
        if not place.acquire(timeout=max(0.0, timeout)):
            raise StoreError(f"{self.address.label}: all {_LIMITS[use]} connections of this process are in use")
        try:
            return self._connect(deadline, patient=patient)
        except BaseException:
            place.release()
            raise

    def give_back(self, connection: Connection, use: Use) -> None:
        """Keep the connection for the next user, unless a transaction is still open in it."""
        if self._process != os.getpid():
            return
        if connection.info.transaction_status == TransactionStatus.IDLE:
            with self._guard:
                self._idle.append((connection, time.monotonic()))
        else:
            _close(connection)
        self._places[use].release()

    def close(self) -> None:
        """Close what is idle. The next user connects again."""
        with self._guard:
            idle, self._idle[:] = list(self._idle), []
        for connection, _ in idle:
            _close(connection)

    def observe(self, name: str, started: float) -> None:
        for observer in list(self.observers):
            observer.observe(name, time.perf_counter() - started)

    def _connect(self, deadline: float, *, patient: bool) -> Connection:
        connection = self._take_idle()
        while connection is None:
            now = time.monotonic()
            if now < self._down_until and not patient:
                raise StoreError(f"{self.address.label} cannot be reached: {self._down_reason}")
            try:
                connection = self._open()
            except psycopg.Error as error:
                self._down_reason = self.address.describe(error)
                self._down_until = time.monotonic() + _DOWN_SECONDS
                if not patient or time.monotonic() + _RETRY_SECONDS > deadline:
                    raise StoreError(f"{self.address.label} cannot be reached: {self._down_reason}") from None
                time.sleep(_RETRY_SECONDS)
        return connection

    def _take_idle(self) -> Connection | None:
        while True:
            with self._guard:
                if not self._idle:
                    return None
                connection = self._idle.pop()[0]
                oldest = time.monotonic() - _IDLE_SECONDS
                too_old = [idle for idle, since in self._idle if since < oldest]
                self._idle[:] = [(idle, since) for idle, since in self._idle if since >= oldest]
            for idle in too_old:
                _close(idle)
            # Nobody asked anything: if there is something to read, it is the end of the connection.
            if not connection.closed and not _has_input(connection):
                return connection
            _close(connection)

    def _open(self) -> Connection:
        started = time.perf_counter()
        connection: Connection = psycopg.connect(
            self.address.url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="ebbtide",
            tcp_user_timeout=30_000, keepalives_idle=30,
        )  # fmt: skip
        try:
            connection.execute(_SETTINGS)
            if not self._is_ready:
                self._check(connection)
        except BaseException:
            _close(connection)
            raise
        self._down_until, self._down_reason = 0.0, ""
        self.observe("ebb_store_connect_seconds", started)
        return connection

    def _check(self, connection: Connection) -> None:
        """Look at the tables once."""
        with self._guard:
            with suppress(errors.ReadOnlySqlTransaction):  # a standby: what is there can be read
                prepare_schema(connection, self.address.label)
            row = connection.execute(
                "SELECT current_user, pg_has_role(current_user, relowner, 'MEMBER') FROM pg_class "
                "WHERE oid = 'ebbtide.session'::regclass"
            ).fetchone()
            assert row is not None
            self.user, self.sees_all, self._is_ready = str(row[0]), bool(row[1]), True


class Observer:
    """Is called with the name and the seconds of what was done; see `Connections.observers`."""

    def __init__(self, observe: Callable[[str, float], None]) -> None:
        self.observe = observe


_SHARED: weakref.WeakValueDictionary[str, Connections] = weakref.WeakValueDictionary()
_GUARD = threading.Lock()


def connections_to(url: str) -> Connections:
    """Return the connections that all users of this address in this process share."""
    with _GUARD:
        connections = _SHARED.get(url)
        if connections is None:
            connections = _SHARED[url] = Connections(Address.read(url))
        return connections


def begin(connection: Connection, tenant: str, *, read_only: bool = False, lock_seconds: float = 10.0) -> None:
    """Start a transaction of one tenant. Call it in a pipeline, so that it costs no round trip of its own."""
    mode = " READ ONLY" if read_only else ""
    connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED{mode}")
    milliseconds = str(max(1, round(1000 * lock_seconds)))  # 0 would wait for ever
    connection.execute(
        "SELECT set_config('ebbtide.tenant', %s, true), set_config('lock_timeout', %s, true)", (tenant, milliseconds)
    )


def roll_back(connection: Connection) -> None:
    """End the transaction if one is open. A connection that cannot is closed by `give_back`."""
    if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")


def _has_input(connection: Connection) -> bool:
    poll = select.poll()  # `select` knows no descriptors above 1,023
    poll.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.close()


def _close_all(idle: list[tuple[Connection, float]], leases: Leases) -> None:
    """Also when the process ends."""
    for connection, _ in idle[:1]:
        leases.give_back_all(connection)
    for connection, _ in idle:
        _close(connection)
