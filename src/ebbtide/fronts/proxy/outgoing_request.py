"""A request on its way to the upstream, and the recall calls in its answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from ebbtide.core.types import Usage
from ebbtide.fronts.proxy.identity import IncomingRequest
from ebbtide.fronts.proxy.meters import RequestRecord
from ebbtide.fronts.proxy.sessions import ProxySession
from ebbtide.runtime.context import Ready
from ebbtide.wire.protocol import RecallBatch


class Refusal(NamedTuple):
    """The answer to a request that is not sent."""

    status: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    incoming: IncomingRequest
    session: ProxySession
    original: bytes
    """The client's body, decompressed, with the recall tools if they were added."""
    body: bytes
    """What is sent."""
    is_edited: bool = False
    """Whether `body` differs from what the client sent."""
    has_recall_tools: bool = False
    """Whether the recall tools were added, so that the answer may call them."""
    ready: Ready | None = None
    """The plan; None if nothing was planned. Then the answer's usage says nothing about the last plan."""
    fallback: str = ""
    """Why planning failed, if it did."""
    refusal: Refusal | None = None
    """Set if the request must not be sent."""
    started: float = field(default_factory=time.time)

    def record(self, status: int, usage: Usage | None = None) -> RequestRecord:
        name, tally, seconds = self.session.identity.session, self.session.tally, time.time() - self.started
        return RequestRecord(
            self.incoming.wire, self.incoming.model, name, status, self.started, seconds,
            tally.last_before, tally.last_after, self.is_edited, usage,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCalls:
    """Calls of the recall tools in one answer."""

    batches: list[RecallBatch]
    assistant_text: str
    """What the model wrote besides the calls."""
    body: bytes
    """The next request, as the client would send it if it had the answer so far."""
    client_goes_first: bool
    """Whether the client has calls of its own to answer first."""
    refusal: str = ""
    """The answer to every call, if they are not to be answered."""
