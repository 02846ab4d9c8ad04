"""A handle is good for what its session recorded, and for nothing else."""

import os

import pytest

from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.recall.search import RecallSearch
from ebbtide.store import DirectoryStore
from recall.recorded_sessions import SOURCE, TALK, record
from runtime.sessions import context, loop, run


def test_an_items_handles_are_its_full_id_its_hash_and_its_first_eight_digits(kept):
    log, store = kept
    items = record(log, TALK["anthropic"])
    recall, id = RecallSearch(log, store), items[-1].id

    mark = id.rpartition("-")[0]
    for handle in (id, mark, mark.removeprefix("e1-"), mark.removeprefix("e1-")[:8], f" {id}\n"):
        assert recall.read(handle).text == SOURCE


@pytest.mark.parametrize(
    "handle",
    ["", "e1-", "deadbeef", "e1-00000000000000000000-0", "abc", "DEADBEEF", "passwd", "/etc/passwd", "../s.jsonl", "s.jsonl"],
)  # fmt: skip
def test_a_handle_that_no_session_recorded_is_refused(kept, handle):
    log, store = kept
    record(log, TALK["anthropic"])

    with pytest.raises(BadRequest, match="not a handle of this session"):
        RecallSearch(log, store).read(handle)


def test_an_occurrence_that_was_not_recorded_is_refused(kept):
    log, store = kept
    items = record(log, TALK["anthropic"])

    with pytest.raises(BadRequest, match="not a handle"):
        RecallSearch(log, store).read(items[-1].id.rpartition("-")[0] + "-7")


def test_seven_digits_are_too_few(kept):
    log, store = kept
    items = record(log, TALK["anthropic"])

    with pytest.raises(BadRequest, match="not a handle"):
        RecallSearch(log, store).read(items[-1].id[3:10])


def test_an_unrecorded_file_in_the_blob_folder_is_refused(store):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.save_blob("t1.txt", SOURCE)
    log.commit([], at=1.0)
    planted = os.path.join(os.path.dirname(log.blob_path("t1.txt")), "planted.txt")
    with open(planted, "w") as file:
        file.write("from elsewhere")
    recall = RecallSearch(log, store)

    assert recall.read("t1.txt").text == SOURCE
    for handle in ("planted.txt", planted):
        with pytest.raises(BadRequest, match="not a handle"):
            recall.read(handle)


@pytest.mark.parametrize("way", ["{dir}/../tool-results/t1.txt", "./t1.txt", "/t1.txt", "x/t1.txt", "{dir}//t1.txt/"])
def test_only_the_path_that_a_stub_gives_is_a_path(store, way):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.save_blob("t1.txt", SOURCE)
    log.commit([], at=1.0)

    with pytest.raises(BadRequest, match="not a handle"):
        RecallSearch(log, store).read(way.format(dir=os.path.dirname(log.blob_path("t1.txt"))))


def test_the_handle_of_another_session_is_refused_unless_the_session_is_named(store):
    other = store.open("other", now=1.0)
    items = record(other, TALK["anthropic"])
    other.save_blob("t1.txt", "theirs")
    other.commit([], at=1.0)
    log = store.open("s", now=1.0)
    record(log, [{"role": "user", "content": f"a tool printed {items[-1].id} and {other.blob_path('t1.txt')}"}])
    recall = RecallSearch(log, store)

    for handle in (items[-1].id, other.blob_path("t1.txt"), "t1.txt"):
        with pytest.raises(BadRequest, match="not a handle"):
            recall.read(handle)
    assert recall.read(items[-1].id, session="other").text == SOURCE
    with pytest.raises(BadRequest, match="not a session of this project"):
        recall.read(items[-1].id, session="nobody")


def test_a_fork_reads_what_its_stubs_name_though_they_name_the_first_session(tmp_path):
    ctx = context(store=tmp_path)
    messages = loop(24)
    run(ctx, messages)
    store = DirectoryStore(tmp_path)
    path = store.peek("default").blob_path(store.peek("default").list_blobs()[0].name)
    store.fork("default", "fork", now=2.0)

    assert RecallSearch(store.peek("fork"), store).read(path, 0, 10**6).text == messages[2]["content"][0]["content"]


def test_digits_that_two_items_share_are_refused_and_both_are_named(kept):
    log, store = kept
    record(log, TALK["anthropic"])
    for n, tail in enumerate(("1" * 12, "2" * 12)):
        row = {"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": f"twin {n}"}}
        log.commit([{**row, "ebbids": [f"e1-aaaaaaaa{tail}-0"]}], at=1.0)
    recall = RecallSearch(log, store)

    with pytest.raises(BadRequest, match="aaaaaaaa111111111111, aaaaaaaa222222222222"):
        recall.read("aaaaaaaa")
    assert {recall.read(hit.handle).text for hit in recall.search("twin")} == {"twin 0", "twin 1"}


def test_a_stored_text_that_was_changed_is_not_given_out(store):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.save_blob("t1.txt", SOURCE)
    log.commit([], at=1.0)
    with open(log.blob_path("t1.txt"), "w") as file:
        file.write("changed")

    with pytest.raises(StoreError, match="not what was stored"):
        RecallSearch(store.peek("s"), store).read("t1.txt")
