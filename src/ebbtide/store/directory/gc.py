"""Removes sessions as a whole: old ones, or those that a user deletes. And results that no remaining log names.

The stubs of a fork name files of the session it came from, so names are looked for in every log that mentions the
session. `gc` removes only sessions that Ebbtide started, and nothing that is younger than a day or that a process has
open, idle or not. A clock that was set back makes nothing older.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.blobs import RESULTS, blobs_in
from ebbtide.store.directory.checkpoint_file import SUFFIX
from ebbtide.store.directory.file_names import INDEX_NAME
from ebbtide.store.directory.lease import Leases
from ebbtide.store.directory.lock import SessionLock
from ebbtide.store.directory.log import PROJECTS
from ebbtide.store.directory.safe_fs import TEMPORARY, Folder, StoreRoot, as_store_error
from ebbtide.store.directory.session_index import refresh_index
from ebbtide.store.log_lines import read_header
from ebbtide.store.protocol import GRACE, BlobInfo, GcResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The files of one session; `log` is None if only results remain of it."""

    folder: tuple[str, ...]
    stem: str
    is_ours: bool
    """Ebbtide started it: it has our header, or, if the log is gone, our lock file."""
    log: BlobInfo | None
    side_files: tuple[BlobInfo, ...]
    """Torn ends and the checkpoint."""
    blobs: tuple[BlobInfo, ...]
    temporary: tuple[BlobInfo, ...]
    """Half-written results."""

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.folder, self.stem)

    @property
    def bytes(self) -> int:
        files = [*self.side_files, *self.blobs, *self.temporary, *([self.log] if self.log else [])]
        return sum(file.bytes for file in files)

    @property
    def modified(self) -> float:
        return self.log.modified if self.log else 0.0


def collect(
    root: StoreRoot,
    folders: Sequence[str],
    *,
    older_than: float | None,
    max_bytes: int | None,
    now: float,
    dry_run: bool,
) -> GcResult:
    """See `Store.gc`. `folders` are the names of all project folders."""
    with as_store_error(f"collect in {root.path}"):
        sessions = _survey_all(root, folders)
        candidates = _choose(sessions, older_than, max_bytes, now)
        leases = Leases(root)
        in_use = [session for session in candidates if leases.is_open(session.parts)]
        doomed = [session for session in candidates if session not in in_use]
        named = _referenced_blobs(root, sessions, doomed, now)
        parts = [_sweep(root, session, session in doomed, named, now, dry_run) for session in sessions]
        return _finish(root, sessions, parts, in_use, dry_run=dry_run)


def delete(root: StoreRoot, folders: Sequence[str], doomed: Container[tuple[str, ...]], *, force: bool) -> GcResult:
    """Remove the sessions in these places, each given as its folder's parts and its stem."""
    with as_store_error(f"remove sessions from {root.path}"):
        sessions = _survey_all(root, folders)
        chosen = [session for session in sessions if session.parts in doomed and session.log and session.is_ours]
        leases = Leases(root)
        in_use = [session for session in chosen if leases.is_open(session.parts)]
        if in_use and not force:
            raise StoreError(f"{_path(root, in_use[0])} is open in a program: close that, or delete it by force")
        named = _referenced_blobs(root, sessions, chosen, now=0.0)
        parts = [_delete(root, session, named) for session in chosen]
        return _finish(root, sessions, parts, [], dry_run=False)


def _delete(root: StoreRoot, session: _Session, named: set[tuple[str, ...]]) -> GcResult:
    blobs = [blob for blob in session.blobs if (*session.parts, blob.name) not in named]
    blobs += session.temporary
    logs = _log_files(session)
    lock = SessionLock(root, session.folder, session.stem)
    with lock.hold(f"delete {_path(root, session)}"):
        _remove_files(root, session, logs, blobs)
    return _removed(root, session, logs, blobs)


def _finish(
    root: StoreRoot,
    sessions: Sequence[_Session],
    parts: Sequence[GcResult],
    in_use: Sequence[_Session],
    *,
    dry_run: bool,
) -> GcResult:
    """Sum up what was removed, and update what is derived from the logs."""
    freed = sum(part.freed for part in parts)
    result = GcResult(
        sessions=tuple(path for part in parts for path in part.sessions),
        blobs=tuple(path for part in parts for path in part.blobs),
        freed=freed,
        left=sum(session.bytes for session in sessions) - freed,
        in_use=tuple(_path(root, session) for session in in_use),
    )
    for folder in {session.folder for session in sessions} if not dry_run else ():
        refresh_index(root, folder)
    if result.sessions and not dry_run:
        # The search index quotes removed sessions. It is derived, and is built again by the next search.
        with suppress(FileNotFoundError), root.folder() as top:
            top.unlink(INDEX_NAME)
    return result


def _path(root: StoreRoot, session: _Session) -> str:
    return os.path.join(root.path, *session.folder, f"{session.stem}.jsonl")


def _survey_all(root: StoreRoot, folders: Sequence[str]) -> list[_Session]:
    return [session for name in folders for session in _survey(root, (PROJECTS, name))]


def _survey(root: StoreRoot, parts: tuple[str, ...]) -> list[_Session]:
    with root.folder(*parts) as folder:
        stats = {name: folder.stat(name) for name in folder.names()}
        files = {name: _file(name, info) for name, info in stats.items() if stat.S_ISREG(info.st_mode)}
        stems = {name.removesuffix(".jsonl") for name in files if name.endswith(".jsonl")}
        stems |= {name for name, info in stats.items() if stat.S_ISDIR(info.st_mode)}
        return [_session(root, folder, parts, stem, files) for stem in sorted(stems)]


def _session(
    root: StoreRoot, folder: Folder, parts: tuple[str, ...], stem: str, files: dict[str, BlobInfo]
) -> _Session:
    log = files.get(f"{stem}.jsonl")
    start = next(folder.read_chunks(log.name), b"") if log else b""
    blobs: list[BlobInfo] = []
    temporary: list[BlobInfo] = []
    with suppress(FileNotFoundError, NotADirectoryError), root.folder(*parts, stem, RESULTS) as results:
        blobs += blobs_in(results)
        temporary += [_file(name, results.stat(name)) for name in results.names() if name.startswith(TEMPORARY)]
    return _Session(
        folder=parts,
        stem=stem,
        is_ours=read_header(start) is not None if log else f"{stem}.lock" in files,
        log=log,
        side_files=tuple(f for name, f in files.items() if name.startswith(f"{stem}.torn-") or name == stem + SUFFIX),
        blobs=tuple(blobs),
        temporary=tuple(temporary),
    )


def _file(name: str, info: os.stat_result) -> BlobInfo:
    return BlobInfo(name=name, bytes=info.st_size, modified=info.st_mtime)


def _choose(
    sessions: Sequence[_Session], older_than: float | None, max_bytes: int | None, now: float
) -> list[_Session]:
    removable = [s for s in sessions if s.log and s.is_ours and now - s.modified > GRACE]
    chosen = [s for s in removable if older_than is not None and now - s.modified > older_than]
    remaining = sum(s.bytes for s in sessions) - sum(s.bytes for s in chosen)
    for session in sorted(removable, key=lambda s: s.modified):
        if max_bytes is None or remaining <= max_bytes:
            break
        if session not in chosen:
            chosen.append(session)
            remaining -= session.bytes
    return chosen


def _referenced_blobs(
    root: StoreRoot, sessions: Sequence[_Session], doomed: Sequence[_Session], now: float
) -> set[tuple[str, ...]]:
    """Find the old results that a remaining log names, each as the parts of its session and its name."""
    candidates = {s: [b.name for b in s.blobs if s in doomed or now - b.modified > GRACE] for s in sessions if s.blobs}
    named: set[tuple[str, ...]] = set()
    for reader in sessions:
        if reader in doomed or not reader.log:
            continue
        with root.folder(*reader.folder) as folder:
            data = folder.read(reader.log.name)
        for owner, names in candidates.items():
            if owner is reader or owner.stem.encode() in data:
                named |= {(*owner.parts, name) for name in names if name.encode() in data}
    return named


def _sweep(
    root: StoreRoot, session: _Session, is_doomed: bool, named: set[tuple[str, ...]], now: float, dry_run: bool
) -> GcResult:
    if not session.is_ours:
        return GcResult()
    blobs = [b for b in session.blobs if is_doomed or now - b.modified > GRACE]
    blobs = [b for b in blobs if (*session.parts, b.name) not in named]
    blobs += [file for file in session.temporary if now - file.modified > GRACE]
    logs = _log_files(session) if is_doomed else []
    if not blobs and not logs:
        return GcResult()
    if not dry_run and not _remove(root, session, logs, blobs):
        return GcResult()
    return _removed(root, session, logs, blobs)


def _log_files(session: _Session) -> list[BlobInfo]:
    return [session.log, *session.side_files] if session.log else []


def _removed(root: StoreRoot, session: _Session, logs: Sequence[BlobInfo], blobs: Sequence[BlobInfo]) -> GcResult:
    folder = os.path.join(root.path, *session.folder)
    return GcResult(
        sessions=(os.path.join(folder, logs[0].name),) if logs else (),
        blobs=tuple(os.path.join(folder, session.stem, RESULTS, b.name) for b in blobs),
        freed=sum(file.bytes for file in [*logs, *blobs]),
    )


def _remove(root: StoreRoot, session: _Session, logs: Sequence[BlobInfo], blobs: Sequence[BlobInfo]) -> bool:
    """Remove files of a session that no process uses; False if one does."""
    lock = SessionLock(root, session.folder, session.stem)
    if not lock.acquire(0):
        return False
    try:
        with root.folder(*session.folder) as folder:
            if logs and folder.stat(logs[0].name).st_mtime != session.modified:
                return False  # it was used meanwhile
        if logs and Leases(root).is_open(session.parts):
            return False
        _remove_files(root, session, logs, blobs)
    finally:
        lock.release()
    return True


def _remove_files(root: StoreRoot, session: _Session, logs: Sequence[BlobInfo], blobs: Sequence[BlobInfo]) -> None:
    """Remove the log first: results without a log are found by the next `gc`; a log without its results is damage."""
    with root.folder(*session.folder) as folder:
        for file in logs:
            folder.unlink(file.name)
        root.fs.sync_folder(folder.fd)
        _remove_blobs(root, session, blobs)
        if logs or not session.log:
            _remove_lock(folder, session.stem)


def _remove_blobs(root: StoreRoot, session: _Session, blobs: Sequence[BlobInfo]) -> None:
    with suppress(FileNotFoundError, NotADirectoryError), root.folder(*session.parts) as own:
        with root.folder(*session.parts, RESULTS) as results:
            for file in blobs:
                with suppress(FileNotFoundError):
                    if results.stat(file.name).st_mtime == file.modified:
                        results.unlink(file.name)
        with suppress(OSError):
            own.rmdir(RESULTS)


def _remove_lock(folder: Folder, stem: str) -> None:
    """Remove the lock file last. It stays with results that other logs name: it marks them as ours."""
    with suppress(OSError):
        with suppress(FileNotFoundError):
            folder.rmdir(stem)
        folder.unlink(f"{stem}.lock")
