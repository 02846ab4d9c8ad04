"""Everything a session recorded is found and read back exactly, after a restart too; and nothing that it did not record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import BadRequest
from ebbtide.core.tool_calls import PAGE, RECALL_TOOLS
from ebbtide.recall.search import RecallSearch
from ebbtide.store import DirectoryStore, PrivateLog
from recall.recorded_sessions import SOURCE, TALK, got, record, use
from runtime.sessions import context, loop, run

# --- finding and reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", list(TALK))
def test_every_item_is_found_by_its_words_and_read_back_exactly(kept, wire):
    log, store = kept
    items = record(log, TALK[wire], wire)
    recall = RecallSearch(log, store)

    for item, query in zip(items, ["拒绝", "read the parser", "file_path", "parse_header"], strict=True):
        hit = recall.search(query)[0]
        assert item.id.startswith(f"e1-{hit.handle}")
        assert recall.read(hit.handle).text == item.text


@pytest.mark.parametrize("wire", list(TALK))
def test_a_hit_cites_its_source(kept, wire):
    log, store = kept
    record(log, TALK[wire], wire)

    hit = RecallSearch(log, store).search("9f8e7d6")[0]

    last = len(TALK[wire]) - 1
    assert (hit.session, hit.message, hit.role, hit.kind, hit.name, hit.path) == ("s", last, "tool", "result", "Read", "src/net/parser.py")  # fmt: skip
    assert (hit.line, hit.total, hit.copies) == (2, len(SOURCE), 1)
    assert hit.snippet == SOURCE[hit.start :].rstrip()
    assert [hit.snippet[a:b] for a, b in hit.spans] == ["9f8e7d6"]


def test_later_text_is_found_too_and_its_tool_is_known_from_before(kept):
    log, store = kept
    recall = RecallSearch(log, store)
    record(log, TALK["anthropic"][:2])
    assert recall.search("parser")

    record(log, TALK["anthropic"])
    hit = recall.search("ValueError")[0]

    assert (hit.name, hit.path, hit.message) == ("Read", "src/net/parser.py", 2)


def test_a_result_without_an_id_is_described_by_the_call_it_answers(kept):
    """Of parallel calls of one tool, by their order."""
    log, store = kept
    calls = [{"functionCall": {"name": "Read", "args": {"file_path": f"src/{name}.py"}}} for name in ("one", "two")]
    results = [{"functionResponse": {"name": "Read", "response": {"output": f"class {one}"}}} for one in ("One", "Two")]
    first = {"role": "user", "parts": [{"text": "look"}]}
    record(log, [first, {"role": "model", "parts": calls}, {"role": "user", "parts": results}], "gemini")

    hits = [
        next(hit for hit in RecallSearch(log, store).search(word) if hit.kind == "result") for word in ("One", "Two")
    ]

    assert [(hit.name, hit.path) for hit in hits] == [("Read", "src/one.py"), ("Read", "src/two.py")]


def test_it_is_all_there_after_a_restart(tmp_path):
    record(DirectoryStore(tmp_path).open("s", now=1.0), TALK["anthropic"])
    RecallSearch(DirectoryStore(tmp_path).peek("s"), DirectoryStore(tmp_path)).search("parse_header")

    again = DirectoryStore(tmp_path)
    recall = RecallSearch(again.peek("s"), again)

    assert recall.read(recall.search("parse_header")[0].handle).text == SOURCE


def test_only_what_is_new_is_read_again(store):
    """The place up to which a log is indexed is kept with the index."""
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    RecallSearch(log, store).search("parser")
    asked = []

    class Watched:
        session = "s"

        def read_since(self, position):
            asked.append(position)
            return log.read_since(position)

        read_blob, blob_path, list_blobs, read = log.read_blob, log.blob_path, log.list_blobs, log.read

    assert RecallSearch(Watched(), store).search("parser")
    assert asked == [log.read().position]


def test_removed_text_is_read_by_the_path_and_the_name_in_its_stub(tmp_path):
    ctx = context(store=tmp_path)
    messages = loop(24)
    run(ctx, messages)
    store = DirectoryStore(tmp_path)
    log = store.peek("default")
    name = log.list_blobs()[0].name
    recall = RecallSearch(log, store)

    content = messages[2]["content"][0]["content"]
    assert recall.read(log.blob_path(name), 0, 10**6).text == content
    assert recall.read(name, 0, 10**6).text == content
    assert recall.search("src/f0.py result")[0].file in ("", log.blob_path(name))


def test_a_hit_says_where_the_same_text_is_on_disk(store):
    log = store.open("s", now=1.0)
    record(log, TALK["anthropic"])
    log.save_blob("t1.txt", SOURCE)
    log.commit([], at=2.0)

    hits = RecallSearch(log, store).search("parse_header")

    assert [(hit.kind, hit.file) for hit in hits] == [("result", log.blob_path("t1.txt"))]


def test_a_stored_text_that_is_no_item_is_found_on_disk(kept):
    log, store = kept
    record(log, TALK["anthropic"])
    log.save_blob("t9.json", '[{"zebra": 1}]')
    record(log, [*TALK["anthropic"], {"role": "assistant", "content": "stored"}])

    recall = RecallSearch(log, store)
    hit = recall.search("zebra")[0]

    assert (hit.handle, hit.kind, hit.message) == ("t9.json", "blob", -1)
    assert recall.read(hit.handle).text == '[{"zebra": 1}]'


def test_an_image_is_read_as_its_block(kept):
    log, store = kept
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    (item,) = record(log, [{"role": "user", "content": [block]}])

    assert json.loads(RecallSearch(log, store).read(item.id).text) == block


def test_half_of_a_surrogate_pair_is_returned_unchanged(kept):
    log, store = kept
    record(log, [{"role": "user", "content": "odd \ud83d half"}])
    recall = RecallSearch(log, store)

    assert recall.read(recall.search("odd")[0].handle).text == "odd \ud83d half"


def test_recalls_own_answers_are_not_found_again(kept):
    log, store = kept
    quoted = [use("r1", RECALL_TOOLS[0], query="parse_header"), got("r1", "quoted: def parse_header(line)")]
    items = record(log, [*TALK["anthropic"], *quoted])
    recall = RecallSearch(log, store)

    assert [hit.name for hit in recall.search("parse_header")] == ["Read"]
    assert recall.read(items[-1].id).text.startswith("quoted")


@pytest.mark.parametrize("query", ["", "  ", "...", "§$%"])
def test_a_query_without_a_letter_is_refused(kept, query):
    log, store = kept
    with pytest.raises(BadRequest, match="letter"):
        RecallSearch(log, store).search(query)


@pytest.mark.parametrize("limit", [0, -1, 51])
def test_a_limit_is_from_1_to_50(kept, limit):
    log, store = kept
    with pytest.raises(BadRequest, match="limit"):
        RecallSearch(log, store).search("x", limit=limit)


def test_a_session_without_a_word_has_no_hits(kept):
    log, store = kept

    assert RecallSearch(log, store).search("anything") == ()


# --- pages -------------------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=400), st.integers(1, 90))
def test_the_pages_together_are_the_full_text(text, step):
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", text)])
    recall, pages, start = RecallSearch(log), [], 0

    while start is not None:
        page = recall.read(item.id, start, start + step)
        pages.append(page.text)
        assert page.total == len(text)
        start = page.next

    assert "".join(pages) == text


def test_without_an_end_a_page_is_bounded_and_says_what_follows():
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", "x" * (PAGE + 5))])
    recall = RecallSearch(log)

    first = recall.read(item.id)
    second = recall.read(item.id, first.next)

    assert (len(first.text), first.end, first.next, first.total) == (PAGE, PAGE, PAGE, PAGE + 5)
    assert (second.text, second.start, second.end, second.next) == ("x" * 5, PAGE, PAGE + 5, None)


def test_a_page_beyond_the_end_is_empty_and_says_so():
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", "short")])

    page = RecallSearch(log).read(item.id, 99)

    assert (page.text, page.start, page.end, page.total, page.next) == ("", 5, 5, 5, None)


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 2)])
def test_a_range_that_is_none_is_refused(start, end):
    log = PrivateLog("s", now=1.0)
    (item,) = record(log, [got("t1", "short")])

    with pytest.raises(BadRequest):
        RecallSearch(log).read(item.id, start, end)
