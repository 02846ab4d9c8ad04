"""Engine work in a thread: its deadline, its early result, and who decides about a late plan."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ebbtide.fronts.proxy.deadline import DeadlineExceeded, EngineThreads, PendingResult, PlanAbandoned
from ebbtide.runtime.report import Event
from fronts.proxy.proxy_runner import WAIT, new_session


async def until_free(session):
    async with asyncio.timeout(WAIT), session.lock:
        pass


async def test_work_in_time_gives_its_result_and_frees_the_session():
    threads, session = EngineThreads(WAIT), new_session()

    assert await threads.run_with_deadline(session, WAIT, lambda: 7) == 7
    assert not session.lock.locked()
    assert not session.is_stuck
    assert await threads.drain()


async def test_an_error_of_the_work_is_raised_and_frees_the_session():
    threads, session = EngineThreads(WAIT), new_session()

    with pytest.raises(ZeroDivisionError):
        await threads.run_with_deadline(session, WAIT, lambda: 1 // 0)
    assert not session.lock.locked()


async def test_late_work_keeps_the_session_until_its_thread_ends():
    threads, session, may_end = EngineThreads(WAIT), new_session(), threading.Event()

    with pytest.raises(DeadlineExceeded) as late:
        await threads.run_with_deadline(session, 0.01, lambda: may_end.wait(WAIT))
    assert session.is_stuck
    assert session.lock.locked()
    with pytest.raises(DeadlineExceeded, match="earlier call"):
        await threads.run_with_deadline(session, WAIT, lambda: 1)

    may_end.set()
    assert await late.value.pending.result() is True
    await until_free(session)
    assert not session.is_stuck
    assert await threads.run_with_deadline(session, WAIT, lambda: 1) == 1


async def test_a_caller_may_wait_for_stuck_work():
    threads, session, may_end = EngineThreads(WAIT), new_session(), threading.Event()
    with pytest.raises(DeadlineExceeded):
        await threads.run_with_deadline(session, 0.01, lambda: may_end.wait(WAIT))

    asyncio.get_running_loop().call_later(0.01, may_end.set)

    assert await threads.run_with_deadline(session, WAIT, lambda: 1, waits_for_stuck=True) == 1


async def test_a_published_result_is_used_while_the_work_continues():
    threads, session, may_end = EngineThreads(WAIT), new_session(), threading.Event()
    pending = PendingResult()

    def work():
        pending.publish("early")
        may_end.wait(WAIT)
        return "late"

    assert await threads.run_with_deadline(session, WAIT, work, pending) == "early"
    assert session.lock.locked()
    assert threads.is_busy
    may_end.set()
    await until_free(session)
    assert await pending.result() == "early"


async def test_a_question_to_a_model_moves_the_deadline():
    threads, session, may_end = EngineThreads(WAIT), new_session(), threading.Event()

    def work():
        session.on_event(Event(kind="fold_asks", session="", fields={}))
        may_end.wait(WAIT)
        return "summary"

    asyncio.get_running_loop().call_later(0.1, may_end.set)

    assert await threads.run_with_deadline(session, 0.05, work) == "summary"


async def test_an_abandoned_plan_is_not_recorded():
    pending = PendingResult()

    assert pending.abandon()
    with pytest.raises(PlanAbandoned):
        pending.claim_for_log()


async def test_a_recorded_plan_must_be_sent():
    pending = PendingResult()
    pending.claim_for_log()

    assert not pending.abandon()
