"""A fork copies records and blobs as they are: uuids, session ids and paths keep saying where they came from."""

from __future__ import annotations

from ebbtide.core.errors import StoreError
from ebbtide.core.text.pluralize import pluralize
from ebbtide.store.log_lines import STORE, Record
from ebbtide.store.message_records import timestamp
from ebbtide.store.protocol import Log, LogReader


def fork_log(source: LogReader, target: Log, *, upto: int | None, now: float) -> None:
    """Blobs first, then all records in one commit: a fork that failed half-way has no log."""
    records = source.read().records
    if not records:
        raise StoreError(f"session {source.session!r} has nothing to fork")
    if upto is not None and not 0 <= upto <= len(records):
        raise StoreError(
            f"session {source.session!r} has {pluralize(len(records), 'record')}, so it cannot be forked at {upto}"
        )
    origin: Record = {"type": "ebb", STORE: "fork", "from": source.session, "timestamp": timestamp(now)}
    with target.lock() as held:
        if not held:
            raise StoreError(f"session {target.session!r} is locked by another process")
        if target.read().position.offset:
            raise StoreError(f"session {target.session!r} already exists")
        for blob in source.list_blobs():
            target.save_blob(blob.name, source.read_blob(blob.name))
        target.commit([origin, *records[:upto]], at=now)
