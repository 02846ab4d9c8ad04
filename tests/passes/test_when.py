"""Conditions put before a pass (R067-R069, R153, D6)."""

import pytest

from ebbtide.core.view import View
from ebbtide.passes import clear_results
from ebbtide.passes.when import above, all_of, any_of, at_level, cold, end_of_loop, idle_for, when
from talk import budget, situation, talk

VIEW = View.of(talk("user:go", *("call:x", "result:900") * 5, "say:ok"))


def yes(view, now):
    return True


def no(view, now):
    return False


def test_a_pass_is_silent_unless_its_condition_holds():
    now = situation(VIEW)

    assert list(when(no, clear_results)(VIEW, now)) == []
    assert list(when(yes, clear_results)(VIEW, now)) == list(clear_results(VIEW, now)) != []


@pytest.mark.parametrize(("utilisation", "holds"), [(0.6, False), (0.601, True)])
def test_above_is_strict(utilisation, holds):
    """R068."""
    assert above(0.6)(VIEW, situation(VIEW, utilisation=utilisation)) == holds


@pytest.mark.parametrize(("idle", "holds"), [(None, False), (299.9, False), (300.0, True)])
def test_idle_includes_its_bound_and_never_holds_before_the_first_call(idle, holds):
    """R069."""
    assert idle_for(300)(VIEW, situation(VIEW, idle=idle)) == holds


@pytest.mark.parametrize(("tokens", "holds"), [(120_000, False), (120_001, True)])
def test_a_level_is_the_budgets(tokens, holds):
    assert at_level("warning")(VIEW, situation(VIEW, within=budget(200_000), tokens=tokens)) == holds


@pytest.mark.parametrize(("idle", "warm", "holds"), [(None, 0, False), (400.0, 0, True), (400.0, 3, False)])
def test_the_cache_is_cold_when_nothing_of_it_is_kept(idle, warm, holds):
    """R133: and before the first call there is none."""
    assert cold(VIEW, situation(VIEW, idle=idle, cached_entries=warm)) == holds


@pytest.mark.parametrize(
    ("lines", "holds"),
    [
        (("user:a", "call:x", "result:r", "say:b", "user:c"), True),
        (("user:a", "say:b", "user:c", "+reminder:todo"), True),
        (("user:a", "call:x", "result:r"), False),
        (("user:a", "call:x", "result:r", "+reminder:todo"), False),
        (("user:a", "say:b", "user:c", "call:x", "result:r"), False),
        (("user:a", "say:b"), False),
        (("user:a",), False),
        ((), False),
    ],
)
def test_a_loop_has_ended_when_the_user_speaks_again(lines, holds):
    view = View.of(talk(*lines))

    assert end_of_loop(view, situation(view)) == holds


def test_conditions_join():
    now = situation(VIEW)

    assert any_of(no, yes)(VIEW, now)
    assert not any_of(no, no)(VIEW, now)
    assert all_of(yes, yes)(VIEW, now)
    assert not all_of(yes, no)(VIEW, now)
