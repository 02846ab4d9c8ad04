"""The engine behind a guard: each call has a deadline, and its failure never stops a request.

If planning fails or is late, recorded edits are applied again and nothing new is planned. The client's own bytes are
sent only if no edit was ever recorded: after hours of edits they would not fit. A request that may be over the window
without a plan waits for one, and is refused if none comes. Each kind of failure is counted, and logged once a session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ebbtide.core.errors import Busy, WontFit
from ebbtide.core.types import COMPACTION_PASSES
from ebbtide.fronts.proxy.answers import ObservedResponse, ProviderRefusal
from ebbtide.fronts.proxy.deadline import DeadlineExceeded, EngineThreads, PendingResult
from ebbtide.fronts.proxy.fallback import RecordedEdits, SizeCheck, is_final
from ebbtide.fronts.proxy.identity import IncomingRequest
from ebbtide.fronts.proxy.meters import Meters, Tally
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.sessions import (
    OutgoingRequest,
    ProxySession,
    RecallMode,
    Sessions,
    UpstreamRoute,
)
from ebbtide.runtime.context import Context
from ebbtide.runtime.outgoing import ReappliedRequest
from ebbtide.runtime.ready import Ready
from ebbtide.runtime.recall_rounds import RecallCalls, insert_answers
from ebbtide.wire import WIRES
from ebbtide.wire.body import ParsedBody
from ebbtide.wire.overflow import find_overflow
from ebbtide.wire.recall_tools import with_recall_tools

T = TypeVar("T")
_IDLE_GROWTH = 32 << 10
"""Bytes by which a request may grow and still be an idle turn; more must be read and counted first."""
_MIN_BYTES_PER_TOKEN = 3
_PATIENCE = 5
"""Times the acting limit, if the request has failed already or its client has half an answer: better late than lost."""
_PAUSE = 0.005
"""Seconds that a thread pauses before it records a turn: while it works, Python hardly lets the event loop send."""


class GuardedEngine:
    def __init__(self, options: Options, sessions: Sessions, meters: Meters) -> None:
        self.options, self._sessions, self._meters = options, sessions, meters
        self.threads = EngineThreads(options.summary_limit)
        self._size_check = SizeCheck(options)
        self._recorded_edits = RecordedEdits(options, self.threads, self._report_failure)
        self._patience = _PATIENCE * options.acting_limit

    async def prepare(
        self, incoming: IncomingRequest, original: bytes, parsed: ParsedBody, route: UpstreamRoute
    ) -> OutgoingRequest:
        """Decide what is sent for this request. The engine's failures are never raised."""
        session = await self._find_session(incoming, parsed)
        if session.engine.summarizer_for is not None and not incoming.side_request:
            session.route = route
        outgoing = OutgoingRequest(incoming=incoming, session=session, original=original, body=original)
        outgoing = await self._add_recall_tools(outgoing, parsed)
        if incoming.side_request:
            return self._with_recorded_edits(outgoing, await self._recorded_edits.apply(outgoing))
        started = time.perf_counter()
        try:
            ready = await self._plan(outgoing, parsed, self._time_limit(session, len(outgoing.original)))
        except Exception as error:  # noqa: BLE001 - a failure here must not stop the request
            return await self._fall_back(outgoing, parsed, error)
        finally:
            self._meters.observe("ebb_engine_seconds", time.perf_counter() - started)
        return self._with_plan(outgoing, ready)

    async def retry_after_overflow(self, outgoing: OutgoingRequest, refusal: ProviderRefusal) -> OutgoingRequest | None:
        """Compact a request that the provider refused for its size, or leave out a lifetime of ours that it refused.

        None if its error must be passed on.
        """
        is_overflow = find_overflow(refusal.status_code, refusal.body) is not None
        if self.options.shadow or not (is_overflow or (outgoing.ready and outgoing.ready.can_retry(refusal))):
            return None
        if is_overflow:
            self._meters.count("ebb_overflows_total")
        session = outgoing.session

        def compact() -> Ready:
            context = self._open_context(outgoing)
            if outgoing.ready is None or session.last_ready is not outgoing.ready:
                context.prepare(outgoing.original)  # a context can only compact what it prepared last
            return context.overflowed(refusal)

        ready = await self._attempt(session, "", self.threads.run_with_deadline(session.gate, self._patience, compact))
        if ready is None:
            return None  # the client gets the provider's error
        smaller = self._with_plan(replace(outgoing, fallback=""), ready)
        if smaller.body == outgoing.body:
            return None
        return self._count_overflow(smaller) if is_overflow else smaller

    async def retry_after_empty_stream(self, outgoing: OutgoingRequest) -> OutgoingRequest | None:
        """Make a smaller request for this once. None if an empty stream says nothing about its size.

        llama.cpp's Python server answers a request over its window with status 200, the headers of a stream and
        nothing else, but other servers may do so for other reasons. So only a request that may be over a known window,
        or whose window is unknown, is tried again. Nothing of it is recorded.
        """
        if self.options.shadow:
            return None
        work = self.threads.run_unlocked(self._patience, lambda: self._size_check.shrink(outgoing))
        body = await self._attempt(outgoing.session, "empty stream", work)
        if body is None or body == outgoing.body:
            return None  # the client gets the empty answer
        self._meters.count("ebb_overflows_total")
        # No `ready`: the usage is that of another request than the one in the log.
        return self._count_overflow(replace(outgoing, body=body, is_edited=True, ready=None, fallback=""))

    async def answer_recall(self, outgoing: OutgoingRequest, calls: RecallCalls, body: bytes) -> OutgoingRequest | None:
        """Answer and record the model's recall calls. Return the next request; None if the client must go first.

        `body` is the next request as the client would send it if it had the answer so far.
        """
        session = outgoing.session
        if self.options.shadow:
            return None

        def answer() -> Ready | None:
            context = self._open_context(outgoing)
            if session.last_ready is not outgoing.ready or outgoing.ready is None:
                context.prepare(outgoing.original)
            insert_answers(context, calls)
            session.edits = context.standing
            session.last_ready = None if calls.client_goes_first else context.prepare(body)
            return session.last_ready

        try:
            ready = await self.threads.run_with_deadline(session.gate, self._patience, answer)
        except Exception as error:  # noqa: BLE001 - the client has a normal answer without it
            self._report_failure(session, "recall", error)
            return None
        self._meters.count("ebb_recalls_total")
        if ready is None:
            return None
        return self._with_plan(replace(outgoing, original=body, fallback="", started=time.time()), ready)

    def record_answer(self, outgoing: OutgoingRequest, read: Callable[[], ObservedResponse]) -> None:
        """Record the answer in the background: the client has it already. `read` may be called twice."""
        self.threads.keep(asyncio.get_running_loop().create_task(self._record(outgoing, read)))

    # --- planning ------------------------------------------------------------------------------------------------

    async def _find_session(self, incoming: IncomingRequest, parsed: ParsedBody) -> ProxySession:
        """Find or start the request's session. A renewed token starts a new one if the old one cannot be looked up."""
        if self._sessions.may_have_renewed_token(incoming):
            find = partial(self._sessions.find_renewed_session, incoming, parsed.tree)
            try:
                await self.threads.run_unlocked(self.options.acting_limit, find)
            except Exception as error:  # noqa: BLE001
                self._report_failure(self._sessions.session_for(incoming), "renewed token", error)
        return self._sessions.session_for(incoming)

    async def _add_recall_tools(self, outgoing: OutgoingRequest, parsed: ParsedBody) -> OutgoingRequest:
        """Add the recall tools if this session uses them."""
        session, incoming = outgoing.session, outgoing.incoming
        # A summary must not end in a call. Of the other side requests, those about a running session are counted.
        is_apart = incoming.side_request == "compaction" or (incoming.side_request and session.context is None)
        if self.options.recall != "tool" or self.options.shadow or is_apart:
            return outgoing
        wire = WIRES[incoming.wire]
        tree = with_recall_tools(wire, parsed.tree)
        if tree is None:
            return outgoing
        if session.recall_mode is None:
            work = self.threads.run_unlocked(self.options.acting_limit, session.uses_recall_tools)
            uses_tools = await self._attempt(session, "recall", work)
        else:
            uses_tools = session.uses_recall_tools()
        if not uses_tools:
            return outgoing
        body = parsed.emit(tree)
        return replace(outgoing, original=body, body=body, is_edited=True, has_recall_tools=True)

    async def _plan(
        self, outgoing: OutgoingRequest, parsed: ParsedBody, seconds: float, *, waits_for_stuck: bool = False
    ) -> Ready:
        """Plan the request. Without new edits it is sent before its turn is recorded, unless turns must be durable."""
        session, loop = outgoing.session, asyncio.get_running_loop()
        pending: PendingResult[Ready] = PendingResult()

        def on_ready(ready: Ready) -> None:
            if ready.report.edits:
                pending.claim_for_log()
            elif not self._sessions.is_durable:
                pending.publish(ready)
                time.sleep(_PAUSE)

        def plan() -> Ready:
            context = self._open_context(outgoing)
            try:
                ready = context.prepare_soon(outgoing.original if outgoing.has_recall_tools else parsed, on_ready)
            except Exception as error:
                if pending.published is None:
                    raise
                loop.call_soon_threadsafe(self._report_failure, session, "record", error)
            session.last_ready = pending.published or ready
            return session.last_ready

        return await self.threads.run_with_deadline(
            session.gate, seconds, plan, pending, waits_for_stuck=waits_for_stuck
        )

    def _open_context(self, outgoing: OutgoingRequest) -> Context:
        incoming = outgoing.incoming
        mode: RecallMode = "off"
        if outgoing.has_recall_tools:
            mode = "tool"
        elif self.options.recall == "path" and incoming.can_read_files:
            mode = "path"
        return outgoing.session.open_context(incoming.model, mode)

    def _time_limit(self, session: ProxySession, size: int) -> float:
        growth, session.request_bytes = size - session.request_bytes, size
        is_idle = 0 <= growth <= _IDLE_GROWTH and growth // _MIN_BYTES_PER_TOKEN < session.spare_tokens
        return self.options.idle_limit if session.context is not None and is_idle else self.options.acting_limit

    def _with_plan(self, outgoing: OutgoingRequest, ready: Ready) -> OutgoingRequest:
        session, report = outgoing.session, ready.report
        if session.context is not None:
            session.edits = session.context.standing
        session.spare_tokens = report.auto_at - report.tokens_after
        compactions = sum(edit.by in COMPACTION_PASSES for edit in report.edits)
        for tally in self._tallies(session):
            tally.count_request(
                report.tokens_untouched, report.tokens_after, time.time(),
                edits=len(report.edits), folds=compactions, edited=bool(report.held),
            )  # fmt: skip
        body = outgoing.original if self.options.shadow else ready.body
        is_edited = outgoing.has_recall_tools or body is not outgoing.original
        return replace(outgoing, body=body, is_edited=is_edited, ready=ready)

    # --- when planning failed ------------------------------------------------------------------------------------

    async def _fall_back(self, outgoing: OutgoingRequest, parsed: ParsedBody, error: Exception) -> OutgoingRequest:
        """Send recorded edits alone if they surely fit; else wait for a plan; else refuse."""
        session, replayed = outgoing.session, await self._recorded_edits.apply(outgoing)
        body = outgoing.original if replayed is None else replayed.body
        if not self.options.shadow:
            if not is_final(error) and not await self._size_check.surely_fits(outgoing, body):
                self._meters.count("ebb_waits_total", reason=_reason(error))
                try:
                    return self._with_plan(outgoing, await self._wait_for_plan(outgoing, parsed, error))
                except Exception as later_error:  # noqa: BLE001
                    error = later_error
            refusal = await self._size_check.refusal_for(outgoing, body, error)
            if refusal is not None:
                self._report_failure(session, "refused", error)
                return replace(outgoing, refusal=refusal)
        if isinstance(error, DeadlineExceeded) and error.pending is not None and not error.pending.abandon():
            return self._with_plan(outgoing, await error.pending.result())
        self._report_failure(session, "", error)
        for tally in self._tallies(session):
            tally.fallbacks += 1
        return self._with_recorded_edits(replace(outgoing, fallback=_reason(error)), replayed)

    async def _wait_for_plan(self, outgoing: OutgoingRequest, parsed: ParsedBody, error: Exception) -> Ready:
        """Wait for the plan that is late, or plan again once the session is free."""
        if not isinstance(error, DeadlineExceeded | TimeoutError | Busy):
            raise error
        pending = error.pending if isinstance(error, DeadlineExceeded) else None
        async with asyncio.timeout(self.options.waiting_limit):
            while True:
                try:
                    if pending is not None:
                        ready: Ready = await pending.result()
                        return ready
                    return await self._plan(outgoing, parsed, self.options.waiting_limit, waits_for_stuck=True)
                except Busy:
                    pending = None

    def _with_recorded_edits(self, outgoing: OutgoingRequest, replayed: ReappliedRequest | None) -> OutgoingRequest:
        # A token count is no request to a model.
        tallies = () if outgoing.incoming.side_request == "count" else self._tallies(outgoing.session)
        if replayed is None:
            for tally in tallies:
                tally.requests += 1
            return outgoing
        for tally in tallies:
            tally.count_request(
                replayed.tokens_untouched, replayed.tokens, time.time(), edits=0, folds=0, edited=replayed.edited
            )
        is_edited = outgoing.has_recall_tools or replayed.body is not outgoing.original
        return replace(outgoing, body=replayed.body, is_edited=is_edited)

    # --- records and counts --------------------------------------------------------------------------------------

    async def _record(self, outgoing: OutgoingRequest, read: Callable[[], ObservedResponse]) -> None:
        session, ready = outgoing.session, None if self.options.shadow else outgoing.ready

        def read_and_record() -> ObservedResponse:
            # In one thread: a change of threads takes as long as either.
            observed = read()
            if ready is not None and observed.is_complete:
                ready.record(observed.response)
            elif ready is not None and observed.usage is not None:
                ready.record_usage(observed.response)
            return observed

        try:
            if ready is None:
                observed = await self.threads.run_unlocked(None, read)
            else:
                observed = await self.threads.run_with_deadline(session.gate, self._patience, read_and_record)
        except Exception as error:  # noqa: BLE001 - the client has its answer; the next request carries it too
            self._report_failure(session, "record", error)
            observed = await self.threads.run_unlocked(None, read)
        self._meters.export(outgoing.record(200, observed.usage))
        if observed.usage is not None:
            for tally in self._tallies(session):
                tally.count_usage(observed.usage)

    async def _attempt(self, session: ProxySession, attempt: str, work: Awaitable[T]) -> T | None:
        """Return None if the work fails. The failure is reported, and the request goes on without it."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - a failure here must not stop the request
            self._report_failure(session, attempt, error)
            return None

    def _tallies(self, session: ProxySession) -> tuple[Tally, Tally]:
        return session.tally, self._meters.total

    def _count_overflow(self, outgoing: OutgoingRequest) -> OutgoingRequest:
        for tally in self._tallies(outgoing.session):
            tally.overflows += 1
        return outgoing

    def _report_failure(self, session: ProxySession, attempt: str, error: Exception) -> None:
        """Count a failure, and log it if it is the session's first of its kind. `attempt` is empty for planning."""
        reason = f"{attempt}: {_reason(error)}" if attempt else _reason(error)
        self._meters.count("ebb_fallbacks_total", reason=reason)
        if reason not in session.logged_failures:
            session.logged_failures.add(reason)
            self._meters.log.failure(session.identity.session, reason, error)


def _reason(error: Exception) -> str:
    if isinstance(error, DeadlineExceeded | TimeoutError):
        return "late"
    if isinstance(error, Busy):
        return "busy"
    return "wont_fit" if isinstance(error, WontFit) else type(error).__name__
