"""A session stays one when the model changes: window, learned limit, warmth and calibration are each model's own."""

import pytest

from ebbtide.core.errors import BadConfig
from ebbtide.store import MemoryStore
from runtime.sessions import Clock, body, context, loop, unmarked

BIG, SMALL = "gpt-5", "gpt-4o"


def ask(ctx, messages, model, prompt=0):
    ready = ctx.prepare(body(messages, model=model))
    if prompt:
        ready.record(
            {"content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": prompt, "output_tokens": 1}}
        )
    return ready


def test_each_request_uses_the_window_of_its_own_model():
    ctx = context(window=None, model=SMALL)

    windows = [ask(ctx, loop(2), model).report.window for model in (SMALL, BIG, SMALL, "")]
    assert windows == [128_000, 272_000, 128_000, 128_000]


def test_a_window_may_be_a_function_of_the_model_and_is_checked():
    ctx = context(window={"a": 9_000, "b": 30_000}.__getitem__)
    assert [ask(ctx, loop(1, lines=5), model).report.window for model in "aba"] == [9_000, 30_000, 9_000]
    assert ctx.window == 9_000
    with pytest.raises(BadConfig, match="window must be"):
        context(window=lambda _: "large").prepare(body(loop(1)))


def test_edits_stay_when_the_model_changes_and_changes_back():
    """From a small window to a large one and back: what left stays out, and nothing has to leave again."""
    ctx = context(store=MemoryStore(), window={BIG: 200_000, SMALL: 20_000}.__getitem__)
    messages = loop(24)
    for n in range(1, len(messages) + 1, 2):
        last = ask(ctx, messages[:n], SMALL)
    edits = ctx.edits()
    grown = [*messages, *loop(1, lines=1, first=30)[1:]]
    big, small = ask(ctx, grown, BIG), ask(ctx, grown, SMALL)

    assert edits
    assert big.report.held == last.report.held
    assert small.report.held >= last.report.held
    assert ctx.edits()[: len(edits)] == edits
    sent = unmarked(last.body["messages"])
    assert unmarked(big.body["messages"])[: len(sent)] == sent


def test_a_window_learned_for_one_model_leaves_the_others_alone():
    ctx = context(window=200_000)
    ask(ctx, loop(8), SMALL)
    ctx.overflowed(ValueError("prompt is too long: 41000 tokens > 30000 maximum"))

    assert [ask(ctx, loop(8), model).report.window for model in (SMALL, BIG, SMALL)] == [30_000, 200_000, 30_000]


def test_each_model_is_counted_by_its_own_bills():
    """One is billed half as much again for the same words."""
    ctx, messages = context(window=200_000), loop(4)
    for n in range(3, 10, 2):
        for model, ratio in ((BIG, 1.0), (SMALL, 1.5)):
            ready = ctx.prepare(body(messages[:n], model=model))
            ready.record(
                {"content": [], "usage": {"input_tokens": int(ready._prepared.estimated * ratio), "output_tokens": 1}}
            )
    known = ctx._session.log.state.calibration
    other = [{"role": "user", "content": "new words " * 3_000}]

    assert known.ratio(SMALL) > known.ratio(BIG) * 1.2
    big, small = (ask(ctx, other, model).report.tokens_before for model in (BIG, SMALL))
    assert small > big * 1.15


def test_the_cached_prefix_follows_from_the_models_own_requests():
    clock = Clock()
    ctx, messages = context(window=200_000, clock=clock), loop(4)
    cold = ask(ctx, messages, BIG).report.warm
    clock.tick(10)
    other = ask(ctx, messages, SMALL).report.warm
    clock.tick(10)
    back = ask(ctx, [*messages, *loop(1, lines=1, first=9)[1:]], BIG).report.warm
    clock.tick(295)

    assert (cold, other) == (0, 0)
    assert back > 0
    assert ask(ctx, messages, SMALL).report.warm == 0, "its own request is older than five minutes"
