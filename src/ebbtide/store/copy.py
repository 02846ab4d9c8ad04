"""Copies sessions from one store to another, and compares each with its source afterwards.

A copy that was interrupted goes on where it stopped: what the target has already is compared, not written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ebbtide.core.errors import StoreError
from ebbtide.store.protocol import Log, LogReader, SessionInfo, Store

_BATCH = 500
"""Records of one commit, so that an interrupted copy of a long session need not begin again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """One session after its copy."""

    session: str
    project: str
    records: int
    """That were written now; 0 if the target had all of them."""
    blobs: int
    problem: str = ""
    """Why it was not copied, or only in part."""


def copy_sessions(source: Store, target: Store, infos: list[SessionInfo]) -> Iterator[Copied]:
    """Copy the sessions one by one. A session that cannot be copied is reported, and the others are."""
    names = Counter((info.project, info.session) for info in infos)
    for info in infos:
        try:
            if names[info.project, info.session] > 1:
                raise StoreError("two tenants have a session of this name: copy those of each with --tenant")
            yield _copy(source, target, info)
        except StoreError as error:
            yield Copied(session=info.session, project=info.project, records=0, blobs=0, problem=str(error))


def _copy(source: Store, target: Store, info: SessionInfo) -> Copied:
    origin = source.peek(info.session, project=info.project)
    reading = origin.read()
    if reading.damage:
        raise StoreError(f"its log is damaged at line {reading.damage[0].line}; 'ebb verify' says more")
    log = target.open(info.session, project=info.project, now=_seconds(info.created))
    with log.lock() as fence:
        if not fence:
            raise StoreError("the target cannot be locked: a program is using the session there")
        known = log.read().records
        if known != reading.records[: len(known)]:
            raise StoreError("the target has a session of this name that is not the beginning of this one")
        rest = reading.records[len(known) :]
        blobs = _copy_blobs(origin, log)
        for start in range(0, len(rest), _BATCH):
            log.commit(rest[start : start + _BATCH], at=_seconds(info.modified), fence=fence)
    _compare(origin, target.peek(info.session, project=info.project), len(reading.records))
    return Copied(session=info.session, project=info.project, records=len(rest), blobs=blobs)


def _copy_blobs(origin: LogReader, log: Log) -> int:
    known = {blob.name for blob in log.list_blobs()}
    missing = [blob.name for blob in origin.list_blobs() if blob.name not in known]
    for name in missing:
        log.save_blob(name, origin.read_blob(name))
    return len(missing)


def _compare(origin: LogReader, copy: LogReader, count: int) -> None:
    """Raise `StoreError` unless the copy is what its source was when it was read."""
    if copy.read().records != origin.read().records[:count]:
        raise StoreError("the copy does not have the records of its source")
    for blob in origin.list_blobs():
        if copy.read_blob(blob.name) != origin.read_blob(blob.name):
            raise StoreError(f"the copy of {blob.name} is not what its source has")
    if not copy.verify().ok:
        raise StoreError("the copy does not verify; 'ebb verify' says more")


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0
