"""Every model call passes through here, on its way out and back. A failure here never fails the call.

Before the call its session's context makes the body fit; after it the answer is recorded. If the provider refuses the
body for its size, a compacted one is sent once; if that fails too, the provider's error stands. A body that will not
fit is sent all the same, since the provider decides, unless the policy wants an error.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ebbtide.core.errors import BadRequest, Blocked, Busy, WontFit
from ebbtide.fronts.sdk.client_sessions import ClientSessions
from ebbtide.fronts.sdk.sessions import Body, ModelCall, SdkSession, SdkSessions, SessionName, identify_owner
from ebbtide.policy import Policy
from ebbtide.runtime import Context, Ready, Report
from ebbtide.runtime.recall_rounds import RecallCalls, insert_answers
from ebbtide.wire import WIRES
from ebbtide.wire.recall_tools import with_recall_tools
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

_log = logging.getLogger("ebbtide")

OnReport = Callable[[str, Report], None]
WriteBack = Callable[[list[object]], list[object]]
"""Returns messages of the model as the SDK's callers send them back."""
AskModel = Callable[[ModelCall, Body], object]
"""Asks a model through the client that was not wrapped. Takes the session's newest call and a request."""

_ROUTES = {route: wire.name for wire in WIRES.values() for route in wire.requests.routes}
"""The SDKs' endpoints. Others, such as batches and token counts, are left alone."""

_LOCK_POLL = 0.005
"""Seconds between two tries for a session that another task is preparing: shorter than any call to a model."""

_IS_ASKING: ContextVar[bool] = ContextVar("ebbtide_asking", default=False)
"""Set while a summarizer runs. If it uses the wrapped client, it would otherwise wait for itself."""


def read_call(
    client: object, method: str, url: str, body: object, headers: Mapping[str, object], *, is_retry: bool = False
) -> ModelCall | None:
    """Return a call that has its conversation in it; None for any other, which is left alone."""
    if method.lower() != "post" or not isinstance(body, Mapping):
        return None
    thread, wire = body.get("thread"), _ROUTES.get(url.partition("?")[0])
    # In Anthropic's threads the server has the conversation: here are only results without their calls.
    if wire is None or (isinstance(thread, Mapping) and thread.get("type") == "continue"):
        return None
    betas = {
        name: value for name, value in headers.items() if name.lower().endswith("-beta") and isinstance(value, str)
    }
    owner = identify_owner(client, headers, body)
    return ModelCall(wire=wire, url=url, body=body, headers=betas, owner=owner, is_retry=is_retry)


@dataclass(slots=True)
class GatedCall:
    """One model call that was prepared. Its methods raise nothing of ours."""

    gate: CallGate
    session: SdkSession
    call: ModelCall
    request: Body
    """The caller's body, with the recall tools if they were added."""
    continued: Body
    """The same with what the caller has of the answer so far: what was prepared."""
    ready: Ready

    @property
    def has_recall_tools(self) -> bool:
        """Whether the recall tools were added, so that the answer may call them."""
        return self.request is not self.call.body

    @property
    def body(self) -> Body:
        """What is sent; the caller's own object if nothing was changed."""
        body: Body = self.ready.body
        return body

    @property
    def report(self) -> Report:
        return self.ready.report

    def shrink_after(self, error: BaseException) -> bool:
        """Make another body if the provider refused this one for its size or our breakpoints. False if it cannot."""
        if not self.ready.can_retry(error):
            return False
        context = self.session.context
        with self.gate.fail_open(), self.session.lock:
            if self.session.last_ready is not self.ready:
                # Another call of this session came between, and a context can only compact what it prepared last.
                context.prepare(self.continued)
            self.ready = self.session.last_ready = context.overflowed(error)
            return True
        return False

    async def ashrink_after(self, error: BaseException) -> bool:
        if not self.ready.can_retry(error):
            return False
        context = self.session.context
        with self.gate.fail_open():
            async with _locked(self.session):
                if self.session.last_ready is not self.ready:
                    await context.aprepare(self.continued)
                self.ready = self.session.last_ready = await context.aoverflowed(error)
            return True
        return False

    def accept(self) -> None:
        """The provider accepted the request: report it."""
        self.session.drop_pending(self.call)
        if self.gate.on_report is None:
            return
        try:
            self.gate.on_report(self.session.name, self.report)
        except Exception:  # noqa: BLE001 - the caller's call must not fail for its listener
            _log.exception("on_report failed")

    def record(self, response: object) -> None:
        """Record a complete response, a mapping or an SDK object."""
        with self.gate.fail_open(), self.session.lock:
            self.ready.record(response)

    def record_usage(self, response: object) -> None:
        """Record only the usage of a response that the caller gets otherwise than it is."""
        with self.gate.fail_open(), self.session.lock:
            self.ready.record_usage(response)

    def record_bytes(self, raw: bytes) -> None:
        """Record a response from all of its bytes: JSON, or a stream of events."""
        response = read_response(self.call.wire, raw)
        if response:
            self.record(response)

    def next_round(self, calls: RecallCalls) -> GatedCall | None:
        """Answer the model's recall calls. Return the request that asks it to go on; None if the caller is next."""
        with self.gate.fail_open(), self.session.lock:
            if self.session.last_ready is not self.ready:
                self.session.context.prepare(self.continued)
            body = self._insert_answers(calls)
            if body is not None:
                self.session.last_ready = self.session.context.prepare(body)
                return replace(self, continued=body, ready=self.session.last_ready)
        return None

    async def anext_round(self, calls: RecallCalls) -> GatedCall | None:
        with self.gate.fail_open():
            async with _locked(self.session):
                if self.session.last_ready is not self.ready:
                    await self.session.context.aprepare(self.continued)
                body = await asyncio.to_thread(self._insert_answers, calls)
                if body is not None:
                    self.session.last_ready = await self.session.context.aprepare(body)
                    return replace(self, continued=body, ready=self.session.last_ready)
        return None

    def _insert_answers(self, calls: RecallCalls) -> Body | None:
        """Answer the calls. Return the next request as the caller would send it if it had the answer so far."""
        insert_answers(self.session.context, calls)
        self.session.last_ready = None
        if calls.client_goes_first:
            return None
        if not calls.visible:
            return self.request
        wire = WIRES[self.call.wire]
        content = self.request[wire.list_key]
        messages = content if isinstance(content, list | tuple) else [wire.requests.user_message(content)]
        return {**self.request, wire.list_key: [*messages, *self.gate.write_back(calls.visible)]}


def read_response(wire: str, raw: bytes) -> Mapping[str, object] | None:
    """Read a response from all of its bytes: JSON, or a stream of events. None if it broke off."""
    with suppress(ValueError, RecursionError):
        response = json.loads(raw)
        return response if isinstance(response, Mapping) else None
    reader, assembler = EventReader(), WIRES[wire].replies.stream_assembler()
    for event in (*reader.feed(raw), *reader.close()):
        assembler.add(parse_event(event))
    return assembler.response() if assembler.is_complete else None


class CallGate:
    """Prepares and records the calls of one client and of all its copies."""

    def __init__(
        self,
        new_context: Callable[..., Context],
        *,
        settings: Mapping[str, object],
        policy: Policy,
        session: SessionName = "",
        parent: SessionName = "",
        adds_recall_tools: bool = False,
        write_back: WriteBack = list,
        ask: AskModel | None = None,
        on_report: OnReport | None = None,
    ) -> None:
        self._new_context, self._ask, self.on_report = new_context, ask, on_report
        self._adds_recall_tools, self.write_back = adds_recall_tools, write_back
        self.settings = settings
        """As passed to `wrap`."""
        # Raised to the caller. A body that meets a busy session is known to be too large, and may fit on a later try.
        self._raised: tuple[type[Exception], ...] = (WontFit,) if policy.overflow == "error" else (Blocked, Busy)
        self.sessions = SdkSessions(self._open_session, session, parent)
        self._has_logged = False

    def sessions_of(self, client: object) -> ClientSessions:
        """Return the sessions that this client or copy may look at."""
        reference, credential = weakref.ref(client), identify_owner(client, {}, {}).credential

        def read_credential() -> str:
            client = reference()
            return credential if client is None else identify_owner(client, {}, {}).credential

        return ClientSessions(self.sessions, read_credential)

    def prepare(self, call: ModelCall) -> GatedCall | None:
        """Make the call fit; None if it must be sent unchanged."""
        if _IS_ASKING.get():
            return None
        names = self.sessions.current_names()  # their errors are the caller's
        with self.fail_open(*self._raised):
            session = self.sessions.session_for(call, *names)
            with session.lock:
                session.call = call  # a question about a compaction uses this call's endpoint
                request = self._add_recall_tools(session, call)
                return self._gated_call(
                    session, call, request, session.ready_for(call) or session.context.prepare(request)
                )
        return None

    async def aprepare(self, call: ModelCall) -> GatedCall | None:
        if _IS_ASKING.get():
            return None
        names = self.sessions.current_names()
        with self.fail_open(*self._raised):
            session = self.sessions.session_for(call, *names)
            async with _locked(session):
                session.call = call
                request = await asyncio.to_thread(self._add_recall_tools, session, call)
                ready = session.ready_for(call) or await session.context.aprepare(request)
                return self._gated_call(session, call, request, ready)
        return None

    def _add_recall_tools(self, session: SdkSession, call: ModelCall) -> Body:
        """Return the body with the recall tools if this session uses them, since its first request or never."""
        if not self._adds_recall_tools:
            return call.body
        if session.has_recall_tools is None:
            session.context.edits()  # reads the log
            session.has_recall_tools = bool(session.context.recall_tools(call.wire))
        body = with_recall_tools(WIRES[call.wire], call.body) if session.has_recall_tools else None
        return call.body if body is None else body

    @contextmanager
    def fail_open(self, *raised: type[Exception]) -> Iterator[None]:
        """Swallow every error but these. An internal error is logged, once and without text of the conversation."""
        try:
            yield
        except raised:
            raise
        except (BadRequest, WontFit) as error:
            _log.debug("sent unchanged: %s", error)
        except Exception as error:  # noqa: BLE001 - the call must not fail
            if not self._has_logged:
                self._has_logged = True
                _log.error("internal error; calls go on: %s", type(error).__name__, exc_info=error)

    def _open_session(self, name: str, call: ModelCall, is_named: bool) -> SdkSession:
        session = SdkSession(name=name, is_named=is_named, call=call)
        session.context = self._new_context(
            session=name,
            wire=call.wire,
            model=str(call.body.get("model") or ""),
            scope="session" if is_named else "conversation",
            ask=self._ask and _summarizer(self._ask, session),
        )
        return session

    def _gated_call(self, session: SdkSession, call: ModelCall, request: Body, ready: Ready) -> GatedCall:
        if session.ready_for(call) is None:
            session.add_pending(call, ready)
        return GatedCall(gate=self, session=session, call=call, request=request, continued=request, ready=ready)


@asynccontextmanager
async def _locked(session: SdkSession) -> AsyncIterator[None]:
    """Hold the session's lock in a task, without blocking the event loop while waiting for it."""
    while not session.lock.acquire(blocking=False):
        await asyncio.sleep(_LOCK_POLL)
    try:
        yield
    finally:
        session.lock.release()


def _summarizer(ask: AskModel, session: SdkSession) -> Callable[[Body], object]:
    """Build a session's summarizer. It is a coroutine function if `ask` is one, so that the engine awaits it."""

    def ask_now(request: Body) -> object:
        with _asking():
            answer = ask(session.call, request)
        return _await_answer(answer) if inspect.isawaitable(answer) else answer

    async def ask_async(request: Body) -> object:
        answer = ask_now(request)
        return await answer if inspect.isawaitable(answer) else answer

    return ask_async if inspect.iscoroutinefunction(ask) else ask_now


@contextmanager
def _asking() -> Iterator[None]:
    token = _IS_ASKING.set(True)
    try:
        yield
    finally:
        _IS_ASKING.reset(token)


async def _await_answer(answer: Awaitable[object]) -> object:
    with _asking():
        return await answer
