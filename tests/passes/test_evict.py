"""The last resort (R200, R252, E15)."""

import re
from dataclasses import replace
from functools import partial

import pytest

from ebbtide.core.edit_rules import NEWEST_NOTES, rejection_reason
from ebbtide.core.preset_stubs import region_evicted
from ebbtide.core.stub import BlobNames, parse
from ebbtide.core.types import HARNESS, OURS, Edit, Item
from ebbtide.core.view import View
from ebbtide.passes import evict, evict_messages
from talk import budget, let, situation, talk

SHELF = BlobNames(directory="/kept")
READ = ("call:read", "result:900")


def after(propose, *lines, **settings):
    view = View.of(talk(*lines))
    return let(partial(propose, **settings), view, situation(view, blob_names=SHELF))


def outline(view):
    """Who speaks: U the user, a an assistant, t a tool, n a note, h the harness."""
    signs = {"assistant": "a", "tool": "t", "system": "s"}
    user = {True: "U", False: "h"}
    return "".join(
        "n" if entry.text.startswith("[ebb: history") else signs.get(entry.role) or user[entry.trust < HARNESS]
        for entry in view.entries
    )


def test_old_exchanges_become_a_note_that_says_how_many_and_where():
    view = View.of(talk("user:a", *READ * 3, "say:b", "user:c", *READ))
    (edit,) = evict(view, situation(view, blob_names=SHELF), keep=3)

    (note,) = edit.replacement
    stub = parse(note.text)
    assert stub is not None
    assert (stub.kind, stub.about) == ("history", "4 exchanges")
    assert re.fullmatch(r"/kept/history-[0-9a-f]{8}\.txt", stub.path)
    assert (note.role, note.trust) == ("user", 3)
    assert edit.saved == sum(item.tokens for item in view.originals[1:8]) - note.tokens
    assert all(item.text in edit.blobs[0].text for item in view.originals[1:8])


def test_the_users_text_and_the_current_request_stay():
    assert outline(after(evict, "user:a", *READ, "say:b", "user:c", *READ * 2, keep=0)) == "UnUnat"
    assert outline(after(evict, "user:a", *READ, "say:b", "user:c", keep=0)) == "UnU"


@pytest.mark.parametrize(
    ("keep", "left"),
    [(0, "UnU"), (1, "UnU"), (2, "UnaU"), (3, "UnataU"), (4, "UnataU"), (5, "UnatataU"), (9, "UatatataU")],
)
def test_the_newest_messages_stay(keep, left):
    """And none is parted from its pair: the third newest here is a result."""
    assert outline(after(evict, "user:a", *READ * 3, "say:b", "user:c", keep=keep)) == left


def test_results_the_model_has_not_seen_stay():
    assert outline(after(evict, "user:a", *READ * 2, keep=0)) == "Unat"


@pytest.mark.parametrize("flag", ["pinned", "locked"])
def test_protected_content_stays(flag):
    assert (
        outline(after(evict, "user:a", *READ, "call:x", f"{flag} result:900", *READ, "say:b", "user:c", keep=0))
        == "UnatnU"
    )


def test_a_parallel_batch_is_evicted_as_a_whole():
    """Acceptance check 4."""
    batch = (*["call:read"] * 4, *["result:900"] * 4)

    assert outline(after(evict, "user:a", *batch, "say:b", "user:c", keep=0)) == "UnU"


def test_text_in_the_same_message_as_results_stays():
    """Acceptance check 5."""
    assert outline(after(evict, "user:a", *READ, "+user:and this", *READ, "say:b", "user:c", keep=0)) == "UnUU"


def test_instructions_before_the_first_exchange_stay_and_reminders_within_one_are_evicted():
    lines = ("reminder:project rules", "user:a", *READ, "+reminder:todo", "say:b", "user:c")

    assert outline(after(evict, *lines, keep=0)) == "hUnU"


def test_broken_pairs_stay_in_place():
    lines = ("user:a", *READ, "call:lost", "user:b", "call#c9:read", "result#c9:900", "say:c", "user:d")

    assert outline(after(evict, *lines, keep=0)) == "UnaUnU"


def test_the_operators_note_after_a_result_is_evicted_with_it_once_it_was_repeated():
    steps = [line for n in range(4) for line in (*READ, f"locked system:{n} left")]

    assert outline(after(evict, "user:a", *steps, "locked system:be brief", "say:b", "user:c", keep=0)) == "UnatssaU"


def test_an_old_operator_note_stays_when_its_neighbours_are_evicted():
    """The newest keep that too, as ever: one that was said a short while ago is about what was done then."""
    notes = [f"word {word}" for word in "abcdefghijkl"]
    steps = [line for note in notes for line in (*READ, f"locked system:{note}")]
    left = after(evict, "user:a", *steps, "say:b", "user:c", keep=0)

    assert [entry.text for entry in left.entries if entry.role == "system"] == notes
    assert len([entry for entry in left.entries if entry.kind == "result"]) == NEWEST_NOTES


def test_an_open_loop_with_thinking_is_not_cut():
    """A37."""
    assert outline(after(evict, "user:a", "think:x", *READ, *READ, *READ, keep=0)) == "Uaatatat"


def folded(put):
    """A conversation whose beginning was folded into what is put."""
    view = View.of(talk("user:a", "say:b", *READ * 4, "say:c", "user:d"))
    return view.apply([Edit(by="fold", first=view.originals[1].id, last=view.originals[3].id, replacement=put)])


@pytest.mark.parametrize("propose", [evict, evict_messages])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_summary_stays(role, propose):
    """Also where it is the assistant's, and so in one run with the call that follows."""
    summary = Item(id="", message=-1, role=role, kind="text", text="summary", tokens=2, source=OURS)
    view = folded((summary,))
    evicted = let(partial(propose, keep=0), view, situation(view, blob_names=SHELF))

    assert [entry.text for entry in evicted.entries if entry.tokens == 2] == ["summary"]
    assert not [entry for entry in evicted.entries if entry.kind == "result"]


def test_what_an_edit_placed_several_times_stays_in_all_places():
    """A fold that brought a file back: evicting the file would take the summary away."""
    summary, call, result = (
        Item(
            id="", message=-1, role=role, kind=kind, text=text, tokens=500, call_id="f" * (kind != "text"), source=OURS
        )
        for role, kind, text in (("user", "text", "summary"), ("assistant", "call", "{}"), ("tool", "result", "file"))
    )
    view = folded((summary, call, result))
    evicted = let(partial(evict, keep=0), view, situation(view, blob_names=SHELF))

    assert [entry.text for entry in evicted.entries if entry.tokens == 500] == ["summary", "{}", "file"]
    assert len(evicted.edits) == 2


def test_a_replaced_result_is_evicted_with_its_exchange_and_the_original_is_saved():
    view = View.of(talk("user:a", "call:read", "result:the original " + "x" * 400, "say:b", "user:c"))
    put = Item(id="", message=-1, role="tool", kind="result", text="stub " * 60, tokens=75, call_id="c1", name="read")
    cleared = view.apply([Edit(by="x", first=view.originals[2].id, last=view.originals[2].id, replacement=(put,))])
    (edit,) = evict(cleared, situation(cleared, blob_names=SHELF), keep=0)

    assert rejection_reason(cleared, edit) == ""
    assert view.originals[2].text in edit.blobs[0].text


def test_a_note_replaces_an_evicted_chunk():
    """Little more goes than is needed: the engine takes notes one by one."""
    view = View.of(talk("user:a", *READ * 8, "say:b", "user:c"))

    assert len(list(evict(view, situation(view), keep=0, chunk=2_000))) == 3
    assert len(list(evict(view, situation(view, within=budget(8_000)), keep=0))) == 4
    assert len(list(evict(view, situation(view), keep=0))) == 1


def test_notes_created_in_one_run_have_separate_files():
    view = View.of(talk("user:a", *READ * 8, "say:b", "user:c"))
    blobs = [blob for edit in evict(view, situation(view, blob_names=SHELF), keep=0, chunk=1) for blob in edit.blobs]

    assert len({blob.name for blob in blobs}) == len({blob.text for blob in blobs}) == 8


def test_region_says_that_earlier_turns_were_truncated():
    """R252."""
    view = after(evict, "user:a", *READ * 4, "say:b", "user:c", keep=0, stub=region_evicted)

    assert [entry.text for entry in view.entries] == ["a", "[Earlier turns truncated due to compactor error]", "c"]


@pytest.mark.parametrize("propose", [evict, evict_messages])
def test_it_is_quiet_on_its_own_output(propose):
    lines = ("user:a", "say:1", *READ, "+user:b", *READ * 3, "say:c", "image:90", "user:d", "say:e", "user:f")
    view = after(propose, *lines, keep=0, chunk=1)

    assert view.edits
    assert list(propose(view, situation(view), keep=0, chunk=1)) == []


def test_notes_are_not_gathered_into_notes():
    """A note names a file: one of several notes would name none of theirs."""
    view = after(evict_messages, *("image:90", "say:90") * 4, "user:d", keep=0, chunk=1)

    assert len(view.edits) == 8
    assert list(evict_messages(view, situation(view), keep=0)) == []


def test_sage_evicts_whole_messages_but_never_the_current_request_or_the_system_message():
    """R200, E15: no endless loop where only the system is left."""
    lines = ("system:rules", "user:a", *READ, "say:b", "user:c", *READ * 2)

    assert outline(after(evict_messages, *lines, keep=0)) == "snUnat"
    assert outline(after(evict_messages, "system:rules", keep=0)) == "s"


def test_sage_keeps_the_newest_messages():
    """R200: preserve_recent_count."""
    assert outline(after(evict_messages, "user:a", "say:90", "user:c", "say:d", "user:e", keep=3)) == "nUaU"
    assert outline(after(evict_messages, "user:a", "say:b", "user:c", keep=3)) == "UaU"


def test_sage_parts_no_pair():
    """E15: the third newest message is a result; its call stays too."""
    lines = ("user:a", "say:90", "user:c", *READ, "say:d", "user:e")

    assert outline(after(evict_messages, *lines, keep=3)) == "nataU"


def test_an_exchange_that_an_edit_inserted_is_left_to_that_edit():
    """A recall that the client never saw: between two messages of the user it is an exchange of its own."""
    items = talk("user:a", "pinned say:b", "user:c", "user:d", *READ, "user:e")
    inserted = tuple(replace(item, id="", call_id="r1") for item in talk("call:recall", "result:300"))
    put = Edit(by="recall", insert_after=items[2].id, replacement=inserted)
    view = View.of(items).apply([put])
    shown = len(view.entries)

    assert shown == len(items) + 2
    edits = list(evict(view, situation(view, blob_names=SHELF), keep=0))
    assert outline(view.apply(edits)).startswith("UaUatU")
