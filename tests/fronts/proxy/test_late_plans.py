"""A plan that comes too late is either recorded and sent, or neither: a request never differs from its log."""

from __future__ import annotations

import pytest
from benchmarks.faults.proxies import LATE, WIRES, late

from ebbtide.store import open_store
from fronts.proxy.proxy_runner import new_session
from runtime.sessions import context, loop, run


@pytest.mark.parametrize("seed", [WIRES.index("anthropic") + len(WIRES) * n for n in range(len(LATE))])
def test_an_engine_that_is_always_late_sends_what_the_provider_accepts(seed):
    """Thinking is signed for what was sent: edits that were recorded behind its back had every later request refused."""
    tally = late(14, seed, lambda points: None)

    assert tally.points == 14
    assert tally.examples == []


def test_a_late_request_has_the_edits_that_another_proxy_recorded(tmp_path):
    session = new_session(store=open_store(tmp_path))
    identity = session.identity
    assert session.read_edits() == ()

    other = context(store=open_store(tmp_path), session=identity.session, project=identity.project)
    run(other, loop(24))
    recorded = other.edits()

    assert recorded
    assert [edit.id for edit in session.read_edits()] == [edit.id for edit in recorded]
    assert session.edits is None  # a look that ends late must not undo what was learned since
