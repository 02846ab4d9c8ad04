"""Which point of the dial is chosen, and why."""

import pytest

from ebbtide.replay.frontier import ARMS, build_frontier
from ebbtide.replay.score import Score


def score(bill, available, repaired=0.0):
    return Score(calls=100, bill=bill, used=1000, available=available, in_context=available, repaired=repaired)


def choose(keep_more, balanced, spend_less):
    raw = score(20.0, 1000)
    return build_frontier(dict(zip(ARMS, (raw, raw, keep_more, balanced, spend_less), strict=True)))


@pytest.mark.parametrize(
    ("points", "choice", "said"),
    [
        ((score(14, 980), score(12, 950), score(10, 940)), "spend-less", "$2.00 less than balanced"),
        ((score(14, 980), score(12, 950), score(10, 920)), "balanced", "keep only 92.0% of what the agent used again"),
        (
            (score(14, 980), score(12, 950), score(11, 940, repaired=2)),
            "balanced",
            "save nothing once its misses are paid",
        ),
        ((score(12, 980), score(11, 950, repaired=2), score(10, 900, repaired=5)), "keep-more", "$1.00 less than"),
        ((score(20, 1000), score(20, 1000), score(20, 1000)), "balanced", "far below the window"),
    ],
)
def test_the_cheapest_total_is_chosen_that_keeps_nearly_as_much_as_balanced(points, choice, said):
    frontier = choose(*points)

    assert frontier.choice == choice
    assert said in frontier.reason
    assert "\n" not in frontier.reason


def test_of_equal_totals_the_one_that_keeps_more_is_chosen():
    assert choose(score(12.1, 980), score(12, 950), score(11.95, 945)).choice == "keep-more"
