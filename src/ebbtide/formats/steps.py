"""A recording is a list of steps; the requests follow from replaying them.

A reader says what happened, in the wire's own messages, and nothing about what was sent: the replay alone decides that,
so "as the client had it" and "had it never compacted" are two readings of one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ebbtide.core.types import Usage

Message: TypeAlias = dict[str, Any]
"""A message of the wire, or an item of the Responses API. Never changed once read: calls share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in the file that could not be taken as it stands. The load goes on; nothing is lost."""

    row: int
    """Line, or index of the message in a document, counted from 1."""
    reason: str
    raw: str = ""
    """The row as it stands in the file; empty when the row itself is sound and only its place is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMessages:
    """The client added messages to its history."""

    messages: tuple[Message, ...]
    for_compaction: bool = False
    """The question that a compaction's summary answers: without compaction nobody would have asked it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A model call: what went before it was sent, and this came back."""

    row: int
    messages: tuple[Message, ...]
    """The answer as the client sends it back; empty when none of it goes back."""
    response: Message | None
    """The answer as it came."""
    model: str = ""
    usage: Usage | None = None
    at: float | None = None
    for_compaction: bool = False
    """The call that wrote a compaction's summary: without compaction there would have been none."""
    body: dict[str, Any] | None = None
    """The request itself, where it was recorded whole; it goes out as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearResults:
    """The client put a placeholder in the place of these calls' results."""

    call_ids: frozenset[str]
    placeholder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """The client compacted: its history is now the summary and the steps it kept."""

    messages: tuple[Message, ...] = ()
    kept_steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """The user went back: the history is what these steps make, and goes on from there."""

    kept_steps: tuple[int, ...]


Step: TypeAlias = AddMessages | ModelReply | ClearResults | Compact | Rewind


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One conversation of a file."""

    steps: tuple[Step, ...]
    name: str = ""
    """Empty in a file that holds one conversation, and for the main one of a file with sidechains."""
    request_fields: Mapping[str, Any] = field(default_factory=dict)
    """What every request of it carries besides model and messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One recorded model call."""

    request: dict[str, Any]
    """The body as the client had it. Consecutive calls share the message objects; the list is the call's own."""
    usage: Usage | None
    """None where nothing was billed, or what was recorded cannot be."""
    at: float | None
    """Seconds since the epoch, when the first of the answer was written down."""
    model: str
    response: dict[str, Any] | None
    """The answer in the wire's own shape: an Anthropic message, a chat message, or `{"output": [...]}`."""
    row: int
    """Where the answer stands: line, or index of the message, counted from 1."""
    compacted: bool
    """The client compacted between the previous call and this one."""
    episode: str
