"""One session's log in a directory, its file and its lock.

A commit appends whole lines under the lock, in three steps: repair the end of the file if the last write was cut short,
append, sync. If the append or the sync fails, what we wrote is cut off again. A failed sync is never repeated, because
the system may have dropped the data: the file is read and checked before the next commit instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record
from ebbtide.store.checkpoint import Checkpoint
from ebbtide.store.directory.blobs import BlobFolder, NameTaken
from ebbtide.store.directory.checkpoint_file import read_checkpoint, write_checkpoint
from ebbtide.store.directory.file_names import project_slug, session_stem
from ebbtide.store.directory.lease import Leases
from ebbtide.store.directory.lock import SessionLock
from ebbtide.store.directory.safe_fs import APPEND, Folder, StoreRoot, as_store_error
from ebbtide.store.directory.session_index import add_session
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.log_lines import (
    TAIL,
    LineEnd,
    LogSink,
    Position,
    ReadResult,
    blob_records,
    blob_sum,
    check_blob_name,
    encode_blob,
    encode_commit,
    ends_with_commit,
    header_record,
    last_commit_sum,
    lost_end_record,
    read_header,
    scan,
    scan_for_resume,
)
from ebbtide.store.protocol import LOCK_TIMEOUT, BlobInfo, LogReplaced, VerifyResult

PROJECTS = "projects"
_HEADER_LIMIT = 1 << 16  # bytes: a header holds an id and a path


class DirectoryLog:
    def __init__(self, root: StoreRoot, session: str, project: str, now: float, leases: Leases | None = None) -> None:
        self.session = session
        self._root, self._project, self._now = root, project, now
        self._stem, self._parts = session_stem(session), (PROJECTS, project_slug(project))
        self._file = _LogFile(root, self._parts, self._stem)
        self._blobs = BlobFolder(root, *self._parts, self._stem)
        self._lock = SessionLock(root, self._parts, self._stem)
        self._leases = leases
        """None if the log is only read, or once the lease is taken."""
        self._end: Position | None = None
        """The end of the last commit that we made or checked."""
        self._own_end: Position | None = None
        """The end of the last commit that we made."""
        self._sums: dict[str, str] = {}
        self._unrecorded_sums: dict[str, str] = {}
        """Checksums of blobs that no commit has recorded yet."""

    @property
    def torn_files(self) -> tuple[str, ...]:
        return self._file.torn_files

    def read(self) -> ReadResult:
        return self.read_since(Position())

    def read_since(self, position: Position) -> ReadResult:
        with as_store_error(f"read {self._file.path}"):
            length = self._file.length()
            if length == position.size:
                return ReadResult(position=position)
            if length < position.size:
                raise self._replaced(f"is shorter than it was: {length} bytes, {position.size} were read")
            with self._file.folder() as folder:
                result = self._note_checked(self._file.scan(folder, position))
                damaged_at = result.damage[0].offset if result.damage else None
                if damaged_at == position.size and not self._file.has_commit_at(position, folder):
                    raise self._replaced("was exchanged for another")
                return result

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        with as_store_error(f"read {self._file.path}"):
            if not self._file.length():
                return ReadResult()
            with self._file.folder() as folder:
                checkpoint = read_checkpoint(folder, self._stem, snapshot_format) if snapshot_format else None
                start = Position()
                if checkpoint is not None:
                    sink(checkpoint.records)
                    self._sums |= checkpoint.blob_sums
                    start = checkpoint.position
                chunks = folder.read_chunks(self._file.name, offset=start.size)
                return self._note_checked(scan_for_resume(chunks, start, sink))

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        # The log is complete without it, so a failure is no error.
        with suppress(OSError, StoreError), self._file.folder() as folder:
            checkpoint = Checkpoint(snapshot_format, position, self._sums, list(records))
            write_checkpoint(folder, self._stem, checkpoint)

    def commit(self, records: Sequence[Record], *, at: float, fence: int = 0) -> Position:
        with as_store_error(f"write to {self._file.path}"), self._lock.hold(f"write to {self._file.path}"):
            if fence:
                self._lock.check_fence(fence)
            with self._root.create_folder(*self._parts, sync=not self._file.is_durable) as folder:
                start, separator = self._prepare_end(folder)
                if not records and not self._unrecorded_sums:
                    return start
                header = [] if start.size else [header_record(self.session, self._project, self._now)]
                lost = self._lost_end(self._end if start.size and self._end else start, at)
                sums = blob_records(self._unrecorded_sums, at)
                data, end = encode_commit([*header, *lost, *sums, *records], start)
                self._file.append(folder, separator + data, start.size - len(separator))
            self._lock.write_end(end)
            self._end = self._own_end = end
            self._sums |= self._unrecorded_sums
            self._unrecorded_sums = {}
        if header:
            # The index is derived from the logs: the session is committed even if it cannot be listed yet.
            with suppress(OSError):
                add_session(self._root, self._parts)
        return end

    @contextmanager
    def lock(self, timeout: float = LOCK_TIMEOUT) -> Iterator[int]:
        try:
            has_lock = self._lock.acquire(timeout)
        except OSError:
            has_lock = False  # if we cannot write, we cannot keep others from writing
        try:
            if has_lock and self._leases is not None:
                # The caller will come back to this session: `gc` must not remove it in between.
                self._leases.take((*self._parts, self._stem), self)
                self._leases = None
            yield self._lock.take_fence() if has_lock else 0
        finally:
            if has_lock:
                self._lock.release()

    def save_blob(self, name: str, text: str) -> None:
        data = encode_blob(text)
        with as_store_error(f"store {check_blob_name(name)}"):
            try:
                self._blobs.save(name, data)
            except NameTaken:
                with self.lock(timeout=0) as has_lock:
                    if not has_lock or not self._is_orphan(name):
                        raise
                    self._blobs.replace(name, data)
        self._unrecorded_sums[name] = blob_sum(data)

    def read_blob(self, name: str) -> str:
        path = self._blobs.path(name)
        try:
            with as_store_error(f"read {path}"):
                data = self._blobs.read(name)
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise StoreError(f"{name} is not stored in session {self.session!r}") from error
            raise
        if self._sums.get(name, blob_sum(data)) != blob_sum(data):
            raise StoreError(f"{path} is not what was stored: its checksum differs")
        return data.decode("utf-8", "surrogatepass")

    def blob_path(self, name: str) -> str:
        return self._blobs.path(name)

    def list_blobs(self) -> list[BlobInfo]:
        with as_store_error(f"list the results of {self.session!r}"):
            return self._blobs.list()

    def verify(self) -> VerifyResult:
        return verify_log(self._file.path, fs=self._root.fs)

    def check_project(self) -> None:
        """Raise `StoreError` if the file belongs to another project whose path gives the same folder name."""
        with as_store_error(f"read {self._file.path}"):
            if not self._file.length():
                return
            with self._file.folder() as folder:
                start = next(folder.read_chunks(self._file.name, end=_HEADER_LIMIT), b"")
        header = read_header(start)
        if header and header.get("cwd") != self._project:
            raise StoreError(
                f"{self._file.path} holds a session of project {header.get('cwd')!r}, not {self._project!r}"
            )

    def repair(self) -> None:
        """Move an unfinished write at the end to a separate file, unless a writer is at work."""
        with suppress(OSError):
            length = self._file.length()
            if not length:
                return
            with self._file.folder() as folder:
                if ends_with_commit(folder.read(self._file.name, offset=max(0, length - TAIL))):
                    return
                with self.lock(timeout=0) as has_lock:
                    if has_lock:
                        self._prepare_end(folder)

    def _replaced(self, reason: str) -> LogReplaced:
        """Forget what is known of the old file."""
        self._end, self._own_end, self._file.is_durable, self._blobs.is_durable = None, None, False, False
        self._sums, self._unrecorded_sums = {}, {}
        return LogReplaced(f"{self._file.path} {reason}")

    def _note_checked(self, result: ReadResult) -> ReadResult:
        """Remember how far the log was checked, so that a commit need not read it again."""
        self._sums |= result.blob_sums
        self._end = result.position
        return result

    def _prepare_end(self, folder: Folder) -> tuple[Position, bytes]:
        """Return the end of the last whole commit, and bytes that must be written before the next one.

        The file is cut to that end if possible; if not, the bytes separate the next commit from the unfinished one.
        """
        checked, length = self._end or Position(), self._file.length()
        if length == checked.size:
            return checked, b""
        if not length:
            return Position(), b""
        result = self._note_checked(self._file.scan(folder, checked if length > checked.size else Position()))
        tail = folder.read(self._file.name, offset=result.position.size)
        return self._file.repair_tail(folder, result.position, tail) if tail else (result.position, b"")

    def _lost_end(self, end: Position, at: float) -> list[Record]:
        """The record to write if the log is shorter than its last commit: its end was cut off.

        If the file is gone altogether, the session was removed, and there is nothing to record.
        """
        committed = self._lock.read_end() if end != self._own_end else None
        if committed is None or committed.size <= end.size or not self._file.exists():
            return []
        return [lost_end_record(committed, end, at)]

    def _is_orphan(self, name: str) -> bool:
        """Whether no commit names the blob: its writer died in between. Call it only under the lock."""
        is_checked = self._end is not None and self._end.size == self._file.length()
        return is_checked and name not in self._sums and name not in self._unrecorded_sums


class _LogFile:
    """The file of one log: append to it, and repair its end."""

    def __init__(self, root: StoreRoot, parts: tuple[str, ...], stem: str) -> None:
        self._root, self._fs, self._parts, self._stem = root, root.fs, parts, stem
        self.name = f"{stem}.jsonl"
        self.path = os.path.join(root.path, *parts, self.name)
        self.torn_files: tuple[str, ...] = ()
        self.is_durable = False
        """Whether the file's directory entry is known to be durable."""

    def folder(self) -> AbstractContextManager[Folder]:
        return self._root.folder(*self._parts)

    def length(self) -> int:
        try:
            return self._fs.stat(self.path).st_size
        except FileNotFoundError:
            return 0

    def exists(self) -> bool:
        with suppress(FileNotFoundError):
            return bool(self._fs.stat(self.path))
        return False

    def scan(self, folder: Folder, start: Position) -> ReadResult:
        return scan(folder.read_chunks(self.name, offset=start.size), start)

    def has_commit_at(self, position: Position, folder: Folder) -> bool:
        """Whether the bytes before a position are still those of the log it was taken from."""
        tail = folder.read(self.name, offset=max(0, position.size - TAIL), end=position.size)
        return position.size == 0 or last_commit_sum(tail) == LineEnd.at(position).sum

    def append(self, folder: Folder, data: bytes, start: int) -> None:
        fs = self._fs
        fd = folder.open(self.name, APPEND | os.O_CREAT)
        try:
            try:
                folder.write_all(fd, data)
                if fs.fstat(fd).st_size != start + len(data):
                    raise StoreError(f"another program wrote to {self.path} during a commit; read it again")
                if self._root.durable:
                    fs.sync(fd)
                    if not self.is_durable:
                        fs.sync_folder(folder.fd)
            except OSError:
                self._undo_append(fd, start, len(data))
                raise
        except BaseException:
            fs.close_unwritten(fd)
            raise
        if self._root.durable:
            fs.close_unwritten(fd)  # the data is on the disk already
        else:
            fs.close(fd)
        self.is_durable = True

    def repair_tail(self, folder: Folder, end: Position, tail: bytes) -> tuple[Position, bytes]:
        """Remove an unfinished write; see `DirectoryLog._prepare_end` for the result."""
        completed = scan([tail, b"\n"], end)
        if completed.unchecked_lines and not completed.damage:
            # Another program's line that lacks only its newline. A line of ours was never acknowledged.
            self.append(folder, b"\n", end.size + len(tail))
            return completed.position, b""
        self._save_torn(folder, tail)
        fd = folder.open(self.name, APPEND)
        try:
            try:
                self._fs.truncate(fd, end.size)
            except OSError:
                # An append-only file, or a failing disk. An empty line marks the commit before it as unfinished.
                return scan([tail, b"\n\n"], end).position, b"\n\n"
            if self._root.durable:
                self._fs.sync(fd)
        finally:
            self._fs.close(fd)
        return end, b""

    def _save_torn(self, folder: Folder, tail: bytes) -> None:
        number = 1
        while not folder.write_new(f"{self._stem}.torn-{number}", tail):
            if folder.read(f"{self._stem}.torn-{number}") == tail:
                break  # saved before, by a process that could not truncate the log
            number += 1
        self.torn_files += (os.path.join(os.path.dirname(self.path), f"{self._stem}.torn-{number}"),)

    def _undo_append(self, fd: int, start: int, length: int) -> None:
        """Cut off what a failed commit wrote, or a retry would write it twice. Leave what another process wrote."""
        with suppress(OSError):
            end = self._fs.tell(fd)
            if start < end <= start + length and end == self._fs.fstat(fd).st_size:
                self._fs.truncate(fd, start)
