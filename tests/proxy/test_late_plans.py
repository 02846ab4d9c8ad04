"""A plan that comes too late is either recorded and sent, or neither: a request never differs from its log."""

from __future__ import annotations

import pytest
from benchmarks.faults.proxies import LATE, WIRES, late

from ebbtide.fronts.proxy.deadline import Abandoned, Claim, Late


def test_a_plan_that_was_given_up_is_not_recorded():
    claim = Claim()

    assert Late("out of time", claim=claim).may_send_without()
    with pytest.raises(Abandoned):
        claim.record()


def test_a_plan_that_is_recorded_has_to_go_out():
    claim = Claim()
    claim.record()

    assert not Late("out of time", claim=claim).may_send_without()
    assert not claim.abandon()


@pytest.mark.parametrize("seed", [WIRES.index("anthropic") + len(WIRES) * n for n in range(len(LATE))])
def test_an_engine_that_is_always_late_sends_what_the_provider_takes(seed):
    """Thinking is signed for what was sent: edits that were recorded behind its back had every later request refused."""
    tally = late(14, seed, lambda points: None)

    assert tally.points == 14
    assert tally.examples == []
