"""A session that somebody follows grows by a call at a time: what was worked out of it before is worked out once."""

from dataclasses import asdict

import pytest

from bytecode_count import count_bytecodes
from ebbtide.audit.history import build_history
from ebbtide.fronts.ui.library import Library, Setting
from ebbtide.fronts.ui.trace import Tracer
from ebbtide.store import open_store
from runtime.sessions import Clock, body, context, loop


def driven(place, calls, undone=(), billed_late=()):
    """Calls in a window that eight of them fill, with bills; a person undoes some batches."""
    clock, messages, late = Clock(), loop(calls), None
    ctx = context(store=place, clock=clock, window=20_000)
    for n in range(1, len(messages) + 1, 2):
        clock.tick()
        ready = ctx.prepare(body(messages[:n]))
        reply = messages[n] if n < len(messages) else {"role": "assistant", "content": "done"}
        prompt, read = ready.report.tokens_after, (ready.report.tokens_after - 3) * (n % 14 > 1)
        usage = {"input_tokens": 3, "cache_read_input_tokens": read, "cache_creation_input_tokens": prompt - read - 3}
        bill = {**reply, "usage": {**usage, "output_tokens": 9}}
        if late is not None:
            late[0].record(late[1])
        late = (ready, bill) if n in billed_late else None
        if late is None:
            ready.record(bill)
        if n in undone:
            ctx.undo()
    return open_store(place).peek("default").read().records


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return driven(tmp_path_factory.mktemp("store"), 40, undone=(31, 61), billed_late=(45, 47, 71))


def told(history):
    return {
        "turns": [(turn.number, turn.planned, turn.usage, turn.sent.usage, turn.undone) for turn in history.turns],
        "newest": history.newest,
        "steps": [(step.batch.id, step.turn.number, step.undone) for step in history.steps],
        "covered": [
            [item.id for item in step.covered_items(edit)] for step in history.steps for edit in step.batch.edits
        ],
        "view": [entry.id for entry in history.view(0).entries],
        "first": [entry.id for entry in history.view(1).entries],
    }


@pytest.mark.parametrize("by", [1, 3, 16])
def test_a_history_that_grew_equals_one_read_at_once(records, by):
    grown, tracer = build_history(records[:by], session="default"), Tracer()
    for n in range(by, len(records), by):
        tracer.trace(grown)
        grown = grown.extend(records[n : n + by])
    history = build_history(records, session="default")

    for name, value in told(history).items():
        assert (name, told(grown)[name] == value) == (name, True)
    assert asdict(tracer.trace(grown)) == asdict(Tracer().trace(history))
    assert len(history.steps) > 12
    assert len(tracer.trace(grown).breaks) > 2


def test_one_more_call_costs_a_fraction_of_reading_a_long_session(tmp_path):
    records = driven(tmp_path, 140)
    turns = [n for n, record in enumerate(records) if record.get("kind") == "turn"]
    history, tracer = build_history(records[: turns[-2] + 1], session="default"), Tracer()
    whole = count_bytecodes(lambda: tracer.trace(history))

    more = count_bytecodes(lambda: tracer.trace(history.extend(records[turns[-2] + 1 :])))

    # What is left is that request itself, and the calls that its cache is looked for in.
    assert 20 * more < whole


def test_a_page_that_follows_a_session_sees_it_grow_and_what_it_looked_at_stays(tmp_path):
    clock, messages = Clock(), loop(20)
    ctx = context(store=tmp_path, clock=clock, window=20_000)

    def library_of():
        return Library(
            open_store(tmp_path), files=(), setting=Setting(policy="default", window=0), window_for=lambda _: 20_000
        )

    def grow(upto, first=1):
        for n in range(first, upto, 2):
            clock.tick()
            ctx.prepare(body(messages[:n]))

    grow(20)
    library = library_of()
    key = library.list()[0].key
    opened = library.open(key)
    early, now = opened.view(3), opened.view(0)
    grow(40, first=21)
    opened = library.open(key)

    fresh = library_of()
    fresh.list()
    assert opened.view(3) is early
    assert len(opened.view(0).originals) > len(now.originals)
    assert opened.view(0) == fresh.open(key).view(0)
