"""Fail the Nth call, for every N until the work gets through: what was acknowledged is there, byte for byte, in order."""

from contextlib import suppress

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import DirectoryStore
from ebbtide.store.directory.verify import verify_log
from store.faulty_fs import Faulty, Killed, Quick

BLOB = "result " * 50


def work(root, fs, attempts):
    """Two writers, a blob, a fork. Each attempt is kept with whether it was acknowledged."""

    def attempt(log, *records):
        entry = [log.session, list(records), False]
        attempts.append(entry)
        try:
            log.commit(records, at=1.0)
        except StoreError:
            return
        entry[2] = True

    store = DirectoryStore(root, fs=fs)
    try:
        first = store.open("s", now=1.0)
        attempt(first, {"n": 1}, {"n": 2})
        attempt(store.open("s", now=1.0), {"n": 3, "pad": "x" * 300}, {"n": 4})
        try:
            first.save_blob("a.txt", BLOB)
        except StoreError:
            attempt(first, {"n": 5})
        else:
            attempt(first, {"n": 5, "names": "a.txt"})
        attempt(first, {"n": 6})
        with suppress(StoreError):
            store.fork("s", "t", upto=1, now=1.0)
        store.list_sessions()
    except StoreError:
        pass


def recovered(root, session):
    return DirectoryStore(root, fs=Quick()).open(session, now=1.0)


def check(root, attempts):
    log = recovered(root, "s")
    found = log.read().records
    for _, records, acknowledged in attempts:
        there = found[: len(records)] == records
        assert there or not acknowledged, (records, found)
        found = found[len(records) :] if there else found
    assert found == []
    assert not [record for record in log.read().records if "names" in record and log.read_blob("a.txt") != BLOB]
    assert recovered(root, "t").read().records in ([], log.read().records[:1])
    log.commit([{"n": "after"}], at=2.0)
    for path in root.rglob("*.jsonl"):
        assert verify_log(path).ok, verify_log(path)


def run(tmp_path, make, step=1):
    """N = 1, 2, 3, ... until the fault no longer fires."""
    for n in range(1, 2000, step):
        root, fs, attempts = tmp_path / str(n), make(n), []
        with suppress(Killed):
            work(root, fs, attempts)
        fs.end()
        if root.exists():
            check(root, attempts)
        else:
            assert not any(acknowledged for _, _, acknowledged in attempts)
        if not fs.fired:
            assert [acknowledged for _, _, acknowledged in attempts] == [True] * 4
            return n
    raise AssertionError("the work never got through")


@pytest.mark.parametrize("fault", ["kill", "died"])
def test_a_kill_at_any_call_loses_nothing_acknowledged(tmp_path, fault):
    assert run(tmp_path, lambda n: Faulty(fault, n)) > 100


def test_an_error_at_any_call_loses_nothing_acknowledged(tmp_path):
    assert run(tmp_path, lambda n: Faulty("EIO", n)) > 100


def test_an_error_that_lasts_from_any_call_loses_nothing_acknowledged(tmp_path):
    # What a lasting fault does at first is what a single one does, so fewer places are enough.
    assert run(tmp_path, lambda n: Faulty("EIO", n, sticky=True), step=5) > 100


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
def test_a_disk_full_at_any_call_that_needs_room_loses_nothing_acknowledged(tmp_path, sticky):
    calls = ("write", "write_at", "mkdir", "link", "rename", "sync", "sync_folder")
    assert run(tmp_path, lambda n: Faulty("ENOSPC", n, sticky=sticky, only=calls)) > 30


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "sticky"])
def test_a_short_write_is_continued(tmp_path, sticky):
    for n in range(1, 12):
        root, fs, attempts = tmp_path / str(n), Faulty("short", n, sticky=sticky, only=("write",)), []
        work(root, fs, attempts)
        fs.end()
        assert [acknowledged for _, _, acknowledged in attempts] == [True] * 4
        check(root, attempts)


def test_a_second_kill_during_the_repair_loses_nothing_either(tmp_path):
    """Recovery is itself killed at every call; the third opening is clean."""
    for n in range(1, 200):
        root = tmp_path / str(n)
        log = recovered(root, "s")
        log.commit([{"n": 1}], at=1.0)
        path = root / "projects/_/s.jsonl"
        good = path.read_bytes()
        path.write_bytes(good + b'{"n":2')
        fs = Faulty("kill", n)
        with suppress(Killed):
            DirectoryStore(root, fs=fs).open("s", now=1.0)
        fs.end()
        again = recovered(root, "s")
        assert path.read_bytes() == good
        assert again.read().records == [{"n": 1}]
        assert any(aside.read_bytes() == b'{"n":2' for aside in path.parent.glob("s.torn-*"))
        if not fs.fired:
            return
    raise AssertionError("the repair never got through")
