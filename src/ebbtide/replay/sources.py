"""What a replay reads: files of recorded sessions, and sessions of ours in a database."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ebbtide.core.errors import BadRequest
from ebbtide.formats import Recording, load, read
from ebbtide.store import is_database, open_store, show_store
from ebbtide.store.directory import session_index
from ebbtide.store.directory.blobs import RESULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session in a database. It is read where it is replayed, which may be another process or another machine."""

    store: str = field(repr=False)
    """The address of the database; it may have a password."""
    session: str
    project: str
    bytes: int
    modified: float

    def __str__(self) -> str:
        return f"{self.session} in {show_store(self.store)}"

    def load(self) -> Recording:
        reading = open_store(self.store).peek(self.session, project=self.project).read()
        lines = "\n".join(map(json.dumps, reading.records))
        return read(str(self), lines.encode())


Source = Path | StoredSession
"""One session to replay."""


def load_source(source: str | os.PathLike[str] | StoredSession) -> Recording:
    """Load a session. Raise `BadRequest` if there is none, and `StoreError` if its database cannot be read."""
    return source.load() if isinstance(source, StoredSession) else load(source)


def size_of(source: Source) -> int:
    return source.bytes if isinstance(source, StoredSession) else source.stat().st_size


def modified_at(source: Source) -> float:
    """When the session was last changed, in seconds since 1970."""
    return source.modified if isinstance(source, StoredSession) else source.stat().st_mtime


def find_sessions(places: Iterable[str | os.PathLike[str]]) -> list[Source]:
    """List the files at these paths, those in folders, sorted by name, and the sessions of databases."""
    sources: list[Source] = []
    for place in places:
        address = os.fspath(place)
        sources += _in_database(address) if is_database(address) else _files_at(Path(address))
    return list(dict.fromkeys(sources))


def _in_database(address: str) -> list[StoredSession]:
    return [
        StoredSession(
            store=address,
            session=info.session,
            project=info.project,
            bytes=info.bytes,
            modified=datetime.fromisoformat(info.modified).timestamp() if info.modified else 0.0,
        )
        for info in open_store(address).list_sessions()
    ]


def _files_at(path: Path) -> list[Path]:
    # `os.path` says no where `Path` raises: for too long a name, or a folder that we may not read.
    if os.path.isdir(path):
        return sorted(child for child in path.rglob("*") if _is_session_name(child) and os.path.isfile(child))
    if os.path.exists(path):
        return [path]
    raise BadRequest(f"there is no file {path}")


def _is_session_name(path: Path) -> bool:
    if path.parent.name == RESULTS or path.name == session_index.NAME:
        return False  # what Claude Code and our folder keep beside the sessions
    suffixes = {".jsonl", ".json", ".traj", ".txt"}
    return path.suffix in suffixes or (path.suffix == ".gz" and Path(path.stem).suffix in suffixes)
