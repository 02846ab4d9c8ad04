"""What every store promises about removing and checking sessions (`stores.py` lists them)."""

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import LogReplaced
from ebbtide.store.tenants import tenant_project

DAY = 86_400.0
LATER = 4e9
"""So late that every session is old, whatever the clock of the file system says."""


def write_session(store, name, *, project="", text="x" * 1000):
    """A session with one blob that its log names. Nobody has it open afterwards."""
    log = store.open(name, project=project, now=1.0)
    log.save_blob(f"{name}.txt", text)
    log.commit([{"stub": f"{name}.txt"}], at=1.0)


def names(store):
    return sorted(info.session for info in store.list_sessions())


def test_a_deleted_session_is_gone_with_its_blobs_and_the_others_stay(store):
    write_session(store, "mine")
    write_session(store, "other")

    result = store.delete_session("mine")

    assert names(store) == ["other"]
    assert (len(result.sessions), len(result.blobs)) == (1, 1)
    assert result.freed > 1000
    assert result.left > 1000
    log = store.peek("mine")
    assert (log.read().records, log.list_blobs()) == ([], [])
    assert store.peek("other").read_blob("other.txt") == "x" * 1000
    assert store.peek("other").verify().ok


def test_a_deleted_session_can_be_begun_again(store):
    write_session(store, "s")
    store.delete_session("s")
    log = store.open("s", now=2.0)
    log.save_blob("s.txt", "another text")
    log.commit([{"n": 2}], at=2.0)

    assert store.peek("s").read().records == [{"n": 2}]
    assert store.peek("s").read_blob("s.txt") == "another text"
    assert store.peek("s").verify().ok


def test_deleting_a_session_that_does_not_exist_is_an_error(store):
    write_session(store, "s", project="/p")

    with pytest.raises(StoreError, match="no session"):
        store.delete_session("other")
    with pytest.raises(StoreError, match="no session"):
        store.delete_session("s")

    assert names(store) == ["s"]


def test_an_open_session_is_deleted_only_by_force_and_its_log_starts_over(store):
    log = store.open("s", now=1.0)
    with log.lock() as fence:
        position = log.commit([{"n": 1}], at=1.0, fence=fence)
    with pytest.raises(StoreError, match="open"):
        store.delete_session("s")
    assert names(store) == ["s"]

    assert store.delete_session("s", force=True).sessions

    with pytest.raises(LogReplaced):
        log.read_since(position)
    log.commit([{"n": 2}], at=2.0)
    assert store.peek("s").read().records == [{"n": 2}]


def test_a_fork_keeps_its_blobs_when_its_source_is_deleted(store):
    write_session(store, "source")
    store.fork("source", "fork", now=2.0)

    store.delete_session("source")

    assert store.peek("fork").read_blob("source.txt") == "x" * 1000
    assert store.peek("fork").verify().ok


def test_deleting_a_tenant_removes_all_its_sessions_and_no_other(store):
    for name in ("one", "two"):
        write_session(store, name, project=tenant_project("0123456789ab"))
    write_session(store, "theirs", project=tenant_project("ba9876543210"))
    write_session(store, "local", project="/p")

    result = store.delete_tenant("0123456789ab")

    assert len(result.sessions) == 2
    assert names(store) == ["local", "theirs"]
    assert store.delete_tenant("0123456789ab").sessions == ()


def test_a_tenant_with_an_open_session_keeps_all_unless_forced(store):
    project = tenant_project("0123456789ab")
    write_session(store, "idle", project=project)
    log = store.open("open", project=project, now=1.0)
    with log.lock():
        log.commit([{"n": 1}], at=1.0)

    with pytest.raises(StoreError, match="open"):
        store.delete_tenant("0123456789ab")
    assert names(store) == ["idle", "open"]

    assert len(store.delete_tenant("0123456789ab", force=True).sessions) == 2
    assert names(store) == []


def test_gc_removes_old_sessions_that_nobody_has_open(store):
    write_session(store, "old")
    log = store.open("open", now=1.0)
    with log.lock():
        log.commit([{"n": 1}], at=1.0)

    dry = store.gc(older_than=DAY, now=LATER, dry_run=True)
    assert names(store) == ["old", "open"]
    result = store.gc(older_than=DAY, now=LATER)

    assert result == dry
    assert (len(result.sessions), len(result.blobs), len(result.in_use)) == (1, 1, 1)
    assert names(store) == ["open"]


def test_gc_removes_sessions_until_the_store_is_small_enough(store):
    for name in ("a", "b", "c"):
        write_session(store, name, text=name * 10_000)

    result = store.gc(max_bytes=15_000, now=LATER)

    assert len(result.sessions) == 2
    assert result.left <= 15_000
    assert len(names(store)) == 1


def test_gc_keeps_what_is_younger_than_a_day(store):
    write_session(store, "s")

    assert store.gc(older_than=0, max_bytes=0, now=2.0).sessions == ()
    assert names(store) == ["s"]


def test_gc_removes_a_blob_that_no_log_names(store):
    write_session(store, "s")
    store.open("s", now=1.0).save_blob("lost.txt", "never recorded")

    assert len(store.gc(now=LATER).blobs) == 1

    assert [blob.name for blob in store.peek("s").list_blobs()] == ["s.txt"]


def test_an_intact_session_verifies(store):
    write_session(store, "s")

    result = store.peek("s").verify()

    assert result.ok
    assert (result.blobs, result.lines) == (1, 3)


def test_verifying_a_session_that_does_not_exist_is_an_error(store):
    with pytest.raises(StoreError):
        store.peek("s").verify()
