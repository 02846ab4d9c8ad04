"""Old sessions leave as a whole; a result that any remaining log names stays, whichever session it belongs to.

A fork's stubs name the files of the session it came from, so names are looked for in every log that mentions the
session. Only sessions that we began are collected. Nothing younger than a day is touched, nor a session that a process
has open, idle or not, and a clock that ran backwards makes nothing old.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.store.directory.catalog import refresh
from ebbtide.store.directory.checkpoint_file import SUFFIX
from ebbtide.store.directory.file_names import INDEX_NAME
from ebbtide.store.directory.lease import Leases
from ebbtide.store.directory.lock import SessionLock
from ebbtide.store.directory.log import PROJECTS, RESULTS, blobs_in
from ebbtide.store.directory.safe_fs import TEMPORARY, Tree, read_chunks, read_whole, telling
from ebbtide.store.directory.store import DirectoryStore
from ebbtide.store.log_lines import read_header
from ebbtide.store.protocol import Store

GRACE = 86_400.0  # seconds, a day: no turn lasts that long between putting a blob and recording who names it


@dataclass(frozen=True, slots=True, kw_only=True)
class GcResult:
    """What `gc` removed, or would remove."""

    sessions: tuple[str, ...] = ()
    """Paths of logs."""
    blobs: tuple[str, ...] = ()
    """Paths of stored results and of half-written files."""
    freed: int = 0
    """Bytes."""
    left: int = 0
    """Bytes that the store then holds."""
    in_use: tuple[str, ...] = ()
    """Paths of logs that are old enough and stay: a process has them open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    name: str
    bytes: int
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """The files of one session; `log` is None where only results are left of it."""

    place: tuple[str, ...]
    stem: str
    ours: bool
    """Begun by us: our header, or, where the log is gone, our lock file."""
    log: _File | None
    beside: tuple[_File, ...]
    """Torn tails, and what resuming goes by."""
    blobs: tuple[_File, ...]
    leftovers: tuple[_File, ...]
    """Half-written results."""

    @property
    def bytes(self) -> int:
        files = [*self.beside, *self.blobs, *self.leftovers, *([self.log] if self.log else [])]
        return sum(file.bytes for file in files)

    @property
    def modified(self) -> float:
        return self.log.modified if self.log else 0.0


def gc(
    store: Store,
    *,
    older_than: float | None = None,
    max_bytes: int | None = None,
    now: float,
    dry_run: bool = False,
) -> GcResult:
    """`older_than`: seconds since the last commit. `max_bytes`: the oldest go first. Memory has nothing to collect."""
    if not isinstance(store, DirectoryStore):
        return GcResult()
    with telling(f"collect in {store.tree.root}"):
        found = [session for slug in store.projects() for session in _survey(store.tree, (PROJECTS, slug))]
        doomed, in_use = _unused(store.tree, _doomed(found, older_than, max_bytes, now))
        spare = _spare(store.tree, found, doomed, now)
        sweep = GcResult(left=sum(session.bytes for session in found), in_use=in_use)
        for session in found:
            part = _sweep(store.tree, session, session in doomed, spare, now, dry_run)
            sweep = GcResult(
                sessions=sweep.sessions + part.sessions,
                blobs=sweep.blobs + part.blobs,
                freed=sweep.freed + part.freed,
                left=sweep.left - part.freed,
                in_use=in_use,
            )
        for place in {session.place for session in found} if not dry_run else ():
            refresh(store.tree, place)
        if sweep.sessions and not dry_run:
            # The index quotes what it found there. It is derived, and made anew when somebody searches.
            with suppress(FileNotFoundError), store.tree.folder() as root:
                store.tree.files.unlink(INDEX_NAME, at=root)
    return sweep


def _survey(tree: Tree, place: tuple[str, ...]) -> list[_Session]:
    with tree.folder(*place) as folder:
        names = tree.files.list(folder)
        kinds = {name: tree.files.stat(name, at=folder) for name in names}
        files = {n: _File(name=n, bytes=s.st_size, modified=s.st_mtime) for n, s in kinds.items() if _regular(s)}
        stems = {n.removesuffix(".jsonl") for n in files if n.endswith(".jsonl")}
        stems |= {n for n, found in kinds.items() if stat.S_ISDIR(found.st_mode)}
        return [_session(tree, folder, place, stem, files) for stem in sorted(stems)]


def _session(tree: Tree, folder: int, place: tuple[str, ...], stem: str, files: dict[str, _File]) -> _Session:
    log = files.get(f"{stem}.jsonl")
    first = next(read_chunks(tree.files, log.name, folder), b"") if log else b""
    blobs: list[_File] = []
    leftovers: list[_File] = []
    with suppress(FileNotFoundError, NotADirectoryError), tree.folder(*place, stem, RESULTS) as results:
        blobs = [_File(name=b.name, bytes=b.bytes, modified=b.modified) for b in blobs_in(tree, results)]
        for name in tree.files.list(results):
            found = tree.files.stat(name, at=results)
            if name.startswith(TEMPORARY):
                leftovers.append(_File(name=name, bytes=found.st_size, modified=found.st_mtime))
    return _Session(
        place=place,
        stem=stem,
        ours=read_header(first) is not None if log else f"{stem}.lock" in files,
        log=log,
        beside=tuple(file for name, file in files.items() if name.startswith(f"{stem}.torn-") or name == stem + SUFFIX),
        blobs=tuple(blobs),
        leftovers=tuple(leftovers),
    )


def _doomed(found: Sequence[_Session], older_than: float | None, max_bytes: int | None, now: float) -> list[_Session]:
    can_go = [s for s in found if s.log and s.ours and now - s.modified > GRACE]
    doomed = [s for s in can_go if older_than is not None and now - s.modified > older_than]
    left = sum(s.bytes for s in found) - sum(s.bytes for s in doomed)
    for session in sorted(can_go, key=lambda s: s.modified):
        if max_bytes is None or left <= max_bytes:
            break
        if session not in doomed:
            doomed.append(session)
            left -= session.bytes
    return doomed


def _unused(tree: Tree, doomed: Sequence[_Session]) -> tuple[list[_Session], tuple[str, ...]]:
    """Those that no process has open, and the logs of the others."""
    leases = Leases(tree)
    used = [session for session in doomed if leases.is_open((*session.place, session.stem))]
    logs = tuple(os.path.join(tree.root, *one.place, f"{one.stem}.jsonl") for one in used)
    return [session for session in doomed if session not in used], logs


def _spare(tree: Tree, found: Sequence[_Session], doomed: Sequence[_Session], now: float) -> set[tuple[str, ...]]:
    """Old results that a remaining log names, as place, stem and name."""
    asked = {s: [b.name for b in s.blobs if s in doomed or now - b.modified > GRACE] for s in found if s.blobs}
    named: set[tuple[str, ...]] = set()
    for reader in found:
        if reader in doomed or not reader.log:
            continue
        with tree.folder(*reader.place) as folder:
            data = read_whole(tree.files, reader.log.name, folder)
        for owner, names in asked.items():
            if owner is reader or owner.stem.encode() in data:
                named |= {(*owner.place, owner.stem, name) for name in names if name.encode() in data}
    return named


def _sweep(
    tree: Tree, session: _Session, whole: bool, spare: set[tuple[str, ...]], now: float, dry_run: bool
) -> GcResult:
    if not session.ours:
        return GcResult()
    where = os.path.join(tree.root, *session.place)
    blobs = [b for b in session.blobs if whole or now - b.modified > GRACE]
    blobs = [b for b in blobs if (*session.place, session.stem, b.name) not in spare]
    blobs += [file for file in session.leftovers if now - file.modified > GRACE]
    logs = [session.log, *session.beside] if whole and session.log else []
    if not blobs and not logs:
        return GcResult()
    if not dry_run and not _remove(tree, session, logs, blobs):
        return GcResult()
    return GcResult(
        sessions=(os.path.join(where, logs[0].name),) if logs else (),
        blobs=tuple(os.path.join(where, session.stem, RESULTS, b.name) for b in blobs),
        freed=sum(file.bytes for file in [*logs, *blobs]),
    )


def _remove(tree: Tree, session: _Session, logs: Sequence[_File], blobs: Sequence[_File]) -> bool:
    """The log first: results without a log are found again, a log without its results is damage."""
    lock = SessionLock(tree, session.place, f"{session.stem}.lock")
    if not lock.take(0):
        return False
    try:
        with tree.folder(*session.place) as folder:
            if logs and tree.files.stat(logs[0].name, at=folder).st_mtime != session.modified:
                return False  # it came to life while we looked
            if logs and Leases(tree).is_open((*session.place, session.stem)):
                return False
            for file in logs:
                tree.files.unlink(file.name, at=folder)
            tree.files.sync_folder(folder)
            _remove_blobs(tree, session, blobs)
            if logs or not session.log:
                _remove_lock(tree, session.stem, folder)
    finally:
        lock.release()
    return True


def _remove_blobs(tree: Tree, session: _Session, blobs: Sequence[_File]) -> None:
    with suppress(FileNotFoundError, NotADirectoryError), tree.folder(*session.place, session.stem) as own:
        with tree.folder(*session.place, session.stem, RESULTS) as results:
            for file in blobs:
                _remove_unchanged(tree, file, results)
        with suppress(OSError):
            tree.files.rmdir(RESULTS, at=own)


def _remove_unchanged(tree: Tree, file: _File, folder: int) -> None:
    with suppress(FileNotFoundError):
        if tree.files.stat(file.name, at=folder).st_mtime == file.modified:
            tree.files.unlink(file.name, at=folder)


def _remove_lock(tree: Tree, stem: str, folder: int) -> None:
    """It goes last, and stays with results that others name: it says that they are ours."""
    with suppress(OSError):
        with suppress(FileNotFoundError):
            tree.files.rmdir(stem, at=folder)
        tree.files.unlink(f"{stem}.lock", at=folder)


def _regular(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode)
