"""A view in, a plan out."""

from dataclasses import replace

import pytest

from ebbtide.core.cache.prefix import Prices
from ebbtide.core.edit_rules import drop_item
from ebbtide.core.planner import Budget, Thresholds, make_plan
from ebbtide.core.types import Edit
from ebbtide.core.view import View
from ebbtide.passes import clear_results, evict
from talk import budget, situation, talk

READ = ("call:read", "result:900")
LONG = View.of(talk("user:go", *READ * 8, "say:ok", "user:next"))
SMALL = budget(6000)


def test_recorded_edits_make_the_next_plan_a_no_op():
    """Replaying edits gives the same view: the prefix the provider cached does not move."""
    first = make_plan(LONG, [clear_results], SMALL)

    again = make_plan(View.of(LONG.originals, first.edits), [clear_results], SMALL)

    assert first.edits
    assert again.edits == ()
    assert again.after.entries == first.after.entries


def test_below_every_level_nothing_is_asked_of_pressure_passes():
    def never(view, situation):
        raise AssertionError("ran below the levels")
        yield

    assert make_plan(LONG, [never], budget(100_000)).edits == ()


def test_acting_stops_at_the_low_threshold():
    plan = make_plan(LONG, [clear_results], SMALL)

    assert plan.after.tokens <= SMALL.levels.low
    assert plan.after.tokens + plan.edits[-1].saved > SMALL.levels.low


def test_a_result_the_model_has_not_seen_is_left_alone_whatever_a_pass_says():
    view = View.of(talk("user:go", *READ * 3))

    def greedy(view, situation):
        for entry in view.results:
            put = replace(entry, id="", message=-1, text="[x]", tokens=1, raw=None)
            yield Edit(by="greedy", first=entry.id, last=entry.id, replacement=(put,), saved=entry.tokens - 1)

    plan = make_plan(view, [greedy], budget(1000))

    assert [edit.first for edit in plan.edits] == [view.results[0].id, view.results[1].id]
    assert [why for _, why in plan.rejected] == ["touches a result that the model has not seen"]


def test_edits_that_the_pairing_rule_refuses_are_left_out_and_reported():
    def broken(view, situation):
        yield drop_item(view.results[0], by="broken", reason="")

    plan = make_plan(LONG, [broken], SMALL)

    assert plan.edits == ()
    assert plan.rejected[0][1] == "parts a call from its result"


def test_what_a_gentle_pass_freed_is_counted_before_a_heavier_one_runs():
    """R043."""
    asked = []

    def heavy(view, situation):
        asked.append(situation.tokens)
        return iter(())

    make_plan(LONG, [clear_results, heavy], SMALL)

    assert asked == []


class TestWarmth:
    """Between soft and high water a warm prefix is rewritten only if that pays."""

    within = budget(6000, soft=4000, auto=9000, hard=9500, low=3000)

    def act(self, **now):
        return make_plan(LONG, [clear_results], self.within, situation(LONG, within=self.within, idle=10.0, **now))

    def test_a_warm_prefix_is_left_alone_when_few_calls_are_left(self):
        plan = self.act(cached_entries=10, growth=1000)

        assert plan.edits == ()
        assert "pays after" in plan.deferred_reason

    def test_a_warm_prefix_is_rewritten_when_many_calls_will_read_it(self):
        assert self.act(cached_entries=10, growth=1).edits

    def test_a_cold_prefix_is_rewritten(self):
        assert self.act(cached_entries=0, growth=1000).edits

    def test_what_expired_behind_a_prefix_kept_for_an_hour_is_rewritten_and_the_prefix_only_if_it_pays(self):
        first_edit = LONG.entries.index(next(entry for entry in LONG.entries if entry.kind == "result"))
        behind = self.act(cached_entries=1, kept_entries=first_edit, growth=1000)
        inside = self.act(cached_entries=1, kept_entries=len(LONG.entries), growth=1000)

        assert behind.edits
        assert inside.edits == ()
        assert "pays after" in inside.deferred_reason

    def test_the_high_threshold_forces_it(self):
        plan = make_plan(
            LONG, [clear_results], SMALL, situation(LONG, within=SMALL, idle=10.0, cached_entries=10, growth=1000)
        )

        assert plan.edits


class TestThinking:
    """A63: thinking is bound to all before it."""

    view = View.of(talk("user:go", *("think:hm", "call:read", "result:900") * 6))
    within = budget(4000)

    def dropped(self, *, thinking_bound_to_prefix):
        plan = make_plan(
            self.view,
            [clear_results],
            self.within,
            situation(self.view, within=self.within, thinking_bound_to_prefix=thinking_bound_to_prefix),
        )
        first = min(self.view.index[edit.first] for edit in plan.edits if edit.by != "thinking")
        return first, [self.view.index[edit.first] for edit in plan.edits if edit.by == "thinking"]

    def test_an_edit_drops_all_bound_thinking_after_the_first_change(self):
        first, gone = self.dropped(thinking_bound_to_prefix=True)

        assert gone == [i for i, item in enumerate(self.view.originals) if item.kind == "thinking" and i > first]

    def test_thinking_that_is_not_bound_stays_in_the_open_loop(self):
        """A37: it must open the assistant's turn."""
        assert self.dropped(thinking_bound_to_prefix=False)[1] == []

    def test_thinking_before_the_change_stays(self):
        view = View.of(talk("user:go", "think:a", "say:x", "user:go", *READ * 6, "think:b", "say:y", "user:z"))
        plan = make_plan(
            view, [clear_results], self.within, situation(view, within=self.within, thinking_bound_to_prefix=True)
        )

        assert [view.index[edit.first] for edit in plan.edits if edit.by == "thinking"] == [16]


def test_the_last_resort_runs_only_over_the_hard_level():
    calm = make_plan(LONG, [], budget(6000, hard=9000), last_resort=[evict])
    forced = make_plan(LONG, [], budget(6000, hard=4000), last_resort=[evict])

    assert calm.edits == ()
    assert forced.after.tokens <= 4000


@pytest.mark.parametrize(
    ("inclusive", "tokens", "level"),
    [(False, 100, "calm"), (False, 101, "auto"), (True, 100, "auto"), (True, 99, "calm")],
)
def test_whether_a_level_is_reached_at_its_value_is_part_of_the_rule(inclusive, tokens, level):
    levels = Thresholds(warning=1000, soft=1000, auto=100, hard=1000, blocking=1000, low=50, inclusive=inclusive)

    assert levels.level_at(tokens) == level


def test_the_same_view_and_situation_give_the_same_plan():
    one, two = (make_plan(LONG, [clear_results], SMALL) for _ in range(2))

    assert one == two


def test_a_batch_comes_earlier_where_holding_tokens_costs_more_than_writing_them_again():
    """The cheapest spread: sqrt(2 * (write - read) * rewritten * growth / read)."""
    levels = Thresholds(
        warning=60_000, soft=700_000, auto=800_000, hard=900_000, blocking=950_000, low=60_000, patience=2.0
    )
    slow = situation(LONG, budget=Budget(window=1_000_000, levels=levels), growth=1_000)

    assert slow.batch_at == 134_296
    assert slow._replace(growth=4_000).batch_at == 208_593
    assert slow._replace(prices=Prices(read=0.5, write=1.0)).batch_at < slow.batch_at
    assert slow._replace(growth=10**9).batch_at == levels.auto
    assert slow._replace(growth=0).batch_at == levels.auto


def test_a_batch_is_made_where_prices_say_so_below_the_high_threshold():
    levels = replace(budget(100_000).levels, low=1_000, warning=1_000, patience=1.0)
    early = situation(
        LONG, budget=Budget(window=100_000, levels=levels), growth=10, idle=1.0, cached_entries=len(LONG.entries)
    )

    assert LONG.tokens < levels.soft
    assert make_plan(LONG, [clear_results], early.budget, early).edits
    assert not make_plan(LONG, [clear_results], early.budget, early._replace(growth=100_000)).edits
