"""A session may change its window on the way. Each request is told by the one it was held against, and planned again so."""

from ebbtide.audit.history import build_history
from ebbtide.audit.replan import replan
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.state.snapshot import restore_snapshot, take_snapshot
from ebbtide.store import MemoryStore
from runtime.sessions import body, context, loop

TALK = loop(60, lines=60)


def walked(store, window, start, stop, **options):
    ctx = context(store=store, window=window, policy="default", **options)
    for n in range(start, stop, 2):
        ctx.prepare(body(TALK[:n]))
    return ctx


def records_of(store):
    return store.peek("default").read().records


def windows_written(store):
    return [record.get("window") for record in records_of(store) if record.get("kind") == "turn"]


def test_a_window_is_recorded_when_it_differs_from_the_last():
    store = MemoryStore()
    walked(store, 60_000, 1, 9)
    walked(store, 200_000, 9, 15)
    walked(store, 200_000, 15, 19)
    walked(store, 60_000, 19, 23)

    assert windows_written(store) == [60_000, None, None, None, 200_000, None, None, None, None, 60_000, None]
    history = build_history(records_of(store), session="default")
    assert [history.window(n) for n in (1, 4, 5, 9, 10, 11)] == [60_000, 60_000, 200_000, 200_000, 60_000, 60_000]


def test_plans_of_several_windows_can_be_repeated():
    store = MemoryStore()
    for window, start, stop in ((20_000, 1, 41), (30_000, 41, 81), (15_000, 81, 121)):
        assert walked(store, window, start, stop).edits()
    plans = [record["window"] for record in records_of(store) if record.get("kind") == "plan"]

    assert set(plans) == {20_000, 30_000, 15_000}
    assert replan(records_of(store)) == (len(plans), [])


def test_a_window_learned_from_a_provider_is_recorded_too():
    store = MemoryStore()
    ctx = walked(store, 200_000, 1, 41)
    ctx.overflowed(ValueError("prompt is too long: 41000 tokens > 30000 maximum"))

    assert windows_written(store)[-2:] == [None, 30_000]


def test_the_window_of_a_log_that_does_not_record_it_follows_from_its_plans():
    store = MemoryStore()
    walked(store, 20_000, 1, 41)
    old = [dict(record) for record in records_of(store)]
    for record in old:
        if record.get("kind") == "turn":
            record.pop("window", None)
    history = build_history(old, session="default")
    first = next(turn.number for turn in history.turns if turn.planned)

    assert history.window(first - 1) is None
    assert history.window(first) == history.window(len(history.turns)) == 20_000


def test_a_checkpoint_knows_the_window():
    store = MemoryStore()
    walked(store, 60_000, 1, 9)

    state = restore_snapshot(take_snapshot(apply_records(SessionState(), records_of(store))))

    assert [one.window for one in state.sent] == [60_000] * 4
