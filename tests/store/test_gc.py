"""Old sessions leave whole; what a live stub names stays."""

import gc as garbage
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from ebbtide.store import DirectoryStore
from ebbtide.store.directory.verify import verify_log
from store.faulty_fs import Quick

DAY = 86_400.0
NOW = 1000 * DAY


@pytest.fixture
def store(tmp_path):
    return DirectoryStore(tmp_path, fs=Quick())


def session(store, name, *, days, blob="x" * 1000, names=()):
    """A session with one result that it names, last changed `days` ago."""
    log = store.open(name, project="/p", now=1.0)
    log.save_blob(f"{name}.txt", blob)
    log.commit([{"stub": [log.blob_path(f"{name}.txt"), *names]}], at=1.0)
    age(store, name, days)
    return log


def age(store, name, days):
    folder = Path(store.root.path) / "projects" / "-p"
    for path in [folder / f"{name}.jsonl", *(folder / name).rglob("*")]:
        os.utime(path, (NOW - days * DAY, NOW - days * DAY))


def names(store):
    return sorted(info.session for info in store.list_sessions())


def files(store):
    return {path.name for path in Path(store.root.path).rglob("*") if path.is_file()}


def test_sessions_older_than_the_limit_are_removed_with_all_their_files(store):
    session(store, "old", days=40)
    session(store, "new", days=2)

    sweep = store.gc(older_than=30 * DAY, now=NOW)

    assert names(store) == ["new"]
    assert files(store) == {"new.jsonl", "new.lock", "new.txt", "sessions-index.json"}
    assert [Path(path).name for path in (*sweep.sessions, *sweep.blobs)] == ["old.jsonl", "old.txt"]
    assert sweep.freed > 1000
    assert verify_log(store.list_sessions()[0].path).ok


def test_a_dry_run_says_the_same_and_does_nothing(store):
    session(store, "old", days=40)
    before = files(store)

    dry = store.gc(older_than=30 * DAY, now=NOW, dry_run=True)

    assert files(store) == before
    assert dry == store.gc(older_than=30 * DAY, now=NOW)
    assert dry.sessions


def test_over_the_size_limit_the_oldest_sessions_are_removed_first(store):
    for days in (3, 9, 6):
        session(store, f"d{days}", days=days, blob="x" * 10_000)

    sweep = store.gc(max_bytes=25_000, now=NOW)

    assert names(store) == ["d3", "d6"]
    assert sweep.left <= 25_000
    assert store.gc(max_bytes=25_000, now=NOW).sessions == ()


def test_nothing_younger_than_a_day_is_removed(store):
    session(store, "young", days=0.5)

    assert store.gc(older_than=0, max_bytes=0, now=NOW).freed == 0
    assert names(store) == ["young"]


def test_a_clock_that_ran_backwards_makes_nothing_old(store):
    session(store, "s", days=2)

    assert store.gc(older_than=0, max_bytes=0, now=0.0).freed == 0


def test_a_session_at_work_is_left_alone(store):
    log = session(store, "old", days=40)
    with log.lock():
        assert store.gc(older_than=30 * DAY, now=NOW).sessions == ()

    assert names(store) == ["old"]


def test_a_blob_that_a_fork_names_is_kept_after_its_session_is_removed(store):
    source = session(store, "old", days=40)
    store.fork("old", "fork", project="/p", now=2.0)
    age(store, "fork", 2)

    for _ in range(2):
        store.gc(older_than=30 * DAY, now=NOW)

        assert names(store) == ["fork"]
        stub = store.peek("fork", project="/p").read().records[0]["stub"][0]
        assert stub == source.blob_path("old.txt")
        assert Path(stub).read_text() == "x" * 1000
    age(store, "fork", 40)
    store.gc(older_than=30 * DAY, now=NOW)
    store.gc(older_than=30 * DAY, now=NOW)
    assert files(store) == {"sessions-index.json", "open-sessions"}


def test_a_blob_that_no_log_names_is_removed_after_a_day(store):
    log = session(store, "s", days=2)
    log.save_blob("lost.txt", "never recorded")
    (Path(log.blob_path("lost.txt")).parent / ".new-1234").write_text("half")
    assert store.gc(now=NOW).freed == 0
    age(store, "s", 2)

    store.gc(now=NOW)

    assert files(store) == {"s.jsonl", "s.lock", "s.txt", "sessions-index.json"}


def test_saving_a_blob_again_resets_its_age(store):
    log = session(store, "s", days=2)
    log.save_blob("lost.txt", "never recorded")
    age(store, "s", 2)
    os.utime(log.blob_path("lost.txt"), (1, 1))
    log.save_blob("lost.txt", "never recorded")

    assert Path(log.blob_path("lost.txt")).stat().st_mtime > 1000


def test_another_programs_sessions_are_never_collected(store, tmp_path):
    session(store, "ours", days=2)
    folder = tmp_path / "projects" / "-p"
    (folder / "theirs" / "tool-results").mkdir(parents=True)
    (folder / "theirs.jsonl").write_text('{"type":"user"}\n')
    (folder / "theirs" / "tool-results" / "r.txt").write_text("x")
    (folder / "gone" / "tool-results").mkdir(parents=True)
    (folder / "gone" / "tool-results" / "r2.txt").write_text("x")
    for name in ("theirs", "gone"):
        (folder / f"{name}.jsonl").touch()
        age(store, name, 400)
    (folder / "gone.jsonl").unlink()

    store.gc(older_than=DAY, max_bytes=0, now=NOW)

    assert files(store) == {"theirs.jsonl", "r.txt", "r2.txt", "sessions-index.json"}


def test_a_linked_folder_is_not_swept(store, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    (outside / "tool-results").mkdir(parents=True)
    (outside / "tool-results" / "precious.txt").write_text("x")
    os.utime(outside / "tool-results" / "precious.txt", (1, 1))
    session(store, "s", days=40)
    folder = tmp_path / "projects" / "-p"
    (folder / "linked").symlink_to(outside)
    (folder / "linked.lock").touch()
    (tmp_path / "projects" / "elsewhere").symlink_to(outside)

    store.gc(older_than=DAY, now=NOW)

    assert (outside / "tool-results" / "precious.txt").exists()


def test_torn_tails_are_removed_only_with_their_session(store, tmp_path):
    session(store, "s", days=2)
    torn = tmp_path / "projects" / "-p" / "s.torn-1"
    torn.write_text("half")
    os.utime(torn, (1, 1))
    store.gc(now=NOW)
    assert torn.exists()

    store.gc(older_than=DAY, now=NOW)

    assert not torn.exists()


def test_the_search_index_is_deleted_when_sessions_are_removed(tmp_path):
    """It is derived, and made anew when somebody searches."""
    store = DirectoryStore(tmp_path)
    store.open("old", now=0.0).commit([{"type": "user", "uuid": "u", "message": {"role": "user"}}], at=0.0)
    index = tmp_path / "index.sqlite"
    index.write_bytes(b"")

    assert store.gc(older_than=1e12, now=1e9).sessions == ()
    assert index.exists()
    assert store.gc(older_than=1.0, now=4e9).sessions
    assert not index.exists()


HOLDING = """
import sys
from ebbtide.store import DirectoryStore
log = DirectoryStore(sys.argv[1], durable=False).open("old", project="/p", now=1.0)
with log.lock() as taken:
    assert taken
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def opened_elsewhere(root):
    """A process that took a turn on the session and is idle since."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "open\n"
        yield
    finally:
        process.stdin.close()
        process.wait(120)
        process.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="locks of open files")
class TestOpenSessions:
    def test_a_session_that_a_process_has_open_stays_however_old(self, store, tmp_path):
        session(store, "old", days=40)
        session(store, "older", days=50)
        with opened_elsewhere(tmp_path):
            age(store, "old", 40)
            dry = store.gc(older_than=30 * DAY, now=NOW, dry_run=True)
            sweep = store.gc(older_than=30 * DAY, max_bytes=0, now=NOW)

            assert names(store) == ["old"]
            assert "old.txt" in files(store)
            assert [Path(path).name for path in sweep.in_use] == ["old.jsonl"]
            assert dry.sessions == sweep.sessions
            assert dry.in_use == sweep.in_use
        store.gc(older_than=30 * DAY, now=NOW)
        assert names(store) == []

    def test_a_session_of_this_process_is_kept_until_its_log_is_released(self, store):
        session(store, "old", days=40)
        kept = [store.open("old", project="/p", now=1.0) for _ in range(2)]
        for log in kept:
            with log.lock():
                pass
        del log
        for _ in range(2):
            age(store, "old", 40)
            assert store.gc(older_than=30 * DAY, now=NOW).sessions == ()
            kept.pop()
            garbage.collect()

        assert store.gc(older_than=30 * DAY, now=NOW).sessions

    def test_many_logs_of_one_store_share_one_descriptor(self, tmp_path):
        before = len(os.listdir("/proc/self/fd"))
        logs = [DirectoryStore(tmp_path, durable=False).open(f"s{n}", now=1.0) for n in range(50)]
        for log in logs:
            with log.lock():
                pass

        assert len(os.listdir("/proc/self/fd")) <= before + 1

    def test_a_session_that_cannot_be_marked_as_open_still_works(self, tmp_path):
        (tmp_path / "open-sessions").mkdir()
        log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)

        with log.lock() as taken:
            log.commit([{"n": 1}], at=1.0)

        assert taken
        assert log.read().records == [{"n": 1}]
