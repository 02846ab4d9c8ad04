"""What one of several conversations in a session may open: its own messages, and what edits that hold in it put aside."""

import pytest

from ebbtide import Recall
from ebbtide.core.errors import BadConfig, BadRequest
from ebbtide.recall.handles import Scope, continues_conversation
from ebbtide.recall.search import RecallSearch
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from recall.recorded_sessions import TALK, got, record, use
from runtime.sessions import EARLY, body, context, loop, run
from wire_messages import text_message

FIRST = {"role": "user", "content": "look into it"}


def branches(log, *talks):
    """Conversations that begin alike, in one log; the uuids of the messages of each."""
    paths = []
    for talk in talks:
        record(log, [FIRST, *talk])
        rows = [one for one in log.read().records if one.get("uuid")]
        path, parents = [rows[-1]["uuid"]], {one["uuid"]: one.get("parentUuid") for one in rows}
        while parents[path[0]]:
            path.insert(0, parents[path[0]])
        paths.append(path)
    return paths


def test_a_handle_opens_what_is_on_the_conversations_own_path(kept):
    log, store = kept
    one, two = branches(
        log, [use("t1", "Read", path="a"), got("t1", "apples")], [use("t2", "Read"), got("t2", "pears")]
    )
    recall = RecallSearch(log, store)
    marks = {entry.text: entry.handle for entry in map(recall._records_for("s").get, _ids(log))}

    assert recall.read(marks["apples"], scope=Scope(messages=one, blobs=())).text == "apples"
    assert recall.read(marks["look into it"], scope=Scope(messages=two, blobs=())).text == "look into it"
    with pytest.raises(BadRequest, match="not a handle of this conversation"):
        recall.read(marks["apples"], scope=Scope(messages=two, blobs=()))
    assert recall.read(marks["apples"]).text == "apples", "the owner reads everything"
    assert [hit.snippet for hit in recall.search("apples pears", scope=Scope(messages=two, blobs=()))] == ["pears"]
    assert recall.search("apples", scope=Scope(messages=two, blobs=())) == ()


def _ids(log):
    return [id for one in log.read().records for id in one.get("ebbids") or ()]


def test_a_stored_result_opens_when_an_active_edit_names_it(kept):
    log, store = kept
    (path,) = branches(log, [{"role": "assistant", "content": "well"}])
    log.save_blob("t1.txt", "the crates of quinces")
    log.commit([], at=1.0)
    recall = RecallSearch(log, store)
    mine, others = Scope(messages=path, blobs={"t1.txt"}), Scope(messages=path, blobs=())

    assert recall.read("t1.txt", scope=mine).text == "the crates of quinces"
    assert [hit.handle for hit in recall.search("quinces", scope=mine)] == ["t1.txt"]
    assert recall.search("quinces", scope=others) == ()
    with pytest.raises(BadRequest, match="not a handle"):
        recall.read("t1.txt", scope=others)


def test_the_source_of_a_result_is_taken_from_its_own_conversation(kept):
    """Local servers count calls from zero in every answer: the same result under the same id answers another call."""
    log, store = kept
    secret = [use("call_0", "Read", file_path="/home/ann/secret.txt"), got("call_0", "file not found")]
    other = [use("call_0", "Bash", command="cat b"), got("call_0", "file not found")]
    one, two = branches(log, other, secret)
    recall = RecallSearch(log, store)

    (hit,) = recall.search("not found", scope=Scope(messages=one, blobs=()))
    page = recall.read(hit.handle, scope=Scope(messages=one, blobs=()))
    assert (hit.name, hit.path, page.name, page.path) == ("Bash", "", "Bash", "")
    (theirs,) = recall.search("not found", scope=Scope(messages=two, blobs=()))
    assert (theirs.name, theirs.path) == ("Read", "/home/ann/secret.txt")


def test_digits_that_an_item_of_another_conversation_shares_are_enough(kept):
    log, store = kept
    record(log, TALK["anthropic"])
    for n, tail in enumerate(("1" * 12, "2" * 12)):
        row = {"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": f"twin {n}"}}
        log.commit([{**row, "ebbids": [f"e1-aaaaaaaa{tail}-0"]}], at=1.0)

    assert RecallSearch(log, store).read("aaaaaaaa", scope=Scope(messages=["u1"], blobs=())).text == "twin 1"


def test_other_conversations_of_a_session_do_not_crowd_out_its_own_hits(kept):
    log, store = kept
    mine = [{"role": "assistant", "content": f"the zebra is mine. {'Nothing else. ' * 300}"}]
    theirs = [{"role": ("assistant", "user")[n % 2], "content": f"zebra {n}"} for n in range(120)]
    one, _ = branches(log, mine, theirs)

    hits = RecallSearch(log, store).search("zebra", scope=Scope(messages=one, blobs=()))
    assert [hit.snippet[:17] for hit in hits] == ["the zebra is mine"]
    assert hits[0].copies == 1


def test_a_context_of_one_conversation_answers_for_its_last_request():
    ctx = context(store=MemoryStore(), recall=Recall(scope="conversation"))
    with pytest.raises(BadRequest, match="after prepare"):
        ctx.recall("anything")
    north, south = (
        [*loop(1)[:1], {"role": "assistant", "content": "ok"}, {"role": "user", "content": f"the {word} gauge"}]
        for word in ("north", "south")
    )
    ctx.prepare(body(north))
    ctx.prepare(body(south))

    assert "north" not in ctx.recall_answer("ebb_recall", {"query": "north gauge"}).partition("\n")[2]
    assert [hit.snippet for hit in ctx.recall("the south gauge")][:1] == ["the south gauge"]
    ctx.prepare(body(north))
    assert "the north gauge" in ctx.recall_answer("ebb_recall", {"query": "north gauge"})
    with pytest.raises(BadRequest, match="only this conversation can be searched"):
        ctx.recall("gauge", across=True)
    with pytest.raises(BadConfig, match="scope must be one of"):
        context(recall=Recall(scope="all"))
    with pytest.raises(BadConfig, match=r"'scope' has moved: write recall=ebbtide.Recall"):
        context(scope="conversation")


def test_content_removed_from_a_conversation_can_be_read_in_it(tmp_path):
    """Also under the path that a stub names."""
    ctx = context(store=tmp_path, policy=EARLY, recall=Recall(scope="conversation"))
    messages = loop(24)
    run(ctx, messages)
    assert ctx.edits()
    name = next(blob.name for edit in ctx.edits() for blob in edit.blobs)

    assert ctx.read(name, 0, 100).text.startswith("src/tide/gauge.py")
    assert ctx.read(ctx._log.blob_path(name), 0, 100).text.startswith("src/tide/gauge.py")


@pytest.mark.parametrize("wire", TALK)
def test_a_request_carries_a_history_by_its_first_answer(wire, kept):
    log, _ = kept
    record(log, TALK[wire], wire)
    records, key = log.read().records, WIRES[wire].list_key
    again = [text_message(wire, "user", "words that a client put before"), *TALK[wire]]
    longer = [*again, text_message(wire, "user", "and now?")]

    assert continues_conversation(records, {key: longer}, WIRES[wire])
    assert not continues_conversation(records, {key: TALK[wire][:1]}, WIRES[wire])
    assert not continues_conversation(records, {key: "text"}, WIRES[wire])
    assert not continues_conversation([], {key: longer}, WIRES[wire])
    other = [text_message(wire, "assistant", "I read something else.")]
    assert not continues_conversation(records, {key: [*TALK[wire][:1], *other]}, WIRES[wire])


def test_an_answer_that_was_asked_for_again_is_a_first_answer_too(kept):
    log, _ = kept
    question = {"role": "user", "content": "name a colour"}
    for colour in ("red", "blue"):
        record(log, [question, {"role": "assistant", "content": colour}, {"role": "user", "content": "more"}])
    later = [question, {"role": "assistant", "content": "blue"}, {"role": "user", "content": "thanks"}]

    assert continues_conversation(log.read().records, {"messages": later}, WIRES["anthropic"])
