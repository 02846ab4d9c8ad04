"""A log that is removed, cut short or exchanged under a living session: it begins anew, and no stub names a lost file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ebbtide.store import DirectoryStore, LogReplaced
from ebbtide.store.directory.verify import verify_log
from runtime.sessions import Clock, body, context, loop
from store.faulty_fs import Quick

LONG = loop(40)
WINDOW = 30_000


def opened(root, clock=None):
    return context(store=DirectoryStore(root, fs=Quick()), policy="default", window=WINDOW, clock=clock)


def walk(ctx, start, stop):
    ready = None
    for n in range(start, stop, 2):
        ready = ctx.prepare(body(LONG[:n]))
        assert ready.report.tokens_after <= WINDOW
        ready.record({"content": LONG[n]["content"], "usage": {"input_tokens": ready.report.tokens_after}})
    return ready


def log_of(root) -> Path:
    return next(root.rglob("*.jsonl"))


def removed(root):
    shutil.rmtree(root / "projects")


def removed_log_alone(root):
    log_of(root).unlink()


def cut(root):
    path = log_of(root)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1]))


def exchanged(root):
    """Another process began anew after the log was removed, and wrote more than there had been."""
    removed(root)
    other = opened(root, Clock(2_000_000.0))
    for _ in range(2):
        walk(other, 1, 79)
        other.undo()


@pytest.mark.parametrize("vanish", [removed, removed_log_alone, cut, exchanged])
def test_it_continues_within_the_window_and_every_stub_names_an_existing_file(vanish, tmp_path):
    clock, events = Clock(), []
    ctx = opened(tmp_path, clock)
    walk(ctx, 1, 41)
    ctx._session.events.listener = events.append
    assert ctx.edits()

    vanish(tmp_path)
    clock.tick(200_000)
    ready = walk(ctx, 41, 79)

    named = {blob.name for edit in ctx.edits() for blob in edit.blobs}
    kept = {path.name for path in tmp_path.rglob("tool-results/*")}
    assert ready.report.held
    assert named
    assert named <= kept
    assert [event for event in events if event.kind == "store"]
    assert verify_log(log_of(tmp_path)).ok or vanish is cut
    assert opened(tmp_path, clock).prepare(body(LONG)).report.tokens_after <= WINDOW


def test_recording_an_answer_after_the_log_was_deleted_leaves_a_valid_log(tmp_path):
    ctx = opened(tmp_path)
    walk(ctx, 1, 21)
    ready = ctx.prepare(body(LONG[:21]))
    removed(tmp_path)
    ready.record({"content": LONG[21]["content"], "usage": {"input_tokens": 9_000}})

    walk(ctx, 23, 41)

    assert verify_log(log_of(tmp_path)).ok
    assert len(opened(tmp_path)._log.read().records) > 40


def test_a_reader_learns_that_its_position_belongs_to_another_log(tmp_path):
    log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)
    for n in range(4):
        log.commit([{"n": n}], at=1.0)
    place = log.read().position
    path = log_of(tmp_path)
    path.unlink()
    fresh = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)
    for n in range(40):
        fresh.commit([{"another": n}], at=1.0)

    with pytest.raises(LogReplaced):
        log.read_since(place)
    assert len(log.read().records) == 40


@pytest.mark.skipif(sys.platform != "linux", reason="locks of open files")
def test_gc_beside_an_open_session_that_was_idle_for_weeks_removes_nothing_of_it(tmp_path):
    ctx, now = opened(tmp_path), 4_000_000_000.0
    walk(ctx, 1, 41)
    edits = ctx.edits()

    swept = DirectoryStore(tmp_path).gc(older_than=86_400.0, max_bytes=0, now=now)
    walk(ctx, 41, 79)

    assert (swept.sessions, swept.blobs, len(swept.in_use)) == ((), (), 1)
    assert ctx.edits()[: len(edits)] == edits
    kept = {path.name for path in tmp_path.rglob("tool-results/*")}
    assert {blob.name for edit in ctx.edits() for blob in edit.blobs} <= kept
