"""What can happen to a database while programs use it, made to happen in one database of the tests' server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from store.stores import server

_TRIGGER = """
CREATE FUNCTION ebbtide.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;
CREATE {constraint} TRIGGER fail {when} INSERT ON ebbtide.commit {deferred} FOR EACH ROW EXECUTE FUNCTION ebbtide.fail();
"""


def _raised(state: str) -> str:
    body = f"RAISE EXCEPTION 'it failed' USING ERRCODE = '{state}';"
    return _TRIGGER.format(body=body, constraint="", when="BEFORE", deferred="")


_CUT_AT_COMMIT = _TRIGGER.format(
    body="PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL;",
    constraint="CONSTRAINT",
    when="AFTER",
    deferred="DEFERRABLE INITIALLY DEFERRED",
)
_SLOW = _TRIGGER.format(body="PERFORM pg_sleep(600); RETURN NEW;", constraint="", when="BEFORE", deferred="")
STATEMENTS = {
    "disk full": _raised("53100"),
    "serialization failure": _raised("40001"),
    "deadlock": _raised("40P01"),
    "connection cut mid-commit": _CUT_AT_COMMIT,
    "statement timeout": f"{_SLOW}ALTER DATABASE {{name}} SET statement_timeout = '200ms'",
    "read-only standby": "ALTER DATABASE {name} SET default_transaction_read_only = on",
}
"""Faults that a few statements bring about."""
FAULTS = (*STATEMENTS, "restart", "away", "row locked")


def database_of(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


def cut_connections(url: str) -> None:
    """As a restart or a failover does."""
    with server().connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database_of(url)]
        )


@contextmanager
def fault(kind: str, url: str) -> Iterator[None]:
    """The fault holds inside, and is over afterwards."""
    if kind == "restart":  # over before anybody asks: only the connections are gone
        cut_connections(url)
        yield
    elif kind == "away":
        with _allowed(url, False):
            cut_connections(url)
            yield
    elif kind == "row locked":
        with server().connect(database_of(url)) as other:
            other.execute("BEGIN")
            other.execute("SELECT FROM ebbtide.session FOR UPDATE")
            yield
    else:
        _run(url, STATEMENTS[kind])
        cut_connections(url)  # settings of a database are for new connections
        try:
            yield
        finally:
            _run(url, "ALTER DATABASE {name} RESET ALL")
            _run(url, "DROP FUNCTION IF EXISTS ebbtide.fail() CASCADE")
            cut_connections(url)


def _run(url: str, statements: str) -> None:
    with server().connect(database_of(url)) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(statements.replace("{name}", f'"{database_of(url)}"').encode())


@contextmanager
def _allowed(url: str, is_allowed: bool) -> Iterator[None]:
    change = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    name = sql.Identifier(database_of(url))
    with server().connect() as connection:
        connection.execute(change.format(name, sql.Literal(is_allowed)))
        try:
            yield
        finally:
            connection.execute(change.format(name, sql.Literal(True)))
