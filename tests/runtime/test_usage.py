"""A bill anchors the counter. One that cannot be of this conversation must neither wedge it nor let it overflow."""

import json

import pytest

from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.core.tokens.size import Calibration, SizeInputs, anchored_usage, reply_tokens, upper_bound
from ebbtide.core.types import Usage
from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from runtime.sessions import Clock, body, call, context, digest, loop, result

TALK = loop(40)
WINDOW = 30_000


def sent(bill):
    """True sizes, in quarters of a character, of all requests of a conversation that is billed so."""
    ctx, sizes = context(window=WINDOW), []
    for n in range(1, len(TALK) + 1, 2):
        ready = ctx.prepare(body(TALK[:n]))
        sizes.append(len(json.dumps(ready.body)) // 4)
        ctx.record({**call(n), "usage": bill(sizes)})
    return sizes


@pytest.mark.parametrize(
    "bill",
    [
        pytest.param(lambda sizes: {"input_tokens": 0, "output_tokens": 0}, id="zeros"),
        pytest.param(lambda sizes: {"input_tokens": 3, "output_tokens": 60}, id="only what was not cached"),
        pytest.param(lambda sizes: {"input_tokens": sum(sizes), "output_tokens": 60}, id="all calls summed up"),
        pytest.param(lambda sizes: {"input_tokens": sizes[-1] * 12, "output_tokens": 60}, id="twelve times"),
        pytest.param(lambda sizes: {"input_tokens": sizes[-1], "output_tokens": 10**12}, id="an output without end"),
        pytest.param(
            lambda sizes: {"input_tokens": 900_000 if len(sizes) == 9 else sizes[-1], "output_tokens": 60},
            id="one slip",
        ),
    ],
)
def test_no_bill_wedges_a_session_or_lets_it_overflow(bill):
    sizes = sent(bill)

    assert len(sizes) == 41
    assert WINDOW / 10 < max(sizes) < WINDOW


def edited_calls(bill):
    """At how many of a hundred calls an edit was made, under a provider that bills so."""
    clock, edited, messages = Clock(), 0, [{"role": "user", "content": "fix the gauge"}]
    ctx = Context(window=WINDOW, model="claude-opus-4-5", clock=clock)
    for n in range(100):
        ready = ctx.prepare(body(list(messages)))
        edited += bool(ready.report.edits)
        billed = bill(ready.report.tokens_after)
        ready.record({**call(n), **({"usage": billed} if billed else {})})
        messages += [call(n), result(n, lines=30)]
        clock.tick()
    return edited


def test_a_bill_without_cache_figures_makes_no_more_edits_than_one_with_them():
    told = edited_calls(
        lambda size: {"input_tokens": 100, "cache_read_input_tokens": size - 100, "cache_creation_input_tokens": 0}
    )
    without = edited_calls(lambda size: {"input_tokens": size, "output_tokens": 40})
    zeros = edited_calls(
        lambda size: {"input_tokens": size, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    )
    of_nothing = edited_calls(lambda size: {"input_tokens": 0, "output_tokens": 40})
    none = edited_calls(lambda size: None)

    assert 0 < told < 12
    assert max(without, zeros, of_nothing, none) <= told + 1


def readings(prompt, **more):
    usage = Usage(input=prompt, output=50)
    return SizeInputs(DEFAULT, model="claude-opus-4-5", view=10_000, messages=9, anchor=usage, reply=50, **more)


@pytest.mark.parametrize("gauge", [anchored_usage, upper_bound])
def test_a_bill_is_doubted_if_it_is_far_below_the_estimate_or_far_above_it_and_the_window(gauge):
    cold = gauge(readings(10_000)._replace(anchor=None))

    assert gauge(readings(2_000)) == cold
    assert gauge(readings(900_000, window=100_000)) == cold
    assert gauge(readings(3_000)) < cold / 2
    assert gauge(readings(90_000, window=100_000)) > 90_000, "a client may have added what nobody sees"
    assert gauge(readings(30_000, window=20_000)) > 30_000, "an estimate may be so far off"
    assert gauge(readings(3_500, window=3_000)._replace(view=50)) > 3_500, "so much may be added on the way"


def test_for_a_few_tokens_any_bill_is_believed():
    assert anchored_usage(readings(10)._replace(view=1_900)) < 100


def test_many_slightly_wrong_bills_teach_no_more_than_one():
    known = Calibration()
    for n in range(1, 200):
        known = known.observe("claude-opus-4-5", 10_000, 10_000 * 1.05**n)

    assert known.ratio("claude-opus-4-5") <= 4


def test_an_output_larger_than_any_model_can_write_is_not_believed():
    assert reply_tokens(10**6, 480) == 480
    assert reply_tokens(100_000, 480) == 100_000


@pytest.mark.parametrize("policy", ["opencode", "mini-claude"])
@pytest.mark.parametrize("anew", [False, True], ids=["the same process", "a new one"])
def test_the_rest_of_a_bill_after_edits_is_known_when_the_request_is_sent_again(policy, anew):
    """These believe the last bill. It is from before the edits, and would refuse what has just gone out."""
    store = MemoryStore()
    ctx = context(window=4_096, policy=policy, store=store)
    ctx.prepare(body(loop(4, lines=20)))
    ctx.record({**call(4), "usage": {"input_tokens": 4_500, "output_tokens": 100}})
    request = body(loop(5, lines=20))
    ready = ctx.prepare(request)
    assert ready.report.edits
    assert ready.report.tokens_after < 4_096 < ready.report.tokens_before

    again = (context(window=4_096, policy=policy, store=store) if anew else ctx).prepare(request)

    assert again.report.tokens_before == ready.report.tokens_after
    assert digest(again.body) == digest(ready.body)


def test_what_follows_the_edits_counts_when_no_bill_arrives():
    ctx = context(window=8_192, policy="opencode")
    ctx.prepare(body(loop(4, lines=20)))
    ctx.record({**call(4), "usage": {"input_tokens": 7_500, "output_tokens": 100}})
    after = ctx.prepare(body(loop(5, lines=20))).report.tokens_after

    grown = ctx.prepare(body(loop(6, lines=20))).report.tokens_before

    assert after + 200 < grown < after + 400


def test_content_restored_by_an_undo_counts_too():
    ctx = context(window=8_192, policy="opencode")
    ctx.prepare(body(loop(4, lines=20)))
    ctx.record({**call(4), "usage": {"input_tokens": 7_500, "output_tokens": 100}})
    first = ctx.prepare(body(loop(5, lines=20))).report
    ctx.undo()

    assert ctx.prepare(body(loop(5, lines=20))).report.tokens_before == first.tokens_before
