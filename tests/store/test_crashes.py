"""Writers of one session that are killed at random: what was acknowledged is there, and no position was used twice.

`python benchmarks/crashes.py` has 2,000 crash points; here are a few of each kind.
"""

import pytest
from benchmarks.crashes import run

from store.stores import server


@pytest.mark.parametrize("kind", ["folder", "postgres"])
def test_writers_that_are_killed_lose_nothing_acknowledged_and_repeat_nothing(kind):
    outcome = run(kind, crashes=25, writers=8, server=server() if kind == "postgres" else None)

    assert sum(outcome.crashes.values()) == 25
    assert outcome.acknowledged
    assert outcome.recorded >= outcome.acknowledged
    assert (outcome.lost, outcome.repeated, outcome.overtaken, outcome.damaged) == (0, 0, 0, [])
