"""What a ledger knows. Every fact says where it was seen, as `order`: the place of its item among all items read.

Facts are quoted data: a file name or a command is whatever a tool or a model wrote. Only `words` are the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Verb = Literal["read", "create", "change", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A message of the user's, whole."""

    id: str
    order: int
    text: str
    is_answered: bool = False
    """The assistant has spoken since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A sentence of the user's that binds: a constraint, a decision, a preference."""

    order: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRange:
    """The first and last line of a part of a file, counted from 1; 0 to 0 is all of it."""

    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """One file, and the newest of what was done to it. -1: never."""

    path: str
    read_at: int = -1
    created_at: int = -1
    changed_at: int = -1
    deleted_at: int = -1
    touch_count: int = 0
    """How often it was touched."""
    line_ranges: tuple[LineRange, ...] = ()
    """Parts last read or changed, newest last."""
    digest: str = ""
    """Of the text last written whole or shown, in hex: equal digests, equal text."""

    @property
    def is_modified(self) -> bool:
        """The session made it, changed it or deleted it."""
        return max(self.created_at, self.changed_at, self.deleted_at) >= 0

    @property
    def last_touched(self) -> int:
        return max(self.read_at, self.created_at, self.changed_at, self.deleted_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFact:
    """What a shell was told, and how the last run of it ended."""

    text: str
    order: int
    status: int | None = None
    """Exit status, where the output tells."""
    has_failed: bool = False
    key_lines: tuple[str, ...] = ()
    """The lines of its output that decide: errors, verdicts, the last one."""
    run_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed call."""

    about: str
    """The command, or the tool and its file."""
    line: str
    order: int
    key: str
    """What has to succeed for it to be over."""
    is_command: bool = False
    """A command, not another tool."""
    resolved_at: int = -1
    """When it did; -1 while it is open."""
    changed_files: tuple[str, ...] = ()
    """Files changed between: what mended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    text: str
    status: str
    """As the tool says it: `pending`, `in_progress`, `completed`, ..."""
    order: int

    @property
    def is_open(self) -> bool:
        return self.status.lower() not in _FINISHED


_FINISHED = frozenset(
    ("completed", "complete", "done", "finished", "cancelled", "canceled", "deleted", "已完成", "完成")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A sub-agent or a background task that nobody has seen the end of."""

    kind: Literal["agent", "task"]
    handle: str
    """The name the harness knows it by; empty for a call that has not come back."""
    description: str
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of the assistant's, on one line."""

    index: int
    """Among the sentences of its message."""
    text: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantText:
    """Something the assistant said."""

    order: int
    text: str
    sentences: tuple[Sentence, ...] = ()
    """Those that say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAction:
    """What a call does to a file, if it succeeds."""

    verb: Verb
    path: str
    line_range: LineRange = LineRange()
    text: str | None = None
    """All that the file holds afterwards, where the call says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call whose result has not come."""

    order: int
    name: str
    file_actions: tuple[FileAction, ...] = ()
    command: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)


class NameStats(NamedTuple):
    """Where and how often an identifier was seen. Positions are tokens from the start of the session."""

    item_count: int
    """How many items hold it."""
    assistant_count: int
    """How many of them the assistant wrote: what it used once it uses again."""
    user_count: int
    """How many of them the user wrote."""
    last_position: int
    last_use: int
    """Where the assistant wrote it last; -1 if never."""
    last_item: int
    """The newest item that holds it."""
    path: str
    """The file whose text it was last seen in, or empty."""
    cost: int
    """What it costs to name it, in parts that a tokenizer would hardly join; 0 for a plain word."""


@dataclass(slots=True)
class LineTokens:
    """Tokens of lines. A memo: what one fold chooses from the next one does, too."""

    count: Callable[[str], int] | None = None
    tokens: dict[str, int] = field(default_factory=dict)

    def count_line(self, text: str, count: Callable[[str], int]) -> int:
        if count != self.count:
            self.count, self.tokens = count, {}
        if (found := self.tokens.get(text)) is None:
            found = self.tokens[text] = count(text + "\n")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The facts of a run of items. Build with `ledger_of`, grow with `extend`; neither looks at an item twice."""

    handles: tuple[str, ...] = ()
    """The short handle of each item read, by order."""
    tokens: int = 0
    """Of all items read: the position the next one begins at."""
    user_messages: tuple[UserMessage, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    files: Mapping[str, FileFact] = field(default_factory=dict)
    commands: Mapping[str, CommandFact] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    todos: Mapping[str, Todo] = field(default_factory=dict)
    plan: AssistantText | None = None
    """The newest plan that was put to the user. Whether it was approved is not carried on."""
    mode: str = ""
    """`plan` while the harness holds the assistant to planning."""
    tasks: Mapping[str, RunningTask] = field(default_factory=dict)
    """In the background, by the harness's name."""
    assistant_texts: tuple[AssistantText, ...] = ()
    names: Mapping[str, NameStats] = field(default_factory=dict)
    pending_calls: Mapping[str, PendingCall] = field(default_factory=dict)
    """Calls without a result, by call id."""
    line_tokens: LineTokens = field(default_factory=LineTokens, repr=False, compare=False)

    @property
    def files_read(self) -> tuple[FileFact, ...]:
        """Files read that still are there, newest last."""
        alive = (
            fact
            for fact in self.files.values()
            if fact.read_at >= 0 and fact.deleted_at < max(fact.created_at, fact.read_at)
        )
        return tuple(sorted(alive, key=lambda fact: fact.read_at))

    @property
    def running_tasks(self) -> tuple[RunningTask, ...]:
        """Sub-agents that have not come back, and background tasks, oldest first."""
        agents = (
            RunningTask(kind="agent", handle="", description=_describe_agent(call), order=call.order)
            for call in self.pending_calls.values()
            if call.name in AGENTS
        )
        return tuple(sorted((*agents, *self.tasks.values()), key=lambda one: one.order))


AGENTS = frozenset(("Task", "Agent", "task", "agent", "spawn_agent", "dispatch_agent", "delegate", "subagent"))
"""Tools that start a sub-agent."""


def _describe_agent(call: PendingCall) -> str:
    keys = ("description", "title", "subagent_type", "prompt", "message", "task")
    return next((value for key in keys if isinstance(value := call.arguments.get(key), str) and value), call.name)
