"""What all stores do with a session in the same way: describe it, and fork it."""

from __future__ import annotations

from ebbtide.core.errors import StoreError
from ebbtide.core.records import Record, first_text, format_time
from ebbtide.core.text.preview import pluralize
from ebbtide.store.log_lines import STORE, ReadResult
from ebbtide.store.protocol import Log, LogReader, SessionInfo

NO_PROMPT = "No prompt"
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
        bytes=log.position.offset,
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
        if target.read().position.offset:
            raise StoreError(f"session {target.session!r} already exists")
        for blob in source.list_blobs():
            target.save_blob(blob.name, source.read_blob(blob.name))
        target.commit([origin, *records[:upto]], at=now)


def _title(log: ReadResult, prompt: str) -> str:
    """The title that another program wrote into the log, else the first line of the first prompt."""
    titles = (str(r["summary"]) for r in log.records if r.get("type") == "summary" and r.get("summary"))
    title = next(titles, "") or next(iter(prompt.strip().splitlines()), "")
    return title[:_TITLE_LENGTH]


def _prompt(record: Record) -> str:
    message = record.get("message")
    if record.get("type") != "user" or record.get("isMeta") or not isinstance(message, dict):
        return ""
    # Terminals cannot show a lone surrogate.
    return first_text(message.get("content")).strip().encode("utf-8", "replace").decode()
