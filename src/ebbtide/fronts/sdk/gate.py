"""Every model call passes here, out and back. What breaks here costs the caller nothing: the call goes out as it came.

Out: the lane's context makes the body fit. Back: the answer is recorded. Between: a provider that refuses for size is
asked once more with a folded body, else its own error stands. `WontFit` is no refusal of ours: the provider has the
last word, unless the policy itself says that it wants to refuse.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass

from ebbtide.core.errors import BadRequest, Blocked, Busy, WontFit
from ebbtide.fronts.sdk.lanes import Body, Call, Lane, Lanes
from ebbtide.policy import Policy
from ebbtide.runtime import Context, Ready, Report
from ebbtide.wire import WIRES
from ebbtide.wire.overflow import find_overflow_in_error
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

_log = logging.getLogger("ebbtide")

OnReport = Callable[[str, Report], None]
Ask = Callable[[Call, Body], object]
"""Asks a model through the client that was never wrapped. Gets the newest call of the conversation and a request."""

_ROUTES = {wire.requests.route: wire.name for wire in WIRES.values()}
"""What the SDKs call their endpoints. All else, as batches and token counts, is left alone."""

_WAIT = 0.005
"""Seconds between two looks at a lane that another task is preparing: shorter than any call to a model."""

_ASKING: ContextVar[bool] = ContextVar("ebbtide_asking", default=False)
"""A summarizer that uses the wrapped client would wait for itself."""


def wire_of(method: str, url: str, body: object) -> str:
    """The wire of a call to a model that carries its conversation; empty for any other call."""
    if method.lower() != "post" or not isinstance(body, Mapping):
        return ""
    thread = body.get("thread")
    # Anthropic's threads: the server has the conversation, and here are only results whose calls are not at hand.
    if isinstance(thread, Mapping) and thread.get("type") == "continue":
        return ""
    return _ROUTES.get(url.partition("?")[0], "")


@dataclass(slots=True)
class Passage:
    """One call on its way. Its methods never raise for our sake."""

    gate: Gate
    lane: Lane
    call: Call
    ready: Ready

    @property
    def body(self) -> Body:
        """What goes out; the very object that came where nothing was changed."""
        body: Body = self.ready.body
        return body

    @property
    def report(self) -> Report:
        return self.ready.report

    def overflowed(self, error: BaseException) -> bool:
        """Whether a smaller body is ready, the provider having refused this one for its size."""
        if find_overflow_in_error(error) is None:
            return False
        try:
            with self.lane.lock:
                if self.lane.newest is not self.ready:
                    # Another call of this conversation came in between, and a context speaks of its last one.
                    self.lane.context.prepare(self.call.body)
                self._fold(self.lane.context.overflowed(error))
        except Exception as failed:  # noqa: BLE001 - the provider's own error says it better
            return self.gate.gave_up(failed)
        return True

    async def aoverflowed(self, error: BaseException) -> bool:
        if find_overflow_in_error(error) is None:
            return False
        try:
            async with _held(self.lane):
                if self.lane.newest is not self.ready:
                    await self.lane.context.aprepare(self.call.body)
                self._fold(await self.lane.context.aoverflowed(error))
        except Exception as failed:  # noqa: BLE001
            return self.gate.gave_up(failed)
        return True

    def _fold(self, ready: Ready) -> None:
        self.ready = self.lane.newest = ready

    def accepted(self) -> None:
        """The provider took the request: whoever wants to know is told what went out."""
        self.lane.forget(self.call)
        tell = self.gate.on_report
        if tell is None:
            return
        try:
            tell(self.lane.session, self.report)
        except Exception:  # noqa: BLE001 - a listener's fault is not the caller's
            _log.exception("on_report failed")

    def answered(self, response: object) -> None:
        """A whole response, as a mapping or an SDK object."""
        try:
            with self.lane.lock:
                self.ready.record(response)
        except Exception as failed:  # noqa: BLE001 - the answer is in the next request anyway
            self.gate.broke(failed)

    def heard(self, raw: bytes) -> None:
        """The bytes of a response, once there are no more: JSON, or a stream of events."""
        told: object = None
        with suppress(ValueError, RecursionError):
            told = json.loads(raw)
        told = told if isinstance(told, Mapping) else _added(self.call.wire, raw)
        if told:
            self.answered(told)


def _added(wire: str, raw: bytes) -> Mapping[str, object] | None:
    """What a stream of events adds up to; None where it broke off."""
    reader, assembler = EventReader(), WIRES[wire].replies.stream_assembler()
    for event in (*reader.feed(raw), *reader.close()):
        assembler.add(parse_event(event))
    return assembler.response() if assembler.is_complete else None


class Gate:
    """The way through one client and all its copies."""

    def __init__(
        self,
        make: Callable[..., Context],
        *,
        policy: Policy,
        session: str = "",
        ask: Ask | None = None,
        on_report: OnReport | None = None,
    ) -> None:
        self._make, self._ask, self.on_report = make, ask, on_report
        # Where the policy wants to refuse, the caller wants to hear it.
        # So does whoever could send it again in a moment: as it came it is known to be too large.
        self._refuses: tuple[type[Exception], ...] = (WontFit,) if policy.overflow == "error" else (Blocked, Busy)
        self._lanes = Lanes(self._open, session)
        self._told = False

    def enter(self, call: Call) -> Passage | None:
        """The call made to fit; None where it goes out as it came."""
        if _ASKING.get():
            return None
        try:
            lane = self._lanes.of(call)
            with lane.lock:
                lane.call = call  # a question about a fold goes the way of the call that folds
                ready = lane.known(call) or lane.context.prepare(call.body)
                return self._passage(lane, call, ready)
        except self._refuses:
            raise
        except Exception as failed:  # noqa: BLE001 - fail open
            self.broke(failed)
            return None

    async def aenter(self, call: Call) -> Passage | None:
        if _ASKING.get():
            return None
        try:
            lane = self._lanes.of(call)
            async with _held(lane):
                lane.call = call
                ready = lane.known(call) or await lane.context.aprepare(call.body)
                return self._passage(lane, call, ready)
        except self._refuses:
            raise
        except Exception as failed:  # noqa: BLE001
            self.broke(failed)
            return None

    def broke(self, failed: Exception) -> None:
        """Said once, without a word of the conversation; what is not our fault is not said at all."""
        if isinstance(failed, BadRequest | WontFit):
            _log.debug("sent as it came: %s", failed)
        elif not self._told:
            self._told = True
            _log.error("a fault of ours; calls go on: %s", type(failed).__name__, exc_info=failed)

    def gave_up(self, failed: Exception) -> bool:
        self.broke(failed)
        return False

    def _open(self, session: str, call: Call, is_named: bool) -> Lane:
        lane = Lane(session=session, is_named=is_named, call=call)
        options: dict[str, object] = {"session": session, "wire": call.wire, "model": str(call.body.get("model") or "")}
        options["scope"] = "session" if is_named else "conversation"
        if self._ask is not None:
            options["summarizer"] = _asking(self._ask, lane)
        lane.context = self._make(**options)
        return lane

    def _passage(self, lane: Lane, call: Call, ready: Ready) -> Passage:
        if lane.known(call) is None:
            lane.expect(call, ready)
        return Passage(gate=self, lane=lane, call=call, ready=ready)


class _held:
    """A lane's lock for a task: never waited for in a way that stops the event loop."""

    def __init__(self, lane: Lane) -> None:
        self._lock = lane.lock

    async def __aenter__(self) -> None:
        while not self._lock.acquire(blocking=False):
            await asyncio.sleep(_WAIT)

    async def __aexit__(self, *failed: object) -> None:
        self._lock.release()


def _asking(ask: Ask, lane: Lane) -> Callable[[Body], object]:
    """The summarizer of one lane. A coroutine function where it was one: that is how it is known to be awaited."""

    def asked(request: Body) -> object:
        token = _ASKING.set(True)
        try:
            answer = ask(lane.call, request)
        finally:
            _ASKING.reset(token)
        return _apart(answer) if inspect.isawaitable(answer) else answer

    async def awaited(request: Body) -> object:
        answer = asked(request)
        return await answer if inspect.isawaitable(answer) else answer

    return awaited if inspect.iscoroutinefunction(ask) else asked


async def _apart(answer: Awaitable[object]) -> object:
    token = _ASKING.set(True)
    try:
        return await answer
    finally:
        _ASKING.reset(token)
