"""A log that lost a line, or that somebody else holds: the session goes on, and nothing over the window goes out."""

import threading

import pytest

from ebbtide.core.errors import EbbtideError
from ebbtide.runtime import Context
from ebbtide.store import DirectoryStore
from runtime.walks import Walk
from store.faulty_fs import Quick
from upstream.talks import grow

WINDOW = 12_000


WIRE, SEED = "openai_chat", 4


def lived(root, upto):
    """A generated session that folds, and who goes on with it."""
    requests = list(grow(WIRE, SEED, 6))
    walk = Walk(wire=WIRE, window=WINDOW, billed=False, store=DirectoryStore(root, fs=Quick()))
    ctx = walk.context()
    stops = list(walk.go(requests[:upto], lambda: ctx))
    assert all(stop.ready for stop in stops)
    return requests, walk


def test_a_damaged_compaction_record_does_not_prevent_another_compaction(tmp_path):
    """The file of the lost fold lies there under the name that the next one would take."""
    requests, walk = lived(tmp_path, 15)
    log = tmp_path / "projects" / "_" / "default.jsonl"
    lines = log.read_bytes().split(b"\n")
    folds = [n for n, line in enumerate(lines) if b'"kind":"plan"' in line and b"history-" in line]
    assert folds
    for n in folds:
        lines[n] = lines[n].replace(b'"kind":"plan"', b'"kind":"plbn"')
    log.write_bytes(b"\n".join(lines))

    ready = walk.context().prepare(requests[15])

    assert ready.report.tokens_after <= WINDOW


def test_a_request_over_the_window_is_refused_when_another_process_holds_the_log(tmp_path):
    requests, walk = lived(tmp_path, 2)
    holder = DirectoryStore(tmp_path, fs=Quick()).open("default", now=1.0)
    taken, done = threading.Event(), threading.Event()

    def hold():
        with holder.lock():
            taken.set()
            done.wait(240)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert taken.wait(240)
        fresh = Context(store=walk.store, window=WINDOW, wire=WIRE, clock=walk.clock)
        with pytest.raises(EbbtideError):
            fresh.prepare(requests[-1])
    finally:
        done.set()
        thread.join(240)

    assert walk.context().prepare(requests[-1]).report.tokens_after <= WINDOW
