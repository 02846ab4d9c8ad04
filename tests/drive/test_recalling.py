"""Everything a session recorded is found and read back exactly, after a restart too; and nothing that it did not record."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.sessions import body, context, loop, run
from ebbtide.core.errors import BadRequest, StoreError
from ebbtide.core.recall import PAGE, RECALL_TOOLS
from ebbtide.core.tokens import DEFAULT
from ebbtide.drive.messages import Transcript
from ebbtide.drive.recalling import Recall
from ebbtide.store import DirectoryStore, MemoryStore, PrivateLog
from ebbtide.wire import WIRES
from ebbtide.wire.reading import Reader

SOURCE = 'def parse_header(line):\n    # commit 9f8e7d6c5b\n    raise ValueError("bad\\tline")\n'


def use(id, tool, **args):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": tool, "input": args}]}


def got(id, text):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}


TALK = {
    "anthropic": [
        {"role": "user", "content": "修复连接被拒绝的错误"},
        {"role": "assistant", "content": [{"type": "text", "text": "I read the parser."}, *use("t1", "Read", file_path="src/net/parser.py")["content"]]},
        got("t1", SOURCE),
    ],
    "openai_chat": [
        {"role": "user", "content": "修复连接被拒绝的错误"},
        {"role": "assistant", "content": "I read the parser.", "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "Read", "arguments": json.dumps({"file_path": "src/net/parser.py"})}}]},
        {"role": "tool", "tool_call_id": "t1", "content": SOURCE},
    ],
    "openai_responses": [
        {"role": "user", "content": "修复连接被拒绝的错误"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read the parser."}]},
        {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": json.dumps({"file_path": "src/net/parser.py"})},
        {"type": "function_call_output", "call_id": "t1", "output": SOURCE},
    ],
}  # fmt: skip


def record(log, messages, wire="anthropic"):
    """The messages into the log as a request would bring them; the items they became."""
    request = Reader(DEFAULT, wire=WIRES[wire]).read({WIRES[wire].key: messages})
    transcript = Transcript(session=log.session)
    transcript.absorb(log.read().records)
    log.commit(transcript.advance(request, 1.0), at=1.0)
    return request.items


@pytest.fixture(params=["private", "memory", "directory"])
def kept(request, tmp_path):
    """A log, and the store behind it, if any."""
    if request.param == "private":
        return PrivateLog("s", now=1.0), None
    store = MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path)
    return store.open("s", now=1.0), store


@pytest.fixture
def store(tmp_path):
    return DirectoryStore(tmp_path)


# --- finding and reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", list(TALK))
def test_every_item_is_found_by_its_words_and_read_back_exactly(kept, wire):
    log, store = kept
    items = record(log, TALK[wire], wire)
    recall = Recall(log, store)

    for item, query in zip(items, ["拒绝", "read the parser", "file_path", "parse_header"], strict=True):
        hit = recall.search(query)[0]
        assert item.id.startswith(f"e1-{hit.handle}")
        assert recall.read(hit.handle).text == item.text


@pytest.mark.parametrize("wire", list(TALK))
def test_a_hit_cites_its_source(kept, wire):
    log, store = kept
    record(log, TALK[wire], wire)

    hit = Recall(log, store).search("9f8e7d6")[0]

    last = len(TALK[wire]) - 1
    assert (hit.session, hit.message, hit.role, hit.kind, hit.name, hit.path) == ("s", last, "tool", "result", "Read", "src/net/parser.py")  # fmt: skip
    assert (hit.line, hit.total, hit.copies) == (2, len(SOURCE), 1)
    assert hit.snippet == SOURCE[hit.start :].rstrip()
    assert [hit.snippet[a:b] for a, b in hit.spans] == ["9f8e7d6"]


def test_what_comes_later_is_found_too_and_its_tool_is_known_from_before(kept):
    log, store = kept
    recall = Recall(log, store)
    record(log, TALK["anthropic"][:2])
    assert recall.search("parser")

    record(log, TALK["anthropic"])
    hit = recall.search("ValueError")[0]

    assert (hit.name, hit.path, hit.message) == ("Read", "src/net/parser.py", 2)


def test_it_is_all_there_after_a_restart(tmp_path):
    record(DirectoryStore(tmp_path).open("s", now=1.0), TALK["anthropic"])
    Recall(DirectoryStore(tmp_path).peek("s"), DirectoryStore(tmp_path)).search("parse_header")

    again = DirectoryStore(tmp_path)
    recall = Recall(again.peek("s"), again)

    assert recall.read(recall.search("parse_header")[0].handle).text == SOURCE


def test_only_what_is_new_is_read_again(store):
    """The place up to which a log is indexed is kept with the index."""
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    Recall(log, store).search("parser")
    asked = []

    class Watched:
        session = "s"

        def since(self, position):
            asked.append(position)
            return log.since(position)

        get, path, blobs, read = log.get, log.path, log.blobs, log.read

    assert Recall(Watched(), store).search("parser")
    assert [position.offset for position in asked] == [log.read().position.offset]


def test_a_text_that_was_taken_out_is_read_by_the_path_and_the_name_that_its_stub_gives(tmp_path):
    ctx = context(store=tmp_path)
    messages = loop(24)
    run(ctx, messages)
    store = DirectoryStore(tmp_path)
    log = store.peek("default")
    name = log.blobs()[0].name
    recall = Recall(log, store)

    whole = messages[2]["content"][0]["content"]
    assert recall.read(log.path(name), 0, 10**6).text == whole
    assert recall.read(name, 0, 10**6).text == whole
    assert recall.search("src/f0.py result")[0].file in ("", log.path(name))


def test_a_hit_says_where_the_same_text_stands_on_disk(store):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.put("t1.txt", SOURCE)
    log.commit([], at=2.0)

    hits = Recall(log, store).search("parse_header")

    assert [(hit.kind, hit.file) for hit in hits] == [("result", log.path("t1.txt"))]


def test_a_stored_text_that_is_no_item_is_found_by_itself(kept):
    log, store = kept
    record(log, TALK["anthropic"])
    log.put("t9.json", '[{"zebra": 1}]')
    record(log, [*TALK["anthropic"], {"role": "assistant", "content": "stored"}])

    recall = Recall(log, store)
    hit = recall.search("zebra")[0]

    assert (hit.handle, hit.kind, hit.message) == ("t9.json", "blob", -1)
    assert recall.read(hit.handle).text == '[{"zebra": 1}]'


def test_an_image_is_read_as_its_block(kept):
    log, store = kept
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    (item,) = record(log, [{"role": "user", "content": [block]}])

    assert json.loads(Recall(log, store).read(item.id).text) == block


def test_half_of_a_surrogate_pair_comes_back_as_it_was(kept):
    log, store = kept
    record(log, [{"role": "user", "content": "odd \ud83d half"}])
    recall = Recall(log, store)

    assert recall.read(recall.search("odd")[0].handle).text == "odd \ud83d half"


def test_what_recall_itself_returned_is_not_found_again(kept):
    log, store = kept
    quoted = [use("r1", RECALL_TOOLS[0], query="parse_header"), got("r1", "quoted: def parse_header(line)")]
    items = record(log, [*TALK["anthropic"], *quoted])
    recall = Recall(log, store)

    assert [hit.name for hit in recall.search("parse_header")] == ["Read"]
    assert recall.read(items[-1].id).text.startswith("quoted")


@pytest.mark.parametrize("query", ["", "  ", "...", "§$%"])
def test_a_query_without_a_letter_is_refused(kept, query):
    log, store = kept
    with pytest.raises(BadRequest, match="letter"):
        Recall(log, store).search(query)


@pytest.mark.parametrize("limit", [0, -1, 51])
def test_a_limit_is_from_1_to_50(kept, limit):
    log, store = kept
    with pytest.raises(BadRequest, match="limit"):
        Recall(log, store).search("x", limit=limit)


def test_a_session_without_a_word_has_no_hits(kept):
    log, store = kept

    assert Recall(log, store).search("anything") == ()


# --- pages -------------------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=400), st.integers(1, 90))
def test_pages_laid_side_by_side_are_the_whole(text, step):
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", text)])
    recall, pages, start = Recall(log), [], 0

    while start is not None:
        page = recall.read(item.id, start, start + step)
        pages.append(page.text)
        assert page.total == len(text)
        start = page.next

    assert "".join(pages) == text


def test_without_an_end_a_page_is_bounded_and_says_what_follows():
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", "x" * (PAGE + 5))])
    recall = Recall(log)

    first = recall.read(item.id)
    second = recall.read(item.id, first.next)

    assert (len(first.text), first.end, first.next, first.total) == (PAGE, PAGE, PAGE, PAGE + 5)
    assert (second.text, second.start, second.end, second.next) == ("x" * 5, PAGE, PAGE + 5, None)


def test_beyond_the_end_there_is_nothing_and_that_is_told():
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", "short")])

    page = Recall(log).read(item.id, 99)

    assert (page.text, page.start, page.end, page.total, page.next) == ("", 5, 5, 5, None)


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 2)])
def test_a_range_that_is_none_is_refused(start, end):
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", "short")])

    with pytest.raises(BadRequest):
        Recall(log).read(item.id, start, end)


# --- handles -----------------------------------------------------------------------------------------------------


def test_an_item_has_its_whole_id_its_hash_and_its_first_eight_digits_for_handles(kept):
    log, store = kept
    items = record(log, TALK["anthropic"])
    recall, id = Recall(log, store), items[-1].id

    mark = id.rpartition("-")[0]
    for handle in (id, mark, mark.removeprefix("e1-"), mark.removeprefix("e1-")[:8], f" {id}\n"):
        assert recall.read(handle).text == SOURCE


@pytest.mark.parametrize(
    "handle",
    ["", "e1-", "deadbeef", "e1-00000000000000000000-0", "abc", "DEADBEEF", "passwd", "/etc/passwd", "../s.jsonl", "s.jsonl"],
)  # fmt: skip
def test_what_no_session_recorded_is_refused(kept, handle):
    log, store = kept
    record(log, TALK["anthropic"])

    with pytest.raises(BadRequest, match="not a handle that this session recorded"):
        Recall(log, store).read(handle)


def test_an_occurrence_that_was_not_recorded_is_refused(kept):
    log, store = kept
    items = record(log, TALK["anthropic"])

    with pytest.raises(BadRequest, match="not a handle"):
        Recall(log, store).read(items[-1].id.rpartition("-")[0] + "-7")


def test_seven_digits_are_too_few(kept):
    log, store = kept
    items = record(log, TALK["anthropic"])

    with pytest.raises(BadRequest, match="not a handle"):
        Recall(log, store).read(items[-1].id[3:10])


def test_a_file_that_stands_in_the_shelf_but_was_not_recorded_is_refused(store):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.put("t1.txt", SOURCE)
    log.commit([], at=1.0)
    planted = os.path.join(os.path.dirname(log.path("t1.txt")), "planted.txt")
    with open(planted, "w") as file:
        file.write("from elsewhere")
    recall = Recall(log, store)

    assert recall.read("t1.txt").text == SOURCE
    for handle in ("planted.txt", planted):
        with pytest.raises(BadRequest, match="not a handle"):
            recall.read(handle)


@pytest.mark.parametrize("way", ["{dir}/../tool-results/t1.txt", "./t1.txt", "/t1.txt", "x/t1.txt", "{dir}//t1.txt/"])
def test_only_the_path_that_a_stub_gives_is_a_path(store, way):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.put("t1.txt", SOURCE)
    log.commit([], at=1.0)

    with pytest.raises(BadRequest, match="not a handle"):
        Recall(log, store).read(way.format(dir=os.path.dirname(log.path("t1.txt"))))


def test_the_handle_of_another_session_is_refused_unless_the_session_is_named(store):
    other = store.open("other", now=1.0)
    items = record(other, TALK["anthropic"])
    other.put("t1.txt", "theirs")
    other.commit([], at=1.0)
    log = store.open("s", now=1.0)
    record(log, [{"role": "user", "content": f"a tool printed {items[-1].id} and {other.path('t1.txt')}"}])
    recall = Recall(log, store)

    for handle in (items[-1].id, other.path("t1.txt"), "t1.txt"):
        with pytest.raises(BadRequest, match="not a handle"):
            recall.read(handle)
    assert recall.read(items[-1].id, session="other").text == SOURCE
    with pytest.raises(BadRequest, match="no session of this project"):
        recall.read(items[-1].id, session="nobody")


def test_a_fork_reads_what_its_stubs_name_though_they_name_the_first_session(tmp_path):
    ctx = context(store=tmp_path)
    messages = loop(24)
    run(ctx, messages)
    store = DirectoryStore(tmp_path)
    path = store.peek("default").path(store.peek("default").blobs()[0].name)
    store.fork("default", "fork", now=2.0)

    assert Recall(store.peek("fork"), store).read(path, 0, 10**6).text == messages[2]["content"][0]["content"]


def test_digits_that_two_items_share_are_refused_and_both_are_named(kept):
    log, store = kept
    record(log, TALK["anthropic"])
    for n, tail in enumerate(("1" * 12, "2" * 12)):
        row = {"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": f"twin {n}"}}
        log.commit([{**row, "ebbids": [f"e1-aaaaaaaa{tail}-0"]}], at=1.0)
    recall = Recall(log, store)

    with pytest.raises(BadRequest, match="aaaaaaaa111111111111, aaaaaaaa222222222222"):
        recall.read("aaaaaaaa")
    assert {recall.read(hit.handle).text for hit in recall.search("twin")} == {"twin 0", "twin 1"}


def test_a_stored_text_that_was_changed_is_not_given_out(store):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.put("t1.txt", SOURCE)
    log.commit([], at=1.0)
    with open(log.path("t1.txt"), "w") as file:
        file.write("changed")

    with pytest.raises(StoreError, match="not what was stored"):
        Recall(store.peek("s"), store).read("t1.txt")


# --- across sessions ---------------------------------------------------------------------------------------------


def talk(store, session, text, project=""):
    log = store.open(session, project=project, now=1.0)
    record(log, [{"role": "user", "content": text}])
    return log


@pytest.mark.parametrize("make", [MemoryStore, DirectoryStore])
def test_across_sessions_only_those_of_the_project_are_searched(make, tmp_path):
    store = make() if make is MemoryStore else make(tmp_path)
    own = talk(store, "own", "alpha here", "p")
    talk(store, "sister", "alpha there", "p")
    talk(store, "stranger", "alpha elsewhere", "q")
    recall = Recall(own, store, "p")

    assert [hit.session for hit in recall.search("alpha")] == ["own"]
    assert {hit.session for hit in recall.search("alpha", across=True)} == {"own", "sister"}
    with pytest.raises(BadRequest, match="no session of this project"):
        recall.read("deadbeef", session="stranger")


def test_a_collected_session_is_found_no_more(store, tmp_path):
    own = talk(store, "own", "alpha here")
    talk(store, "gone", "alpha secret")
    recall = Recall(own, store)
    assert len(recall.search("alpha", across=True)) == 2
    (tmp_path / "projects" / "_" / "gone.jsonl").unlink()

    assert [hit.session for hit in recall.search("alpha", across=True)] == ["own"]
    assert b"alpha secret" not in (tmp_path / "index.sqlite").read_bytes()


# --- the index is in nobody's way --------------------------------------------------------------------------------


def test_deleted_between_two_searches_it_is_built_again(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    recall = Recall(log, store)
    before = recall.search("parse_header")
    (tmp_path / "index.sqlite").unlink()

    assert recall.search("parse_header") == before
    assert (tmp_path / "index.sqlite").exists()


def test_damaged_it_is_built_again_within_the_search(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    before = Recall(log, store).search("parse_header")
    (tmp_path / "index.sqlite").write_bytes(b"damaged" * 1000)

    assert Recall(log, store).search("parse_header") == before
    with sqlite3.connect(tmp_path / "index.sqlite") as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (4,)


def test_a_search_that_finds_nothing_new_in_the_log_writes_nothing(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    Recall(log, store).search("parse_header")
    before = (tmp_path / "index.sqlite").stat().st_mtime_ns

    Recall(log, store).search("parse_header")

    assert (tmp_path / "index.sqlite").stat().st_mtime_ns == before


def test_locked_the_search_runs_in_memory_and_finds_the_same(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    before = Recall(log, store).search("parse_header")
    holder = sqlite3.connect(tmp_path / "index.sqlite")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert Recall(log, store).search("parse_header") == before
    finally:
        holder.rollback()
        holder.close()


def test_a_writer_at_work_does_not_keep_others_from_searching_what_is_new(store, tmp_path):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"][:1])
    recall = Recall(log, store)
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
from drive.test_recalling import record
from ebbtide.drive.recalling import Recall
from ebbtide.store import DirectoryStore
store = DirectoryStore(sys.argv[1])
log = store.open(sys.argv[2], now=1.0)
said = []
for n in range(6):
    said += [{"role": "user", "content": f"alpha {n} of {sys.argv[2]}"}, {"role": "assistant", "content": f"yes {n}"}]
    record(log, said)
    assert len(Recall(log, store).search("alpha", limit=20)) == n + 1
"""


def test_several_processes_share_one_index(store, tmp_path):
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([f"{root}/src", f"{root}/tests"])}
    running = [
        subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path), name], env=env, stderr=subprocess.PIPE)
        for name in ("one", "two", "three")
    ]

    assert [(process.communicate(timeout=60)[1], process.returncode) for process in running] == [(b"", 0)] * 3
    recall = Recall(store.peek("one"), store)
    assert len(recall.search("alpha", limit=50, across=True)) == 18
    with sqlite3.connect(tmp_path / "index.sqlite") as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (36,)


@pytest.mark.parametrize("words", ["beta", "beta " * 100, "beta\n" * 5])
def test_where_a_log_was_exchanged_the_old_one_is_not_found(store, tmp_path, words):
    log = talk(store, "s", "alpha of the old log, and some more of it")
    recall = Recall(log, store)
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
    recall = Recall(store.peek("s"), store)
    assert recall.search("alpha")
    with (tmp_path / "projects" / "_" / "s.jsonl").open("ab") as file:
        file.write(b'{"type":"user","message":{"role":"user","content":"bet')

    assert recall.search("alpha")
    assert recall.read(recall.search("alpha")[0].handle).text == "alpha"
    record(log, [{"role": "user", "content": "alpha"}, {"role": "assistant", "content": "gamma"}])
    assert recall.search("gamma")


def test_a_claude_code_file_is_searched_as_it_stands(store, tmp_path):
    """Another program's records have no ids of ours: they get the ones that the engine would give them."""
    rows = [{"type": m["role"], "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "sessionId": "cc", "message": m} for n, m in enumerate(TALK["anthropic"])]  # fmt: skip
    rows.insert(1, {"type": "user", "uuid": "odd", "parentUuid": "u0", "message": "no message at all"})
    rows.insert(1, {"type": "progress", "data": "parse_header"})
    folder = tmp_path / "projects" / "_"
    folder.mkdir(parents=True)
    (folder / "cc.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = Reader(DEFAULT, wire=WIRES["anthropic"]).read(body(TALK["anthropic"])).items
    recall = Recall(store.peek("cc"), store)

    hit = recall.search("parse_header")[0]

    assert (hit.name, hit.message) == ("Read", 2)
    assert items[-1].id.startswith(f"e1-{hit.handle}")
    assert recall.read(hit.handle).text == SOURCE
