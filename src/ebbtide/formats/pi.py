"""Reads pi's session files (JSONL). Its messages are converted to Anthropic's format, whichever provider replied.

Old files are plain lists, in which a compaction gives the position of what it kept. Newer ones name entries and their
parents.
"""

from __future__ import annotations

from typing import Any

from ebbtide.formats.anthropic_blocks import (
    REQUEST_FIELDS,
    assistant_message,
    has_only_results,
    reply_content,
    user_content,
    user_message,
)
from ebbtide.formats.recording import Recording, SessionReader
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, dict_or_empty, parse_time, str_or_empty
from ebbtide.formats.step_tree import StepTree
from ebbtide.formats.steps import AddMessages, Compact, Episode, ModelReply

_UNFINISHED = frozenset({"aborted", "error"})


def recognises(file: SessionFile) -> bool:
    return any(_is_row(row.value) for row in file.rows)


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    message = value.get("message")
    if value.get("type") == "message" and isinstance(message, dict):
        return isinstance(message.get("role"), str)
    return value.get("type") == "session" and "id" in value and "cwd" in value


def read(file: SessionFile) -> Recording:
    reader = _Reader(file)
    for entry, row in enumerate(file.rows):
        reader.read_row(entry, row)
    episode = Episode(steps=tuple(reader.tree.steps), request_fields=REQUEST_FIELDS)
    return reader.recording("pi", "anthropic", reader.session, [episode])


class _Reader(SessionReader):
    def __init__(self, file: SessionFile) -> None:
        super().__init__(file)
        self.tree = StepTree()
        self.entry_by_step: dict[int, int] = {}
        self.session = ""

    def read_row(self, entry: int, row: JsonRow) -> None:
        value = row.value
        if not isinstance(value, dict):
            self.report(row, "not a record")
            return
        kind, summary = value.get("type"), value.get("summary")
        step: AddMessages | ModelReply | Compact | None = None
        if kind == "message" and isinstance(value.get("message"), dict):
            step = self.read_message(row, value["message"])
        elif kind == "compaction" and isinstance(summary, str):
            step = Compact(messages=user_message(_summary_text(summary)), kept_steps=self.kept_steps(value))
        elif kind == "branch_summary" and isinstance(summary, str):
            step = AddMessages(messages=user_message(_summary_text(summary)))
        elif kind == "custom_message":
            step = self.read_user(row, value.get("content"))
        elif kind == "session":
            self.session = self.session or str(value.get("id") or "")
        record, parent = str_or_empty(value.get("id")), str_or_empty(value.get("parentId"))
        if step is None:
            self.others.append(value)
            self.tree.add_link(record, parent)
            return
        is_result = isinstance(step, AddMessages) and has_only_results(step.messages[0]["content"])
        self.entry_by_step[self.tree.add(step, record=record, parent=parent, is_result=is_result)] = entry

    def kept_steps(self, value: dict[str, Any]) -> tuple[int, ...]:
        """Return the steps of the current history that a compaction kept. It never keeps an earlier summary."""
        first = value.get("firstKeptEntryIndex")
        branch = [index for index in self.tree.branch if not isinstance(self.tree.steps[index], Compact)]
        if isinstance(first, int):
            return tuple(index for index in branch if self.entry_by_step[index] >= first)
        start = self.tree.step_of(str_or_empty(value.get("firstKeptEntryId")))
        return tuple(index for index in branch if start is not None and index >= start)

    def read_message(self, row: JsonRow, message: dict[str, Any]) -> AddMessages | ModelReply | None:
        role = message.get("role")
        if role == "assistant":
            return self.read_reply(row, message)
        if role == "toolResult":
            return self.read_result(row, message)
        if role == "bashExecution":
            is_hidden = message.get("excludeFromContext")
            return None if is_hidden else AddMessages(messages=user_message(_bash_text(message)))
        return self.read_user(row, message.get("content"))

    def read_user(self, row: JsonRow, recorded: Any) -> AddMessages | None:
        content, reason = user_content(_convert_images(recorded))
        self.report(row, reason)
        return AddMessages(messages=user_message(content)) if content else None

    def read_result(self, row: JsonRow, message: dict[str, Any]) -> AddMessages | None:
        call_id = message.get("toolCallId")
        if not isinstance(call_id, str):
            self.report(row, "a result that names no call")
            return None
        content = _convert_images(message.get("content"))
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        if message.get("isError"):
            block["is_error"] = True
        return AddMessages(messages=user_message(user_content([block])[0]))

    def read_reply(self, row: JsonRow, message: dict[str, Any]) -> ModelReply:
        parts = message.get("content")
        blocks = [_reply_block(part) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        # A call in a reply that was cut off never ran, and its arguments may be incomplete.
        is_cut = str_or_empty(message.get("stopReason")) in _UNFINISHED
        content, reason = reply_content([block for block in blocks if not (is_cut and block.get("type") == "tool_use")])
        self.report(row, reason)
        tokens = dict_or_empty(message.get("usage"))
        usage, reason = build_usage(*(tokens.get(name) for name in ("cacheRead", "cacheWrite", "input", "output")))
        self.report(row, reason)
        return ModelReply(
            row=row.line,
            messages=assistant_message(content),
            response={"role": "assistant", "content": blocks},
            model=str_or_empty(message.get("model")),
            usage=usage,
            at=parse_time(message.get("timestamp", row.value.get("timestamp"))),
        )


def _reply_block(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "toolCall":
        return {"type": "tool_use", "id": part.get("id"), "name": part.get("name"), "input": part.get("arguments")}
    if part.get("type") == "thinking":
        signature = part.get("thinkingSignature") or ""
        return {"type": "thinking", "thinking": part.get("thinking") or "", "signature": signature}
    return part


def _convert_images(content: Any) -> Any:
    return [_convert_image(part) for part in content] if isinstance(content, list) else content


def _convert_image(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") != "image" or "data" not in part:
        return part
    source = {"type": "base64", "media_type": part.get("mimeType") or "image/png", "data": part["data"]}
    return {"type": "image", "source": source}


def _bash_text(message: dict[str, Any]) -> str:
    """A command that the user ran at the prompt; the model sees it as a user message."""
    code = message.get("exitCode")
    text = f"Ran `{message.get('command')}`\n```\n{message.get('output') or '(no output)'}\n```"
    return text + (f"\nexit code {code}" if code else "")


def _summary_text(summary: str) -> str:
    return f"Summary of the conversation so far:\n\n<summary>\n{summary}\n</summary>"
