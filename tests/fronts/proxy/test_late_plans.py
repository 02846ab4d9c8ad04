"""A plan that comes too late is either recorded and sent, or neither: a request never differs from its log."""

from __future__ import annotations

import pytest
from benchmarks.faults.proxies import LATE, WIRES, late

from ebbtide.fronts.proxy.identity import Identity
from ebbtide.fronts.proxy.sessions import ProxySession
from ebbtide.policy import default
from ebbtide.store import open_store
from runtime.sessions import context, loop, run


@pytest.mark.parametrize("seed", [WIRES.index("anthropic") + len(WIRES) * n for n in range(len(LATE))])
def test_an_engine_that_is_always_late_sends_what_the_provider_takes(seed):
    """Thinking is signed for what was sent: edits that were recorded behind its back had every later request refused."""
    tally = late(14, seed, lambda points: None)

    assert tally.points == 14
    assert tally.examples == []


def test_a_late_request_has_the_edits_that_another_proxy_recorded(tmp_path):
    identity, store = Identity("tenant", "client", "lane"), open_store(tmp_path)
    slot = ProxySession(
        identity=identity,
        wire="anthropic",
        opening="",
        ids=frozenset(),
        policy=default,
        window_for=lambda _: 30_000,
        store=store,
    )
    assert slot.read_edits() == ()

    other = context(store=open_store(tmp_path), session=identity.session, project=identity.project)
    run(other, loop(24))
    recorded = other.edits()

    assert recorded
    assert [edit.id for edit in slot.read_edits()] == [edit.id for edit in recorded]
    assert slot.edits is None  # a look that ends late must not undo what was learned since
