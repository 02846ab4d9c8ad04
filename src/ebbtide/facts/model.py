"""Facts about a session, taken from its messages and tool calls without a model.

Each fact says where it was seen, as `order`: the index of its item among all items read. File names, commands and
errors are quoted data, because a tool or a model wrote them. Text helpers for facts, which must stay short, are below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Verb = Literal["read", "create", "change", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFact:
    """Something that the user or the assistant wrote."""

    order: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """The first and last line of a part of a file, counted from 1; 0 to 0 is all of it."""

    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """A file, and when each thing last happened to it; -1 for never."""

    path: str
    read_at: int = -1
    created_at: int = -1
    changed_at: int = -1
    deleted_at: int = -1
    touch_count: int = 0
    line_ranges: tuple[LineRange, ...] = ()
    """Parts last read or changed, newest last."""

    @property
    def is_modified(self) -> bool:
        """Whether the session created, changed or deleted it."""
        return max(self.created_at, self.changed_at, self.deleted_at) >= 0

    @property
    def last_touched(self) -> int:
        return max(self.read_at, self.created_at, self.changed_at, self.deleted_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFact:
    """A shell command and how its last run ended."""

    text: str
    order: int
    status: int | None = None
    """Exit status, if the output gives one."""
    has_failed: bool = False
    key_lines: tuple[str, ...] = ()
    """The line of its output that says how it ended, and the last line."""
    run_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A tool call that failed."""

    about: str
    """The command, or the tool and its file."""
    line: str
    order: int
    key: str
    """The failure is over when a call with the same key succeeds."""
    is_command: bool = False
    resolved_at: int = -1
    """-1 while it is open."""
    changed_files: tuple[str, ...] = ()
    """Files changed between the failure and the success: probably the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    text: str
    status: str
    """As the tool writes it: `pending`, `in_progress`, `completed`, ..."""

    @property
    def is_open(self) -> bool:
        return self.status.lower() not in _FINISHED


_FINISHED = frozenset(
    ("completed", "complete", "done", "finished", "cancelled", "canceled", "deleted", "已完成", "完成")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A sub-agent or a background task whose end has not been seen."""

    kind: Literal["agent", "task"]
    handle: str
    """The id that the harness gave it; empty for a call without a result."""
    description: str
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAction:
    """What a call does to a file, if it succeeds."""

    verb: Verb
    path: str
    line_range: LineRange = LineRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A tool call whose result has not been read yet."""

    order: int
    name: str
    file_actions: tuple[FileAction, ...] = ()
    command: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)


class NameStats(NamedTuple):
    """Where and how often a name was seen. Positions are tokens from the start of the session."""

    item_count: int
    """Items that hold it."""
    assistant_count: int
    """How many of them the assistant wrote."""
    user_count: int
    """How many of them the user wrote."""
    last_position: int
    last_use: int
    """Where the assistant last wrote it; -1 if never."""
    last_item: int
    """The newest item that holds it."""
    path: str
    """The file whose text it was last seen in, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """All facts about a sequence of items.

    It has 15 fields because each kind of fact has its own line or paragraph in a summary, and none depends on another.
    """

    handles: tuple[str, ...] = ()
    """The short handle of each item, by order."""
    tokens: int = 0
    """Of all items."""
    user_messages: tuple[TextFact, ...] = ()
    constraints: tuple[TextFact, ...] = ()
    """The user's sentences that constrain the work."""
    files: Mapping[str, FileFact] = field(default_factory=dict)
    commands: Mapping[str, CommandFact] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    todos: Mapping[str, Todo] = field(default_factory=dict)
    plan: TextFact | None = None
    """The newest plan shown to the user. Whether it was approved is not carried over."""
    mode: str = ""
    """`plan` while the harness lets the assistant only plan."""
    tasks: Mapping[str, RunningTask] = field(default_factory=dict)
    """In the background, by the id that the harness gave them."""
    assistant_texts: tuple[TextFact, ...] = ()
    names: Mapping[str, NameStats] = field(default_factory=dict)
    name_costs: Mapping[str, int] = field(default_factory=dict)
    """Rough number of tokens to write each name; 0 for a plain word."""
    pending_calls: Mapping[str, PendingCall] = field(default_factory=dict)
    """Calls without a result, by call id."""

    @property
    def files_read(self) -> tuple[FileFact, ...]:
        """Files read and not deleted since, newest last."""
        present = (
            fact
            for fact in self.files.values()
            if fact.read_at >= 0 and fact.deleted_at < max(fact.created_at, fact.read_at)
        )
        return tuple(sorted(present, key=lambda fact: fact.read_at))

    @property
    def running_tasks(self) -> tuple[RunningTask, ...]:
        """Sub-agents without a result and background tasks, oldest first."""
        agents = (
            RunningTask(kind="agent", handle="", description=_describe_agent(call), order=call.order)
            for call in self.pending_calls.values()
            if call.name in AGENTS
        )
        return tuple(sorted((*agents, *self.tasks.values()), key=lambda task: task.order))


AGENTS = frozenset(("Task", "Agent", "task", "agent", "spawn_agent", "dispatch_agent", "delegate", "subagent"))
"""Tools that start a sub-agent."""


def _describe_agent(call: PendingCall) -> str:
    keys = ("description", "title", "subagent_type", "prompt", "message", "task")
    return next((value for key in keys if isinstance(value := call.arguments.get(key), str) and value), call.name)


# --- short text -------------------------------------------------------------------------------------------------------


_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
"""Whitespace, and characters that a terminal or bidirectional text would act on."""
_CHANGE_DIRECTORY = re.compile(r"^\s*cd\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s*(?:&&|;)\s*")
_PATH_WIDTH = 400


def strip_cd(command: str) -> str:
    """The command without a leading `cd DIR &&`."""
    return _CHANGE_DIRECTORY.sub("", command, count=1)


def to_one_line(text: str, width: int) -> str:
    """The text on one line without control characters. If it is too long, its beginning and its end."""
    line = _BLANK.sub(" ", text[: width * 8]).strip()
    if len(text) > width * 8:
        line += " " + _BLANK.sub(" ", text[-width:]).strip()
    if len(line) <= width:
        return line
    end = width // 4
    return f"{line[: width - end - 3].rstrip()} … {line[-end:].lstrip()}"


def base_name(path: str) -> str:
    trimmed = path.rstrip("/\\")
    return trimmed[max(trimmed.rfind("/"), trimmed.rfind("\\")) + 1 :]


def parent_directory(path: str) -> str:
    """The directory with its final slash; `./` for a bare name."""
    trimmed = path.rstrip("/\\")
    return trimmed[: len(trimmed) - len(base_name(path))] or "./"


def group_by_directory(notes: Iterable[tuple[str, str]]) -> list[str]:
    """One line `dir/: name note, name note` for each directory, from pairs of a path and a note about it."""
    groups: dict[str, list[str]] = {}
    for path, note in notes:
        line = to_one_line(path, _PATH_WIDTH)
        groups.setdefault(parent_directory(line), []).append(f"{base_name(line)} {note}".rstrip())
    return [f"{directory}: {', '.join(names)}" for directory, names in groups.items()]
