"""Where one session is in the database, and how its transactions are made. Every query names its tenant and its key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import psycopg

from ebbtide.core.errors import StoreError
from ebbtide.store.postgres.connections import Connection, Connections, Use, begin, roll_back
from ebbtide.store.postgres.rows import session_key, to_column

T = TypeVar("T")
READ_SECONDS = 5.0
"""To wait for a connection, if others are using all of them."""
_WRITE_SECONDS = 20.0
"""The same for what must be saved before a request can be sent without some of the text."""


@dataclass(frozen=True, slots=True)
class Place:
    connections: Connections
    project: str
    session: str
    known_tenant: str = ""
    """Empty for the role that connects."""
    is_durable: bool = True

    @property
    def label(self) -> str:
        return self.connections.address.label

    @property
    def tenant(self) -> str:
        """Call it once there was a connection: the role is not known before."""
        return self.known_tenant or self.connections.user

    @property
    def key(self) -> tuple[str, str]:
        """The tenant and the key of the session's row."""
        return self.tenant, session_key(self.project, self.session)

    @property
    def names(self) -> tuple[str, str]:
        return to_column(self.project), to_column(self.session)

    @contextmanager
    def transaction(self, *, read_only: bool = False) -> Iterator[Connection]:
        """A transaction of this tenant, committed at the end."""
        timeout = READ_SECONDS if read_only else _WRITE_SECONDS
        with (
            self.connections.lend(timeout=timeout) as connection,
            tenant_transaction(connection, self.tenant, read_only=read_only),
        ):
            yield connection

    def query(self, query: bytes, *values: object) -> list[tuple[object, ...]]:
        """Return the rows of a query about this session, in one round trip. Its last values are tenant and key."""

        def ask(connection: Connection) -> list[tuple[object, ...]]:
            with connection.pipeline():
                begin(connection, self.tenant, read_only=True)
                cursor = connection.execute(query, (*values, *self.key), binary=True)
                connection.execute("COMMIT")
            return cursor.fetchall()

        with self.timed("ebb_store_query_seconds"):
            connection, rows = self.start(ask, "other", timeout=READ_SECONDS)
        self.connections.give_back(connection, "other")
        return rows

    def start(
        self, action: Callable[[Connection], T], use: Use, *, timeout: float, patient: bool = False
    ) -> tuple[Connection, T]:
        """Lend a connection until `give_back`, after a first action with it, which must change nothing that stays.

        The action is repeated if the connection was an idle one that the server had cut.
        """
        for is_last in (False, True):
            connection = self.connections.take(use, timeout=timeout, patient=patient)
            try:
                return connection, action(connection)
            except BaseException as error:
                roll_back(connection)
                is_cut = isinstance(error, psycopg.OperationalError) and bool(connection.closed)
                self.connections.give_back(connection, use)
                if is_last or not is_cut:
                    raise
                self.connections.close()  # the other idle ones are as old
        raise AssertionError("the second attempt returns or raises")

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.connections.observe(name, started)

    @contextmanager
    def as_store_error(self, action: str) -> Iterator[None]:
        """Raise the database's errors as `StoreError`, without the password."""
        with as_store_error(self.connections, f"{action} session {self.session!r} in"):
            yield


@contextmanager
def as_store_error(connections: Connections, action: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        address = connections.address
        advice = _ADVICE.get(error.sqlstate or "", "")
        reason = f"{address.describe(error)}{advice}"
        raise StoreError(f"cannot {action} {address.label}: {reason}") from None


_ADVICE = {
    "53100": ". The database's disk is full: free some space there, or run 'ebb gc'",
    "25006": ". The server is read-only, as a standby is: give the address of the primary",
    "42501": ". Run 'ebb store setup URL --grant ROLE' as the owner of the database",
    "55P03": ". Another process has locked the session",
}
"""What to do, by SQLSTATE."""


@contextmanager
def transaction(connections: Connections, tenant: str, action: str, *, read_only: bool = False) -> Iterator[Connection]:
    """A transaction of one tenant, or of all. Errors say what could not be done."""
    with (
        as_store_error(connections, action),
        connections.lend() as connection,
        tenant_transaction(connection, tenant, read_only=read_only),
    ):
        yield connection


@contextmanager
def tenant_transaction(connection: Connection, tenant: str, *, read_only: bool = False) -> Iterator[None]:
    begin(connection, tenant, read_only=read_only)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
