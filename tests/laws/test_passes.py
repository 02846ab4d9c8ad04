"""The laws of the design, for every pass on every wire: 2,000 conversations each in the nightly profile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire import WIRES
from laws.promises import ALONE, TOGETHER
from laws.trial import ARRIVING, PINS, attempt, conversations, names, nightly
from upstream.talks import history

SILENT = {("strip_thinking", "openai_chat"), ("strip_thinking", "openai_responses")}
"""Wires that have no thinking a client could leave out: it is a field of a message there, or belongs to a group."""
SHARE = st.sampled_from([0.0, 0.0, 0.5, 0.9])
"""Of a conversation that was sent before."""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", names())
@nightly(2_000, quick=15)
@given(data=st.data())
def test_every_promise_holds_for_every_pass(name: str, wire: str, data: st.DataObject) -> None:
    share = data.draw(SHARE) if name in ARRIVING else 0.0
    trial = attempt((name,), wire, data.draw(conversations(wire)), share, data.draw(PINS))
    for promise in (*TOGETHER, *ALONE):
        promise(trial)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", names())
def test_the_laws_see_edits(name: str, wire: str) -> None:
    """A law that never sees an edit holds of nothing."""
    made = any(attempt((name,), wire, history(wire, seed, 4)).plan.edits for seed in range(40))
    assert made is not ((name, wire) in SILENT)


@pytest.mark.parametrize("wire", WIRES)
@nightly(2_000, quick=15)
@given(data=st.data())
def test_any_sequence_of_passes_keeps_the_promises(wire: str, data: st.DataObject) -> None:
    """P1: every subset, in any order, each seeing what the ones before it left."""
    chosen = data.draw(st.lists(st.sampled_from(names()), min_size=2, max_size=5, unique=True))
    trial = attempt(tuple(chosen), wire, data.draw(conversations(wire)), data.draw(SHARE), data.draw(PINS))
    for promise in TOGETHER:
        promise(trial)
