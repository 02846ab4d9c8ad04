"""How much a call adds on average: by this the planner knows when the next batch is cheapest."""

from ebbtide.core.cache.prefix import mean_growth
from ebbtide.state.session_state import SessionState, apply_records


def growth(*requests):
    state = SessionState()
    for number, (tokens, system) in enumerate(requests):
        record = {"type": "ebb", "kind": "turn", "at": float(number), "model": "m", "system": system, "tools": "t"}
        state = apply_records(state, [{**record, "tokens": tokens, "base": 0, "add": [], "prefix": []}])
    return mean_growth(state.counters)


def test_growth_is_the_mean_of_what_calls_added():
    assert growth((1_000, "s")) == 0
    assert growth((1_000, "s"), (1_500, "s"), (2_500, "s")) == 750


def test_what_a_batch_removed_and_requests_of_another_task_do_not_count():
    assert growth((1_000, "s"), (1_500, "s"), (400, "s"), (900, "s")) == 500
    assert growth((90_000, "s"), (300, "title"), (90_500, "s"), (91_000, "s")) == 500
