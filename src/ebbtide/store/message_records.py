"""Message records in the form of Claude Code's session files, so that its tools read ours and we read its.

Messages form a tree by `parentUuid`: to rewind is to answer an earlier message, and nothing is deleted. A uuid depends
only on the session, the parent and the message, so a second run gives the same record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ebbtide.core.ids import format_uuid, uuid5
from ebbtide.store.log_lines import Record, format_time

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


def first_text(content: object) -> str:
    """Return the first text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks: Sequence[object] = content if isinstance(content, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return next((text for text in texts if isinstance(text, str)), "")
