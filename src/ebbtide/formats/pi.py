"""pi session JSONL. Its own message shapes are written as Anthropic's, whichever provider answered.

Early files are plain lists and count what a compaction kept by position; later ones name entries and their parents.
"""

from __future__ import annotations

from typing import Any

from ebbtide.formats.anthropic_blocks import answer_blocks, user_content
from ebbtide.formats.recording import Recording
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, parse_time, str_or_empty
from ebbtide.formats.step_tree import StepTree
from ebbtide.formats.steps import AddMessages, Compact, Episode, Message, ModelReply, Problem

_MAX_TOKENS = 32_000
"""Not recorded, and Anthropic refuses a body without one; a third of what the models of these sessions can write."""

_UNFINISHED = frozenset({"aborted", "error"})


def recognises(source: SessionFile) -> bool:
    return any(_is_row(row.value) for row in source.rows)


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    message = value.get("message")
    if value.get("type") == "message" and isinstance(message, dict):
        return isinstance(message.get("role"), str)
    return value.get("type") == "session" and "id" in value and "cwd" in value


def read(source: SessionFile) -> Recording:
    reader = _Reader(source)
    for entry, row in enumerate(source.rows):
        reader.take(entry, row)
    return Recording(
        path=source.path,
        format="pi",
        wire="anthropic",
        session=reader.session or source.name,
        episodes=(Episode(steps=tuple(reader.lineage.steps), request_fields={"max_tokens": _MAX_TOKENS}),),
        problems=tuple(reader.problems),
        others=tuple(reader.others),
    )


class _Reader:
    def __init__(self, source: SessionFile) -> None:
        self.problems = list(source.problems)
        self.others: list[dict[str, Any]] = []
        self.lineage = StepTree()
        self.entry_of: dict[int, int] = {}
        """Step to the entry it was read from."""
        self.session = ""

    def take(self, entry: int, row: JsonRow) -> None:
        value = row.value
        if not isinstance(value, dict):
            self.trouble(row, "not a record")
            return
        kind, message = value.get("type"), value.get("message")
        step: AddMessages | ModelReply | Compact | None
        if kind == "message" and isinstance(message, dict):
            step = self.message(row, message)
        elif kind == "compaction" and isinstance(value.get("summary"), str):
            step = Compact(messages=_note(value["summary"]), kept_steps=self.kept(value))
        elif kind == "branch_summary" and isinstance(value.get("summary"), str):
            step = AddMessages(messages=_note(value["summary"]))
        elif kind == "custom_message":
            step = self.said(row, value.get("content"))
        else:
            step = None
            self.session = self.session or (str(value.get("id") or "") if kind == "session" else "")
        self.place(entry, row, step)

    def place(self, entry: int, row: JsonRow, step: AddMessages | ModelReply | Compact | None) -> None:
        record, parent = _text(row.value.get("id")), _text(row.value.get("parentId"))
        if step is None:
            self.others.append(row.value)
            self.lineage.add_link(record, parent)
            return
        beside = isinstance(step, AddMessages) and _is_result(step)
        self.entry_of[self.lineage.add(step, record=record, parent=parent, is_result=beside)] = entry

    def kept(self, value: dict[str, Any]) -> tuple[int, ...]:
        """The steps of the present history that the compaction kept. An earlier summary is never among them."""
        first = value.get("firstKeptEntryIndex")
        line = [index for index in self.lineage.current_steps if not isinstance(self.lineage.steps[index], Compact)]
        if isinstance(first, int):
            return tuple(index for index in line if self.entry_of[index] >= first)
        start = self.lineage.step_of(_text(value.get("firstKeptEntryId")))
        return tuple(index for index in line if start is not None and index >= start)

    def message(self, row: JsonRow, message: dict[str, Any]) -> AddMessages | ModelReply | None:
        role = message.get("role")
        if role == "assistant":
            return self.answer(row, message)
        if role == "toolResult":
            return self.result(row, message)
        if role == "bashExecution":
            return None if message.get("excludeFromContext") else AddMessages(messages=_bash(message))
        return self.said(row, message.get("content"))

    def said(self, row: JsonRow, recorded: Any) -> AddMessages | None:
        parts = [_image(part) for part in recorded] if isinstance(recorded, list) else recorded
        content, reason = user_content(parts)
        if reason:
            self.trouble(row, reason)
        return AddMessages(messages=({"role": "user", "content": content},)) if content else None

    def result(self, row: JsonRow, message: dict[str, Any]) -> AddMessages | None:
        call = message.get("toolCallId")
        if not isinstance(call, str):
            self.trouble(row, "a result that names no call")
            return None
        recorded = message.get("content")
        parts = [_image(part) for part in recorded] if isinstance(recorded, list) else recorded
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": parts}
        if message.get("isError"):
            block["is_error"] = True
        return AddMessages(messages=({"role": "user", "content": user_content([block])[0]},))

    def answer(self, row: JsonRow, message: dict[str, Any]) -> ModelReply:
        recorded = message.get("content")
        blocks = [_block(part) for part in recorded if isinstance(part, dict)] if isinstance(recorded, list) else []
        # A call that was cut off never ran, and its arguments may be half.
        cut = str_or_empty(message.get("stopReason")) in _UNFINISHED
        content, reason = answer_blocks([block for block in blocks if not (cut and block.get("type") == "tool_use")])
        if reason:
            self.trouble(row, reason)
        usage, reason = _usage(message.get("usage"))
        if reason:
            self.trouble(row, reason)
        stamp = message.get("timestamp", row.value.get("timestamp"))
        return ModelReply(
            row=row.line,
            messages=({"role": "assistant", "content": content},) if content else (),
            response={"role": "assistant", "content": blocks},
            model=_text(message.get("model")),
            usage=usage,
            at=parse_time(stamp),
        )

    def trouble(self, row: JsonRow, reason: str) -> None:
        self.problems.append(Problem(row=row.line, reason=reason, raw=row.raw))


def _block(part: dict[str, Any]) -> dict[str, Any]:
    """An answer's part as Anthropic has it."""
    if part.get("type") == "toolCall":
        return {"type": "tool_use", "id": part.get("id"), "name": part.get("name"), "input": part.get("arguments")}
    if part.get("type") == "thinking":
        signature = part.get("thinkingSignature") or ""
        return {"type": "thinking", "thinking": part.get("thinking") or "", "signature": signature}
    return part


def _image(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") != "image" or "data" not in part:
        return part
    source = {"type": "base64", "media_type": part.get("mimeType") or "image/png", "data": part["data"]}
    return {"type": "image", "source": source}


def _bash(message: dict[str, Any]) -> tuple[Message, ...]:
    """A command the user ran from the prompt; the model is shown it as the user's."""
    code = message.get("exitCode")
    text = f"Ran `{message.get('command')}`\n```\n{message.get('output') or '(no output)'}\n```"
    return ({"role": "user", "content": text + (f"\nexit code {code}" if code else "")},)


def _note(summary: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": f"Summary of the conversation so far:\n\n<summary>\n{summary}\n</summary>"},)


def _usage(usage: Any) -> Any:
    if not isinstance(usage, dict):
        return None, ""
    return build_usage(*(usage.get(name) for name in ("cacheRead", "cacheWrite", "input", "output")))


def _is_result(step: AddMessages) -> bool:
    content = step.messages[0]["content"]
    return isinstance(content, list) and all(block["type"] == "tool_result" for block in content)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
