"""Every store that must keep the promises of `ebbtide.store.protocol`. A new store is one more line here."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ebbtide.store import DirectoryStore, MemoryStore, Store, open_store
from postgres_server import PostgresServer, start_server
from store.faulty_fs import Quick


@cache
def server() -> PostgresServer:
    """The PostgreSQL of this test run. Skips the test where it cannot run."""
    # A worker of xdist is a child of the run.
    return start_server(os.getppid() if os.environ.get("PYTEST_XDIST_WORKER") else os.getpid())


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "directory": lambda path: DirectoryStore(path / "root", fs=Quick()),
    "postgres": lambda path: open_store(server().database_at(path)),
}
LASTING = frozenset(STORES) - {"memory"}
"""Stores that can be opened again in the same place, and then hold what was committed."""
