"""A request over the window waits for the session's log, or is refused; one that fits goes out without it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import ebbtide
from ebbtide.store import DirectoryStore
from fronts.sdk.clients import client
from runtime.sessions import body, context, loop
from store.faulty_fs import Quick
from upstream.server import Upstream

LONG = loop(30)
"""Some 60,000 tokens."""
WINDOW = 30_000


class Waiting(Quick):
    """A clock that goes on by waiting alone; at `when` the lock is given back."""

    def __init__(self):
        self.now, self.when, self.then = 0.0, float("inf"), None

    def ticks(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds
        if self.now >= self.when:
            self.when = float("inf")
            self.then()


@pytest.fixture
def held(tmp_path):
    """Somebody else has the log, and a context waits for it by a clock of its own."""
    files = Waiting()
    with ExitStack() as stack:
        assert stack.enter_context(DirectoryStore(tmp_path, fs=Quick()).open("default", now=1.0).lock())
        files.then = stack.close
        yield files, context(store=DirectoryStore(tmp_path, fs=files), policy="default", window=WINDOW)


def test_a_request_over_the_window_waits_for_the_lock_and_is_made_to_fit(held):
    files, ctx = held
    files.when = 5.0

    ready = ctx.prepare(body(LONG))

    assert files.now >= 5.0
    assert ready.report.tokens_after <= WINDOW
    assert ready.report.edits


def test_a_request_over_the_window_is_refused_when_the_lock_is_never_free(held):
    files, ctx = held

    with pytest.raises(ebbtide.Busy) as refused:
        ctx.prepare(body(LONG))

    assert isinstance(refused.value, ebbtide.WontFit)
    assert refused.value.tokens > refused.value.limit == WINDOW
    assert "try again" in str(refused.value)
    assert 5 < files.now < 60, "it waits, and not for ever"
    files.then()
    assert ctx.prepare(body(LONG)).report.tokens_after <= WINDOW


def test_a_request_that_fits_does_not_wait_longer_than_before(held):
    files, ctx = held

    ready = ctx.prepare(body(LONG[:5]))

    assert files.now < 1
    assert ready.report.edits == ()
    assert "lock" in " ".join(ready.report.notes)


def test_a_wrapped_client_is_refused_and_sends_nothing(tmp_path):
    store = DirectoryStore(tmp_path, fs=Waiting())
    other = DirectoryStore(tmp_path, fs=Quick()).open("nightly", now=1.0)
    with Upstream(["Well."]) as upstream, other.lock() as taken:
        wrapped = ebbtide.wrap(client("anthropic", upstream), window=WINDOW, store=store, session="nightly")
        assert taken
        with pytest.raises(ebbtide.Busy):
            wrapped.messages.create(**body(LONG))
        assert upstream.requests == []
        assert wrapped.messages.create(**body(LONG[:1])).content

    assert len(upstream.requests) == 1
