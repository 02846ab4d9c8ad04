"""A session that goes on in another process knows what it knew, however much of its log it had to read for that."""

import json
from pathlib import Path

import pytest

from ebbtide.audit.replan import replan
from ebbtide.core.types import OURS, Usage
from ebbtide.state.session_state import SessionState, apply_records, ebb_record
from ebbtide.state.snapshot import restore_snapshot, take_snapshot
from ebbtide.store import DirectoryStore, MemoryStore
from runtime.sessions import EARLY, body, call, context, loop, result, run
from store.faulty_fs import Quick

CACHED = {"output_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7}
LONG = 2 * 50_000
"""Lines of a result of over four megabytes: enough log for a checkpoint."""


def lived(store):
    """A session in which everything happened that a state remembers."""
    ctx = context(store=store)
    messages = loop(14)
    for n in range(1, len(messages), 2):
        ready = ctx.prepare(body(messages[:n]))
        usage = {"input_tokens": ready.report.tokens_after, **CACHED}
        ready.record({"role": "assistant", "content": messages[n]["content"], "usage": usage})
    ctx.undo()
    ctx.redo()
    ctx.undo()
    ctx.pin(ctx._session.last.view.originals[0].id)
    ctx.child("scout", window=9_000).finish("nothing there")
    ctx._note(ebb_record("limit", model="claude-opus-4-5", window=25_000, estimated=9_000, used=11_000))
    answer = {"key": "k", "first": "a", "last": "b", "text": "so it was", "way": "transcript"}
    ctx._note(ebb_record("answer", **answer))
    ctx._note(ebb_record("answer", **{**answer, "key": "l", "failed": "cut"}))
    return ctx


def test_a_sessions_state_is_what_its_log_says():
    """A session makes its own turns into state without reading them back."""
    store = MemoryStore()
    ctx = context(store=store, marks=True)
    messages = loop(14)

    for n in range(1, len(messages), 2):
        ready = ctx.prepare(body(messages[:n]))
        assert ctx._session.log.state == apply_records(SessionState(), store.peek("default").read().records)
        ready.record({"role": "assistant", "content": messages[n]["content"], "usage": {"input_tokens": 9, **CACHED}})

    assert ctx._session.log.state.batches
    assert ctx._session.log.state.sent[-1].breakpoints


class Waiting(Quick):
    """Its time is what was waited for. After the patience of one who looks, while one waits who writes, `then` happens."""

    def __init__(self):
        self.now, self.then = 0.0, None

    def ticks(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds
        if self.now > 0.6 and self.then is not None:
            then, self.then = self.then, None
            then()


@pytest.mark.parametrize("act", ["record", "undo"])
def test_records_written_by_others_while_waiting_for_the_lock_are_not_missed(tmp_path, act):
    files, messages = Waiting(), loop(14)
    ours = context(store=DirectoryStore(tmp_path, fs=files))
    theirs = context(store=DirectoryStore(tmp_path, fs=Quick()))
    run(ours, messages[:19])
    busy = DirectoryStore(tmp_path, fs=Quick()).peek("default")
    holding = busy.lock()
    assert holding.__enter__()

    def then():
        holding.__exit__(None, None, None)
        run(theirs, messages[:25], start=19)

    files.then = then
    if act == "record":
        ours.record({"role": "assistant", "content": messages[19]["content"], "usage": {"input_tokens": 9, **CACHED}})
    else:
        assert ours.undo()

    assert files.then is None
    records = busy.read().records
    assert ours._session.log.state == apply_records(SessionState(), records)
    run(ours, messages, start=21)
    assert replan(busy.read().records, {"early": EARLY})[1] == []


def test_what_another_process_removed_and_pinned_is_known_once_an_answer_was_recorded(tmp_path):
    """Recording reads what others did, and the next request finds nothing new in the log."""
    store, messages = DirectoryStore(tmp_path, fs=Quick()), loop(14)
    ours, theirs = context(store=store), context(store=store)
    run(ours, messages[:3])
    sent = run(theirs, messages[:25], start=5)[-1]
    assert sent.report.held
    pinned = theirs._session.last.view.originals[1].id
    theirs.pin(pinned)

    ours.record({"role": "assistant", "content": messages[3]["content"], "usage": {"input_tokens": 9, **CACHED}})
    ours.prepare(body(sent.body["messages"]))

    items = ours._session.last.view.originals
    assert [item for item in items if item.source == OURS]
    assert [item.id for item in items if item.pinned] == [pinned]


def test_a_checkpoint_gives_back_the_very_state():
    store = MemoryStore()
    lived(store)
    records = store.peek("default").read().records
    state = apply_records(SessionState(), records)

    again = restore_snapshot(json.loads(json.dumps(take_snapshot(state))))

    assert again == state
    assert state.batches
    assert state.undone
    used = state.sent[-1].usage
    assert used == Usage(input=used.input, output=20, cache_read=5, cache_write=7)
    told = (state.pinned, state.children, state.limits, state.answers, state.failures, state.recall, state.counters)
    assert all(told)
    # What comes after goes on from it alike.
    more = [*records[-4:], ebb_record("usage", turn=state.turns, model="claude-opus-4-5", estimated=800, input=900)]
    assert apply_records(again, more) == apply_records(state, more)


def test_a_snapshot_has_every_field_of_the_state():
    """Edits and their items follow from the batches. Add a new field to `take_snapshot` and `restore_snapshot` too."""
    names = {"spared" if name == "restored_ids" else name for name in SessionState._fields}
    assert set(take_snapshot(SessionState())) >= names - {"edits", "items"}


def large(tmp_path):
    """A session whose log is worth a checkpoint, and some turns after it."""
    ctx = context(store=DirectoryStore(tmp_path, fs=Quick()), window=10_000_000)
    messages = [*loop(2), call(7), result(7, LONG), *loop(3, first=8)[1:]]
    return ctx, messages, run(ctx, messages)


def memo(tmp_path):
    return next(Path(tmp_path).rglob("default.resume"))


def test_a_long_session_resumes_from_its_checkpoint_as_from_its_log(tmp_path):
    first, messages, _ = large(tmp_path)
    memo(tmp_path)
    later = context(store=DirectoryStore(tmp_path, fs=Quick()), window=10_000_000)
    later.edits()
    assert later._session.log.state == first._session.log.state
    assert later._session.log.transcript.known == first._session.log.transcript.known

    memo(tmp_path).unlink()
    whole = context(store=DirectoryStore(tmp_path, fs=Quick()), window=10_000_000)
    whole.edits()
    assert whole._session.log.state == first._session.log.state

    before = len(first._log.read().records)
    later.prepare(body([*messages, call(20), result(20)]))
    added = first._log.read().records[before:]
    assert [record["type"] for record in added] == ["assistant", "user", "ebb"], "what the log has is not told again"


def test_checkpoints_are_rare(tmp_path):
    first, messages, _ = large(tmp_path)
    path = memo(tmp_path)
    was = path.read_bytes()
    later = context(store=DirectoryStore(tmp_path, fs=Quick()), window=10_000_000)
    for ctx in (first, later):
        messages += [call(30), result(30)]
        ctx.prepare(body(messages))
    assert path.read_bytes() == was


class BusyLockFs(Quick):
    """A lock that is held elsewhere for so many tries."""

    busy = 0

    def flock(self, fd):
        self.busy = max(0, self.busy - 1)
        return not self.busy and super().flock(fd)

    def wait(self, seconds):
        pass

    def ticks(self):
        self.now = getattr(self, "now", 0.0) + 1.0
        return self.now


def test_records_that_were_never_written_are_not_remembered(tmp_path):
    """A process that sent a request without the lock knows of a turn that the log does not have."""
    files = BusyLockFs()
    ctx = context(store=DirectoryStore(tmp_path, fs=files), window=10_000_000)
    ctx.prepare(body(loop(1)))
    files.busy = 1000
    ctx.prepare(body(loop(2)))
    files.busy = 0
    ctx.prepare(body([*loop(2), call(7), result(7, LONG)]))
    assert not list(Path(tmp_path).rglob("*.resume"))


def test_unseen_records_of_others_are_not_left_out_of_a_checkpoint(tmp_path):
    """A reply that is recorded while another holds the lock, and just gave it back, lands after lines unread."""
    files = BusyLockFs()
    ctx = context(store=DirectoryStore(tmp_path, fs=files), window=10_000_000)
    ctx.prepare(body(loop(1)))
    context(store=DirectoryStore(tmp_path, fs=Quick()), window=10_000_000).prepare(body(loop(2)))
    files.busy = 5  # each try takes a second: more than a reading waits, and less than a commit
    ctx.record({"role": "assistant", "content": [{"type": "text", "text": "x" * 5_000_000}]})
    assert files.busy == 0
    assert not list(Path(tmp_path).rglob("*.resume"))


def test_a_checkpoint_of_another_format_is_not_read(tmp_path):
    first, _, _ = large(tmp_path)
    path = memo(tmp_path)
    log = first._log
    log.write_checkpoint([{"type": "ebb", "kind": "checkpoint", "turns": 99}], log.read().position, "0-other")
    later = context(store=DirectoryStore(tmp_path, fs=Quick()), window=10_000_000)
    later.edits()
    assert path.exists()
    assert later._session.log.state == first._session.log.state
