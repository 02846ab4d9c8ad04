"""The values that all packages share. They have no behaviour beyond what follows from their fields.

A conversation is a flat sequence of items. An item models only what passes read; everything else that a provider sent
is in `raw` and is sent back unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Role = Literal["system", "user", "assistant", "tool"]
"""A tool's result has the role `tool` on every wire, even where the provider puts it in a user message."""

Kind = Literal["text", "call", "result", "thinking", "image", "document", "opaque"]
"""`opaque`: server tools, compaction blocks and kinds that we do not know. It is removed whole or kept whole."""

Trigger = Literal["auto", "manual", "overflow"]

SourceScope = Literal["covered", "lasting", "all"]
"""What an edit's text was made of: the items that it covers; the conversation without reminders and notes, which
clients drop; or all of it, if a model read the live request."""

AnswerMode = Literal["prefix", "transcript", "live"]
"""How a question is answered: with the live request and one question more, which reads the prompt cache; with the
history quoted as data, for any model; or from files and notes as they are now, without a model."""

SYSTEM, USER, HARNESS, QUOTED = 0, 1, 2, 3
"""Levels of trust: operator, user, what the harness adds, tool output and summaries. An edit never raises it."""

FIVE_MINUTES, HOUR = 300.0, 3600.0
"""Seconds that providers keep a cached prefix: by default, and on request."""

COMPACTION_PASSES = frozenset(("summarize", "fold_regions", "fold_to_fit"))
"""Passes whose edits are compactions: one edit replaces a run of turns."""

OURS = "ebbtide"
"""`Item.source` of a replacement that we wrote, also when a client sends it back as history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One block of one message.

    It has 16 fields because it is the only model of a block, for all passes and wires, and there is one for each block.
    """

    id: str
    """Hash of the canonical content, and its occurrence number: `e1-<hash>-<n>`."""
    message: int
    """Index of its message."""
    role: Role
    kind: Kind
    text: str
    """What a person would read: text, a call's arguments as JSON, a result's text parts joined by newlines."""
    tokens: int
    name: str = ""
    """The tool's name, for a call and its result."""
    call_id: str = ""
    """The same in a call and its result."""
    trust: int = QUOTED
    source: str = ""
    """`system`, `user`, `assistant`, `tool`, `reminder`, `hook`, `ide`, `memory`, or `OURS`."""
    media: int = 0
    """Images and documents inside a result's content."""
    at: float | None = None
    """Seconds since the epoch, if known."""
    pinned: bool = False
    """A person asked to keep it."""
    locked: bool = False
    """The provider forbids changing it."""
    is_failed: bool = False
    """Of a result: the tool itself called it an error."""
    raw: object = field(default=None, repr=False, compare=False)
    """The provider's own block; None in a replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Content that must be saved before the edit that names it is recorded."""

    name: str
    """A file name without directory, from `BlobNames.name`, never from an unchecked id."""
    text: str
    digest: str = field(default="", compare=False)
    """The digest of the text, if it is known: hashing the text of a compaction may mean megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The items that an edit was made of, by id. The edit is active only in a conversation that still has them."""

    hidden: tuple[str, ...] = ()
    """The items that it hides, in order, without the movable ones."""
    movable: frozenset[str] = frozenset()
    """Hidden items that clients move or drop: reminders, and operator notes that are repeated."""
    notes: frozenset[str] = frozenset()
    """Digests of these notes: a note with the same text must still be present."""
    sources: tuple[str, ...] = ()
    """Other items that its text was made of: the call of a result, or the rest of the conversation."""
    calls: Mapping[str, str] = field(default_factory=dict, compare=False)
    """From each tool result among these to its call, which identifies the result if a client clears its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace the originals from `first` to `last`.

    An empty `replacement` drops them, one item rewrites them, several compact or restore them. With `insert_after` set
    the edit covers nothing and inserts. It names originals only, so edits can be undone in any order. It is active
    where all items of its `binding` are present.
    """

    by: str
    """The pass that proposed it."""
    first: str = ""
    last: str = ""
    branch_tip: str = ""
    """The newest assistant item when the edit was made: the edit is active only on branches that contain it."""
    insert_after: str = ""
    replacement: tuple[Item, ...] = ()
    reason: str = ""
    saved: int = 0
    """Tokens removed less tokens added, as estimated when it was made."""
    blobs: tuple[Blob, ...] = ()
    """What must be saved first. Not part of the edit's identity."""
    made_of: SourceScope = "covered"
    """The edit is active only where all of this is present. Text from outside, such as a file that was read again, is
    `lasting`: it must not appear in another conversation."""
    binding: Binding | None = None
    """None before the edit is bound to a view, and then it is active nowhere. Not part of its identity."""

    @property
    def id(self) -> str:
        """Content hash: the same edit made twice is one edit."""
        parts = [self.by, self.first, self.last, self.branch_tip, self.insert_after]
        # An original that the edit keeps is identified by its id, in memory as in the log.
        parts += [item.id or f"{item.role}|{item.kind}|{item.call_id}||{item.text}" for item in self.replacement]
        return "x1-" + hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


class HistoryMark(NamedTuple):
    """Identifies a conversation up to some item, so that we recognize it when it has continued."""

    lasting: str
    """How many items there were besides reminders and notes, and the digest of their ids."""
    passing: tuple[str, ...] = ()
    """Ids of the reminders and notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that a pass cannot answer, such as a summary. It names the items it is about."""

    by: str
    first: str
    last: str
    prompt: str
    max_tokens: int = 0
    answer_mode: AnswerMode = "prefix"
    quoted: str = field(default="", repr=False)
    """The history, quoted as data, where `answer_mode` is `transcript`."""

    @property
    def key(self) -> str:
        """Identifies the question, so that it is asked and paid for once."""
        question = "\0".join((self.by, self.first, self.last, self.answer_mode, self.prompt, self.quoted))
        return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A checked answer: a text that may be used, or why there is none."""

    key: str
    first: str
    last: str
    """The items that the question was about."""
    answer_mode: AnswerMode = "prefix"
    text: str = ""
    analysis: str = ""
    """What the model wrote before the summary: kept in the log, and by some presets."""
    failed: str = ""
    """Why it is unusable: `overflow`, `cut`, `empty`, `refused`, `time-out`, or another reason."""
    history: HistoryMark | None = None
    """The conversation that was asked about. The answer is used only where it continues; None in older logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the provider billed for one call, in tokens. The sum is what the window held at the end of the call."""

    input: int = 0
    """Uncached input."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cache_write_1h: int = 0
    """Those of `cache_write` that are kept for an hour, which costs more than five minutes."""

    @property
    def prompt(self) -> int:
        """All input, cached or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """Input and output."""
        return self.prompt + self.output


FRONT = -1
"""Stands for the system prompt and the tools among the indexes of messages."""


class SentRequest(NamedTuple):
    """One request that was sent. What is cached, and why a cache was lost, follows from these."""

    at: float
    model: str
    system: str
    """Hash of the system prompt."""
    tools: str
    """Hash of the tool list."""
    prefix: Sequence[str]
    """Rolling hash after each message: equal at n means that the first n+1 messages are equal."""
    tokens: int
    """Our estimate of the whole request."""
    usage: Usage | None = None
    breakpoints: tuple[int, ...] = ()
    """Indexes of the messages with a cache breakpoint."""
    ttl: float = FIVE_MINUTES
    """Seconds that the provider keeps the prefix."""
    window: int = 0
    """The window at that time, in tokens; 0 in a log without it."""
    hour: tuple[int, ...] = ()
    """Indexes of the messages whose breakpoint asks for an hour; `FRONT` for what comes before the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """How many tokens of a request are system prompt, tools and messages."""

    system: int = 0
    tools: int = 0
    messages: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind, as in `{"result": 81000, "text": 9000}`."""
