"""A large old call leaves with its result, as one note."""

from functools import partial

import pytest

from ebbtide.core.stub import BlobNames, parse
from ebbtide.core.view import View
from ebbtide.passes import clear_results, drop_calls
from talk import let, situation, talk

SHELF = BlobNames(directory="/kept")
NEWER = ("call:x", "result:r", "call:x", "result:r", "call:x", "result:r")


def after(*lines, shelf=SHELF, **settings):
    view = View.of(talk("user:go", *lines))
    return let(partial(drop_calls, **settings), view, situation(view, blob_names=shelf))


def outline(view):
    return [entry.call_id + "=" if entry.kind == "result" else entry.call_id or entry.kind for entry in view.entries]


def test_a_written_file_becomes_one_assistant_note():
    view = View.of(talk("user:go", "call:Write 2000", "result:written", *NEWER))
    (edit,) = drop_calls(view, situation(view, blob_names=SHELF))
    (note,) = edit.replacement

    stub = parse(note.text)
    assert stub is not None
    assert (stub.kind, stub.name, stub.about, stub.path) == ("call", "Write", "big.py", "/kept/c1.json")
    assert (note.role, note.kind) == ("assistant", "text")
    assert {blob.text for blob in edit.blobs} == {view.entries[1].text, "written"}
    assert "written" not in note.text
    assert edit.saved == view.entries[1].tokens + view.entries[2].tokens - note.tokens


def test_no_call_is_ever_rewritten():
    """A stub inside arguments would be imitated."""
    view = after("call:Write 2000", "result:ok", "call:Edit a.py", "result:ok", *NEWER)

    assert not [entry for entry in view.entries if entry.kind == "call" and entry.id not in view.index]


def test_siblings_of_a_parallel_batch_stay_in_order():
    view = after(
        "say:on it", *["call:read", "call:Write 2000", "call:grep"], *["result:r", "result:w", "result:g"], *NEWER
    )

    assert outline(view)[:7] == ["text", "text", "text", "c1", "c3", "c1=", "c3="]
    assert [entry.message for entry in view.entries[1:7]] == [1, 1, 1, 1, 2, 2]


def test_two_large_calls_of_a_batch_are_replaced_by_one_note():
    view = after("call:Write 2000", "call:Write 3000", "result:a", "result:b", *NEWER)

    assert outline(view)[:2] == ["text", "text"]
    assert view.entries[1].text.count("[ebb: call of Write") == 2


def test_results_that_are_stubs_already_stay_stubs():
    lines = ("call:read", "call:Write 2000", "result:5000", "result:ok", *NEWER)
    view = View.of(talk("user:go", *lines))
    cleared = let(clear_results, view, situation(view, blob_names=SHELF))
    dropped = let(drop_calls, cleared, situation(cleared, blob_names=SHELF))

    stub = cleared.results[0]
    assert stub.text.startswith("[ebb: result of read")
    assert outline(dropped)[:4] == ["text", "text", "c1", "c1="]
    assert dropped.results[0].text == stub.text
    assert dropped.tokens == cleared.tokens - dropped.edits[-1].saved


def test_what_an_edit_of_the_same_plan_would_have_saved_is_saved():
    """The result was rewritten by an edit that this one replaces: nobody else saves its text."""
    view = View.of(talk("user:go", "call:read", "call:Write 2000", "result:5000", "result:ok", *NEWER))
    cleared = let(clear_results, view, situation(view, blob_names=SHELF))
    (edit,) = drop_calls(cleared, situation(cleared, blob_names=SHELF))

    stubs = [stub for item in edit.replacement for line in item.text.splitlines() if (stub := parse(line))]
    assert len(stubs) == 2
    assert {stub.path.removeprefix("/kept/") for stub in stubs} <= {blob.name for blob in edit.blobs}
    assert view.results[0].text in {blob.text for blob in edit.blobs}


def test_a_large_call_is_dropped_though_its_result_was_cleared_and_the_full_result_is_saved():
    view = View.of(talk("user:go", "call:Write 2000", "result:5000", *NEWER))
    cleared = let(clear_results, view, situation(view, blob_names=SHELF))
    (edit,) = drop_calls(cleared, situation(cleared, blob_names=SHELF))

    assert view.results[0].text in {blob.text for blob in edit.blobs}
    assert outline(cleared.apply([edit]))[:2] == ["text", "text"]


@pytest.mark.parametrize(
    "lines",
    [
        ("call:Write 500", "result:ok", *NEWER),
        ("call:Write 2000", "error result:no", *NEWER),
        ("call:Write 2000", "pinned result:ok", *NEWER),
        ("call:Write 2000", "locked result:ok", *NEWER),
        ("call:skill 2000", "result:ok", *NEWER),
        ("call:Write 2000", "user:stop", *NEWER),
        ("call:Write 2000", "result:ok", *NEWER[:4]),
        ("think:hm", "call:Write 2000", "result:ok", *NEWER),
    ],
    ids=["small", "failed", "pinned", "locked", "protected", "no result", "recent", "open loop with thinking"],
)
def test_small_failed_pinned_and_recent_calls_stay(lines):
    assert after(*lines).edits == ()


def test_results_the_model_has_not_seen_stay():
    batch = (*["call:Write 2000"] * 5, *["result:ok"] * 5)

    assert after(*batch, keep_results=0).edits == ()
    assert len(after(*batch, "say:ok", keep_results=0).edits) == 1


def test_a_finished_turn_may_change_though_it_began_with_thinking():
    assert len(after("think:hm", "call:Write 2000", "result:ok", *NEWER, "say:done", "user:next").edits) == 1


def test_reasoning_is_dropped_with_the_last_of_its_calls():
    """What only the provider can read must be followed by what it led to."""
    alone = after("reason:x", "call:Write 2000", "result:ok", *NEWER)
    shared = ("reason:x", "call:Write 2000", "call:read", "result:ok", "result:r", *NEWER)

    assert outline(alone)[:2] == ["text", "text"]
    assert len(alone.edits) == 1
    assert after(*shared).edits == ()


def test_it_is_quiet_on_its_own_output():
    view = after("call:read", "call:Write 2000", "call:Write 3000", "result:1", "result:2", "result:3", *NEWER)

    assert view.edits
    assert list(drop_calls(view, situation(view))) == []


def test_a_note_sent_back_between_remaining_siblings_is_not_added_again():
    """An edit holds where its ends are: one of them must be something that left."""
    view = after("call:read", "call:Write 2000", "call:grep", "result:1", "result:2", "result:3", *NEWER)

    assert view.edits
    assert View.of(view.entries, view.edits).entries == view.entries


def test_without_saved_files_the_note_says_so():
    view = after("call:Write 2000", "result:ok", *NEWER, shelf=None)

    assert view.entries[1].text.endswith("; not saved]")
    assert view.edits[0].blobs == ()


WRITE = """call:Write {"file_path": "big.py", "content": "%s"}"""


def test_a_note_keeps_the_lines_of_the_call_with_names_that_nothing_else_has():
    content = "\\n".join(["def slack_water_table(station):", *["x = x + 1"] * 400])
    view = after(WRITE % content, "result:the_tool_said_this", *NEWER, telling=0.5)

    note = next(entry for entry in view.entries if entry.kind == "text" and entry.role == "assistant")
    stub = parse(note.text)
    assert stub is not None
    assert "def slack_water_table(station):" in stub.preview
    assert "x = x + 1" not in stub.preview
    assert "the_tool_said_this" not in note.text


def test_a_name_that_stays_elsewhere_needs_no_line():
    content = "\\n".join(["def slack_water_table(station):", *["x = x + 1"] * 400])
    view = after(WRITE % content, "result:ok", "say:slack_water_table station", *NEWER, telling=0.5)

    assert "slack_water_table(station)" not in "".join(entry.text for entry in view.entries)


def test_a_smaller_call_leaves_too_if_its_result_says_little():
    lines = ("call:Write 100", "result:200", "call:Write 100", "result:500", *NEWER)
    view = after(*lines, min_tokens=500, min_quiet=40)

    assert outline(view)[:4] == ["text", "text", "c2", "c2="]
    assert outline(after(*lines, min_tokens=500, min_quiet=500)) == outline(View.of(talk("user:go", *lines)))


def test_a_call_does_not_become_quiet_by_the_clearing_of_its_result():
    """A batch would change what an earlier one left, far back in what is cached."""
    view = View.of(talk("user:go", "call:Write 100", "result:500", *NEWER))
    cleared = let(partial(clear_results, keep_results=3), view, situation(view, blob_names=SHELF))

    assert cleared.results[0].tokens < 300
    assert not list(drop_calls(cleared, situation(cleared, blob_names=SHELF), min_quiet=40))
