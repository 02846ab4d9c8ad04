"""What a report says is worked out when somebody asks, and is true of its own request whenever that is."""

from dataclasses import replace

import pytest

from runtime.sessions import EARLY, Clock, body, call, context, digest, loop, result

TALK = loop(24)
FIGURES = ("warm", "cost", "cost_untouched", "tokens_untouched", "made_of", "tokens_after", "held")


def usage(ready, said):
    bill = {"input_tokens": 10, "cache_read_input_tokens": ready.report.tokens_after - 10, "output_tokens": 60}
    return {"role": "assistant", "content": said["content"], "usage": bill}


def told(report):
    return [getattr(report, name) for name in FIGURES]


def sent(ctx, clock, ask):
    """Every request of a conversation that is cut back once; `ask` is given each report as it comes."""
    reports = []
    # The 31st message is said otherwise the second time: what was projected behind it is thrown away.
    other = [*TALK[:30], {"role": "user", "content": [{**result(14, 2)["content"][0]}]}]
    requests = [TALK[:n] for n in range(1, 34, 2)]
    requests += [[*other, *TALK[31:n]] for n in range(31, len(TALK) + 1, 2)]
    for n, messages in enumerate(requests):
        clock.tick(600 if n == 12 else 10)
        ready = ctx.prepare(body(list(messages)))
        ask(ready.report)
        reports.append(ready.report)
        ctx.record(usage(ready, call(99)))
    return reports


@pytest.mark.parametrize("window", [30_000, 10**9])
def test_a_report_read_at_the_end_equals_one_read_at_once(window):
    clocks, early = (Clock(), Clock()), []
    sent(context(window=window, clock=clocks[0]), clocks[0], lambda report: early.append(told(report)))
    late = [told(report) for report in sent(context(window=window, clock=clocks[1]), clocks[1], lambda report: None)]

    assert digest([str(one) for one in late]) == digest([str(one) for one in early])
    assert any(one[0] for one in late), "some of them were warm"


def test_a_pass_finds_every_part_of_the_situation_and_all_of_it_can_be_replaced():
    seen = []

    def looking(view, situation):
        seen.append(situation)
        return ()

    ctx = context(policy=replace(EARLY, always=(looking,)), window=10**9)
    ready = ctx.prepare(body(TALK[:9]))
    ctx.record(usage(ready, TALK[9]))
    ctx.prepare(body(TALK[:11]))
    later = seen[-1]

    assert later._replace(forced=True).forced
    assert (later.first_unsent, later.idle, later.scale, later.prices.read) == (
        13,
        0.0,
        pytest.approx(1.0, abs=0.5),
        0.1,
    )
    assert later.compaction.way == "path"
    with pytest.raises(AttributeError):
        _ = later.nothing


def test_the_cached_prefix_ends_where_an_edit_begins():
    clock = Clock()
    reports = sent(context(clock=clock), clock, lambda report: None)
    acting = [n for n, report in enumerate(reports) if report.edits and reports[n - 1].warm]

    assert acting
    for n in acting:
        assert reports[n].warm < reports[n - 1].warm / 2


def test_a_call_id_used_twice_with_different_text_is_saved_under_two_names():
    """What is on the shelf is known to the next plan: two contents never share a name."""
    ctx = context()
    kept = []
    for talk in ([*loop(1, 2), call(1), result(1, 400)], [TALK[0], call(1), result(1, 401)]):
        ready = ctx.prepare(body(talk))
        assert not [note for note in ready.report.notes if "could not be kept" in note]
        kept += [blob.name for edit in ready.report.edits for blob in edit.blobs]

    assert len(set(kept)) == 2
