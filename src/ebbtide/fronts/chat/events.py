"""What the loop tells while it works. Whoever listens decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.core.types import Usage
from ebbtide.fronts.chat.providers import Call
from ebbtide.fronts.chat.tools import Outcome
from ebbtide.runtime.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A request is about to go out."""

    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Words of the model, as they come."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The model's reply is whole."""

    text: str
    usage: Usage
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    call: Call
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Words that the person sent meanwhile are now before the model."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The person interrupted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The turn ended early. The conversation stands, and may go on."""

    error: Exception


Event = Sending | Said | Answered | Calling | Returned | Heard | Stopped | Failed
