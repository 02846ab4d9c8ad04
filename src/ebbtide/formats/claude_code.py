"""Reads Claude Code's session files (JSONL), and our own logs, which have the same form.

One model call is written as several rows, one a block, with the same `message.id`; results may be between them. Rows
that the model does not see (progress, hooks, titles, our `ebb` records) are kept, and still link parent to child.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ebbtide.formats.anthropic_blocks import (
    REQUEST_FIELDS,
    Content,
    assistant_message,
    has_only_results,
    read_usage,
    reply_content,
    user_content,
    user_message,
)
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import JsonRow, SessionFile, parse_time, str_or_empty
from ebbtide.formats.step_tree import StepTree
from ebbtide.formats.steps import AddMessages, ClearResults, Compact, Episode, Message, ModelReply, Problem

_CLEARED = "[Old tool result content cleared]"
"""What Claude Code writes in place of a result that it clears."""

_SYNTHETIC = "<synthetic>"
"""The model of replies that the client wrote itself."""

_REMINDERS = {
    "hook_additional_context": "content",
    "skill_listing": "content",
    "mcp_instructions_delta": "addedBlocks",
    "edited_text_file": "snippet",
}
"""Attachments whose text the model sees as a reminder, and the field with the text."""


def recognises(file: SessionFile) -> bool:
    return any(_is_row(row.value) for row in file.rows)


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("type") in ("user", "assistant", "system", "progress", "attachment"):
        return any(key in value for key in ("uuid", "parentUuid", "sessionId"))
    return value.get("type") == "ebb" or (value.get("type") == "summary" and "leafUuid" in value)


def read(file: SessionFile) -> Recording:
    reader = _Reader(file)
    for row in file.rows:
        reader.read_row(row)
    episodes = [
        Episode(name=name, steps=tuple(tree.steps), request_fields=REQUEST_FIELDS)
        for name, tree in reader.trees.items()
        if tree.steps
    ]
    return reader.recording("claude-code", "anthropic", reader.session, episodes)


class _Reader(SessionReader):
    """Turns rows into steps of their conversation: the main one, or a sidechain."""

    def __init__(self, file: SessionFile) -> None:
        super().__init__(file)
        self.session = ""
        self.trees: dict[str, StepTree] = {"": StepTree()}
        """The main conversation and the sidechains by name."""
        self.tree_names: dict[str, str] = {}
        """The conversation that each row belongs to, by uuid."""
        self.seen: dict[str, Message] = {}
        self.rows_by_call = _group_by_call(file.rows)
        self.steps_by_call: dict[str, int] = {}
        rows = [row.value for row in file.rows if isinstance(row.value, dict) and str_or_empty(row.value.get("uuid"))]
        uuids = {value["uuid"] for value in rows}
        # If no row names another, the file is read in order. If some do, a row that names none begins again.
        self.is_linked = any(str_or_empty(value.get("parentUuid")) in uuids for value in rows)

    def read_row(self, row: JsonRow) -> None:
        value = row.value
        if not isinstance(value, dict):
            self.report(row, "not a record")
            return
        self.session = self.session or str_or_empty(value.get("sessionId"))
        kind = value.get("type")
        if kind in ("user", "assistant") and not isinstance(value.get("message"), dict):
            self.report(row, "a message that is not an object")
        elif kind == "assistant":
            self.read_assistant(row)
        elif kind == "user" and (value.get("isCompactSummary") or not value.get("isVisibleInTranscriptOnly")):
            self.read_user(row)
        elif kind == "system" and value.get("subtype") == "local_command":
            self.add_user(row, str_or_empty(value.get("content")).strip())
        elif kind == "system" and value.get("subtype") in ("compact_boundary", "microcompact_boundary"):
            self.read_boundary(row)
        elif kind == "attachment":
            self.add_user(row, _attachment_text(value.get("attachment")))
        else:
            self.add_other(row)

    def read_user(self, row: JsonRow) -> None:
        content, reason = user_content(row.value["message"].get("content"))
        self.report(row, reason)
        if self.is_copy(row):
            return
        if not row.value.get("isCompactSummary"):
            self.add_user(row, content)
            return
        tree = self.tree_of(row)
        step = Compact(messages=user_message(content))
        last = tree.steps[-1] if tree.steps else None
        if isinstance(last, Compact) and not last.messages:
            # The boundary row before it has added the step already.
            tree.steps[-1] = step
            tree.join(str_or_empty(row.value.get("uuid")), len(tree.steps) - 1)
            return
        self.add(row, step)

    def is_copy(self, row: JsonRow) -> bool:
        """A resumed session may repeat rows of the session before."""
        uuid, message = str_or_empty(row.value.get("uuid")), row.value["message"]
        if uuid and self.seen.setdefault(uuid, message) is not message and self.seen[uuid] == message:
            self.report(row, "a copy of an earlier row")
            return True
        return False

    def add_user(self, row: JsonRow, content: Content) -> None:
        if content:
            self.add(row, AddMessages(messages=user_message(content)), is_result=has_only_results(content))
        else:
            self.add_other(row)

    def read_assistant(self, row: JsonRow) -> None:
        key, tree = _call_key(row.value), self.tree_of(row)
        if key in self.steps_by_call:
            tree.join(str_or_empty(row.value.get("uuid")), self.steps_by_call[key])
            return
        self.steps_by_call[key] = self.add(row, self.build_reply(row, self.rows_by_call[key]))

    def build_reply(self, row: JsonRow, rows: list[JsonRow]) -> ModelReply:
        message = {**rows[-1].value["message"], "content": _merge_blocks(rows)}
        content, reason = reply_content(message["content"])
        self.report(row, reason)
        model, usage = str_or_empty(message.get("model")), None
        if model != _SYNTHETIC and isinstance(message.get("usage"), dict):
            usage, reason = read_usage(message["usage"])
            self.report(rows[-1], reason)
        elif model != _SYNTHETIC and message.get("usage") is not None:
            self.report(rows[-1], "the usage is not an object")
        return ModelReply(
            row=row.line,
            # What the client shows for a failed call is never sent back.
            messages=() if row.value.get("isApiErrorMessage") else assistant_message(content),
            response=message,
            model=model,
            usage=usage,
            at=parse_time(row.value.get("timestamp")),
        )

    def read_boundary(self, row: JsonRow) -> None:
        value = row.value
        if value["subtype"] == "compact_boundary":
            self.add(row, Compact(), parent=str_or_empty(value.get("logicalParentUuid")))
            return
        metadata = value.get("microcompactMetadata")
        call_ids = metadata.get("compactedToolIds") if isinstance(metadata, dict) else None
        names = frozenset(call_id for call_id in call_ids or () if isinstance(call_id, str))
        self.add(row, ClearResults(call_ids=names, placeholder=_CLEARED))

    def add_other(self, row: JsonRow) -> None:
        self.others.append(row.value)
        uuid = str_or_empty(row.value.get("uuid"))
        if uuid:
            self.tree_of(row).add_link(uuid, str_or_empty(row.value.get("parentUuid")))

    def add(
        self,
        row: JsonRow,
        step: AddMessages | ModelReply | ClearResults | Compact,
        *,
        parent: str = "",
        is_result: bool = False,
    ) -> int:
        tree, uuid = self.tree_of(row), str_or_empty(row.value.get("uuid"))
        parent = parent or str_or_empty(row.value.get("parentUuid"))
        if self.is_linked and not parent and isinstance(step, AddMessages) and row.value.get("type") == "user":
            return tree.add_root(step, record=uuid)
        return tree.add(step, record=uuid, parent=parent, is_result=is_result)

    def tree_of(self, row: JsonRow) -> StepTree:
        """Return the main conversation, or the sidechain that the row's ancestors began."""
        value = row.value
        uuid, parent = str_or_empty(value.get("uuid")), str_or_empty(value.get("parentUuid"))
        name = ""
        if value.get("isSidechain"):
            name = str_or_empty(value.get("agentId")) or self.tree_names.get(parent, "") or uuid or "sidechain"
        if self.is_linked and parent and parent not in self.tree_names:
            # Reported once for each parent. Its children follow in file order.
            self.tree_names[parent] = name
            self.problems.append(Problem(row=row.line, reason=f"its parent is not in the file before it: {parent}"))
        if uuid:
            self.tree_names[uuid] = name
        return self.trees.setdefault(name, StepTree())


def _group_by_call(rows: Iterable[JsonRow]) -> dict[str, list[JsonRow]]:
    calls: dict[str, list[JsonRow]] = {}
    for row in rows:
        value = row.value
        if isinstance(value, dict) and value.get("type") == "assistant" and isinstance(value.get("message"), dict):
            calls.setdefault(_call_key(value), []).append(row)
    return calls


def _call_key(value: dict[str, Any]) -> str:
    ids = (value["message"].get("id"), value.get("requestId"), value.get("uuid"))
    key = next((name for name in ids if isinstance(name, str) and name), str(id(value)))
    return f"{bool(value.get('isSidechain'))} {key}"


def _merge_blocks(rows: list[JsonRow]) -> list[Any]:
    """Collect the blocks of a call. Some versions write each block once, others repeat all blocks so far."""
    blocks: list[Any] = []
    for row in rows:
        content = row.value["message"].get("content")
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(content, list):
            continue
        if content[: len(blocks)] == blocks:
            blocks = list(content)
        else:
            blocks += [block for block in content if block not in blocks]
    return blocks


def _attachment_text(attachment: Any) -> Content:
    """Return the text of an attachment that the model saw, if it is recorded."""
    if not isinstance(attachment, dict):
        return ""
    if attachment.get("type") == "queued_command":
        return user_content(attachment.get("prompt"))[0]
    recorded = attachment.get(_REMINDERS.get(str_or_empty(attachment.get("type")), ""))
    text = "\n".join(map(str, recorded)) if isinstance(recorded, list) else str_or_empty(recorded)
    return f"<system-reminder>\n{text}\n</system-reminder>" if text.strip() else ""
