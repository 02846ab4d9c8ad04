"""What a provider's refusal teaches about its window: only what is plausible, shown, and taken back by a person."""

from __future__ import annotations

import pytest

from ebbtide.audit.history import build_history
from ebbtide.runtime.operations import MIN_WINDOW
from ebbtide.store import MemoryStore
from runtime.sessions import body, context, loop

TALK = loop(60, lines=60)
WINDOW = 200_000


def walked(store, **options):
    ctx = context(store=store, window=WINDOW, policy="default", **options)
    ctx.prepare(body(TALK[:41]))
    return ctx


def refusal(limit, used=41_000):
    return ValueError(f"prompt is too long: {used} tokens > {limit} maximum")


@pytest.mark.parametrize("limit", [0, 1, 9, 100, 1_023])
def test_a_window_that_no_model_has_is_not_learned(limit):
    """The request is made smaller and sent once more; the next one has the window as it was, in any process."""
    store = MemoryStore()
    ctx = walked(store)
    sent = ctx.prepare(body(TALK[:41])).report.tokens_after

    again = ctx.overflowed(refusal(limit))

    assert MIN_WINDOW < again.report.tokens_after <= sent * 9 // 10
    assert ctx.window == WINDOW
    assert context(store=store, window=WINDOW, policy="default").prepare(body(TALK[:43])).report.window == WINDOW


def test_a_window_smaller_than_what_was_billed_is_used_for_one_request_only():
    store = MemoryStore()
    ctx = walked(store)
    ctx.record({"content": [], "usage": {"input_tokens": 30_000, "output_tokens": 9}})
    ctx.prepare(body(TALK[:43]))

    again = ctx.overflowed(refusal(12_000))

    assert again.report.tokens_after <= 12_000, "the provider will not take more now"
    assert ctx.window == WINDOW
    assert ctx.prepare(body(TALK[:45])).report.window == WINDOW


def test_a_provider_that_means_a_smaller_window_is_believed_after_some_requests():
    """A local server was started again with less. Each refusal is answered, and soon none comes any more."""
    ctx = walked(MemoryStore())
    ctx.record({"content": [], "usage": {"input_tokens": 30_000, "output_tokens": 9}})
    for n in range(43, 63, 2):
        ready = ctx.prepare(body(TALK[:n]))
        if ready.report.tokens_after > 12_000 or n == 61:
            ready = ctx.overflowed(refusal(12_000))
        assert ready.report.tokens_after <= 12_000
        ready.record({"content": [], "usage": {"input_tokens": ready.report.tokens_after, "output_tokens": 9}})

    assert ctx.window == 12_000


def test_a_bill_of_another_model_says_nothing_about_this_one():
    ctx = walked(MemoryStore())
    ctx.record({"content": [], "usage": {"input_tokens": 30_000, "output_tokens": 9}})
    ctx.prepare({**body(TALK[:43]), "model": "another"})

    ctx.overflowed(refusal(12_000))

    assert ctx.window == 12_000


def test_a_person_forgets_a_learned_window_and_other_processes_see_it(tmp_path):
    ctx = walked(tmp_path)
    ctx.overflowed(refusal(30_000))
    other = context(store=tmp_path, window=WINDOW, policy="default")
    assert other.prepare(body(TALK[:43])).report.window == 30_000

    other.reset_window()

    assert ctx.prepare(body(TALK[:45])).report.window == WINDOW
    assert context(store=tmp_path, window=WINDOW, policy="default").prepare(body(TALK[:47])).report.window == WINDOW


def test_the_window_of_one_model_can_be_forgotten_alone():
    ctx = walked(MemoryStore())
    ctx.overflowed(refusal(30_000))

    ctx.reset_window("another")
    assert ctx.window == 30_000
    ctx.reset_window(body(TALK)["model"])
    assert ctx.window == WINDOW


def test_a_history_says_when_a_window_was_learned():
    store = MemoryStore()
    ctx, model = walked(store), body(TALK)["model"]
    ctx.overflowed(refusal(9))
    assert build_history(store.peek("default").read().records, session="default").learned_window(model) is None
    ctx.prepare(body(TALK[:43]))
    ctx.overflowed(refusal(20_000))
    records = store.peek("default").read().records

    window, at = build_history(records, session="default").learned_window(model)

    assert (window, at) == (20_000, next(record["at"] for record in records if record.get("window") == 20_000))
    ctx.reset_window()
    assert build_history(store.peek("default").read().records, session="default").learned_window(model) is None
