"""Records of the log: what a message record looks like, how records name and date themselves, and how to read a field.

Message records have the form of Claude Code's session files, so that its tools read ours and we read its. They form a
tree by `parentUuid`: to rewind is to answer an earlier message, and nothing is deleted. A uuid depends only on the
session, the parent and the message, so a second run gives the same record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from hashlib import sha1

from ebbtide.core.types import Usage

Record = dict[str, object]
"""One JSON object, one line."""

_EPOCH = date(1970, 1, 1)
# Any fixed value will do; changing it would change every uuid we ever wrote.
_NAMESPACE = bytes.fromhex("6ebb71de000050008000000000000001")
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_TYPES = {"assistant": "assistant", "system": "system", "developer": "system"}
MESSAGE_TYPES = ("user", "assistant", "system")
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
    """Build the record of a message. `message` is `{role, content}` in Anthropic's format.

    `wire` is the original message if it has another format. `extra` holds what only some clients know: `version`,
    `gitBranch`, `isSidechain`, `todos`, `permissionMode`.
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
    record["timestamp"] = format_time(at)
    return record


def summary_record(text: str, *, session: str, parent: str | None, at: float, slug: str = "") -> Record:
    """Build the record of a compaction's summary: a user message to the model, shown only in the transcript."""
    return message_record(
        {"role": "user", "content": text},
        session=session,
        parent=parent,
        at=at,
        extra={"slug": slug, "isVisibleInTranscriptOnly": True, "isCompactSummary": True},
    )


def derive_uuid(record: Mapping[str, object]) -> str:
    """Return the `uuid` that a record of ours must have; `verify_log` compares it.

    The ids of a message's items are hashes of its content. A record without them is hashed here.
    """
    ids = record.get("ebbids")
    if isinstance(ids, list):
        content = "\0".join(map(str, ids))
    else:
        content = _CANONICAL([record.get("message"), record.get("wire")])
    return format_uuid(uuid5(_NAMESPACE, f"{record.get('sessionId')}\0{record.get('parentUuid')}\0{content}"))


def messages_on_branch(records: Iterable[Record], leaf: str | None = None) -> list[Record]:
    """Return the messages from the root to `leaf`, or to the newest message: the history of a resumed session."""
    messages = [record for record in records if record.get("type") in MESSAGE_TYPES and record.get("uuid")]
    by_uuid = {str(record["uuid"]): record for record in messages}
    uuid = leaf if leaf is not None else (str(messages[-1]["uuid"]) if messages else None)
    branch: list[Record] = []
    # `pop` ends the walk even if a damaged file links in a circle.
    while uuid is not None and (record := by_uuid.pop(uuid, None)) is not None:
        branch.append(record)
        parent = record.get("parentUuid")
        uuid = str(parent) if parent else None
    return branch[::-1]


def all_texts(content: object) -> list[str]:
    """Return the texts of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return [content]
    blocks: Sequence[object] = content if isinstance(content, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return [text for text in texts if isinstance(text, str)]


# --- ids and times ---------------------------------------------------------------------------------------------------


# Python's `uuid` module reads the platform when it is imported; a name-based UUID does not need that.
def uuid5(namespace: bytes, name: str) -> str:
    """A name-based UUID, version 5 (RFC 9562), as 32 hexadecimal digits."""
    digest = sha1(namespace + name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"{digest[:12]}5{digest[13:16]}{8 | int(digest[16], 16) & 3:x}{digest[17:32]}"


def format_uuid(name: str) -> str:
    """Write the 32 digits of a UUID in the usual form."""
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def format_time(at: float) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`. Milliseconds are cut off, not rounded."""
    fraction, seconds = math.modf(at)
    # Round to microseconds first, as `datetime` does: 0.57 is 0.56999 in a float of this size.
    carry, micro = divmod(round(fraction * 1e6), 1_000_000)
    return f"{_format_second(int(seconds) + carry)}.{micro // 1000:03}Z"


@lru_cache(maxsize=4)
def _format_second(since_epoch: int) -> str:
    days, seconds = divmod(since_epoch, 86_400)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{(_EPOCH + timedelta(days=days)).isoformat()}T{hours:02}:{minutes:02}:{seconds % 60:02}"


# --- reading fields: any program may have written them, so a value of the wrong type counts as absent --------------


def list_in(record: Mapping[str, object], key: str) -> Sequence[object]:
    value = record.get(key)
    return value if isinstance(value, list | tuple) else ()


def strings_in(record: Mapping[str, object], key: str) -> list[str]:
    return [str(value) for value in list_in(record, key)]


def pairs_in(record: Mapping[str, object], key: str) -> list[tuple[str, str]]:
    pairs = [pair for pair in list_in(record, key) if isinstance(pair, list | tuple) and len(pair) == 2]
    return [(str(first), str(second)) for first, second in pairs]


def str_in(record: Mapping[str, object], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def int_in(record: Mapping[str, object], key: str) -> int:
    value = record.get(key)
    return int(value) if isinstance(value, int | float) else 0


def float_in(record: Mapping[str, object], key: str, default: float = 0.0) -> float:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) else default


def usage_from_record(record: Mapping[str, object]) -> Usage:
    return Usage(
        input=max(0, int_in(record, "input")),
        cache_read=max(0, int_in(record, "cache_read")),
        cache_write=max(0, int_in(record, "cache_write")),
        output=max(0, int_in(record, "output")),
        cache_write_1h=max(0, int_in(record, "cache_write_1h")),
    )
