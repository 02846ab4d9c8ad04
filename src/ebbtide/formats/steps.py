"""What a recording consists of: steps that change a client's history, and the model calls that follow from them.

A reader lists the steps in messages of the wire; `recording.py` builds the requests from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ebbtide.core.types import Usage

Message: TypeAlias = dict[str, Any]
"""A message of the wire, or an item of the Responses API. It is never changed: calls share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in the file that could not be used unchanged. Reading goes on."""

    row: int
    """Line, or index of the message in a document, counted from 1."""
    reason: str
    raw: str = ""
    """The row as it is in the file; empty if only its place is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMessages:
    """The client added messages to its history."""

    messages: tuple[Message, ...]
    for_compaction: bool = False
    """Part of a compaction: the request for a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The client sent its history to a model and got this reply."""

    row: int
    messages: tuple[Message, ...]
    """The reply as the client sends it back; empty if it does not."""
    response: Message | None
    """The reply as it was received."""
    model: str = ""
    usage: Usage | None = None
    at: float | None = None
    for_compaction: bool = False
    """Part of a compaction: the call that wrote the summary."""
    body: dict[str, Any] | None = None
    """The request itself, if it was recorded completely. It is used unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearResults:
    """The client replaced the results of these calls by a placeholder."""

    call_ids: frozenset[str]
    placeholder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """The client compacted: its history is now these messages and the steps that it kept."""

    messages: tuple[Message, ...] = ()
    kept_steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """The user went back: the history is now what these steps give."""

    kept_steps: tuple[int, ...]


Step: TypeAlias = AddMessages | ModelReply | ClearResults | Compact | Rewind


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One conversation of a file."""

    steps: tuple[Step, ...]
    name: str = ""
    """Empty for the only conversation of a file, and for the main one beside sidechains."""
    request_fields: Mapping[str, Any] = field(default_factory=dict)
    """What each of its requests has besides model and messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One recorded model call."""

    request: dict[str, Any]
    """The body that the client sent. Consecutive calls share message objects, but not the list."""
    usage: Usage | None
    """None if nothing was billed, or if the recorded numbers are impossible."""
    at: float | None
    """Seconds since the epoch, when the beginning of the reply was recorded."""
    model: str
    response: dict[str, Any] | None
    """The reply in the wire's format: an Anthropic message, a chat message, or `{"output": [...]}`."""
    row: int
    """Where the reply is: line, or index of the message, counted from 1."""
    compacted: bool
    """The client compacted between the previous call and this one."""
    episode: str
