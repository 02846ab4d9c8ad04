"""What a turn costs, against a computation that is the same everywhere. Ratios only: a slow or busy machine slows both.

The bounds are a multiple of what is measured, so only a turn that does something new with all of its history, or much
more with what is new, goes beyond them. `benchmarks/per_turn.py` has the figures.
"""

import gc
import json
import time

from runtime.sessions import body, call, context, loop, result

TEXT = json.dumps({"rows": [{"id": n, "name": f"row {n}", "ok": n % 2 == 0, "of": [n, n + 0.5]} for n in range(2000)]})
TRIES = 60


def quickest(acts):
    """The least CPU time of each, tried in turns: what the work takes when nothing disturbs it."""
    least = [float("inf")] * len(acts)
    gc.collect()
    gc.disable()
    try:
        for _ in range(TRIES):
            for n, act in enumerate(acts):
                start = time.thread_time()
                act()
                least[n] = min(least[n], time.thread_time() - start)
    finally:
        gc.enable()
    return least


def reference():
    json.loads(TEXT)


def idle(messages):
    """One more exchange, each time it is called, on a conversation of so many messages."""
    talk = loop(messages // 2, lines=30)
    ctx = context(window=10**9)
    ctx.prepare(body(talk))
    step = messages

    def turn():
        nonlocal step
        step += 1
        talk.extend((call(step), result(step, lines=30)))
        ready = ctx.prepare(body(talk))
        assert ready.body["messages"] is talk

    return turn


def test_an_idle_turn_costs_less_than_parsing_a_document_of_130_kilobytes():
    """A quarter of it, as measured."""
    turn, parsed = quickest([idle(1000), reference])
    assert turn < parsed, f"{turn / parsed:.2f} times"


def test_an_idle_turn_hardly_grows_with_history():
    """By a fifth, as measured, while history grows thirtyfold."""
    short, long = quickest([idle(100), idle(3000)])
    assert long < 3 * short, f"{long / short:.2f} times"
