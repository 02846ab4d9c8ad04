"""Edits fold over items; where a view may be cut; what no edit may do."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.edit_layout import CLEARED_TEXTS
from ebbtide.core.edit_rules import (
    covered_range,
    find_cuts,
    find_loop_start,
    find_seams,
    old_note_ids,
    rejection_reason,
)
from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from talk import talk

READ = ("call:read", "result:900")
ITEMS = talk("user:fix it", *READ * 3, "say:done")


def note(text="[gone]", **fields):
    plain = {"id": "", "message": -1, "role": "tool", "kind": "result", "text": text, "tokens": 3}
    return Item(**{**plain, **fields})


def rewrite(item, text="[gone]", head=""):
    put = note(text, role=item.role, kind=item.kind, call_id=item.call_id, trust=item.trust)
    return Edit(by="test", first=item.id, last=item.id, branch_tip=head, replacement=(put,))


def shown(*edits, items=ITEMS):
    """The view of these items with edits that were made in it."""
    return View.of(items).apply(edits)


def bound(*edits, items=ITEMS):
    """Edits as they are recorded: bound to what they were made in."""
    return shown(*edits, items=items).edits


def summary(first, last):
    put = (note("summary", role="user", kind="text"),)
    return Edit(by="fold", first=ITEMS[first].id, last=ITEMS[last].id, replacement=put)


def texts(view):
    return [entry.text if entry.tokens < 100 else "..." for entry in view.entries]


def result(n):
    return [item for item in ITEMS if item.kind == "result"][n]


def test_a_view_without_edits_is_its_items():
    assert View.of(ITEMS).entries == ITEMS


def test_an_edit_shows_what_it_put_instead_of_what_it_covers():
    view = shown(rewrite(result(1)))

    assert texts(view) == ["fix it", "{}", "...", "{}", "[gone]", "{}", "...", "done"]
    assert view.tokens == View.of(ITEMS).tokens - 900 + 3


def test_an_edit_without_a_replacement_drops_its_items():
    view = shown(Edit(by="test", first=ITEMS[1].id, last=ITEMS[2].id))

    assert view.entries == (ITEMS[0], *ITEMS[3:])


def test_a_visible_edit_is_counted_with_or_without_a_replacement():
    dropped = Edit(by="test", first=ITEMS[1].id, last=ITEMS[2].id)
    hidden = rewrite(result(2))
    fold = Edit(
        by="fold", first=ITEMS[5].id, last=ITEMS[6].id, replacement=(note("summary", role="user", kind="text"),)
    )
    hint = Edit(by="test", insert_after=ITEMS[0].id, replacement=(note("hint", role="user", kind="text"),))
    elsewhere = Edit(by="test", first="nobody", last="nobody")

    view = View.of(ITEMS[:7], bound(dropped, hidden, fold, hint, elsewhere, items=ITEMS[:7]))

    assert (view.visible_edits, view.extend(ITEMS[7:]).visible_edits) == (3, 3)
    assert shown(dropped).has_edits
    assert not shown(elsewhere).has_edits


def test_an_inserting_edit_is_placed_after_its_item():
    view = shown(Edit(by="test", insert_after=ITEMS[0].id, replacement=(note("hint", role="user", kind="text"),)))

    assert texts(view)[:2] == ["fix it", "hint"]
    assert len(view.entries) == len(ITEMS) + 1


def test_an_insertion_stays_after_the_stub_of_its_item_and_is_removed_by_a_compaction():
    hint = Edit(by="test", insert_after=result(0).id, replacement=(note("hint", role="user", kind="text"),))

    assert texts(shown(hint, rewrite(result(0))))[2:4] == ["[gone]", "hint"]
    assert "hint" not in texts(shown(hint, summary(1, 4)))
    assert "hint" not in texts(shown(hint, Edit(by="test", first=ITEMS[1].id, last=result(0).id)))


def test_undo_omits_an_edit_whatever_followed_it():
    one, two = rewrite(result(0)), rewrite(result(2))
    fold = Edit(
        by="fold", first=ITEMS[1].id, last=ITEMS[4].id, replacement=(note("summary", role="user", kind="text"),)
    )

    assert shown(one, fold, two).entries == shown(fold, two).entries
    assert texts(shown(one, two)) == ["fix it", "{}", "[gone]", "{}", "...", "{}", "[gone]", "done"]


def test_the_newer_of_two_edits_of_one_item_wins():
    assert "[newer]" in texts(shown(rewrite(result(0)), rewrite(result(0), "[newer]")))


def test_a_compaction_hides_the_edits_inside_it_in_any_order():
    fold = Edit(
        by="fold", first=ITEMS[0].id, last=ITEMS[4].id, replacement=(note("summary", role="user", kind="text"),)
    )

    for edits in ([rewrite(result(0)), fold], [fold, rewrite(result(0))]):
        assert texts(shown(*edits)) == ["summary", "{}", "...", "done"]


class TestWhichEditsHold:
    def test_a_rewound_branch_sends_what_it_sent_then(self):
        """The edit was made when `done` had been said; before that it had not been made."""
        (edit,) = bound(rewrite(result(0)))

        assert View.of(ITEMS, [edit]).entries != ITEMS
        assert View.of(ITEMS[:5], [edit]).entries == ITEMS[:5]

    def test_a_fork_finds_its_own_edits(self):
        (edit,) = bound(rewrite(result(0)), items=ITEMS[:4])
        fork = talk("user:fix it", *READ * 2, "user:no, the other way")

        assert "[gone]" in texts(View.of(fork, [edit]))

    def test_an_edit_that_was_never_bound_holds_nowhere(self):
        assert View.of(ITEMS, [rewrite(result(0))]).entries == ITEMS

    @pytest.mark.parametrize("place", [1, 3])
    def test_a_client_that_moves_a_reminder_loses_no_edit(self, place):
        """It may come into what an edit hides, or go from there."""
        reminder = talk("reminder:<system-reminder>Be brief.</system-reminder>")[0]
        before = (*ITEMS[:place], reminder, *ITEMS[place:])
        edits = bound(summary(1, 4), rewrite(result(2)), items=before)

        assert texts(View.of(before, edits)).count("[gone]") == 1
        assert texts(View.of(ITEMS, edits)) == ["fix it", "summary", "{}", "[gone]", "done"]
        moved = (*ITEMS, reminder)
        assert texts(View.of(moved, edits)) == ["fix it", "summary", "{}", "[gone]", "done", reminder.text]

    def test_a_reminder_that_a_compaction_never_saw_stays_visible(self):
        reminder = talk("reminder:<system-reminder>Be brief.</system-reminder>")[0]
        with_reminder = (*ITEMS[:3], reminder, *ITEMS[3:])

        assert texts(View.of(with_reminder, bound(summary(1, 4)))) == [
            "fix it", "summary", reminder.text, "{}", "...", "done",
        ]  # fmt: skip

    def test_a_reminder_that_a_compaction_carries_along_disappears_when_the_client_drops_it(self):
        reminder = talk("reminder:<system-reminder>Be brief.</system-reminder>")[0]
        before = (reminder, *ITEMS)
        fold = replace(summary(0, 4), first=reminder.id, replacement=(reminder, *summary(0, 4).replacement))
        edits = bound(fold, items=before)

        assert texts(View.of(before, edits))[:2] == [reminder.text, "summary"]
        assert texts(View.of(ITEMS, edits))[:2] == ["summary", "{}"]

    @pytest.mark.parametrize("place", range(1, 5))
    def test_a_compaction_does_not_apply_when_an_item_in_it_changed(self, place):
        edits = bound(summary(1, 4))
        changed = tuple(replace(item, id="e1-other-0") if n == place else item for n, item in enumerate(ITEMS))

        assert View.of(changed, edits).entries == changed

    @pytest.mark.parametrize("place", range(1, 5))
    def test_a_compaction_does_not_apply_when_an_item_in_it_is_missing(self, place):
        """So a fold of one conversation never stands in another that has a part of its messages."""
        edits = bound(summary(1, 4))
        rest = tuple(item for n, item in enumerate(ITEMS) if n != place)

        assert View.of(rest, edits).entries == rest

    @pytest.mark.parametrize("place", range(2, 5))
    def test_a_compaction_does_not_apply_when_an_item_was_added_inside(self, place):
        edits = bound(summary(1, 4))
        more = (*ITEMS[:place], talk("user:another thing")[0], *ITEMS[place:])

        assert View.of(more, edits).entries == more

    def test_a_compaction_does_not_apply_when_its_items_changed_places(self):
        edits = bound(summary(1, 6))
        swapped = (ITEMS[0], *ITEMS[1:3], *ITEMS[5:7], *ITEMS[3:5], ITEMS[7])

        assert View.of(swapped, edits).entries == swapped

    def test_a_summary_of_all_items_does_not_apply_when_any_is_missing(self):
        facts, told = summary(1, 4), replace(summary(1, 4), made_of="lasting")
        rest = (*ITEMS[:5], ITEMS[7])

        assert "summary" in texts(View.of(rest, bound(facts)))
        assert View.of(rest, bound(told)).entries == rest
        assert "summary" in texts(View.of((*ITEMS, *talk("user:and on")), bound(told)))

    def test_an_insertion_does_not_appear_in_another_conversation(self):
        edits = bound(
            Edit(by="test", insert_after=ITEMS[4].id, replacement=(note("recalled", role="user", kind="text"),))
        )
        other = (ITEMS[0], *ITEMS[3:])

        assert "recalled" in texts(View.of(ITEMS, edits))
        assert View.of(other, edits).entries == other

    def test_an_edit_of_a_result_hangs_on_its_call(self):
        edits = bound(rewrite(result(0)))
        asked = tuple(replace(item, id="e1-other-0", text="{1}") if n == 1 else item for n, item in enumerate(ITEMS))

        assert View.of(asked, edits).entries == asked

    @pytest.mark.parametrize("text", sorted(CLEARED_TEXTS))
    def test_a_result_that_a_known_client_cleared_is_still_available(self, text):
        cleared = tuple(replace(i, id="e1-other-0", text=text, tokens=1) if i is result(0) else i for i in ITEMS)

        assert texts(View.of(cleared, bound(rewrite(result(0))))) == texts(shown(rewrite(result(0))))
        assert texts(View.of(cleared, bound(summary(1, 4)))) == texts(shown(summary(1, 4)))
        assert "summary" in texts(View.of(cleared, bound(replace(summary(3, 4), made_of="lasting"))))

    def test_a_pinned_result_that_the_client_cleared_stays_with_its_call(self):
        pinned = replace(summary(1, 4), replacement=(*summary(1, 4).replacement, *ITEMS[1:3]))
        text = "[Old tool result content cleared]"
        cleared = tuple(replace(i, id="e1-other-0", text=text, tokens=1) if i is result(0) else i for i in ITEMS)

        assert texts(View.of(cleared, bound(pinned)))[1:4] == ["summary", "{}", text]

    def test_a_result_with_any_other_text_is_a_change(self):
        edits = bound(rewrite(result(0)), rewrite(result(2)))
        changed = tuple(replace(i, id="e1-other-0", text="[x]", tokens=1) if i is result(0) else i for i in ITEMS)

        assert texts(View.of(changed, edits)) == ["fix it", "{}", "[x]", "{}", "...", "{}", "[gone]", "done"]


class TestExtension:
    def test_extending_gives_the_view_of_all_messages(self):
        edits = bound(rewrite(result(0)), items=ITEMS[:5])
        grown = View.of(ITEMS[:5], edits).extend(ITEMS[5:])

        assert grown == View.of(ITEMS, edits)

    def test_an_edit_that_waited_for_a_new_item_applies_once_it_arrives(self):
        edits = bound(rewrite(result(0)))
        grown = View.of(ITEMS[:5], edits).extend(ITEMS[5:])

        assert "[gone]" in texts(grown)


def test_a_call_without_a_result_may_be_compacted_with_its_turn():
    """Broken input must not keep a session from folding."""
    items = talk("user:go", "call:read", "call:lost", "result#c1:9", "say:ok", "user:next")
    whole = Edit(by="x", first=items[0].id, last=items[4].id)
    half = Edit(by="x", first=items[0].id, last=items[2].id)

    assert rejection_reason(View.of(items), whole) == ""
    assert rejection_reason(View.of(items), half) == "parts a call from its result"


class TestCuts:
    def test_no_cut_parts_a_call_from_its_result_or_a_message_in_two(self):
        items = talk("user:go", "say:ok", "call:read", "call:grep", "result:9", "result:9", "say:done", "user:next")

        assert find_seams(View.of(items)) == (0, 1, 6, 7, 8)

    def test_results_that_return_in_another_order_still_bind_their_batch(self):
        items = talk("user:go", "call#a:read", "call#b:grep", "result#b:9", "result#a:9", "say:done")

        assert find_seams(View.of(items)) == (0, 1, 5, 6)

    def test_a_system_message_stays_with_the_turn_before_it(self):
        items = talk("user:go", "system:note", "say:ok")

        assert 1 not in find_seams(View.of(items))

    def test_an_open_loop_is_cut_only_before_what_begins_with_thinking(self):
        """What is left of it must open with thinking (A37)."""
        step = ("call:read", "result:9")
        view = View.of(talk("user:go", "think:hm", *step, "think:hm", *step, *step, "think:hm", *step))

        assert find_loop_start(view) == 1
        assert find_cuts(view) == (0, 1, 4, 9)
        assert find_seams(view) == (0, 1, 4, 7, 9, 12)

    def test_once_the_loop_has_ended_its_thinking_binds_nothing(self):
        items = talk("user:go", "think:hm", "call:read", "result:9", "say:done", "user:next")

        assert find_cuts(View.of(items)) == (0, 1, 4, 5, 6)

    def test_a_call_never_answered_does_not_bind_all_that_follows(self):
        items = talk("user:go", "call:read", "user:stop", "say:ok", "user:next")

        assert find_seams(View.of(items)) == (0, 1, 2, 3, 4, 5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("edit", "why"),
        [
            (Edit(by="t", first=ITEMS[1].id, last=ITEMS[1].id), "parts a call"),
            (Edit(by="t", first=ITEMS[2].id, last=ITEMS[2].id), "parts a call"),
            (Edit(by="t", first="e1-no-0", last="e1-no-0"), "not there"),
            (Edit(by="t", first=ITEMS[2].id, last=ITEMS[2].id, replacement=(note(call_id="other"),)), "parts a call"),
            (
                Edit(by="t", first=ITEMS[2].id, last=ITEMS[2].id, replacement=(note(call_id="c1", trust=1),)),
                "raises trust",
            ),
            (Edit(by="t", first=ITEMS[1].id, last=ITEMS[2].id), ""),
        ],
    )
    def test_forbidden_edits_are_rejected(self, edit, why):
        assert (why in rejection_reason(View.of(ITEMS), edit)) if why else rejection_reason(View.of(ITEMS), edit) == ""

    def test_pinned_and_locked_items_stay_unless_the_edit_keeps_them(self):
        items = talk("user:go", "pinned say:keep", "user:next")
        drop = Edit(by="t", first=items[0].id, last=items[1].id)

        assert "pinned" in rejection_reason(View.of(items), drop)
        assert rejection_reason(View.of(items), replace(drop, replacement=(items[1],))) == ""

    @pytest.mark.parametrize(
        ("note", "later", "goes"),
        [
            ("locked system:90 tokens left", "locked system:80 tokens left", True),
            ("locked system:be brief", "locked system:be brief", True),
            ("locked system:be brief", "locked system:be loud", False),
            ("locked system:be brief", "user:be brief", False),
            ("pinned system:90 tokens left", "locked system:80 tokens left", False),
        ],
    )
    def test_an_operator_note_may_be_removed_once_it_was_repeated_apart_from_its_numbers(self, note, later, goes):
        items = talk("user:go", note, "say:ok", "user:more", later, "say:ok")
        view = View.of(items)
        leaves = [rejection_reason(view, Edit(by="t", first=items[n].id, last=items[n].id)) == "" for n in (1, 4)]

        assert leaves == [goes, later.startswith("user")]

    def test_the_newest_of_differing_notes_stay_and_so_do_those_before_the_first_answer(self):
        notes = [f"locked system:about {word}" for word in "abcdefghij"]
        steps = [line for note in notes for line in (note, "say:ok", "user:more")]
        items = talk("user:go", "locked system:# Environment", "say:ok", "user:x", "pinned system:never", *steps)
        view = View.of(items)
        leaves = [
            item.text
            for item in items
            if item.role == "system" and not rejection_reason(view, Edit(by="t", first=item.id, last=item.id))
        ]

        assert leaves == ["about a", "about b"]
        assert len(old_note_ids(view)) == 2
        assert "pinned" in rejection_reason(view, Edit(by="t", first=items[4].id, last=items[4].id))

    def test_an_edit_contains_an_earlier_one_or_is_disjoint_from_it(self):
        view = shown(summary(1, 4))

        assert "overlaps" in rejection_reason(view, Edit(by="t", first=ITEMS[3].id, last=ITEMS[6].id))
        assert rejection_reason(view, Edit(by="t", first=ITEMS[1].id, last=ITEMS[6].id)) == ""

    def test_what_follows_an_opaque_block_may_not_be_separated_from_it(self):
        items = tuple(
            replace(i, kind="opaque") if i.kind == "thinking" else i
            for i in talk("user:go", "think:r", "call:read", "result:9", "say:x")
        )

        assert "opaque" in rejection_reason(View.of(items), Edit(by="t", first=items[2].id, last=items[3].id))
        assert rejection_reason(View.of(items), Edit(by="t", first=items[1].id, last=items[3].id)) == ""


def test_results_after_the_assistant_last_spoke_are_unseen():
    items = talk("user:go", *READ, "call:read", "call:grep", "result:9", "result:9")

    assert View.of(items).unseen_ids == {items[-1].id, items[-2].id}


def test_the_cover_of_a_replacement_is_all_that_it_replaces():
    fold = Edit(by="fold", first=ITEMS[1].id, last=ITEMS[4].id, replacement=(note("s", role="user", kind="text"),))

    assert covered_range(shown(fold), 1, 3) == (ITEMS[1].id, ITEMS[5].id)


def test_a_view_does_not_grow_from_items_that_were_never_its_own():
    view = View.of(talk("user:one", "say:a", "user:two"))
    other = talk("user:one", "say:quite another thing, and longer", "user:two", "say:b")
    tail = (*other[:2], *(replace(item, message=k) for k, item in enumerate(view.originals[2:], 2)), *other[3:])

    assert view.extend_from(2, tail) == View.of(tail)


def test_a_grown_view_says_how_much_it_shares_with_the_one_before():
    view = shown(rewrite(result(0)))
    grown = view.extend(talk("user:more"))
    before, shared = grown.grown_from

    assert before is view.entries
    assert shared == len(view.entries)
    assert all(one is other for one, other in zip(before[:shared], grown.entries[:shared], strict=True))


def fold_of(first, last, text):
    put = (note(text, role="user", kind="text"),) if text else ()
    return Edit(by="fold", first=ITEMS_OF_MANY[first].id, last=ITEMS_OF_MANY[last].id, replacement=put)


ITEMS_OF_MANY = talk("user:go", *(("call:read", "result:9") * 9), "say:done")
RANGES = st.tuples(st.integers(0, 19), st.integers(0, 19), st.sampled_from(["", "a", "b"])).map(
    lambda one: fold_of(min(one[:2]), max(one[:2]), one[2])
)
INSERTED = st.integers(0, 19).map(
    lambda n: Edit(by="test", insert_after=ITEMS_OF_MANY[n].id, replacement=(note("hint", role="user", kind="text"),))
)
ABSENT = st.just(Edit(by="test", first="nobody", last="nobody"))
EDITS = st.lists(st.one_of(RANGES, RANGES, RANGES, INSERTED, ABSENT), max_size=9, unique_by=lambda edit: edit.id)


@settings(max_examples=300)
@given(EDITS, st.integers(0, 9), st.integers(1, 20))
def test_edits_applied_one_by_one_show_the_same_as_all_at_once(edits, before, begun):
    """Also where the conversation has grown in between, and whatever hides whatever."""
    edits = bound(*edits, items=ITEMS_OF_MANY)
    view = View.of(ITEMS_OF_MANY[:begun], edits[:before])
    view = view.extend(ITEMS_OF_MANY[begun:])

    for edit in edits[before:]:
        view = view.apply([edit])

    assert view == View.of(ITEMS_OF_MANY, edits)
    assert view.index == {item.id: n for n, item in enumerate(ITEMS_OF_MANY)}
