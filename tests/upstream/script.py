"""What the model says next: one entry for each request that is neither refused nor a count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upstream.finding import Body


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Think:
    text: str


@dataclass(frozen=True, slots=True)
class Redacted:
    """Thinking that comes as opaque data only."""


@dataclass(frozen=True, slots=True)
class Use:
    name: str
    input: Body | str
    """A string makes it a custom tool's call, on the wires that have them."""


Part = Say | Think | Redacted | Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The provider's own trouble, not the request's."""

    status: int = 529
    message: str = "Overloaded"
    code: str | None = None
    in_stream: bool = False
    """After HTTP 200 and the stream's opening, where the request asked for a stream."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream that ends early, without its terminal event."""

    parts: Sequence[Part]
    events: int


Turn = str | Sequence[Part] | Failure | Cut
Script = Sequence[Turn] | Callable[[Body], Turn]

AFTER_THE_END: Turn = "Done."
"""What a script that ran out says; a loop under test ends here."""


def parts_of(turn: str | Sequence[Part]) -> Sequence[Part]:
    return [Say(turn)] if isinstance(turn, str) else turn
