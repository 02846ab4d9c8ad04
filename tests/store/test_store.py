"""What every store promises (`stores.py` lists them)."""

import json
import os
import threading
from pathlib import Path

import pytest

from ebbtide.core.errors import BadConfig, StoreError
from ebbtide.store import DirectoryStore, MemoryStore, PrivateLog, message_record, open_store
from ebbtide.store.protocol import LockLost
from store.faulty_fs import Quick


def said(text, session="s", parent=None, role="user"):
    return message_record({"role": role, "content": text}, session=session, parent=parent, at=1.0, project="/p")


def test_a_commit_is_read_by_any_log_of_the_session(store):
    store.open("s", now=1.0).commit([{"n": 1}, {"n": 2}], at=2.0)
    store.open("s", now=3.0).commit([{"n": 3}], at=4.0)

    reading = store.open("s", now=5.0).read()

    assert [record["n"] for record in reading.records] == [1, 2, 3]
    assert reading.header["sessionId"] == "s"
    assert reading.header["timestamp"] == "1970-01-01T00:00:01.000Z"
    assert reading.damage == ()


def test_a_writer_sees_what_another_appended_since(store):
    mine, theirs = store.open("s", now=1.0), store.open("s", now=1.0)
    position = mine.commit([{"n": 1}], at=1.0)
    assert mine.read_since(position).records == []
    theirs.commit([{"n": 2}, {"n": 3}], at=1.0)

    news = mine.read_since(position)

    assert [record["n"] for record in news.records] == [2, 3]
    assert mine.read_since(news.position).records == []
    assert mine.commit([{"n": 4}], at=1.0) == theirs.read().position


def test_a_holder_that_lost_the_lock_cannot_commit_what_it_planned(store):
    paused, successor = store.open("s", now=1.0), store.open("s", now=1.0)
    with paused.lock() as old:
        paused.commit([{"n": 1}], at=1.0, fence=old)
    with successor.lock() as new:
        successor.commit([{"n": 2}], at=1.0, fence=new)

    with pytest.raises(LockLost):
        paused.commit([{"n": "planned after 1"}], at=1.0, fence=old)

    assert [record["n"] for record in successor.read().records] == [1, 2]
    paused.commit([{"n": 3}], at=1.0)
    assert [record["n"] for record in successor.read().records] == [1, 2, 3]


def test_a_nested_lock_has_the_fence_of_the_outer_one(store):
    log = store.open("s", now=1.0)
    with log.lock() as outer, log.lock() as inner:
        log.commit([{"n": 1}], at=1.0, fence=outer)

    assert outer == inner > 0


def test_changing_a_record_after_its_commit_changes_nothing(store):
    log, record = store.open("s", now=1.0), {"list": [1]}
    log.commit([record], at=1.0)
    record["list"].append(2)
    log.read().records[0]["list"].append(3)

    assert log.read().records == [{"list": [1]}]


def test_a_commit_that_cannot_be_written_leaves_nothing(store):
    log = store.open("s", now=1.0)
    log.commit([{"n": 1}], at=1.0)
    with pytest.raises(StoreError):
        log.commit([{"n": 2}, {"n": object()}], at=1.0)

    log.commit([{"n": 3}], at=1.0)

    assert log.read().records == [{"n": 1}, {"n": 3}]


def test_an_empty_commit_creates_no_session(store):
    store.open("s", now=1.0).commit([], at=1.0)

    assert store.list_sessions() == []


def test_peeking_at_a_missing_session_creates_nothing(store):
    log = store.peek("s")
    assert (log.read().records, log.list_blobs()) == ([], [])
    store.open("s", now=1.0).read()

    assert store.list_sessions() == []


def test_a_blob_is_saved_once_and_read_back(store):
    log, text = store.open("s", now=1.0), "é\ud800\0\r\n\u2028" * 3
    log.save_blob("a.txt", text)
    log.save_blob("a.txt", text)
    log.commit([{"n": 1}], at=1.0)

    assert store.open("s", now=2.0).read_blob("a.txt") == text
    assert [(blob.name, blob.bytes) for blob in log.list_blobs()] == [("a.txt", 33)]


def test_a_blob_is_never_replaced(store):
    log = store.open("s", now=1.0)
    log.save_blob("a.txt", "one")
    with pytest.raises(StoreError, match="another text"):
        log.save_blob("a.txt", "two")

    assert log.read_blob("a.txt") == "one"


@pytest.mark.parametrize("name", ["missing.txt", "../s.jsonl", "/etc/passwd"])
def test_a_blob_of_another_session_is_not_found(store, name):
    store.open("other", now=1.0).save_blob("missing.txt", "secret")
    store.open("s", now=1.0).save_blob("a.txt", "x")
    with pytest.raises(StoreError):
        store.open("s", now=1.0).read_blob(name)


def test_blob_sums_are_recorded_with_the_next_commit_and_hidden_from_records(store):
    log = store.open("s", now=1.0)
    log.save_blob("a.txt", "x")
    log.commit([{"n": 1}], at=1.0)
    log.commit([{"n": 2}], at=1.0)

    reading = log.read()

    assert (reading.records, list(reading.blob_sums)) == ([{"n": 1}, {"n": 2}], ["a.txt"])
    assert log.verify().lines == 4


def test_a_fork_begins_like_the_original_and_then_differs(store):
    log = store.open("s", project="/p", now=1.0)
    log.save_blob("a.txt", "x")
    log.commit([{"n": 1}, {"n": 2}, {"n": 3}], at=1.0)

    fork = store.fork("s", "t", project="/p", upto=2, now=5.0)
    fork.commit([{"n": 9}], at=6.0)
    log.commit([{"n": 4}], at=6.0)

    assert [record["n"] for record in fork.read().records] == [1, 2, 9]
    assert [record["n"] for record in log.read().records] == [1, 2, 3, 4]
    assert fork.read_blob("a.txt") == "x"
    assert list(fork.read().blob_sums) == ["a.txt"]


def test_a_fork_of_everything_is_everything(store):
    store.open("s", now=1.0).commit([{"n": 1}, {"n": 2}], at=1.0)

    assert store.fork("s", "t", now=2.0).read().records == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("source", "new", "upto"), [("none", "t", None), ("s", "s", None), ("s", "t", 3), ("s", "t", -1)]
)
def test_an_impossible_fork_is_refused(store, source, new, upto):
    store.open("s", now=1.0).commit([{"n": 1}, {"n": 2}], at=1.0)
    with pytest.raises(StoreError):
        store.fork(source, new, upto=upto, now=2.0)

    assert [info.session for info in store.list_sessions()] == ["s"]


def test_sessions_are_listed_newest_first_with_title_and_counts(store):
    for number, session in enumerate(["one", "two"]):
        first = said("Fix the\nbug", session)
        first["timestamp"] = f"2026-01-0{number + 1}T00:00:00.000Z"
        log = store.open(session, project="/p", now=float(number))
        log.commit([first, {"type": "ebb", "kind": "sent"}], at=float(number))

    listed = store.list_sessions()

    assert [info.session for info in listed] == ["two", "one"]
    assert (listed[0].title, listed[0].first_prompt) == ("Fix the", "Fix the\nbug")
    assert (listed[0].messages, listed[0].project) == (1, "/p")
    assert listed[0].bytes > 0


def test_the_lock_lets_in_one_writer_and_is_reentrant(store):
    log, other, seen = store.open("s", now=1.0), store.open("s", now=1.0), []

    def elsewhere():
        with other.lock(timeout=0) as held:
            seen.append(held)

    with log.lock() as held, log.lock(timeout=0) as again:
        assert held
        assert again
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        log.commit([{"n": 1}], at=1.0)
    with other.lock(timeout=0) as free:
        seen.append(free)

    assert [bool(fence) for fence in seen] == [False, True]


def test_one_log_shared_by_threads_keeps_every_commit(store):
    log = store.open("s", now=1.0)

    def work(name):
        for number in range(20):
            log.commit([{"by": name, "n": number}, {"by": name, "n": -number}], at=1.0)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    reading = log.read()
    assert reading.damage == ()
    for name in "abc":
        assert [r["n"] for r in reading.records if r["by"] == name] == [s * n for n in range(20) for s in (1, -1)]


def test_only_a_store_of_files_gives_a_blob_path(tmp_path):
    log = DirectoryStore(tmp_path, durable=False).open("s", project="/a/b", now=1.0)
    log.save_blob("a.txt", "x")

    assert log.blob_path("a.txt") == str(tmp_path / "projects" / "-a-b" / "s" / "tool-results" / "a.txt")
    assert Path(log.blob_path("a.txt")).read_text() == "x"
    assert MemoryStore().open("s", now=1.0).blob_path("a.txt") == ""


def test_open_store_accepts_none_or_a_directory_and_refuses_the_rest(tmp_path):
    assert isinstance(open_store(None), MemoryStore)
    assert isinstance(open_store(tmp_path), DirectoryStore)
    assert isinstance(open_store(str(tmp_path)), DirectoryStore)
    with pytest.raises(BadConfig, match="not known"):
        open_store("mysql://localhost/x")


def test_the_index_has_the_fields_other_tools_read(tmp_path):
    store = DirectoryStore(tmp_path, fs=Quick())
    store.open("s", project="/home/me/x", now=1.0).commit([said("Hello")], at=2.0)

    index = json.loads((tmp_path / "projects/-home-me-x/sessions-index.json").read_text())

    assert (index["version"], index["originalPath"]) == (1, "/home/me/x")
    log = tmp_path / "projects/-home-me-x/s.jsonl"
    assert index["entries"] == [
        {
            "sessionId": "s",
            "fullPath": str(log),
            "fileMtime": log.stat().st_mtime_ns // 1_000_000,
            "firstPrompt": "Hello",
            "summary": "Hello",
            "messageCount": 1,
            "created": "1970-01-01T00:00:01.000Z",
            "modified": "1970-01-01T00:00:01.000Z",
            "gitBranch": "",
            "projectPath": "/home/me/x",
            "isSidechain": False,
        }
    ]


def test_the_session_index_follows_its_logs_and_recovers_from_damage(tmp_path):
    store = DirectoryStore(tmp_path, fs=Quick())
    log = store.open("s", project="/p", now=1.0)
    log.commit([{"type": "ebb"}], at=1.0)
    assert store.list_sessions()[0].first_prompt == "No prompt"
    log.commit([said("Hello"), said("Again")], at=1.0)
    assert store.list_sessions()[0].messages == 2
    index = tmp_path / "projects/-p/sessions-index.json"
    for broken in ("", "[]", '{"entries": 3}', "[" * 5000, '{"entries": [{}]}'):
        index.write_text(broken)
        assert store.list_sessions()[0].messages == 2
    index.unlink()
    assert store.list_sessions()[0].title == "Hello"


def test_a_title_that_another_program_gave_stays(tmp_path):
    store = DirectoryStore(tmp_path, fs=Quick())
    log = store.open("s", project="/p", now=1.0)
    log.commit([said("Hello")], at=1.0)
    index = tmp_path / "projects/-p/sessions-index.json"
    index.write_text(index.read_text().replace('"summary": "Hello"', '"summary": "Greetings"'))
    log.commit([said("More")], at=1.0)

    assert (store.list_sessions()[0].title, store.list_sessions()[0].messages) == ("Greetings", 2)


def test_an_index_entry_is_used_while_its_log_is_unchanged(tmp_path):
    """Listing a thousand sessions must not read a thousand logs."""

    class Counting(Quick):
        opened: list[str]

        def open(self, name, flags, *, at=None):
            self.opened.append(name)
            return super().open(name, flags, at=at)

    fs = Counting()
    fs.opened = []
    store = DirectoryStore(tmp_path, fs=fs)
    store.open("s", project="/p", now=1.0).commit([said("Hello")], at=1.0)
    os.utime(tmp_path / "projects/-p/s.jsonl", (1000, 1000))
    store.list_sessions()
    fs.opened.clear()
    assert store.list_sessions()[0].messages == 1

    assert "s.jsonl" not in fs.opened


def test_a_large_index_is_not_written_again_for_each_new_session(tmp_path):
    """A proxy begins thousands of them. Whoever lists them sees all."""
    store = DirectoryStore(tmp_path, fs=Quick())
    store.open("first", project="/p", now=1.0).commit([said("Hello")], at=1.0)
    index = tmp_path / "projects/-p/sessions-index.json"
    large = json.dumps({**json.loads(index.read_text()), "padding": "x" * 50_000_000})
    index.write_text(large)
    store.open("second", project="/p", now=1.0).commit([said("Hello")], at=1.0)

    assert index.stat().st_size == len(large)
    assert {info.session for info in store.list_sessions()} == {"first", "second"}
    assert "second" in index.read_text()


def test_a_log_changed_in_the_same_tick_as_the_index_is_read_again(tmp_path):
    store = DirectoryStore(tmp_path, fs=Quick())
    log = store.open("s", project="/p", now=1.0)
    log.commit([said("Hello")], at=1.0)
    files = [tmp_path / "projects/-p" / name for name in ("s.jsonl", "sessions-index.json")]
    tick = files[0].stat().st_mtime_ns
    log.commit([said("Again")], at=1.0)
    for path in files:
        os.utime(path, ns=(tick, tick))

    assert store.list_sessions()[0].messages == 2


def test_a_private_log_returns_what_was_committed_since_a_position():
    log = PrivateLog("s", now=1.0)
    first = log.commit([{"n": 1}], at=1.0)
    log.save_blob("a.txt", "hello")
    last = log.commit([{"n": 2}, {"n": 3}], at=2.0)

    assert [record["n"] for record in log.read_since(first).records] == [2, 3]
    assert log.read_since(last).records == []
    assert log.commit([{"n": 4}], at=3.0) == log.read().position
    assert [record["n"] for record in log.read().records] == [1, 2, 3, 4]
    assert log.read().blob_sums.keys() == {"a.txt"}


def test_a_private_log_encodes_records_only_when_they_are_read():
    log = PrivateLog("s", now=1.0)
    log.commit([{"n": object()}], at=1.0)

    with pytest.raises(StoreError):
        log.read()
