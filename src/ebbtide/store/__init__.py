"""Where sessions are kept: in memory, or in a directory whose files other programs can read.

Start at `contract.py` for what a store promises, then `lines.py` for what a line is.
"""

from __future__ import annotations

import os
import stat

from ebbtide.core.errors import BadConfig
from ebbtide.store.directory.gc import GcResult, gc
from ebbtide.store.directory.safe_fs import FileSystem
from ebbtide.store.directory.store import DirectoryStore
from ebbtide.store.directory.verify import VerifyResult, verify_log
from ebbtide.store.log_lines import Damage, LogSink, Position, ReadResult, Record
from ebbtide.store.memory import MemoryStore, PrivateLog
from ebbtide.store.message_records import derive_uuid, message_record, messages_on_branch, summary_record
from ebbtide.store.protocol import LOCK_TIMEOUT, BlobInfo, Log, LogReader, LogReplaced, SessionInfo, Store

__all__ = [
    "LOCK_TIMEOUT",
    "BlobInfo",
    "Damage",
    "DirectoryStore",
    "FileSystem",
    "GcResult",
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
    "gc",
    "message_record",
    "messages_on_branch",
    "open_store",
    "summary_record",
    "verify_log",
]


def open_store(where: str | os.PathLike[str] | None, *, durable: bool = True) -> Store:
    """None: in memory. A path: in that directory. Without `durable` a power cut may take the last turns."""
    if where is None:
        return MemoryStore()
    address = os.fspath(where)
    if "://" in address:
        scheme = address.partition("://")[0]
        raise BadConfig(f"store: {scheme}:// comes in a later release; give a directory, or nothing for memory")
    path = os.path.expanduser(address)
    if problem := _no_place(path):
        raise BadConfig(f"store: {address} {problem}")
    return DirectoryStore(path, durable=durable)


def _no_place(path: str) -> str:
    """Why no directory can ever be there. One that is closed to us is the disk's affair, and told when it is used."""
    try:
        return "" if stat.S_ISDIR(os.stat(path).st_mode) else "is not a directory"
    except (FileNotFoundError, PermissionError):
        return ""
    except OSError as error:
        return f"cannot be a directory: {error.strerror or error}"
    except ValueError as error:  # a NUL in its name
        return f"cannot be a directory: {error}"
