"""Engine work in a thread: its deadline, its early result, and who decides about a late plan."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ebbtide.fronts.proxy.deadline import DeadlineExceeded, EngineGate, EngineThreads, PendingResult, PlanAbandoned
from ebbtide.runtime.report import Event
from fronts.proxy.proxy_runner import WAIT


async def until_free(gate):
    async with asyncio.timeout(WAIT), gate.lock:
        pass


async def test_work_in_time_gives_its_result_and_frees_the_session():
    threads, gate = EngineThreads(WAIT), EngineGate()

    assert await threads.run_with_deadline(gate, WAIT, lambda: 7) == 7
    assert not gate.lock.locked()
    assert not gate.is_stuck
    assert await threads.drain()


async def test_an_error_of_the_work_is_raised_and_frees_the_session():
    threads, gate = EngineThreads(WAIT), EngineGate()

    with pytest.raises(ZeroDivisionError):
        await threads.run_with_deadline(gate, WAIT, lambda: 1 // 0)
    assert not gate.lock.locked()


async def test_late_work_keeps_the_session_until_its_thread_ends():
    threads, gate, may_end = EngineThreads(WAIT), EngineGate(), threading.Event()

    with pytest.raises(DeadlineExceeded) as late:
        await threads.run_with_deadline(gate, 0.01, lambda: may_end.wait(WAIT))
    assert gate.is_stuck
    assert gate.lock.locked()
    with pytest.raises(DeadlineExceeded, match="earlier call"):
        await threads.run_with_deadline(gate, WAIT, lambda: 1)

    may_end.set()
    assert await late.value.pending.result() is True
    await until_free(gate)
    assert not gate.is_stuck
    assert await threads.run_with_deadline(gate, WAIT, lambda: 1) == 1


async def test_a_caller_may_wait_for_stuck_work():
    threads, gate, may_end = EngineThreads(WAIT), EngineGate(), threading.Event()
    with pytest.raises(DeadlineExceeded):
        await threads.run_with_deadline(gate, 0.01, lambda: may_end.wait(WAIT))

    asyncio.get_running_loop().call_later(0.01, may_end.set)

    assert await threads.run_with_deadline(gate, WAIT, lambda: 1, waits_for_stuck=True) == 1


async def test_a_published_result_is_used_while_the_work_continues():
    threads, gate, may_end = EngineThreads(WAIT), EngineGate(), threading.Event()
    pending = PendingResult()

    def work():
        pending.publish("early")
        may_end.wait(WAIT)
        return "late"

    assert await threads.run_with_deadline(gate, WAIT, work, pending) == "early"
    assert gate.lock.locked()
    assert threads.is_busy
    may_end.set()
    await until_free(gate)
    assert await pending.result() == "early"


async def test_a_question_to_a_model_moves_the_deadline():
    threads, gate, may_end = EngineThreads(WAIT), EngineGate(), threading.Event()

    def work():
        gate.on_event(Event(kind="fold_asks", session="", fields={}))
        may_end.wait(WAIT)
        return "summary"

    asyncio.get_running_loop().call_later(0.1, may_end.set)

    assert await threads.run_with_deadline(gate, 0.05, work) == "summary"


async def test_an_abandoned_plan_is_not_recorded():
    pending = PendingResult()

    assert pending.abandon()
    with pytest.raises(PlanAbandoned):
        pending.claim_for_log()


async def test_a_recorded_plan_must_be_sent():
    pending = PendingResult()
    pending.claim_for_log()

    assert not pending.abandon()
