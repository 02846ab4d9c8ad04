"""Stores sessions: in memory, or in a directory whose files other programs can read.

Start with `protocol.py` for what a store promises, then `log_lines.py` for the format of a line.
"""

from __future__ import annotations

import os
import stat
from importlib import import_module
from typing import TypeVar

from ebbtide.core.errors import BadConfig
from ebbtide.core.records import Record, derive_uuid, message_record, messages_on_branch, summary_record
from ebbtide.store.address import is_database, show_store
from ebbtide.store.directory.safe_fs import FileSystem
from ebbtide.store.directory.store import DirectoryStore
from ebbtide.store.log_lines import LogSink, Position, ReadResult
from ebbtide.store.memory import MemoryStore, PrivateLog
from ebbtide.store.protocol import (
    LOCK_TIMEOUT,
    DatabaseStore,
    Log,
    LogReader,
    LogReplaced,
    SessionInfo,
    Store,
    VerifyResult,
)

__all__ = [
    "LOCK_TIMEOUT",
    "DirectoryStore",
    "FileSystem",
    "Log",
    "LogReader",
    "LogReplaced",
    "LogSink",
    "MemoryStore",
    "Position",
    "PrivateLog",
    "ReadResult",
    "Record",
    "SessionInfo",
    "Store",
    "VerifyResult",
    "derive_uuid",
    "find_store",
    "is_database",
    "message_record",
    "messages_on_branch",
    "open_database",
    "open_store",
    "show_store",
    "summary_record",
]  # fmt: skip


def open_store(where: str | os.PathLike[str] | None, *, durable: bool = True, tenant: str = "") -> Store:
    """Open a store in a directory, in PostgreSQL for its address, or in memory for None.

    Without `durable`, a power cut may lose the last turns. `tenant` owns what a database keeps; by default, the role
    that connects.
    """
    if where is None:
        return MemoryStore()
    address = os.fspath(where)
    if is_database(address):
        return open_database(address, durable=durable, tenant=tenant)
    if "://" in address:
        scheme = address.partition("://")[0]
        raise BadConfig(f"store: {scheme}:// is not known; give a directory, or postgresql://USER@HOST/DATABASE")
    path = os.path.expanduser(address)
    if problem := _path_problem(path):
        raise BadConfig(f"store: {address} {problem}")
    return DirectoryStore(path, durable=durable)


T = TypeVar("T")


def find_store(store: T | str | os.PathLike[str], *, durable: bool = True, tenant: str = "") -> T | Store:
    """Open the store at an address. What is no address, a store or None, is returned as it is."""
    return open_store(store, durable=durable, tenant=tenant) if isinstance(store, str | os.PathLike) else store


def open_database(address: str, *, durable: bool = True, tenant: str = "") -> DatabaseStore:
    """Open a store in PostgreSQL."""
    # psycopg takes longer to import than all of this package, and only this store needs it.
    try:
        module = import_module("ebbtide.store.postgres.store")
    except ModuleNotFoundError as missing:
        if missing.name != "psycopg":
            raise
        raise BadConfig("a store in PostgreSQL needs more packages: pip install 'ebbtide[postgres]'") from missing
    except ImportError as error:  # psycopg without libpq
        raise BadConfig(
            f"a store in PostgreSQL needs psycopg[binary]: pip install 'ebbtide[postgres]': {error}"
        ) from error
    store: DatabaseStore = module.PostgresStore(address, durable=durable, tenant=tenant)
    return store


def _path_problem(path: str) -> str:
    """Return why the path can never be a directory, or "". Missing permissions are reported when it is used."""
    try:
        return "" if stat.S_ISDIR(os.stat(path).st_mode) else "is not a directory"
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        return f"cannot be a directory: {error.strerror or error}"
    except ValueError as error:  # a NUL in its name
        return f"cannot be a directory: {error}"
