"""One session in a directory. What was acknowledged is whole on disk; what was cut short is set aside, never lost.

A commit is one append of whole lines under the lock. Before it, the tail is brought to the end of a commit; after it,
the bytes are synced. If the write or the sync fails, what we wrote is cut off again; a sync is never tried again. What
the file then holds is read anew and checked before the next commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ebbtide.core.errors import StoreError
from ebbtide.store.directory.catalog import enlist
from ebbtide.store.directory.checkpoint_file import Recollection, keep, recollect
from ebbtide.store.directory.file_names import blob_name, project_slug, session_stem
from ebbtide.store.directory.files import APPEND
from ebbtide.store.directory.lease import Leases
from ebbtide.store.directory.lock import SessionLock
from ebbtide.store.directory.safe_fs import (
    Tree,
    let_go,
    open_regular,
    read_chunks,
    read_whole,
    replace,
    telling,
    write_all,
    write_new,
)
from ebbtide.store.log_lines import (
    TAIL,
    LogSink,
    Position,
    ReadResult,
    Record,
    encode_commit,
    ends_whole,
    read_header,
    scan,
    scan_for_resume,
    sum_at_end,
)
from ebbtide.store.protocol import (
    LOCK_TIMEOUT,
    BlobInfo,
    LogReplaced,
    blob_bytes,
    blob_records,
    blob_sum,
    header_record,
    lost_record,
)

RESULTS = "tool-results"
PROJECTS = "projects"
_HEADER_LIMIT = 1 << 16  # bytes: a header holds an id and a path


class _OtherText(StoreError):
    """A name is taken by another text."""


class DirectoryLog:
    def __init__(self, tree: Tree, session: str, project: str, now: float, leases: Leases | None = None) -> None:
        self.session = session
        self.torn_files: tuple[str, ...] = ()
        self._tree, self._files, self._project, self._now = tree, tree.files, project, now
        self._stem, self._place = session_stem(session), (PROJECTS, project_slug(project))
        self._name = f"{self._stem}.jsonl"
        self._path = os.path.join(tree.root, *self._place, self._name)
        self._lock = SessionLock(tree, self._place, f"{self._stem}.lock")
        self._leases = leases
        """None where it was never to be written, or has been taken."""
        self._end: Position | None = None
        """Where the last commit that we acknowledged or checked ended."""
        self._noted: Position | None = None
        """Where the last one ended that we made."""
        self._firm = self._shelved = False
        """Whether the directory entries of the log, and of its results, are known to be durable."""
        self._sums: dict[str, str] = {}
        self._unsaid: dict[str, str] = {}
        """Sums of blobs that no commit has recorded yet."""

    def read(self) -> ReadResult:
        return self.read_since(Position())

    def read_since(self, position: Position) -> ReadResult:
        with telling(f"read {self._path}"):
            length = self._length()
            if length == position.offset:
                return ReadResult(position=position)
            if length < position.offset:
                raise self._gone(f"is shorter than it was: {length} bytes, {position.offset} were read")
            with self._tree.folder(*self._place) as folder:
                reading = self._scan(folder, position)
                if reading.damage and reading.damage[0].offset == position.offset and self._exchanged(folder, position):
                    raise self._gone("was exchanged for another")
                return reading

    def resume(self, sink: LogSink, snapshot_format: str = "") -> ReadResult:
        with telling(f"read {self._path}"):
            if not self._length():
                return ReadResult()
            with self._tree.folder(*self._place) as folder:
                known = recollect(self._tree, self._stem, folder, snapshot_format) if snapshot_format else None
                if known is not None:
                    sink(known.records)
                    self._sums |= known.sums
                start = known.position if known else Position()
                chunks = read_chunks(self._files, self._name, folder, offset=start.offset)
                return self._known(scan_for_resume(chunks, start, sink))

    def write_checkpoint(self, records: Sequence[Record], position: Position, snapshot_format: str) -> None:
        # Derived: the log is whole without it.
        with suppress(OSError, StoreError), self._tree.folder(*self._place) as folder:
            keep(self._tree, self._stem, folder, Recollection(snapshot_format, position, self._sums, list(records)))

    def commit(self, records: Sequence[Record], *, at: float) -> Position:
        with telling(f"write to {self._path}"), self._held():
            with self._tree.made(*self._place, sync=not self._firm) as folder:
                start, guard = self._settle(folder)
                if not records and not self._unsaid:
                    return start
                own = [] if start.offset else [header_record(self.session, self._project, self._now)]
                lost = self._lost(self._end if start.offset and self._end else start, at)
                data, end = encode_commit([*own, *lost, *blob_records(self._unsaid, at), *records], start)
                self._append(folder, guard + data, start.offset - len(guard))
            self._lock.note(end)
            self._end = self._noted = end
            self._sums |= self._unsaid
            self._unsaid = {}
        if own:
            # The index is derived: a new session stays committed if it cannot be listed yet.
            with suppress(OSError):
                enlist(self._tree, self._place)
        return end

    @contextmanager
    def lock(self, timeout: float = LOCK_TIMEOUT) -> Iterator[bool]:
        try:
            taken = self._lock.take(timeout)
        except OSError:
            taken = False  # where nothing can be written, others cannot be kept from writing
        try:
            if taken and self._leases is not None:
                # Whoever works on a session in turns comes back to it: `gc` must not remove it in between.
                self._leases.take((*self._place, self._stem), self)
                self._leases = None
            yield taken
        finally:
            if taken:
                self._lock.release()

    def save_blob(self, name: str, text: str) -> None:
        data = blob_bytes(text)
        with telling(f"store {blob_name(name)}"):
            with self._tree.made(*self._place, self._stem, RESULTS, sync=not self._shelved) as folder:
                self._shelve(name, data, folder)
            self._shelved = True
        self._unsaid[name] = blob_sum(data)

    def _shelve(self, name: str, data: bytes, folder: int) -> None:
        try:
            self._agree(name, data, folder)
        except FileNotFoundError:
            if not write_new(self._tree, name, data, folder):
                self._agree(name, data, folder)
        except _OtherText:
            with self.lock(timeout=0) as held:
                if not held or not self._is_orphan(name):
                    raise
                replace(self._tree, name, data, folder)
                if self._tree.durable:
                    self._files.sync_folder(folder)

    def _is_orphan(self, name: str) -> bool:
        """Whether a stored result is in no commit: whoever put it died before it was named. Only under the lock."""
        is_known = self._end is not None and self._end.offset == self._length()
        return is_known and name not in self._sums and name not in self._unsaid

    def read_blob(self, name: str) -> str:
        try:
            with (
                telling(f"read {self.blob_path(name)}"),
                self._tree.folder(*self._place, self._stem, RESULTS) as folder,
            ):
                data = read_whole(self._files, name, folder)
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise StoreError(f"{name} is not stored in session {self.session!r}") from error
            raise
        if self._sums.get(name, blob_sum(data)) != blob_sum(data):
            raise StoreError(f"{self.blob_path(name)} is not what was stored: its checksum differs")
        return data.decode("utf-8", "surrogatepass")

    def blob_path(self, name: str) -> str:
        return os.path.join(self._tree.root, *self._place, self._stem, RESULTS, blob_name(name))

    def list_blobs(self) -> list[BlobInfo]:
        with telling(f"list the results of {self.session!r}"):
            try:
                with self._tree.folder(*self._place, self._stem, RESULTS) as folder:
                    return list(blobs_in(self._tree, folder))
            except FileNotFoundError:
                return []

    def check(self) -> None:
        """StoreError where the file is that of another project whose path gives the same folder."""
        with telling(f"read {self._path}"):
            length = self._length()
            if not length:
                return
            with self._tree.folder(*self._place) as folder:
                first = next(read_chunks(self._files, self._name, folder, upto=_HEADER_LIMIT), b"")
        head = read_header(first)
        if head and head.get("cwd") != self._project:
            raise StoreError(f"{self._path} holds a session of project {head.get('cwd')!r}, not {self._project!r}")

    def repair(self) -> None:
        """Set a torn tail aside, if there is one and no writer at work."""
        with suppress(OSError):
            self._repair()

    def _repair(self) -> None:
        length = self._length()
        if not length:
            return
        with self._tree.folder(*self._place) as folder:
            tail = b"".join(read_chunks(self._files, self._name, folder, offset=max(0, length - TAIL)))
            if ends_whole(tail):
                return
            with self.lock(timeout=0) as held:
                if held:
                    self._settle(folder)

    @contextmanager
    def _held(self) -> Iterator[None]:
        if not self._lock.take(LOCK_TIMEOUT):
            raise StoreError(
                f"cannot write to {self._path}: another process has held its lock for {LOCK_TIMEOUT:.0f} seconds"
            )
        try:
            yield
        finally:
            self._lock.release()

    def _length(self) -> int:
        try:
            return self._files.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def _exchanged(self, folder: int, position: Position) -> bool:
        """Whether the bytes before a position are no longer those that it was taken after."""
        start = max(0, position.offset - TAIL)
        before = read_chunks(self._files, self._name, folder, offset=start, upto=position.offset)
        return position.offset > 0 and sum_at_end(b"".join(before)) != position.sum

    def _gone(self, why: str) -> LogReplaced:
        """Nothing that is known of the old file may be believed of the new one."""
        self._end, self._noted, self._firm, self._shelved = None, None, False, False
        self._sums, self._unsaid = {}, {}
        return LogReplaced(f"{self._path} {why}")

    def _scan(self, folder: int, start: Position) -> ReadResult:
        return self._known(scan(read_chunks(self._files, self._name, folder, offset=start.offset), start))

    def _known(self, reading: ReadResult) -> ReadResult:
        """What was read and checked up to here need not be read again before the next commit."""
        self._sums |= reading.blob_sums
        self._end = reading.position
        return reading

    def _settle(self, folder: int) -> tuple[Position, bytes]:
        """The end of the last whole commit, made the end of the file; else bytes that must go before the next one."""
        known, length = self._end or Position(), self._length()
        if length == known.offset:
            return known, b""
        if not length:
            return Position(), b""
        reading = self._scan(folder, known if length > known.offset else Position())
        tail = b"".join(read_chunks(self._files, self._name, folder, offset=reading.position.offset))
        return self._mend(folder, reading.position, tail) if tail else (reading.position, b"")

    def _lost(self, whole: Position, at: float) -> list[Record]:
        """What to write down where the log ends before a commit that was acknowledged: its end was cut off.

        A file that is gone altogether is no such log: somebody removed the session.
        """
        head = self._lock.head() if whole != self._noted else None
        cut = head is not None and head.offset > whole.offset and self._is_there()
        return [lost_record(head, whole, at)] if head and cut else []

    def _is_there(self) -> bool:
        with suppress(FileNotFoundError):
            return bool(self._files.stat(self._path))
        return False

    def _mend(self, folder: int, end: Position, tail: bytes) -> tuple[Position, bytes]:
        completed = scan([tail, b"\n"], end)
        if completed.unchecked_lines and not completed.damage:
            # Another program's line that lacks only its newline. One of ours was never acknowledged, and is set aside.
            self._append(folder, b"\n", end.offset + len(tail))
            return completed.position, b""
        self._keep(folder, tail)
        fd = open_regular(self._files, self._name, APPEND, folder)
        try:
            try:
                self._files.truncate(fd, end.offset)
            except OSError:
                # Append-only by attribute, or a sick disk. The empty line says that the commit before it never ended.
                return scan([tail, b"\n\n"], end).position, b"\n\n"
            if self._tree.durable:
                self._files.sync(fd)
        finally:
            self._files.close(fd)
        return end, b""

    def _keep(self, folder: int, tail: bytes) -> None:
        number = 1
        while not write_new(self._tree, f"{self._stem}.torn-{number}", tail, folder):
            if read_whole(self._files, f"{self._stem}.torn-{number}", folder) == tail:
                break  # set aside before, by one who could not cut it off
            number += 1
        self.torn_files += (os.path.join(os.path.dirname(self._path), f"{self._stem}.torn-{number}"),)

    def _append(self, folder: int, data: bytes, start: int) -> None:
        files = self._files
        fd = open_regular(files, self._name, APPEND | os.O_CREAT, folder)
        try:
            try:
                write_all(files, fd, data)
                if files.fstat(fd).st_size != start + len(data):
                    raise StoreError(f"another program wrote to {self._path} during a commit; read it again")
                if self._tree.durable:
                    files.sync(fd)
                    if not self._firm:
                        files.sync_folder(folder)
            except OSError:
                self._take_back(fd, start, len(data))
                raise
        except BaseException:
            let_go(files, fd)
            raise
        if self._tree.durable:
            let_go(files, fd)  # it is on the disk
        else:
            files.close(fd)
        self._firm = True

    def _take_back(self, fd: int, start: int, most: int) -> None:
        """Cut off what a failed commit wrote: whoever tries again would write it twice. Not what another wrote."""
        with suppress(OSError):
            end = self._files.tell(fd)
            if start < end <= start + most and end == self._files.fstat(fd).st_size:
                self._files.truncate(fd, start)

    def _agree(self, name: str, data: bytes, folder: int) -> None:
        if read_whole(self._files, name, folder) != data:
            raise _OtherText(f"{self.blob_path(name)} is already stored with another text")
        with suppress(OSError):
            self._files.touch(name, at=folder)  # `gc` takes what is old and unnamed; this is about to be named
        if self._tree.durable:
            self._files.sync_folder(folder)


def blobs_in(tree: Tree, folder: int) -> Iterator[BlobInfo]:
    for name in tree.files.list(folder):
        with suppress(StoreError, FileNotFoundError):
            found = tree.files.stat(blob_name(name), at=folder)
            if stat.S_ISREG(found.st_mode):
                yield BlobInfo(name=name, bytes=found.st_size, modified=found.st_mtime)
