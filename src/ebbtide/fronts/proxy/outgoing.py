"""A request on its way to the upstream, and the recall calls in its answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ebbtide.core.types import Usage
from ebbtide.fronts.proxy.identity import IncomingRequest
from ebbtide.fronts.proxy.meters import RequestRecord
from ebbtide.fronts.proxy.sessions import ProxySession
from ebbtide.fronts.proxy.size_check import Refusal
from ebbtide.runtime.context import Ready
from ebbtide.wire.protocol import RecallBatch


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
        tally = self.session.tally
        return RequestRecord(
            wire=self.incoming.wire,
            model=self.incoming.model,
            session=self.session.identity.session,
            status=status,
            started=self.started,
            seconds=time.time() - self.started,
            tokens_untouched=tally.last_before,
            tokens_sent=tally.last_after,
            edited=self.is_edited,
            usage=usage,
        )


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
