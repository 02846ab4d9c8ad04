"""The guarded call into the engine: whatever breaks or takes too long, the last good projection goes out, if it fits.

That is: recorded edits are replayed and nothing new is planned. The original bytes go out only where no edit was ever
recorded, since after hours of edits they would not fit. A client never notices; it is counted, and told once.
A call that ran out of time is left to end by itself: what it recorded holds for the next request.

What may be over the window without a plan waits for one, and is refused where none comes: being late is no reason to
send what the provider would refuse.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from ebbtide.core.errors import Busy, WontFit
from ebbtide.core.types import COMPACTION_PASSES, Edit, Usage
from ebbtide.fronts.proxy.deadline import Claim, Late, result_of, set_once
from ebbtide.fronts.proxy.identity import Asked
from ebbtide.fronts.proxy.meters import Meters, Turn
from ebbtide.fronts.proxy.options import Options
from ebbtide.fronts.proxy.refusals import Refused
from ebbtide.fronts.proxy.sessions import Line, Sessions, Slot, Way
from ebbtide.fronts.proxy.size_check import Fitting, Refusal, is_complete
from ebbtide.fronts.proxy.tally import Tally
from ebbtide.fronts.proxy.usage_tap import Heard
from ebbtide.recall.inject import RecallExchange
from ebbtide.runtime.context import Context, Ready
from ebbtide.runtime.reapply import ReappliedRequest, reapply_edits
from ebbtide.runtime.report import Event, Report
from ebbtide.wire import WIRES
from ebbtide.wire.body import ParsedBody
from ebbtide.wire.protocol import RecallBatch, RecallCall
from ebbtide.wire.recall_tools import with_recall_tools

T = TypeVar("T")
_CALM = 32 << 10
"""Bytes by which a request may have grown and still be an idle turn; more has to be read and counted first."""
_BYTES_A_TOKEN = 3
"""Of what is new, at least."""
_REFUSED = 5
"""Times the acting limit, once a request was refused: without us it has failed already."""
_POLITE = 0.005
"""Seconds that a thread pauses before it writes a turn down: while it goes on, Python hardly lets the loop send."""
_GOODBYE = 5.0
"""Seconds for what is still being written down at the end."""
_WORKERS = 16
"""Threads. The engine is bound by one core; the others wait for disks and locks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request as it goes out."""

    asked: Asked
    slot: Slot
    plain: bytes
    """As it came, in the clear."""
    body: bytes
    edited: bool = False
    """`body` is not what came."""
    armed: bool = False
    """The recall tools are in it: its answer may call them."""
    ready: Ready | None = None
    """None where nothing was planned: its usage is nobody's anchor."""
    fallback: str = ""
    """Why nothing was planned that should have been."""
    refusal: Refusal | None = None
    """It does not go out at all."""
    began: float = field(default_factory=time.time)

    def turn(self, status: int, usage: Usage | None = None) -> Turn:
        tally, seconds = self.slot.tally, time.time() - self.began
        return Turn(
            self.asked.wire, self.asked.model, self.slot.identity.session, status, self.began, seconds,
            tally.last_before, tally.last_after, self.edited, usage,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalls:
    """Calls of our tools in an answer."""

    ours: list[RecallBatch]
    said: str
    """See `wire.weaving.Answered`."""
    body: bytes
    """The request as it goes on, were the client to send what it has by now."""
    wait: bool
    """The client has calls of its own to answer first."""
    refused: str = ""
    """What they are told, if not what they ask for."""


class Engine:
    def __init__(self, options: Options, sessions: Sessions, meters: Meters) -> None:
        self._options, self._sessions, self._meters = options, sessions, meters
        self._fitting = Fitting(options)
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="ebb-engine")
        self._background: set[asyncio.Future[Any]] = set()

    async def prepare(self, asked: Asked, plain: bytes, read: ParsedBody, line: Line) -> Outgoing:
        """What goes out for this request. Raises nothing of ours."""
        slot = await self._slot(asked, read)
        if slot.advice is not None and not asked.only_replayed:
            slot.line = line
        outgoing = await self._armed(Outgoing(asked=asked, slot=slot, plain=plain, body=plain), read)
        if asked.only_replayed:
            return await self._replayed(outgoing)
        begun = time.perf_counter()
        try:
            ready = await self._planned(outgoing, read, self._limit(slot, len(outgoing.plain)))
        except Exception as failed:  # noqa: BLE001 - the rule of this module
            return await self._without_a_plan(outgoing, read, failed)
        finally:
            self._meters.observe("ebb_engine_seconds", time.perf_counter() - begun)
        return self._sent(outgoing, ready)

    async def refused(self, outgoing: Outgoing, error: Refused) -> Outgoing | None:
        """The request once more, folded; None where the provider's own answer has to do."""
        if self._options.shadow:
            return None
        self._meters.count("ebb_overflows_total")
        slot, before = outgoing.slot, outgoing.ready

        def fold() -> Ready:
            context = slot.opened(*self._terms(outgoing))
            if before is not None and slot.newest is before:
                return context.overflowed(error)
            context.prepare(outgoing.plain)
            return context.overflowed(error)

        try:
            ready = await self._within(slot, _REFUSED * self._options.acting_limit, fold)
        except Exception as failed:  # noqa: BLE001 - the provider's error is still there to be told
            self._complain(slot, _reason(failed), failed)
            return None
        again = self._sent(replace(outgoing, fallback=""), ready)
        if again.body == outgoing.body:
            return None
        self._overflowed(slot)
        return again

    async def after_empty_stream(self, outgoing: Outgoing) -> Outgoing | None:
        """The request once more, made smaller for this once; None where an empty stream does not mean its size.

        llama.cpp's Python server answers 200, the headers of a stream and nothing where a request is over its window,
        but so may others for other reasons. It is about size only where the request may be over the window that we
        know, or where we know none. Nothing is recorded of it: the session goes on as if it had been answered.
        """
        if self._options.shadow:
            return None
        slot, asked, work = outgoing.slot, outgoing.asked, self._fitting.smaller
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work, slot, asked, outgoing.body)
            body = await asyncio.wait_for(asyncio.shield(future), _REFUSED * self._options.acting_limit)
        except Exception as failed:  # noqa: BLE001 - the empty answer is still there to be told
            self._complain(slot, f"empty stream: {_reason(failed)}", failed)
            return None
        if body is None or body == outgoing.body:
            return None
        self._meters.count("ebb_overflows_total")
        self._overflowed(slot)
        # Its usage is of another request than the one in the log, and must not be that one's.
        return replace(outgoing, body=body, edited=True, ready=None, fallback="")

    def _overflowed(self, slot: Slot) -> None:
        for tally in (slot.tally, self._meters.total):
            tally.overflows += 1

    async def recalled(self, outgoing: Outgoing, calls: Recalls) -> Outgoing | None:
        """Its model called our tools: answered, and written down. None where the client's own results come first.

        The request goes on as if the client had sent what it was shown.
        """
        slot = outgoing.slot
        if self._options.shadow:
            return None

        def answer() -> Ready | None:
            context = slot.opened(*self._terms(outgoing))
            if slot.newest is not outgoing.ready or outgoing.ready is None:
                context.prepare(outgoing.plain)
            for batch in calls.ours:
                context.insert_recalled(
                    [_told(context, one, calls.refused) for one in batch.calls], batch.visible, calls.said
                )
            slot.edits = context.standing
            slot.newest = None if calls.wait else context.prepare(calls.body)
            return slot.newest

        try:
            # Whoever waits has half an answer: better late than cut off.
            ready = await self._within(slot, _REFUSED * self._options.acting_limit, answer)
        except Exception as failed:  # noqa: BLE001 - the client has a normal answer without it
            self._complain(slot, f"recall: {_reason(failed)}", failed)
            return None
        self._meters.count("ebb_recalls_total")
        if ready is None:
            return None
        again = replace(outgoing, plain=calls.body, fallback="", began=time.time())
        return self._sent(again, ready)

    def heard(self, outgoing: Outgoing, heard: Callable[[], Heard]) -> None:
        """What came back, into the log, after the client has it."""
        self._later(self._record(outgoing, heard))

    async def drained(self) -> bool:
        """What is under way ends, or is given up; False where a thread of ours did not come back."""
        if self._background:
            await asyncio.wait(self._background, timeout=_GOODBYE)
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not any(slot.stuck for slot in self._sessions) and not self._background

    # --- inside --------------------------------------------------------------------------------------------------

    async def _slot(self, asked: Asked, read: ParsedBody) -> Slot:
        """The conversation of a request; a new one where it could not be found out whether it is an earlier one."""
        if self._sessions.may_continue(asked):
            loop = asyncio.get_running_loop()
            found = loop.run_in_executor(self._pool, self._sessions.continue_earlier, asked, read.tree)
            try:
                await asyncio.wait_for(asyncio.shield(found), self._options.acting_limit)
            except Exception as failed:  # noqa: BLE001 - the rule of this module
                self._complain(self._sessions.slot(asked), f"renewed token: {_reason(failed)}", failed)
        return self._sessions.slot(asked)

    async def _armed(self, outgoing: Outgoing, read: ParsedBody) -> Outgoing:
        """With the recall tools, if they are this session's way; as it came where it is not, or we cannot tell."""
        slot, asked = outgoing.slot, outgoing.asked
        # A summary must not end in a call, and only a conversation under way is counted.
        apart = asked.only_replayed == "compaction" or (asked.only_replayed and slot.context is None)
        if self._options.recall != "tool" or self._options.shadow or apart:
            return outgoing
        tree = with_recall_tools(WIRES[asked.wire], read.tree)
        if tree is None:
            return outgoing
        try:
            if slot.way is None:
                loop = asyncio.get_running_loop()
                looked = loop.run_in_executor(self._pool, slot.takes_tools)
                await asyncio.wait_for(asyncio.shield(looked), self._options.acting_limit)
        except Exception as failed:  # noqa: BLE001 - the rule of this module
            self._complain(slot, f"recall: {_reason(failed)}", failed)
            return outgoing
        if not slot.takes_tools():
            return outgoing
        plain = read.emit(tree)
        return replace(outgoing, plain=plain, body=plain, edited=True, armed=True)

    def _terms(self, outgoing: Outgoing) -> tuple[str, Way]:
        asked = outgoing.asked
        way: Way = (
            "tool" if outgoing.armed else "path" if self._options.recall == "path" and asked.reads_files else "off"
        )
        return asked.model, way

    async def _planned(self, outgoing: Outgoing, read: ParsedBody, limit: float, *, is_patient: bool = False) -> Ready:
        """The request as soon as it is known; where it has no new edit its turn is written down behind its back.

        Not so where somebody asked for turns that survive a power cut.
        """
        slot, loop = outgoing.slot, asyncio.get_running_loop()
        known, told, claim = loop.create_future(), list[Ready](), Claim()

        def goes(ready: Ready) -> None:
            if ready.report.edits:
                claim.record()
            if ready.report.edits or self._sessions.durable:
                return
            told.append(ready)
            loop.call_soon_threadsafe(set_once, known, ready)
            time.sleep(_POLITE)

        def plan() -> Ready:
            context = slot.opened(*self._terms(outgoing))
            try:
                told.append(context.prepare_soon(outgoing.plain if outgoing.armed else read, goes))
            except Exception as failed:
                if not told:
                    raise
                loop.call_soon_threadsafe(self._complain, slot, f"record: {_reason(failed)}", failed)
            slot.newest = told[0]
            return told[0]

        return await self._within(slot, limit, plan, known, claim, is_patient=is_patient)

    def _limit(self, slot: Slot, size: int) -> float:
        grown = size - slot.bytes
        calm = slot.context is not None and 0 <= grown <= _CALM and grown // _BYTES_A_TOKEN < slot.room
        slot.bytes = size
        return self._options.idle_limit if calm else self._options.acting_limit

    async def _within(
        self, slot: Slot, limit: float, work: Callable[[], T], known: asyncio.Future[T] | None = None,
        claim: Claim | None = None, *, is_patient: bool = False,
    ) -> T:  # fmt: skip
        """Run `work` in a thread under the session's lock. On timeout raise; the lock is released when the thread ends.

        `known` is a future that `work` may set before it ends. A patient call also waits for an earlier one.
        """
        if slot.stuck and not is_patient:
            raise Late("an earlier call has not come back")
        loop = asyncio.get_running_loop()
        until = [loop.time() + limit]

        def hear(event: Event) -> None:
            if event.kind == "fold_asks":
                until[0] = loop.time() + self._options.summary_limit + limit

        async with asyncio.timeout_at(until[0]):
            await slot.lock.acquire()
        slot.hear = hear
        result: asyncio.Future[T] = loop.create_future() if known is None else known
        thread = loop.run_in_executor(self._pool, work)
        thread.add_done_callback(lambda done: _ended(slot, done, result))
        self._keep(thread)
        while not result.done():
            remaining = until[0] - loop.time()
            if remaining <= 0:
                slot.stuck = True
                raise Late("out of time", partial(result_of, result), claim)
            await asyncio.wait((result,), timeout=remaining)
        return result.result()

    def _sent(self, outgoing: Outgoing, ready: Ready) -> Outgoing:
        slot, report = outgoing.slot, ready.report
        if slot.context is not None:
            slot.edits = slot.context.standing
        slot.room = report.auto_at - report.tokens_after
        self._told(slot, report)
        body = outgoing.plain if self._options.shadow else ready.body
        return replace(outgoing, body=body, edited=outgoing.armed or body is not outgoing.plain, ready=ready)

    def _told(self, slot: Slot, report: Report) -> None:
        folds = sum(edit.by in COMPACTION_PASSES for edit in report.edits)
        before, after, edited = report.tokens_untouched, report.tokens_after, bool(report.held)
        for tally in (slot.tally, self._meters.total):
            tally.sent(before, after, time.time(), edits=len(report.edits), folds=folds, edited=edited)

    async def _without_a_plan(self, outgoing: Outgoing, read: ParsedBody, failed: Exception) -> Outgoing:
        """Recorded edits alone, where that is sure to fit; else a plan after all, or a refusal."""
        slot, asked, replayed = outgoing.slot, outgoing.asked, await self._replay_of(outgoing)
        body = outgoing.plain if replayed is None else replayed.body
        if not self._options.shadow and not is_complete(failed) and not await self._fitting.is_sure(slot, asked, body):
            self._meters.count("ebb_waits_total", reason=_reason(failed))
            try:
                return self._sent(outgoing, await self._after_waiting(outgoing, read, failed))
            except Exception as later:  # noqa: BLE001 - the rule of this module
                failed = later
        refusal = None if self._options.shadow else await self._fitting.refusal(slot, asked, body, failed)
        if refusal is not None:
            self._complain(slot, f"refused: {_reason(failed)}", failed)
            return replace(outgoing, refusal=refusal)
        if isinstance(failed, Late) and failed.under_way is not None and not failed.may_send_without():
            return self._sent(outgoing, await failed.under_way())
        outgoing = replace(outgoing, fallback=_reason(failed))
        self._complain(slot, outgoing.fallback, failed)
        for tally in (slot.tally, self._meters.total):
            tally.fallbacks += 1
        return self._as_replayed(outgoing, replayed)

    async def _after_waiting(self, outgoing: Outgoing, read: ParsedBody, failed: Exception) -> Ready:
        """The plan that did not come in time, or was not begun because others were at work on the session."""
        if not isinstance(failed, Late | TimeoutError | Busy):
            raise failed
        async with asyncio.timeout(self._options.waiting_limit):
            while True:
                try:
                    if isinstance(failed, Late) and failed.under_way is not None:
                        ready: Ready = await failed.under_way()
                        return ready
                    return await self._planned(outgoing, read, self._options.waiting_limit, is_patient=True)
                except Busy as still:
                    failed = still

    async def _replayed(self, outgoing: Outgoing) -> Outgoing:
        return self._as_replayed(outgoing, await self._replay_of(outgoing))

    async def _replay_of(self, outgoing: Outgoing) -> ReappliedRequest | None:
        """What recorded edits alone make of it; None where it goes out as it came."""
        if self._options.shadow:
            return None
        slot, asked = outgoing.slot, outgoing.asked
        try:
            edits = await self._edits_for(outgoing)
            if not edits:
                return None
            # Nothing is read for it, so it is waited for: what goes out without its edits may be refused.
            work = asyncio.to_thread(reapply_edits, outgoing.plain, edits, policy=slot.policy, wire=asked.wire)
            return await asyncio.wait_for(work, self._options.waiting_limit)
        except Exception as worse:  # noqa: BLE001 - the bytes that came are the last thing we have
            self._complain(outgoing.slot, f"replay: {_reason(worse)}", worse)
            return None

    async def _edits_for(self, outgoing: Outgoing) -> tuple[Edit, ...]:
        """As the log has them, since another proxy may have recorded some; as known here where that takes too long."""
        slot, known = outgoing.slot, outgoing.slot.edits
        if known is not None and outgoing.asked.only_replayed:
            return known  # a count need not be exact
        look = asyncio.get_running_loop().run_in_executor(self._pool, slot.recorded)
        try:
            return await asyncio.wait_for(asyncio.shield(look), self._options.acting_limit)
        except TimeoutError:
            if known is None:
                raise
            return known

    def _as_replayed(self, outgoing: Outgoing, made: ReappliedRequest | None) -> Outgoing:
        if made is None:
            return self._as_it_came(outgoing)
        for tally in self._tallies(outgoing):
            tally.sent(made.tokens_untouched, made.tokens, time.time(), edits=0, folds=0, edited=made.edited)
        return replace(outgoing, body=made.body, edited=outgoing.armed or made.body is not outgoing.plain)

    def _as_it_came(self, outgoing: Outgoing) -> Outgoing:
        for tally in self._tallies(outgoing):
            tally.requests += 1
        return outgoing

    def _tallies(self, outgoing: Outgoing) -> tuple[Tally, ...]:
        """Where it counts; a count is no request to a model."""
        return () if outgoing.asked.only_replayed == "count" else (outgoing.slot.tally, self._meters.total)

    def _complain(self, slot: Slot, reason: str, failed: Exception) -> None:
        self._meters.count("ebb_fallbacks_total", reason=reason)
        if reason not in slot.complained:
            slot.complained.add(reason)
            self._meters.log.failed(slot.identity.session, reason, failed)

    async def _record(self, outgoing: Outgoing, heard: Callable[[], Heard]) -> None:
        slot, ready = outgoing.slot, outgoing.ready
        told: list[Heard] = []

        def write() -> None:
            # Read and written in one go: a change of threads takes as long as either.
            told.append(heard())
            _write(ready, told[0], WIRES[outgoing.asked.wire].replies.usage(told[0].response))

        try:
            if ready is not None and not self._options.shadow:
                await self._within(slot, _REFUSED * self._options.acting_limit, write)
        except Exception as failed:  # noqa: BLE001 - the client has its answer; the next request carries it too
            self._complain(slot, f"record: {_reason(failed)}", failed)
        if not told:
            told.append(await asyncio.get_running_loop().run_in_executor(self._pool, heard))
        usage = WIRES[outgoing.asked.wire].replies.usage(told[0].response) if told[0].response else None
        self._meters.turned(outgoing.turn(200, usage))
        if usage is not None:
            self._billed(slot, usage)

    def _billed(self, slot: Slot, usage: Usage) -> None:
        for tally in (slot.tally, self._meters.total):
            tally.billed(usage)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        self._keep(asyncio.get_running_loop().create_task(work))

    def _keep(self, future: asyncio.Future[Any]) -> None:
        """Let the end of the proxy wait for it."""
        self._background.add(future)
        future.add_done_callback(self._background.discard)


def _told(context: Context, call: RecallCall, refused: str) -> RecallExchange:
    result = refused or context.recall_answer(call.name, call.arguments)
    return RecallExchange(call.id, call.name, call.arguments, result, call.raw)


def _write(ready: Ready | None, told: Heard, usage: Usage | None) -> None:
    if ready is not None and told.whole:
        ready.record(told.response)
    elif ready is not None and usage is not None:
        ready.record_usage(told.response)


def _ended(slot: Slot, thread: asyncio.Future[T], result: asyncio.Future[T]) -> None:
    slot.stuck = False
    slot.hear = None
    slot.lock.release()
    if thread.cancelled():
        result.cancel()
    elif (error := thread.exception()) is None:
        set_once(result, thread.result())
    elif not result.done():
        result.set_exception(error)
        result.exception()  # a request that stopped waiting does not fetch it


def _reason(failed: Exception) -> str:
    if isinstance(failed, Late | TimeoutError):
        return "late"
    if isinstance(failed, Busy):
        return "busy"
    return "wont_fit" if isinstance(failed, WontFit) else type(failed).__name__
