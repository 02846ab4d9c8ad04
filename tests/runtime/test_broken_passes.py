"""A pass of a user's that breaks: it is left out and named, the others run, and nothing goes out over the window."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

import pytest

import ebbtide
from ebbtide.audit.replan import replan
from ebbtide.core.types import Edit
from ebbtide.passes import clear_results
from ebbtide.runtime import Context
from ebbtide.store import MemoryStore
from runtime.sessions import body, digest, loop

WINDOW = 20_000
TALK = loop(60, lines=60)


def raises_at_once(view, situation):
    raise ValueError("a bug")


def raises_midway(view, situation):
    yield from list(clear_results(view, situation, keep_results=0))[:2]
    raise ValueError("a bug")


def proposes_words(view, situation):
    yield "clear the results"


def gives_nothing_to_iterate(view, situation):
    return None


def never_ends(view, situation):
    return repeat(Edit(by="never_ends", first="nowhere", last="nowhere", saved=1))


def puts_no_items(view, situation):
    entry = view.results[0]
    yield Edit(by="puts_no_items", first=entry.id, last=entry.id, replacement=("gone",), saved=10)


BROKEN = (
    raises_at_once, raises_midway, proposes_words, gives_nothing_to_iterate, never_ends, puts_no_items,
)  # fmt: skip


def policy(**stages):
    return replace(ebbtide.preset("default"), name="mine", **stages)


@pytest.mark.parametrize("stage", ["arrival", "always", "pressure", "last_resort"])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_pass_that_breaks_is_left_out_and_the_others_run(broken, stage):
    events = []
    whole = ebbtide.preset("default")
    stages = {stage: (broken, *getattr(whole, stage))}
    if stage == "last_resort":
        # With nothing gentler the last resort has to act.
        stages |= {"pressure": (), "folds": ()}
    mine = Context(window=WINDOW, policy=policy(**stages), on_event=events.append)
    without = Context(window=WINDOW, policy=policy(**{**stages, stage: getattr(whole, stage)}))

    ready, expected = mine.prepare(body(TALK)), without.prepare(body(TALK))

    assert digest(ready.body) == digest(expected.body)
    assert ready.report.edits
    assert ready.report.tokens_after <= WINDOW
    name = broken.__name__
    assert [note for note in ready.report.notes if name in note and "was left out" in note]
    assert [event.fields["by"] for event in events if event.kind == "pass_failed"] == [name]


def test_a_request_over_the_window_without_the_pass_is_refused_and_the_pass_is_named():
    ctx = Context(window=WINDOW, policy=policy(pressure=(raises_at_once,), folds=(), last_resort=()))

    with pytest.raises(ebbtide.WontFit, match="raises_at_once was left out: ValueError: a bug"):
        ctx.prepare(body(TALK))


class Unreadable(tuple):
    def __iter__(self):
        raise RuntimeError("a bug")


def test_when_planning_fails_entirely_a_request_over_the_window_is_refused():
    events = []
    ctx = Context(window=WINDOW, policy=policy(pressure=Unreadable()), on_event=events.append)

    ready = ctx.prepare(body(TALK[:3]))
    assert digest(ready.body) == digest(body(TALK[:3]))
    with pytest.raises(ebbtide.WontFit):
        ctx.prepare(body(TALK))
    assert {event.kind for event in events} == {"fallback"}


@pytest.mark.parametrize("broken", BROKEN)
def test_plans_beside_a_broken_pass_can_be_repeated(broken):
    store = MemoryStore()
    mine = policy(pressure=(broken, *ebbtide.preset("default").pressure))
    ctx = Context(window=WINDOW, policy=mine, store=store)
    for n in range(3, len(TALK) + 1, 2):
        ctx.prepare(body(TALK[:n]))

    records = store.peek("default").read().records

    assert replan(records, {"mine": mine})[1] == []
    assert replan(records, {"mine": mine})[0] > 0


def test_a_plan_that_cannot_be_repeated_is_reported_and_the_others_are_checked():
    store = MemoryStore()
    ctx = Context(window=WINDOW, policy=policy(), store=store)
    for n in range(3, len(TALK) + 1, 2):
        ctx.prepare(body(TALK[:n]))

    number, differences = replan(store.peek("default").read().records, {"mine": policy(pressure=Unreadable())})

    assert number == len(differences) > 1
    assert {one.reason for one in differences} == {"planning failed: RuntimeError: a bug"}
