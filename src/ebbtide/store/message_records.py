"""Messages as Claude Code's own session files hold them, so that its tools read ours and we read its.

Messages form a tree by `parentUuid`: to rewind is to answer an earlier message, and nothing is deleted. A uuid follows
from the session, the parent and the message alone, so a second run gives the same record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache

from ebbtide.core.ids import format_uuid, uuid5
from ebbtide.store.log_lines import Record

# Any fixed value will do; changing it would change every uuid we ever wrote.
_NAMESPACE = bytes.fromhex("6ebb71de000050008000000000000001")
_EPOCH = date(1970, 1, 1)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_TYPES = {"assistant": "assistant", "system": "system", "developer": "system"}
MESSAGES = ("user", "assistant", "system")
"""The record types that carry a message."""


def message_record(
    message: Mapping[str, object],
    *,
    session: str,
    parent: str | None,
    at: float,
    project: str = "",
    wire: object = None,
    extra: Mapping[str, object] | None = None,
) -> Record:
    """`message` is `{role, content}` in Anthropic's shape; `wire` is the message of another wire as it came.

    `extra` holds what only some clients know: `version`, `gitBranch`, `isSidechain`, `todos`, `permissionMode`.
    """
    record: Record = {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": project,
        "sessionId": session,
        "version": "",
        "gitBranch": "",
        "type": _TYPES.get(str(message.get("role")), "user"),
        "message": dict(message),
    }
    if wire is not None:
        record["wire"] = wire
    record |= extra or {}
    record["uuid"] = derive_uuid(record)
    record["timestamp"] = timestamp(at)
    return record


def summary_record(text: str, *, session: str, parent: str | None, at: float, slug: str = "") -> Record:
    """A compaction's summary: shown in the transcript, a user message to the model."""
    return message_record(
        {"role": "user", "content": text},
        session=session,
        parent=parent,
        at=at,
        extra={"slug": slug, "isVisibleInTranscriptOnly": True, "isCompactSummary": True},
    )


def derive_uuid(record: Mapping[str, object]) -> str:
    """What `uuid` must be in a record of ours. `verify` compares.

    The ids of a message's items say all of its content; where there are none, the message itself is told.
    """
    ids = record.get("ebbids")
    content = (
        "\0".join(map(str, ids)) if isinstance(ids, list) else _CANONICAL([record.get("message"), record.get("wire")])
    )
    told = f"{record.get('sessionId')}\0{record.get('parentUuid')}\0{content}"
    return format_uuid(uuid5(_NAMESPACE, told))


def messages_on_branch(records: Iterable[Record], leaf: str | None = None) -> list[Record]:
    """The messages from the root to `leaf`, the newest message where not given: what a resumed session has said."""
    messages = [record for record in records if record.get("type") in MESSAGES and record.get("uuid")]
    by_uuid = {str(record["uuid"]): record for record in messages}
    at = leaf if leaf is not None else (str(messages[-1]["uuid"]) if messages else None)
    path: list[Record] = []
    # Taking each out of the table ends the walk even where a damaged file links in a circle.
    while at is not None and (record := by_uuid.pop(at, None)) is not None:
        path.append(record)
        parent = record.get("parentUuid")
        at = str(parent) if parent else None
    return path[::-1]


def first_words(content: object) -> str:
    """The first text of a message's content, whichever of its two shapes it has."""
    if isinstance(content, str):
        return content
    blocks: Sequence[object] = content if isinstance(content, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return next((text for text in texts if isinstance(text, str)), "")


def timestamp(at: float) -> str:
    """ISO 8601 in UTC with milliseconds, cut and not rounded, and `Z`. A second is looked up once."""
    part, whole = math.modf(at)
    # To the microsecond first, as `datetime` does: 0.57 is 0.56999 in a float of this size.
    carried, micro = divmod(round(part * 1e6), 1_000_000)
    return f"{_second(int(whole) + carried)}.{micro // 1000:03}Z"


@lru_cache(maxsize=4)
def _second(since: int) -> str:
    days, seconds = divmod(since, 86_400)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{(_EPOCH + timedelta(days=days)).isoformat()}T{hours:02}:{minutes:02}:{seconds % 60:02}"
