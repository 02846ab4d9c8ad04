"""What an edit is bound to, in the log: written once, read back the same, and never believed on another table."""

import json
from dataclasses import replace

import pytest

from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from ebbtide.state.binding_records import ItemTable
from ebbtide.state.session_state import SessionState, apply_records, ebb_record, edits_to_record
from talk import talk

ITEMS = talk("user:go", *("call:read", "result:900") * 4, "say:done")
NOTE = Item(id="", message=-1, role="user", kind="text", text="summary", tokens=3)


def stub(place, items=ITEMS):
    item = items[place]
    return Edit(
        by="clear_results", first=item.id, last=item.id, replacement=(replace(item, id="", text="[gone]", tokens=3),)
    )


def summary(first, last, **fields):
    return Edit(by="summarize", first=ITEMS[first].id, last=ITEMS[last].id, replacement=(NOTE,), **fields)


def plan(state, *edits):
    """The record of a plan, as it is in the log, and the edits that it was made of."""
    made = View.of(ITEMS).apply(edits).edits
    record = ebb_record("plan", id=f"p{len(state.batches)}", turn=1, **edits_to_record(made, state.items))
    return json.loads(json.dumps(record)), made


def test_edits_of_several_plans_are_bound_as_they_were():
    state, everything = SessionState(), []
    for edits in ([stub(2), stub(4)], [summary(1, 4)], [summary(1, 6, made_of="all"), stub(8)]):
        record, made = plan(state, *edits)
        state = apply_records(state, [record])
        everything += made

    assert [edit.binding for edit in state.edits] == [edit.binding for edit in everything]
    assert [dict(edit.binding.calls) for edit in state.edits] == [dict(edit.binding.calls) for edit in everything]


def test_each_item_is_written_once():
    first, _ = plan(SessionState(), summary(1, 6, made_of="all"))
    second, _ = plan(apply_records(SessionState(), [first]), summary(1, 8, made_of="all"))

    assert len(first["items"]) == len(ITEMS)
    assert second["items"] == []
    assert len(second["edits"][0]["of"]["hides"]) <= 4  # runs, however many items they name


def test_an_edit_bound_to_another_table_applies_nowhere_and_the_next_plan_binds_it_again():
    first, _ = plan(SessionState(), stub(2))
    second, _ = plan(apply_records(SessionState(), [first]), stub(4))
    lost = apply_records(SessionState(), [second])
    third, made = plan(lost, stub(6))

    assert [edit.binding for edit in lost.edits] == [None]
    assert View.of(ITEMS, lost.edits).entries == ITEMS
    assert apply_records(lost, [third]).edits[-1].binding == made[0].binding


@pytest.mark.parametrize(
    "of",
    [None, [], "x", {"hides": [0]}, {"hides": [0, 99]}, {"hides": [3, 1]}, {"hides": ["0", "1"]}, {"hides": [-1, 1]}],
)
def test_a_damaged_binding_is_none(of):
    record, _ = plan(SessionState(), stub(2))
    record["edits"][0]["of"] = of

    (edit,) = apply_records(SessionState(), [record]).edits
    assert View.of(ITEMS, [edit]).entries == ITEMS


def test_a_table_says_all_that_is_in_it():
    one, two = ItemTable().extend(["a", ["b", 0]]), ItemTable().extend(["a", "b"])

    assert one.calls == {"b": "a"}
    assert one.digest != two.digest
    assert one == ItemTable().extend(["a", ["b", 0]])
