"""What all stores do with a session in the same way: describe it, fork it, and check it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ebbtide.core.errors import StoreError
from ebbtide.core.records import MESSAGE_TYPES, Record, all_texts, derive_uuid, format_time, int_in, str_in
from ebbtide.core.text.preview import pluralize
from ebbtide.core.text.prompt import user_words
from ebbtide.store.log_lines import STORE, LineEnd, Position, ReadResult, blob_sum, check_blob_name
from ebbtide.store.protocol import Log, LogReader, SessionInfo, VerifyResult

NO_PROMPT = "No prompt"
_DERIVED_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""Our ids are of version 5, made from content; other programs' are random."""
_TITLE_LENGTH = 80  # characters: one line of a terminal
_PROMPT_LENGTH = 500  # characters: enough to recognise a session, and a pasted file does not fill the index


def describe_session(log: ReadResult, *, session: str, path: str, changed: float) -> SessionInfo:
    """Summarize a log for a list. `session` is its id if the file does not say."""
    header = log.header or {}
    messages = [record for record in log.records if record.get("type") in ("user", "assistant")]
    times = [time for record in messages if (time := str(record.get("timestamp") or ""))]
    prompt = next((text for record in messages if (text := _prompt(record))), "")
    return SessionInfo(
        session=str(header.get("sessionId", session)),
        project=str(header.get("cwd") or next((r["cwd"] for r in messages if r.get("cwd")), "")),
        path=path,
        title=_title(log, prompt),
        first_prompt=prompt[:_PROMPT_LENGTH] or NO_PROMPT,
        messages=len(messages),
        created=str(header.get("timestamp") or (times[0] if times else format_time(changed))),
        modified=times[-1] if times else format_time(changed),
        bytes=log.position.size,
    )


def fork_log(source: LogReader, target: Log, *, upto: int | None, now: float) -> None:
    """Copy records and blobs unchanged: uuids, session ids and paths still refer to the original session.

    Blobs are copied first, then all records in one commit: a fork that fails half-way has no log.
    """
    records = source.read().records
    if not records:
        raise StoreError(f"session {source.session!r} has nothing to fork")
    if upto is not None and not 0 <= upto <= len(records):
        raise StoreError(
            f"session {source.session!r} has {pluralize(len(records), 'record')}, so it cannot be forked at {upto}"
        )
    origin: Record = {"type": "ebb", STORE: "fork", "from": source.session, "timestamp": format_time(now)}
    with target.lock() as has_lock:
        if not has_lock:
            raise StoreError(f"session {target.session!r} is locked by another process")
        if target.read().position != Position():
            raise StoreError(f"session {target.session!r} already exists")
        for blob in source.list_blobs():
            target.save_blob(blob.name, source.read_blob(blob.name))
        target.commit([origin, *records[:upto]], at=now)


def check_log(log: ReadResult, read_blob: Callable[[str], bytes]) -> VerifyResult:
    """Check what was read of a log, and its blobs. `read_blob` may raise OSError or `StoreError`."""
    return VerifyResult(
        path="",
        lines=LineEnd.at(log.position).lines,
        unchecked_lines=log.unchecked_lines,
        blobs=len(log.blob_sums),
        damage=log.damage,
        problems=(
            *_lost_ends(log.lost_ends),
            *_id_problems(log.records),
            *_blob_problems(log.blob_sums, read_blob),
        ),
        torn_files=(),
    )


def _lost_ends(records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        lines, remaining = int_in(record, "lines"), int_in(record, "left_lines")
        when = f"before {str_in(record, 'timestamp')} the end of the log was cut off"
        yield f"{when}: of {lines:,} committed lines the first {remaining:,} were left"


def _id_problems(records: list[Record]) -> Iterator[str]:
    for record in records:
        if record.get("type") not in MESSAGE_TYPES or not _DERIVED_UUID.fullmatch(str(record.get("uuid"))):
            continue
        if derive_uuid(record) != record["uuid"]:
            yield f"message {record['uuid']} does not have the id that its content gives"


def _blob_problems(sums: Mapping[str, str], read_blob: Callable[[str], bytes]) -> Iterator[str]:
    for name, expected in sums.items():
        try:
            actual = blob_sum(read_blob(check_blob_name(name)))
        except (OSError, StoreError) as error:
            yield f"the stored result {name} cannot be read: {error}"
            continue
        if actual != expected:
            yield f"the stored result {name} is not what was stored: its checksum differs"


def _title(log: ReadResult, prompt: str) -> str:
    """The title that another program wrote into the log, else the first line of the first prompt."""
    titles = (str(r["summary"]) for r in log.records if r.get("type") == "summary" and r.get("summary"))
    title = next(titles, "") or next(iter(prompt.strip().splitlines()), "")
    return title[:_TITLE_LENGTH]


def _prompt(record: Record) -> str:
    message = record.get("message")
    if record.get("type") != "user" or record.get("isMeta") or not isinstance(message, dict):
        return ""
    words = next((words for text in all_texts(message.get("content")) if (words := user_words(text))), "")
    # Terminals cannot show a lone surrogate.
    return words.encode("utf-8", "replace").decode()
