"""Writes the chat's own records to the session log, and restores a conversation from the log.

Besides the engine's records the log has records of kind `chat`: how the session started, each tool result as soon as
it is known, and each lasting permission. A tool call without a recorded result was cut off; a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import cast

from ebbtide.assembly import Conversation
from ebbtide.audit.history import build_history
from ebbtide.core.types import USER
from ebbtide.fronts.chat.tools import Action, ToolResult
from ebbtide.fronts.chat.tools.tool import ActionKind
from ebbtide.state.session_state import ebb_record
from ebbtide.store import Log, Record
from ebbtide.wire import WIRES
from ebbtide.wire.blocks import Block

INTERRUPTED = "[Interrupted: the program ended during this call. It is not known what the call had already done.]"
KIND = "chat"
Message = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStart:
    """What is the same in every request of a session."""

    model: str
    wire: str
    system: Sequence[Message]
    url: str = ""
    """Of the user's own server, if one was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRecords:
    start: SessionStart | None
    messages: Sequence[Message]
    results: Mapping[str, ToolResult]
    """By the id of the tool call."""
    known_files: Mapping[str, int | None]
    """Files that the model has read or written, with their modification time at that moment."""
    granted: Sequence[Action]
    todos: Sequence[Mapping[str, str]]


def read_chat_records(records: Sequence[Record]) -> ChatRecords:
    own = [record for record in records if record.get("kind") == KIND]
    starts = [record for record in own if record.get("what") == "begun"]
    results = [record for record in own if record.get("what") == "result"]
    known_files: dict[str, int | None] = {}
    for record in results:
        known_files |= cast("dict[str, int | None]", record.get("seen") or {})
    lists = [record["todos"] for record in results if isinstance(record.get("todos"), list)]
    return ChatRecords(
        start=_read_start(starts[-1]) if starts else None,
        messages=recorded_messages(records),
        results={
            str(record["call"]): ToolResult(text=str(record["text"]), is_error=record.get("failed") is True)
            for record in results
        },
        known_files=known_files,
        granted=[_read_action(record) for record in own if record.get("what") == "allowed"],
        todos=cast("list[dict[str, str]]", lists[-1]) if lists else [],
    )


def _read_start(record: Record) -> SessionStart:
    system = cast("list[Message]", record["system"])
    url = str(record.get("url") or "")
    return SessionStart(model=str(record["model"]), wire=str(record["wire"]), system=system, url=url)


def _read_action(record: Record) -> Action:
    path = record.get("path")
    return Action(
        tool=str(record["tool"]),
        kind=cast(ActionKind, record["needs"]),
        command=str(record.get("command") or ""),
        path=Path(str(path)) if path else None,
    )


def recorded_messages(records: Sequence[Record]) -> Sequence[Message]:
    """Return the last request's messages and the reply to it, in the provider's format."""
    history = build_history(records, session="")
    return [cast(Message, history.messages[uuid]) for uuid in history.newest]


@dataclass(frozen=True, slots=True)
class RecordWriter:
    log: Log
    clock: Callable[[], float]

    def write_start(self, start: SessionStart) -> None:
        self._write("begun", model=start.model, wire=start.wire, url=start.url, system=list(start.system))

    def write_result(
        self, call_id: str, result: ToolResult, known_files: Message, todos: Sequence[Mapping[str, str]] | None
    ) -> None:
        changes: Record = {"seen": dict(known_files)} if known_files else {}
        changes |= {"todos": list(todos)} if todos is not None else {}
        self._write("result", call=call_id, text=result.text, failed=result.is_error, **changes)

    def write_grant(self, action: Action) -> None:
        path = str(action.path) if action.path is not None else ""
        self._write("allowed", tool=action.tool, needs=action.kind, command=action.command, path=path)

    def _write(self, what: str, **fields: object) -> None:
        now = self.clock()
        self.log.commit([ebb_record(KIND, what=what, **fields, at=now)], at=now)


# --- restoring a conversation ------------------------------------------------------------------------------------


def restore_conversation(conversation: Conversation, records: ChatRecords, wire: str) -> bool:
    """Fill a new conversation with the recorded messages. Return whether the model has something to answer."""
    open_calls: list[str] = []
    last_side = ""
    for side, group in groupby(records.messages, key=lambda message: _side(message, wire)):
        messages = list(group)
        if side == "system":
            continue  # A new conversation has it already.
        if side == "model":
            conversation.request()  # It was sent, so nothing can be added to it.
            open_calls = _add_reply(conversation, messages, wire)
        else:
            _add_user_side(conversation, messages, wire)
            open_calls = []
        last_side = side
    for call_id in open_calls:
        result = records.results.get(call_id, ToolResult(text=INTERRUPTED, is_error=True))
        conversation.tool_result(call_id, result.text, is_error=result.is_error)
    return last_side == "user" or bool(open_calls)


def split_blocks(message: Message, wire: str) -> list[Block]:
    return WIRES[wire].messages.split(message, WIRES[wire].list_key)


def _side(message: Message, wire: str) -> str:
    role = split_blocks(message, wire)[0].role
    return {"system": "system", "assistant": "model"}.get(role, "user")


def _add_reply(conversation: Conversation, messages: Sequence[Message], wire: str) -> list[str]:
    """Add replies unchanged. Return the ids of the tool calls in the newest one."""
    newest = messages[-1:]
    if any("type" in message for message in messages):  # The Responses API: items of one response.
        conversation.assistant({"output": messages})
        newest = messages
    else:
        for message in messages:
            conversation.assistant(message)
    return [block.call_id for message in newest for block in split_blocks(message, wire) if block.kind == "call"]


def _add_user_side(conversation: Conversation, messages: Sequence[Message], wire: str) -> None:
    """Add results and user messages. Two messages in a row stay two: the second one came after a failure."""
    has_text = False
    for message in messages:
        if has_text:
            conversation.request()
        blocks = split_blocks(message, wire)
        for block in blocks:
            if block.kind == "result":
                conversation.tool_result(block.call_id, block.text, is_error=block.is_failed)
        texts = [block.text for block in blocks if block.kind == "text" and block.role == "user"]
        for text in texts:
            conversation.user(text)
        has_text = bool(texts)


def without_reply(messages: Sequence[Message], wire: str) -> list[Message]:
    """Drop the model's messages at the end: what is left is a request."""
    request = list(messages)
    while request and _side(request[-1], wire) == "model":
        request.pop()
    return request


def last_exchange(records: ChatRecords, wire: str) -> tuple[str, str]:
    """Return the user's last message and the model's last text."""
    texts = [block for message in records.messages for block in split_blocks(message, wire) if block.kind == "text"]
    asked = [block.text for block in texts if block.role == "user" and block.tier == USER]
    answered = [block.text for block in texts if block.role == "assistant"]
    return asked[-1] if asked else "", answered[-1] if answered else ""
