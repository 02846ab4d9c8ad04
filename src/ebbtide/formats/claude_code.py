"""Claude Code JSONL, and our own store's files, which have its shape.

One model call is written as several rows, one a block, that share `message.id`; results may stand between them. Rows
that say nothing to the model (progress, hooks, titles, our own `ebb` ones) are kept, and still link parent to child.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ebbtide.formats.anthropic_blocks import answer_blocks, user_content
from ebbtide.formats.recording import Recording
from ebbtide.formats.session_file import JsonRow, SessionFile, build_usage, parse_time
from ebbtide.formats.step_tree import StepTree
from ebbtide.formats.steps import AddMessages, ClearResults, Compact, Episode, Message, ModelReply, Problem

_CLEARED = "[Old tool result content cleared]"
"""What Claude Code puts in place of a result it clears."""

_SYNTHETIC = "<synthetic>"
"""The model of answers that the client wrote itself."""

_MAX_TOKENS = 32_000
"""Not recorded, and Anthropic refuses a body without one: this is the client's own default."""

_REMINDERS = {
    "hook_additional_context": "content",
    "skill_listing": "content",
    "mcp_instructions_delta": "addedBlocks",
    "edited_text_file": "snippet",
}
"""Attachments whose recorded words go to the model as a reminder, and the field the words are in."""


def recognises(source: SessionFile) -> bool:
    return any(_is_row(row.value) for row in source.rows)


def _is_row(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("type") in ("user", "assistant", "system", "progress", "attachment"):
        return any(key in value for key in ("uuid", "parentUuid", "sessionId"))
    return value.get("type") == "ebb" or (value.get("type") == "summary" and "leafUuid" in value)


def read(source: SessionFile) -> Recording:
    reader = _Reader(source)
    for row in source.rows:
        reader.take(row)
    return reader.recording()


class _Reader:
    """Rows become steps of the conversation they belong to: the main one, or a sidechain."""

    def __init__(self, source: SessionFile) -> None:
        self.source = source
        self.problems = list(source.problems)
        self.others: list[dict[str, Any]] = []
        self.threads: dict[str, StepTree] = {"": StepTree()}
        self.episode_of: dict[str, str] = {}
        self.seen: dict[str, Message] = {}
        self.calls = _group(source.rows)
        self.begun: dict[str, int] = {}
        self.session = ""
        named = [row.value for row in source.rows if isinstance(row.value, dict) and _text(row.value.get("uuid"))]
        names = {value["uuid"] for value in named}
        # A file in which no row names another is read in file order; where some do, naming none is a new start.
        self.linked = any(_text(value.get("parentUuid")) in names for value in named)

    def take(self, row: JsonRow) -> None:
        value = row.value
        if not isinstance(value, dict):
            self.trouble(row, "not a record")
            return
        self.session = self.session or _text(value.get("sessionId"))
        kind = value.get("type")
        if kind in ("user", "assistant") and not isinstance(value.get("message"), dict):
            self.trouble(row, "a message that is not an object")
        elif kind == "assistant":
            self.assistant(row)
        elif kind == "user" and (value.get("isCompactSummary") or not value.get("isVisibleInTranscriptOnly")):
            self.user(row)
        elif kind == "system" and value.get("subtype") == "local_command":
            self.say(row, _text(value.get("content")).strip())
        elif kind == "system" and value.get("subtype") in ("compact_boundary", "microcompact_boundary"):
            self.boundary(row)
        elif kind == "attachment":
            self.say(row, _attached(value.get("attachment")))
        else:
            self.other(row)

    def user(self, row: JsonRow) -> None:
        content, reason = user_content(row.value["message"].get("content"))
        if reason:
            self.trouble(row, reason)
        if self.copied(row):
            return
        if not row.value.get("isCompactSummary"):
            self.say(row, content)
            return
        lineage = self.lineage(row)
        step = Compact(messages=_turn(content))
        last = lineage.steps[-1] if lineage.steps else None
        if isinstance(last, Compact) and not last.messages:
            # The boundary row before it has made the step already.
            lineage.steps[-1] = step
            lineage.join(_text(row.value.get("uuid")), len(lineage.steps) - 1)
            return
        self.add(row, step)

    def copied(self, row: JsonRow) -> bool:
        """A resumed session may carry rows of the one before twice."""
        name, message = _text(row.value.get("uuid")), row.value["message"]
        if name and self.seen.setdefault(name, message) is not message and self.seen[name] == message:
            self.trouble(row, "a copy of an earlier row")
            return True
        return False

    def say(self, row: JsonRow, content: str | list[dict[str, Any]]) -> None:
        if not content:
            self.other(row)
            return
        results = isinstance(content, list) and all(block["type"] == "tool_result" for block in content)
        self.add(row, AddMessages(messages=_turn(content)), beside=results)

    def assistant(self, row: JsonRow) -> None:
        key = _call_key(row.value)
        lineage = self.lineage(row)
        if key in self.begun:
            lineage.join(_text(row.value.get("uuid")), self.begun[key])
            return
        self.begun[key] = self.add(row, self.answer(row, self.calls[key]))

    def answer(self, row: JsonRow, rows: list[JsonRow]) -> ModelReply:
        message = {**rows[-1].value["message"], "content": _merged(rows)}
        content, reason = answer_blocks(message["content"])
        if reason:
            self.trouble(row, reason)
        model = _text(message.get("model"))
        usage, reason = (None, "") if model == _SYNTHETIC else _usage(message.get("usage"))
        if reason:
            self.trouble(rows[-1], reason)
        # What the client shows for a failed call is never sent back.
        said = () if row.value.get("isApiErrorMessage") or not content else ({"role": "assistant", "content": content},)
        return ModelReply(
            row=row.line,
            messages=said,
            response=message,
            model=model,
            usage=usage,
            at=parse_time(row.value.get("timestamp")),
        )

    def boundary(self, row: JsonRow) -> None:
        value = row.value
        if value["subtype"] == "compact_boundary":
            self.add(row, Compact(), parent=_text(value.get("logicalParentUuid")))
            return
        cleared = value.get("microcompactMetadata")
        calls = cleared.get("compactedToolIds") if isinstance(cleared, dict) else None
        names = frozenset(call for call in calls or () if isinstance(call, str))
        self.add(row, ClearResults(call_ids=names, placeholder=_CLEARED))

    def other(self, row: JsonRow) -> None:
        self.others.append(row.value)
        name = _text(row.value.get("uuid"))
        if name:
            self.lineage(row).add_link(name, _text(row.value.get("parentUuid")))

    def add(
        self,
        row: JsonRow,
        step: AddMessages | ModelReply | ClearResults | Compact,
        *,
        parent: str = "",
        beside: bool = False,
    ) -> int:
        lineage, name = self.lineage(row), _text(row.value.get("uuid"))
        parent = parent or _text(row.value.get("parentUuid"))
        if self.linked and not parent and isinstance(step, AddMessages) and row.value.get("type") == "user":
            return lineage.add_root(step, record=name)
        return lineage.add(step, record=name, parent=parent, is_result=beside)

    def lineage(self, row: JsonRow) -> StepTree:
        """The main conversation, or the sidechain that the row's ancestors began."""
        value = row.value
        name, parent = _text(value.get("uuid")), _text(value.get("parentUuid"))
        episode = ""
        if value.get("isSidechain"):
            episode = _text(value.get("agentId")) or self.episode_of.get(parent, "") or name or "sidechain"
        if self.linked and parent and parent not in self.episode_of:
            # Told once a parent: what came before it is missing, and file order is all there is.
            self.episode_of[parent] = episode
            self.problems.append(Problem(row=row.line, reason=f"its parent is not in the file before it: {parent}"))
        if name:
            self.episode_of[name] = episode
        return self.threads.setdefault(episode, StepTree())

    def trouble(self, row: JsonRow, reason: str) -> None:
        self.problems.append(Problem(row=row.line, reason=reason, raw=row.raw))

    def recording(self) -> Recording:
        episodes = [
            Episode(name=name, steps=tuple(lineage.steps), request_fields={"max_tokens": _MAX_TOKENS})
            for name, lineage in self.threads.items()
            if lineage.steps
        ]
        return Recording(
            path=self.source.path,
            format="claude-code",
            wire="anthropic",
            session=self.session or self.source.name,
            episodes=tuple(episodes),
            problems=tuple(self.problems),
            others=tuple(self.others),
        )


def _group(rows: Iterable[JsonRow]) -> dict[str, list[JsonRow]]:
    """The rows of each call."""
    calls: dict[str, list[JsonRow]] = {}
    for row in rows:
        value = row.value
        if isinstance(value, dict) and value.get("type") == "assistant" and isinstance(value.get("message"), dict):
            calls.setdefault(_call_key(value), []).append(row)
    return calls


def _call_key(value: dict[str, Any]) -> str:
    names = (value["message"].get("id"), value.get("requestId"), value.get("uuid"))
    name = next((name for name in names if isinstance(name, str) and name), str(id(value)))
    return f"{bool(value.get('isSidechain'))} {name}"


def _merged(rows: list[JsonRow]) -> list[Any]:
    """The blocks of a call in order. Some versions write each block once, some write all blocks so far again."""
    merged: list[Any] = []
    for row in rows:
        content = row.value["message"].get("content")
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(content, list):
            continue
        if content[: len(merged)] == merged:
            merged = list(content)
        else:
            merged += [block for block in content if block not in merged]
    return merged


def _usage(usage: Any) -> Any:
    if not isinstance(usage, dict):
        return None, "" if usage is None else "the usage is not an object"
    names = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens")
    return build_usage(*(usage.get(name) for name in names))


def _attached(attachment: Any) -> str | list[dict[str, Any]]:
    """The words of an attachment that the model saw, where they are recorded."""
    if not isinstance(attachment, dict):
        return ""
    if attachment.get("type") == "queued_command":
        return user_content(attachment.get("prompt"))[0]
    words = attachment.get(_REMINDERS.get(_text(attachment.get("type")), ""))
    text = "\n".join(map(str, words)) if isinstance(words, list) else _text(words)
    return f"<system-reminder>\n{text}\n</system-reminder>" if text.strip() else ""


def _turn(content: str | list[dict[str, Any]]) -> tuple[Message, ...]:
    return ({"role": "user", "content": content},) if content else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
