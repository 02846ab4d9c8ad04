"""The index behind a search: sessions of one project share it, and it is in nobody's way."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.tokens.estimator import DEFAULT
from ebbtide.recall.search import RecallSearch
from ebbtide.store import DirectoryStore, MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.reader import Reader
from recall.recorded_sessions import SOURCE, TALK, record, talk
from runtime.sessions import body


@pytest.mark.parametrize("make", [MemoryStore, DirectoryStore])
def test_across_sessions_only_those_of_the_project_are_searched(make, tmp_path):
    store = make() if make is MemoryStore else make(tmp_path)
    own = talk(store, "own", "alpha here", "p")
    talk(store, "sister", "alpha there", "p")
    talk(store, "stranger", "alpha elsewhere", "q")
    recall = RecallSearch(own, store, "p")

    assert [hit.session for hit in recall.search("alpha")] == ["own"]
    assert {hit.session for hit in recall.search("alpha", across=True)} == {"own", "sister"}
    with pytest.raises(BadRequest, match="not a session of this project"):
        recall.read("deadbeef", session="stranger")


def test_a_collected_session_is_found_no_more(store, tmp_path):
    own = talk(store, "own", "alpha here")
    talk(store, "gone", "alpha secret")
    recall = RecallSearch(own, store)
    assert len(recall.search("alpha", across=True)) == 2
    (tmp_path / "projects" / "_" / "gone.jsonl").unlink()

    assert [hit.session for hit in recall.search("alpha", across=True)] == ["own"]
    assert b"alpha secret" not in (tmp_path / "index.sqlite").read_bytes()


# --- the index is in nobody's way --------------------------------------------------------------------------------


def test_an_index_deleted_between_two_searches_is_built_again(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    recall = RecallSearch(log, store)
    before = recall.search("parse_header")
    (tmp_path / "index.sqlite").unlink()

    assert recall.search("parse_header") == before
    assert (tmp_path / "index.sqlite").exists()


def test_a_damaged_index_is_built_again_within_the_search(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    before = RecallSearch(log, store).search("parse_header")
    (tmp_path / "index.sqlite").write_bytes(b"damaged" * 1000)

    assert RecallSearch(log, store).search("parse_header") == before
    with sqlite3.connect(tmp_path / "index.sqlite") as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (4,)


def test_a_search_that_finds_nothing_new_in_the_log_writes_nothing(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    RecallSearch(log, store).search("parse_header")
    before = (tmp_path / "index.sqlite").stat().st_mtime_ns

    RecallSearch(log, store).search("parse_header")

    assert (tmp_path / "index.sqlite").stat().st_mtime_ns == before


def test_locked_the_search_runs_in_memory_and_finds_the_same(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    before = RecallSearch(log, store).search("parse_header")
    holder = sqlite3.connect(tmp_path / "index.sqlite")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert RecallSearch(log, store).search("parse_header") == before
    finally:
        holder.rollback()
        holder.close()


def test_a_writer_at_work_does_not_keep_others_from_searching_what_is_new(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"][:1])
    recall = RecallSearch(log, store)
    recall.search("x")
    record(log, TALK["anthropic"])
    holder = sqlite3.connect(tmp_path / "index.sqlite")
    holder.execute("BEGIN IMMEDIATE")
    try:
        assert recall.search("parse_header")[0].name == "Read"
    finally:
        holder.rollback()
        holder.close()


BUSY = """
import sys
from recall.recorded_sessions import record
from ebbtide.recall.search import RecallSearch
from ebbtide.store import DirectoryStore
store = DirectoryStore(sys.argv[1])
log = store.open(sys.argv[2], now=1.0)
said = []
for n in range(6):
    said += [{"role": "user", "content": f"alpha {n} of {sys.argv[2]}"}, {"role": "assistant", "content": f"yes {n}"}]
    record(log, said)
    assert len(RecallSearch(log, store).search("alpha", limit=20)) == n + 1
"""


def test_several_processes_share_one_index(store, tmp_path):
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([f"{root}/src", f"{root}/tests"])}
    running = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path), name], env=env, stderr=subprocess.PIPE)
        for name in ("one", "two", "three")
    ]

    assert [(process.communicate(timeout=240)[1], process.returncode) for process in running] == [(b"", 0)] * 3
    recall = RecallSearch(store.peek("one"), store)
    assert len(recall.search("alpha", limit=50, across=True)) == 18
    with sqlite3.connect(tmp_path / "index.sqlite") as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (36,)


@pytest.mark.parametrize("words", ["beta", "beta " * 100, "beta\n" * 5])
def test_after_a_log_was_exchanged_the_old_one_is_not_found(store, tmp_path, words):
    log = talk(store, "s", "alpha of the old log, and some more of it")
    recall = RecallSearch(log, store)
    assert recall.search("alpha")
    handle = recall.search("alpha")[0].handle
    assert recall.read(handle)
    (tmp_path / "projects" / "_" / "s.jsonl").unlink()
    fresh = DirectoryStore(tmp_path).open("s", now=5.0)
    record(fresh, [{"role": "user", "content": words}, *([{"role": "assistant", "content": "gamma"}] * 2)])

    assert recall.search("alpha") == ()
    assert recall.search("gamma")
    with pytest.raises(BadRequest):
        recall.read(handle)


def test_a_write_that_was_cut_short_is_passed_over(store, tmp_path):
    log = talk(store, "s", "alpha")
    recall = RecallSearch(store.peek("s"), store)
    assert recall.search("alpha")
    with (tmp_path / "projects" / "_" / "s.jsonl").open("ab") as file:
        file.write(b'{"type":"user","message":{"role":"user","content":"bet')

    assert recall.search("alpha")
    assert recall.read(recall.search("alpha")[0].handle).text == "alpha"
    record(log, [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "gamma"}])
    assert recall.search("gamma")


def test_a_claude_code_file_can_be_searched_directly(store, tmp_path):
    """Another program's records have no ids of ours: they get the ones that the engine would give them."""
    rows = [{"type": m["role"], "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "cc", "message": m} for n, m in enumerate(TALK["anthropic"])]  # fmt: skip
    rows.insert(1, {"type": "user", "uuid": "odd", "parentUuid": "u0", "message": "no message at all"})
    rows.insert(1, {"type": "progress", "data": "parse_header"})
    folder = tmp_path / "projects" / "_"
    folder.mkdir(parents=True)
    (folder / "cc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = Reader(DEFAULT, wire=WIRES["anthropic"]).read(body(TALK["anthropic"])).items
    recall = RecallSearch(store.peek("cc"), store)

    hit = recall.search("parse_header")[0]

    assert (hit.name, hit.message) == ("Read", 2)
    assert items[-1].id.startswith(f"e1-{hit.handle}")
    assert recall.read(hit.handle).text == SOURCE
