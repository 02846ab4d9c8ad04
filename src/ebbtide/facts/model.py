"""What a ledger knows. Every fact says where it was seen, as `order`: the place of its item among all items read.

Facts are quoted data: a file name or a command is whatever a tool or a model wrote. Only `words` are the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Verb = Literal["read", "create", "change", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of the user's, whole."""

    id: str
    order: int
    text: str
    answered: bool = False
    """The assistant has spoken since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A sentence of the user's that binds: a constraint, a decision, a preference."""

    order: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The first and last line of a part of a file, counted from 1; 0 to 0 is all of it."""

    first: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFact:
    """One file, and the newest of what was done to it. -1: never."""

    path: str
    read: int = -1
    created: int = -1
    changed: int = -1
    deleted: int = -1
    times: int = 0
    """How often it was touched."""
    lines: tuple[Lines, ...] = ()
    """Parts last read or changed, newest last."""
    digest: str = ""
    """Of the text last written whole or shown, in hex: equal digests, equal text."""

    @property
    def touched(self) -> bool:
        """The session made it, changed it or deleted it."""
        return max(self.created, self.changed, self.deleted) >= 0

    @property
    def newest(self) -> int:
        return max(self.read, self.created, self.changed, self.deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a shell was told, and how the last run of it ended."""

    text: str
    order: int
    status: int | None = None
    """Exit status, where the output tells."""
    failed: bool = False
    lines: tuple[str, ...] = ()
    """The lines of its output that decide: errors, verdicts, the last one."""
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A failed call."""

    about: str
    """The command, or the tool and its file."""
    line: str
    order: int
    key: str
    """What has to succeed for it to be over."""
    command: bool = False
    """A command, not another tool."""
    ended: int = -1
    """When it did; -1 while it is open."""
    by: tuple[str, ...] = ()
    """Files changed between: what mended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    text: str
    status: str
    """As the tool says it: `pending`, `in_progress`, `completed`, ..."""
    order: int

    @property
    def open(self) -> bool:
        return self.status.lower() not in _FINISHED


_FINISHED = frozenset(
    ("completed", "complete", "done", "finished", "cancelled", "canceled", "deleted", "已完成", "完成")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A sub-agent or a background task that nobody has seen the end of."""

    kind: Literal["agent", "task"]
    handle: str
    """The name the harness knows it by; empty for a call that has not come back."""
    what: str
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of the assistant's, on one line."""

    place: int
    """Among the sentences of its message."""
    text: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something the assistant said."""

    order: int
    text: str
    sentences: tuple[Sentence, ...] = ()
    """Those that say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a call does to a file, if it succeeds."""

    verb: Verb
    path: str
    lines: Lines = Lines()
    text: str | None = None
    """All that the file holds afterwards, where the call says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call whose result has not come."""

    order: int
    name: str
    acts: tuple[Act, ...] = ()
    command: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)


class Seen(NamedTuple):
    """Where and how often an identifier was seen. Positions are tokens from the start of the session."""

    items: int
    """How many items hold it."""
    spoken: int
    """How many of them the assistant wrote: what it used once it uses again."""
    said: int
    """How many of them the user wrote."""
    last: int
    used: int
    """Where the assistant wrote it last; -1 if never."""
    order: int
    """The newest item that holds it."""
    path: str
    """The file whose text it was last seen in, or empty."""
    cost: int
    """What it costs to name it, in parts that a tokenizer would hardly join; 0 for a plain word."""


@dataclass(slots=True)
class Counted:
    """Tokens of lines. A memo: what one fold chooses from the next one does, too."""

    count: Callable[[str], int] | None = None
    tokens: dict[str, int] = field(default_factory=dict)

    def line(self, text: str, count: Callable[[str], int]) -> int:
        if count != self.count:
            self.count, self.tokens = count, {}
        if (found := self.tokens.get(text)) is None:
            found = self.tokens[text] = count(text + "\n")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The facts of a run of items. Build with `ledger_of`, grow with `extend`; neither looks at an item twice."""

    handles: tuple[str, ...] = ()
    """The short handle of each item read, by order."""
    tokens: int = 0
    """Of all items read: the position the next one begins at."""
    words: tuple[Said, ...] = ()
    stated: tuple[Stated, ...] = ()
    files: Mapping[str, FileFact] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    todos: Mapping[str, Todo] = field(default_factory=dict)
    plan: Note | None = None
    """The newest plan that was put to the user. Whether it was approved is not carried on."""
    mode: str = ""
    """`plan` while the harness holds the assistant to planning."""
    tasks: Mapping[str, Running] = field(default_factory=dict)
    """In the background, by the harness's name."""
    notes: tuple[Note, ...] = ()
    seen: Mapping[str, Seen] = field(default_factory=dict)
    pending: Mapping[str, Pending] = field(default_factory=dict)
    """Calls without a result, by call id."""
    counted: Counted = field(default_factory=Counted, repr=False, compare=False)

    @property
    def reads(self) -> tuple[FileFact, ...]:
        """Files read that still are there, newest last."""
        alive = (fact for fact in self.files.values() if fact.read >= 0 and fact.deleted < max(fact.created, fact.read))
        return tuple(sorted(alive, key=lambda fact: fact.read))

    @property
    def running(self) -> tuple[Running, ...]:
        """Sub-agents that have not come back, and background tasks, oldest first."""
        agents = (
            Running(kind="agent", handle="", what=_described(call), order=call.order)
            for call in self.pending.values()
            if call.name in AGENTS
        )
        return tuple(sorted((*agents, *self.tasks.values()), key=lambda one: one.order))


AGENTS = frozenset(("Task", "Agent", "task", "agent", "spawn_agent", "dispatch_agent", "delegate", "subagent"))
"""Tools that start a sub-agent."""


def _described(call: Pending) -> str:
    keys = ("description", "title", "subagent_type", "prompt", "message", "task")
    return next((value for key in keys if isinstance(value := call.arguments.get(key), str) and value), call.name)
