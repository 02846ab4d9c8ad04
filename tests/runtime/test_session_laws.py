"""What holds of every session, whatever the preset, the wire and the window: 300 sessions each in the nightly profile."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import StoreError
from ebbtide.core.types import COMPACTION_PASSES, FIVE_MINUTES
from ebbtide.policy import PRESETS
from ebbtide.runtime.outgoing import reapply_edits
from ebbtide.store import MemoryStore
from ebbtide.store.memory import MemoryLog
from ebbtide.wire import WIRES
from laws.trial import nightly
from runtime.checks import (
    check_extends,
    check_log,
    check_repairs,
    check_valid,
    check_words,
    edits,
    items,
    out,
    repeats,
)
from runtime.sessions import digest
from runtime.walks import Walk, WalkStep
from upstream.talks import grow, sessions

WINDOWS = st.sampled_from([4_096, 8_192, 32_000, 200_000])
PAUSES = st.sampled_from([10.0, 10.0, 400.0])
"""Seconds between calls: within the cache's life, or beyond it."""
ACTS = st.sampled_from(["", "", "pin", "pin", "undo", "redo"])
"""Of a person, between two calls."""
ROOT = Path(__file__).resolve().parents[2]


class Requests(list[dict[str, object]]):
    """With a short repr."""

    def __repr__(self) -> str:
        return f"<{len(self)} requests, {digest(self)[:12]}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis prints by this name, and a list in full without it."""
        printer.text(repr(self))


def walks(wire: str, policy: str, data: st.DataObject) -> tuple[Walk, list[dict[str, object]]]:
    walk = Walk(
        wire=wire, policy=policy, window=data.draw(WINDOWS), billed=data.draw(st.booleans()), pause=data.draw(PAUSES)
    )
    return walk, data.draw(sessions(wire).map(Requests))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@nightly(300, quick=2)
@given(data=st.data())
def test_every_request_is_valid_and_fits_or_is_refused(policy: str, wire: str, data: st.DataObject) -> None:
    walk, requests = walks(wire, policy, data)
    before = digest(requests)
    ctx = walk.context()
    last: WalkStep | None = None
    for stop in walk.go(requests, lambda: ctx):
        if stop.ready is not None:
            check_valid(wire, stop)
            check_repairs(stop)
            assert stop.ready.report.tokens_after <= walk.window
            check_extends(wire, last, stop)
            last = stop
    assert digest(requests) == before, "the client's messages were changed"
    assert len(ctx.edits()) <= len(items(wire, requests[-1])), "edits wear the history away"
    check_log(wire, walk, requests, last)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@nightly(300, quick=2)
@given(data=st.data())
def test_a_context_that_saw_everything_sends_what_a_fresh_one_sends(
    policy: str, wire: str, data: st.DataObject
) -> None:
    """All that a session knows is in its log: incremental equals from scratch, and equal input gives equal bytes."""
    walk, requests = walks(wire, policy, data)
    other = Walk(wire=wire, policy=policy, window=walk.window, billed=walk.billed, pause=walk.pause)
    ctx = walk.context()
    whole = list(walk.go(requests, lambda: ctx))
    fresh = list(other.go(copy.deepcopy(requests), other.context))
    assert [bool(stop.ready) for stop in whole] == [bool(stop.ready) for stop in fresh]
    for n, (one, two) in enumerate(zip(whole, fresh, strict=True)):
        assert edits(one) == edits(two), f"request {n}: other edits"
        assert out(one) == out(two), f"request {n}: other bytes"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@nightly(300, quick=2)
@given(data=st.data())
def test_our_output_fed_back_is_a_no_op(policy: str, wire: str, data: st.DataObject) -> None:
    """A client that took our body for its history gets it again, from a process that knows the log alone.

    Under pressure or with a cold cache a plan may find more to do, as on any turn; what is recorded does nothing twice
    all the same.
    """
    walk, requests = walks(wire, policy, data)
    ctx = walk.context()
    *_, last = walk.go(requests, lambda: ctx)
    if last.ready is None or repeats(wire, requests[-1]):
        return
    body = copy.deepcopy(last.ready.body)
    replayed = reapply_edits(body, ctx.edits(), policy=PRESETS[policy], wire=wire)
    assert WalkStep(asked={}, ready=replace(last.ready, body=replayed.body)).sent(wire) == last.sent(wire)
    again = next(walk.go([body], walk.context))
    if again.ready is not None and again.ready.report.level in ("calm", "warning") and walk.pause < FIVE_MINUTES:
        assert [(edit.by, edit.reason) for edit in again.ready.report.edits] == []
        assert again.sent(wire) == last.sent(wire)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@nightly(300, quick=2)
@given(data=st.data())
def test_a_request_that_is_sent_again_has_the_same_bytes(policy: str, wire: str, data: st.DataObject) -> None:
    """A client that had no answer sends what it sent: to the process that knew it, or to one that knows the log."""
    walk, requests = walks(wire, policy, data)
    ctx, went = walk.context(), 0
    for stop in walk.go(requests, lambda: ctx, again=(lambda: ctx, walk.context)):
        went += stop.ready is not None
        assert stop.refused_again == (), f"request {went}"


@pytest.mark.parametrize("wire", WIRES)
@nightly(300, quick=2)
@given(data=st.data())
def test_the_users_messages_and_restored_content_stay_under_default(wire: str, data: st.DataObject) -> None:
    walk, requests = walks(wire, "default", data)
    ctx = walk.context()
    half = len(requests) // 2
    for stop in walk.go(requests[:half], lambda: ctx):
        check_words(walk, stop)
    taken = ctx.undo()
    # What an earlier batch had offloaded comes back as it stood then: by its stub.
    spared = {edit.first for edit in taken if edit.first == edit.last} - {edit.first for edit in ctx.edits()}
    for stop in walk.go(requests[half:], lambda: ctx):
        check_words(walk, stop)
        if stop.ready is not None:
            check_valid(wire, stop)
            # Thinking goes whoever wants it where what it is bound to changed, or with its turn where that is compacted:
            # its signature holds only at its place (A63). Everything else stays.
            bound = {edit.first for edit in ctx.edits() if edit.by == "thinking"}
            compacted = [edit.binding for edit in ctx.edits() if edit.by in COMPACTION_PASSES and edit.binding]
            turns = {id for binding in compacted for id in binding.hidden}
            asked = {item.id: item.kind for item in items(wire, stop.asked)}
            there = {id for id in spared & asked.keys() - bound if asked[id] != "thinking" or id not in turns}
            kept = [item.id.rpartition("-")[0] for item in items(wire, stop.ready.body)]
            assert [id for id in there if id.rpartition("-")[0] not in kept] == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@nightly(300, quick=2)
@given(data=st.data())
def test_every_request_is_valid_whatever_a_person_pins_or_restores(policy: str, wire: str, data: st.DataObject) -> None:
    """And what is pinned goes out from then on."""
    walk, requests = walks(wire, policy, data)
    ctx = walk.context()
    pinned, last = set[str](), None
    for stop in walk.go(requests, lambda: ctx):
        if stop.ready is None:
            continue
        check_valid(wire, stop)
        check_repairs(stop)
        assert stop.ready.report.tokens_after <= walk.window
        check_extends(wire, last, stop)
        out = {item.id.rpartition("-")[0] for item in items(wire, stop.ready.body)}
        there = [item for item in items(wire, stop.asked) if item.id.rpartition("-")[0] in out]
        assert pinned & {item.id for item in items(wire, stop.asked)} <= {item.id for item in there}
        act = data.draw(ACTS)
        # A person's word is a change too: the prefix may move.
        last = stop if not act else None
        if act == "pin":
            # Thinking is signed for its place, and leaves where what is before it does.
            ids = [item.id for item in there if item.kind != "thinking"]
            pinned |= (chosen := set(data.draw(st.lists(st.sampled_from(ids), max_size=3))) if ids else set())
            ctx.pin(*sorted(chosen))
        elif act == "undo":
            ctx.undo()
        elif act == "redo":
            # What comes back may leave out what was pinned in between, as it did before.
            pinned = set() if ctx.redo() else pinned
    check_log(wire, walk, requests, last)


class Flaky(MemoryStore):
    """Some of it fails: to keep what left, to write the log, or both."""

    failing: tuple[str, ...] = ()

    def open(self, session: str, **options: Any) -> MemoryLog:
        log = super().open(session, **options)
        for name in ("save_blob", "commit"):
            setattr(log, name, self._guarded(name, getattr(log, name)))
        return log

    def _guarded(self, name: str, does: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*told: Any, **more: Any) -> Any:
            if name in self.failing:
                raise StoreError("no space left on device")
            return does(*told, **more)

        return guarded


FAILING = st.sampled_from([(), (), ("save_blob",), ("commit",), ("save_blob", "commit")])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("policy", PRESETS)
@nightly(300, quick=2)
@given(data=st.data())
def test_when_the_store_fails_no_stub_names_a_missing_file(policy: str, wire: str, data: st.DataObject) -> None:
    """Every request is valid all the same, and once the store is back the log has it all."""
    walk, requests = walks(wire, policy, data)
    walk.store = store = Flaky()
    ctx = walk.context()
    last: WalkStep | None = None
    going = walk.go(requests, lambda: ctx)
    for n in range(len(requests)):
        store.failing = data.draw(FAILING) if n + 1 < len(requests) else ()
        stop = next(going)
        if stop.ready is not None:
            check_valid(wire, stop)
            check_repairs(stop)
            check_extends(wire, last, stop)
            last = stop
        there = {blob.name for blob in store.peek("default").list_blobs()}
        assert {blob.name for edit in ctx.standing for blob in edit.blobs} <= there
    if last is stop:
        check_log(wire, walk, requests, last)
    assert [edit.id for edit in walk.context().edits()] == [edit.id for edit in ctx.edits()]


@pytest.mark.parametrize("wire", WIRES)
@nightly(300, quick=2)
@given(data=st.data())
def test_bytes_in_are_bytes_out_and_say_the_same_as_dicts(wire: str, data: st.DataObject) -> None:
    walk, requests = walks(wire, "default", data)
    other = Walk(wire=wire, window=walk.window, billed=False, pause=walk.pause)
    walk.billed = False
    one, two = walk.context(), other.context()
    for stop, asked in zip(walk.go(requests, lambda: one), requests, strict=True):
        raw = json.dumps(asked, ensure_ascii=False).encode()
        if stop.ready is None:
            return
        body = two.prepare(raw).body
        other.clock.tick(other.pause)
        assert digest(json.loads(body)) == digest(stop.ready.body)
        assert body == raw or stop.ready.body is not asked


def test_every_hash_seed_gives_the_same_bytes() -> None:
    """Order never comes from a set: three interpreters with seeds of their own agree."""
    program = (
        "from runtime.test_session_laws import spelled\n"
        "from ebbtide.wire import WIRES\n"
        "print([spelled(wire, seed) for wire in WIRES for seed in (3, 4)])"
    )
    path = os.pathsep.join(str(ROOT / name) for name in ("src", "tests"))
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=True, timeout=280,
        ).stdout
        for seed in ("0", "1", "4242")
    ]  # fmt: skip
    assert len(set(runs)) == 1
    assert runs[0].count("'") == 4 * len(WIRES)


def spelled(wire: str, seed: int) -> str:
    """A digest of everything that a session sent, edits and bytes."""
    walk = Walk(wire=wire, window=8_192)
    ctx = walk.context()
    return digest([[edits(stop), out(stop)] for stop in walk.go(list(grow(wire, seed, 5)), lambda: ctx)])
