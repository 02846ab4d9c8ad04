"""What columns hold: names that PostgreSQL can store, the end of a log, and what a list shows of a session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from ebbtide.core.records import Record
from ebbtide.store.log_lines import LineEnd, Position, ReadResult
from ebbtide.store.protocol import SessionInfo
from ebbtide.store.sessions import NO_PROMPT, describe_session

_UNSTORABLE = re.compile("[\0\\\\\ud800-\udfff]")
_ESCAPE = re.compile(r"\\([0-9a-f]{4})")
UPDATE_SESSION = (
    "UPDATE ebbtide.session SET size = %s, lines = %s, chain = %s, changed = %s, messages = messages + %s, "
    "title = CASE title WHEN '' THEN %s ELSE title END, prompt = CASE prompt WHEN '' THEN %s ELSE prompt END, "
    "created = CASE created WHEN '' THEN %s ELSE created END, modified = CASE %s WHEN 0 THEN modified ELSE %s END "
    "WHERE tenant = %s AND key = %s"
)
LIST_SESSIONS = (
    "SELECT project, name, title, prompt, messages, created, modified, size FROM ebbtide.session "
    "WHERE size > 0 AND %s IN (tenant, '*') ORDER BY changed DESC, modified DESC"
)


def session_key(project: str, session: str) -> str:
    """The key of a session's row: both names are of any length."""
    text = f"{project}\0{session}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def to_column(name: str) -> str:
    """A name as PostgreSQL can store it: it knows neither NUL nor lone surrogates."""
    return _UNSTORABLE.sub(lambda match: f"\\{ord(match[0]):04x}", name)


def from_column(value: object) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), str(value))


def end_of(row: Sequence[object]) -> Position:
    """The end of a log, from the columns `size`, `lines` and `chain`."""
    size, lines, chain = row
    return LineEnd(int(str(size)), int(str(lines)), str(chain)).position


def session_values(records: Sequence[Record], header: Sequence[Record], end: Position, at: float) -> tuple[object, ...]:
    """The values of `UPDATE_SESSION` for a commit, without those of its condition."""
    offset, lines, chain = LineEnd.at(end)
    reading = ReadResult(records=list(records), header=header[0] if header else None)
    info = describe_session(reading, session="", path="", changed=at)
    title, prompt = info.title.replace("\0", ""), info.first_prompt.replace("\0", "")
    prompt = "" if prompt == NO_PROMPT else prompt
    created = info.created if header else ""
    return offset, lines, chain, at, info.messages, title, prompt, created, info.messages, info.modified


def session_info(row: Sequence[object]) -> SessionInfo:
    """Of a row of `LIST_SESSIONS`."""
    project, name, title, prompt, messages, created, modified, size = row
    return replace(
        _EMPTY,
        session=from_column(name),
        project=from_column(project),
        title=str(title),
        first_prompt=str(prompt) or NO_PROMPT,
        messages=int(str(messages)),
        created=str(created),
        modified=str(modified) or str(created),
        bytes=int(str(size)),
    )


_EMPTY = SessionInfo(
    session="", project="", path="", title="", first_prompt="", messages=0, created="", modified="", bytes=0
)
