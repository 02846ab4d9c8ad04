"""Values the whole library speaks in. No behaviour beyond what follows from the fields.

A conversation is a flat run of items. An item models only what passes read; all else that a provider sent rides along
in `raw` and leaves as it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar, dataclass_transform

Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks. A tool's result has the role `tool` on every wire, even where the provider puts it in a user message."""

Kind = Literal["text", "call", "result", "thinking", "image", "document", "opaque"]
"""`opaque`: server tools, compaction blocks and whatever we do not know. It leaves whole or stays whole."""

Trigger = Literal["auto", "manual", "overflow"]

SourceScope = Literal["covered", "lasting", "all"]
"""What an edit's text was made of: the items that it covers; the whole conversation but for reminders and notes that
clients drop; or all of it, as by a model that read the live request."""

AnswerMode = Literal["prefix", "transcript", "live"]
"""How the edge answers: the live request and one question more, which reads the prompt cache; the history quoted as
data, for any model; or the files and notes as they are now, for which no model is needed."""

SYSTEM, USER, HARNESS, QUOTED = 0, 1, 2, 3
"""Trust tiers: operator, the user's own words, what the harness injects, tool output and summaries. Never rises."""

FIVE_MINUTES, HOUR = 300.0, 3600.0
"""Seconds that providers keep a prefix: as a rule, and where it is asked for."""

COMPACTION_PASSES = frozenset(("summarize", "fold_regions", "fold_to_fit"))
"""Passes whose edits are folds: one stands for a run of turns."""

OURS = "ebbtide"
"""`Item.source` of what we authored: a stand-in, also when a client feeds it back as history."""


_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def fast_value(cls: type[_Class]) -> type[_Class]:
    """Make a dataclass that only the type checker keeps frozen.

    For values that are built for every block of every request: a dataclass frozen at run time takes four times as long.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)


@fast_value
class Item:
    """One block of one message."""

    id: str
    """Hash of the item's own canonical content, and its occurrence number: `e1-<hash>-<n>`."""
    message: int
    """Index of the message it stands in."""
    role: Role
    kind: Kind
    text: str
    """What a person would read: words, a call's arguments as JSON, a result's text parts joined by newlines."""
    tokens: int
    name: str = ""
    """The tool's name, for a call and its result."""
    call_id: str = ""
    """Pairs a call with its result."""
    trust: int = QUOTED
    source: str = ""
    """`system`, `user`, `assistant`, `tool`, `reminder`, `hook`, `ide`, `memory`, or `OURS`."""
    media: int = 0
    """Images and documents inside a result's content."""
    at: float | None = None
    """Seconds since the epoch, where the edge told us."""
    pinned: bool = False
    """A person asked that it stay."""
    locked: bool = False
    """The provider forbids changing it."""
    raw: object = field(default=None, repr=False, compare=False)
    """The provider's own block; None in a stand-in that was never a provider's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Content that must be durable before the edit that names it is recorded."""

    name: str
    """A file name without directory, made by `Shelf.name`, never from an unchecked id."""
    text: str
    digest: str = field(default="", compare=False)
    """The digest of the text, where it is known: a fold's may have megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The items that an edit was made of, by id. It holds only in a conversation that still has them."""

    hidden: tuple[str, ...] = ()
    """The items it hides, in order, without the movable ones."""
    movable: frozenset[str] = frozenset()
    """Hidden parts that clients move or drop: reminders, and notes of the operator that are repeated."""
    notes: frozenset[str] = frozenset()
    """What these notes say, as digests: one with the same words must still stand somewhere."""
    sources: tuple[str, ...] = ()
    """Other items that its text was made of: a result's call, or the rest of the conversation."""
    calls: Mapping[str, str] = field(default_factory=dict, compare=False)
    """From each tool result among these to its call: a client may clear the result's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A splice: the originals from `first` to `last`, and what stands in their place.

    `put` empty drops them, one item rewrites, several fold or restore. With `after` set it covers nothing and inserts.
    It names originals only, so undo is order-free. It holds where `binding` finds all that it was made of.
    """

    by: str
    """The pass that proposed it."""
    first: str = ""
    last: str = ""
    branch_tip: str = ""
    """The newest assistant item when the edit was made; the edit holds on branches that contain it."""
    insert_after: str = ""
    replacement: tuple[Item, ...] = ()
    reason: str = ""
    saved: int = 0
    """Tokens taken out less tokens put in, as estimated when it was made."""
    blobs: tuple[Blob, ...] = ()
    """What must be durable first. Not part of the edit's identity."""
    made_of: SourceScope = "covered"
    """It holds only where all of this is still there. What comes from outside, as a file that was read again, is
    `lasting`: it must not show in another conversation."""
    binding: Binding | None = None
    """The items it was made of; None before it is bound, and then it holds nowhere. Not part of its identity."""

    @property
    def id(self) -> str:
        """Content hash: the same edit made twice is one edit."""
        parts = [self.by, self.first, self.last, self.branch_tip, self.insert_after]
        # An original that is carried along is its id, in memory as in the log.
        parts += [item.id or f"{item.role}|{item.kind}|{item.call_id}||{item.text}" for item in self.replacement]
        return "x1-" + hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


class HistoryMark(NamedTuple):
    """A conversation up to some place, to be known again where it goes on."""

    lasting: str
    """How many items there were besides reminders and notes, and the digest of their ids."""
    passing: tuple[str, ...] = ()
    """Ids of the reminders and notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question only the edge can answer. It names the run it is about, so that a moving tail does not change it."""

    by: str
    first: str
    last: str
    prompt: str
    max_tokens: int = 0
    answer_mode: AnswerMode = "prefix"
    quoted: str = field(default="", repr=False)
    """What a `transcript` is asked about, quoted as data."""

    @property
    def key(self) -> str:
        """The question is asked, and paid for, once."""
        question = "\0".join((self.by, self.first, self.last, self.answer_mode, self.prompt, self.quoted))
        return hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, checked: a text that may be used, or why there is none."""

    key: str
    first: str
    last: str
    """The run that was asked about."""
    answer_mode: AnswerMode = "prefix"
    text: str = ""
    analysis: str = ""
    """What the model thought aloud before it: kept by presets that keep it, and in the log."""
    failed: str = ""
    """Why it is of no use: `overflow`, `cut`, `empty`, `refused`, `time-out`, or other words."""
    history: HistoryMark | None = None
    """The conversation that was asked about. The answer is used only where it goes on; None in older logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the provider billed for one call, in tokens. The four add up to what the window held when it ended."""

    input: int = 0
    """Uncached input."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All that was read, cached or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """What was read and what was said."""
        return self.prompt + self.output


class SentRequest(NamedTuple):
    """One request that went out. From these alone come warmth, the usage anchor, and why a cache broke."""

    at: float
    model: str
    system: str
    """Hash of the system prompt."""
    tools: str
    """Hash of the tool list."""
    prefix: Sequence[str]
    """Chained hash after each message that went out: equal at n means the first n+1 messages were equal."""
    tokens: int
    """Our estimate of the whole request."""
    usage: Usage | None = None
    breakpoints: tuple[int, ...] = ()
    """Message indexes that carried a cache breakpoint."""
    ttl: float = FIVE_MINUTES
    """How long the provider keeps the prefix, seconds."""
    window: int = 0
    """What it was held against, in tokens; 0 in a log that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What the tokens of a request are made of."""

    system: int = 0
    tools: int = 0
    messages: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind, as in `{"result": 81000, "text": 9000}`."""
