"""Bills the requests of a recorded session twice, as a provider with a prompt cache would: as sent, and unchanged.

All commands that replay a recording take their bills from here or from `score.py`, which uses the same provider, the
same token counts and the same breakpoints. So `explain`, `report`, `demo`, `replay` and the inspector agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ebbtide.core.types import FIVE_MINUTES, Usage
from ebbtide.formats import RecordedCall
from ebbtide.replay.message_index import MessageIndex
from ebbtide.replay.provider import Provider
from ebbtide.replay.request_tracker import RequestTracker, request_messages
from ebbtide.replay.session import Body, measure_messages, thinks
from ebbtide.state.session_state import ebb_record
from ebbtide.store import Record
from ebbtide.wire.protocol import Wire


@dataclass(slots=True)
class _Account:
    """One way to send the session, with the cache that it would find."""

    tracker: RequestTracker
    provider: Provider

    def bill(self, wire: Wire, body: Mapping[str, object], now: float, *, is_thinking: bool) -> Usage:
        self.tracker.update(request_messages(wire, body))
        return self.provider.send(self.tracker.prefix(body, thinks=is_thinking), now)


class SessionBiller:
    """Bills the calls of one recorded conversation, in order."""

    def __init__(self, wire: Wire, calls: Sequence[RecordedCall], format: str) -> None:
        self._wire, self._format = wire, format
        self._model = next((call.model for call in calls if call.model), wire.typical_model)
        self._index = measure_messages(wire, calls, MessageIndex.without_names)
        self._sent, self._untouched = (
            _Account(
                RequestTracker(self._index),
                Provider(model=self._model, ttl=FIVE_MINUTES, is_explicit=wire.cache.is_explicit),
            )
            for _ in range(2)
        )

    def with_breakpoints(self, call: RecordedCall) -> Body:
        """Return the call's request with the cache breakpoints that its client sets, which no recording has."""
        self._model = call.model or self._model
        return {**call.request, **self._wire.cache.client_fields(self._model, FIVE_MINUTES)}

    def record(
        self, turn: int, call: RecordedCall, untouched: Mapping[str, object], sent: Mapping[str, object], now: float
    ) -> Record:
        """Bill a request as the client made it and as it was sent, and return the log record that says so."""
        output, is_thinking = call.usage.output if call.usage else 0, thinks(call, self._format)
        bills = {
            name: account.bill(self._wire, self._marked(body), now, is_thinking=is_thinking)
            for name, account, body in (("sent", self._sent, sent), ("untouched", self._untouched, untouched))
        }
        return ebb_record(
            "simulated",
            turn=turn,
            at=now,
            **{name: {**asdict(usage), "output": output} for name, usage in bills.items()},
        )

    def _marked(self, body: Mapping[str, object]) -> Body:
        """Add the breakpoint behind the system prompt, which is not in the recording."""
        marks = self._wire.cache.client_fields(self._model, FIVE_MINUTES) if self._index.overhead else {}
        if not marks or body.get("system"):
            return dict(body)
        return {**body, **self._wire.turns.system_fields([{"type": "text", "text": "-", **marks}])}
