"""When something of ours breaks: recorded edits are replayed, nothing new is planned, and the client never notices."""

from __future__ import annotations

import json
import shutil
import threading
import time

import pytest

from ebbtide.store import DirectoryStore
from fronts.proxy.agent import Agent, looping
from fronts.proxy.proxy_runner import WAIT, Running, get, options, proxied, until
from store.faulty_fs import Faulty, Quick
from upstream.prefix import units
from upstream.server import Upstream

WINDOW = 16_000
FULL = 22
"""Calls after which several batches of edits are recorded."""


def extends(upstream, since, until=None):
    """Whether each request from this number on begins with the one before it."""
    sent = [[unit.text for unit in units("openai_chat", request.parsed)] for request in upstream.requests[:until]]
    return all(sent[n][: len(sent[n - 1])] == sent[n - 1] for n in range(since, len(sent)))


def carries_edits(exchange, agent):
    """Whether a good part of the history was left out of this late request."""
    return len(exchange.raw) < len(json.dumps(agent.request())) * 3 // 4


def edited(running):
    return get(running.port, "/ebb/summary")[1]["edits"]


def walk(agent, running, first, last):
    for n in range(first, last):
        agent.turn(n)
        running.settle()


def comes_back(running):
    """The call that hung ends by itself, and the conversation is worked on again."""
    until(lambda: not any(slot.gate.lock.locked() for slot in running.proxy.sessions))


class Hanging(Quick):
    """A disk that stops answering writes, and comes back."""

    def __init__(self):
        self.fine = threading.Event()
        self.fine.set()

    def write(self, *args, **kwargs):
        assert self.fine.wait(WAIT)
        return super().write(*args, **kwargs)


def test_a_disk_that_hangs_costs_no_request_and_no_edit(tmp_path):
    """What goes out meanwhile carries the edits of before, extends the last request, and is counted and logged once.

    The first goes out before its turn is written, and the others find the conversation held by that.
    """
    disk = Hanging()
    store = DirectoryStore(tmp_path, fs=disk, durable=False)
    with (
        Upstream(looping("openai_chat"), window=40_000) as upstream,
        proxied(upstream.url, kept=store, window=WINDOW) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=30)
        walk(agent, running, 0, FULL)
        known = edited(running)
        disk.fine.clear()
        agent.turn(FULL)
        running.limit(0.2)  # nobody can be in time any more
        for n in range(FULL + 1, FULL + 3):
            agent.turn(n)
        summary = get(running.port, "/ebb/summary")[1]
        running.limit(WAIT)
        disk.fine.set()
        comes_back(running)
        walk(agent, running, FULL + 3, FULL + 5)
        later = get(running.port, "/ebb/summary")[1]
        told = [line for line in running.lines if line["event"] == "fallback" and line["reason"] == "late"]

    assert known > 0
    assert summary["fallbacks"] == 2
    assert summary["edits"] == known
    assert extends(upstream, FULL, FULL + 3)
    assert carries_edits(upstream.requests[FULL + 1], agent)
    assert later["fallbacks"] == 2
    assert later["requests"] == FULL + 5
    assert len(told) == 1
    assert not [request.refused for request in upstream.requests if request.refused]


class Watching(Quick):
    """A disk that takes its time over some records, and looks what has gone out by then and is not in the log."""

    def __init__(self, kind, gone):
        self.kind, self.gone, self.turns, self.early = b'"kind":"%s"' % kind, gone, 0, []

    def write(self, fd, data):
        if self.kind in bytes(data):
            time.sleep(0.2)  # what is let go too early is there by then
            self.early.append(self.gone() - self.turns)
        self.turns += bytes(data).count(b'"kind":"turn"')
        return super().write(fd, data)


@pytest.mark.parametrize(
    ("kind", "settings", "turns"), [(b"plan", {}, FULL), (b"turn", {"durable": True}, 5)], ids=("edits", "durable")
)
def test_edits_and_durable_turns_are_in_the_log_before_the_request_is_sent(kind, settings, turns, tmp_path):
    """New edits always; each turn where somebody asked for that."""
    disk = Watching(kind, lambda: len(upstream.requests))
    store = DirectoryStore(tmp_path, fs=disk, durable=False)
    with (
        Upstream(looping("openai_chat"), window=40_000) as upstream,
        proxied(upstream.url, kept=store, window=WINDOW, **settings) as running,
    ):
        walk(Agent("openai_chat", running.port, upstream, lines=30), running, 0, turns)

    assert disk.early
    assert not any(disk.early)


class Odd(Quick):
    """A disk that fails as none does."""

    is_odd = False

    def write(self, fd, data):
        if self.is_odd:
            raise RuntimeError("odd")
        return super().write(fd, data)


def test_a_failure_after_a_request_was_sent_is_logged_and_the_next_one_is_planned(tmp_path):
    disk = Odd()
    store = DirectoryStore(tmp_path, fs=disk, durable=False)
    with (
        Upstream(looping("openai_chat"), window=40_000) as upstream,
        proxied(upstream.url, kept=store, window=WINDOW) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=30)
        walk(agent, running, 0, 2)
        disk.is_odd = True
        walk(agent, running, 2, 3)
        disk.is_odd = False
        walk(agent, running, 3, 5)
        summary = get(running.port, "/ebb/summary")[1]

    assert [line["reason"] for line in running.lines if line["event"] == "fallback"] == ["record: RuntimeError"]
    assert (summary["requests"], summary["fallbacks"]) == (5, 0)
    assert extends(upstream, 1)


@pytest.mark.parametrize("fault", ["ENOSPC", "EIO", "EROFS"])
def test_a_disk_that_is_full_or_broken_stops_no_request(fault, tmp_path):
    files = Faulty(fault, 10**9, sticky=True, only=("write", "link", "rename", "mkdir"))
    store = DirectoryStore(tmp_path, fs=files, durable=False)
    with (
        Upstream(looping("openai_chat"), window=40_000) as upstream,
        proxied(upstream.url, kept=store, window=WINDOW) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=30)
        walk(agent, running, 0, FULL)
        known = edited(running)
        files.when = files.calls
        walk(agent, running, FULL, FULL + 3)

    assert known > 0
    assert files.fired
    assert not [request.refused for request in upstream.requests if request.refused]
    assert carries_edits(upstream.requests[-1], agent)


def test_a_store_that_disappears_stops_no_request(tmp_path):
    store = tmp_path / "store"
    with (
        Upstream(looping("openai_chat"), window=40_000) as upstream,
        proxied(upstream.url, store=store, window=WINDOW) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=30)
        walk(agent, running, 0, FULL)
        known = edited(running)
        shutil.rmtree(store)
        walk(agent, running, FULL, FULL + 3)

    assert known > 0
    assert carries_edits(upstream.requests[-1], agent)


def test_without_a_usable_store_everything_passes_unchanged(tmp_path):
    store = tmp_path / "store"
    with Upstream(looping("openai_chat")) as upstream, proxied(upstream.url, store=store, window=WINDOW) as running:
        store.write_text("in the way")
        agent = Agent("openai_chat", running.port, upstream, lines=3)
        walk(agent, running, 0, 3)

    assert len(upstream.requests) == 3


def test_recorded_edits_are_sent_while_another_process_holds_the_lock(tmp_path):
    with (
        Upstream(looping("openai_chat"), window=40_000) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=30)
        walk(agent, running, 0, FULL)
        known = edited(running)
        (session,) = get(running.port, "/ebb/sessions")[1]["sessions"]
        other = DirectoryStore(tmp_path).open(session["session"], project=session["project"], now=1.0)
        with other.lock() as taken:
            assert taken
            agent.turn(FULL)
        summary = get(running.port, "/ebb/summary")[1]
        # A process that has never seen the session finds its edits without the lock.
        fresh = options(upstream.url, store=tmp_path, window=WINDOW)
        with other.lock() as taken, Running(fresh) as second:
            assert taken
            agent.port = second.port
            agent.turn(FULL + 1)

    assert (summary["edits"], summary["fallbacks"]) == (known, 0)
    assert extends(upstream, FULL)
    assert not [request.refused for request in upstream.requests if request.refused]


def test_two_processes_on_one_store_send_one_conversation(tmp_path):
    """Each finds what the other recorded: requests that go by turns through both extend each other between edits."""
    edits = []
    with Upstream(looping("openai_chat"), window=WINDOW) as upstream:
        terms = {"store": tmp_path, "window": WINDOW}
        with proxied(upstream.url, **terms) as one, proxied(upstream.url, **terms) as two:
            agent = Agent("openai_chat", one.port, upstream, lines=30)
            for n in range(40):
                running = (one, two)[n // 2 % 2]
                agent.port = running.port
                agent.turn(n)
                running.settle()
                edits.append(edited(one) + edited(two))

    sent = [[unit.text for unit in units("openai_chat", one.parsed)] for one in upstream.requests]
    calm = [n for n in range(1, 40) if edits[n] == edits[n - 1]]
    assert edits[-1] > 0
    assert not [n for n in calm if sent[n][: len(sent[n - 1])] != sent[n - 1]]
    assert not [one.refused for one in upstream.requests if one.refused]


def test_a_session_dropped_from_memory_returns_with_its_edits(tmp_path):
    with (
        Upstream(looping("openai_chat"), window=WINDOW) as upstream,
        proxied(upstream.url, store=tmp_path, window=WINDOW, max_sessions=1) as running,
    ):
        agent = Agent("openai_chat", running.port, upstream, lines=30)
        walk(agent, running, 0, FULL)
        known = edited(running)
        other = Agent("openai_chat", running.port, upstream, authorization="Bearer somebody-else")
        other.turn(0)
        assert len(get(running.port, "/ebb/sessions")[1]["sessions"]) == 1
        agent.turn(FULL)
        again = edited(running)

    assert known == again > 0
    del upstream.requests[FULL]
    assert extends(upstream, FULL)
