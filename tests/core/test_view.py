"""Edits fold over items; where a view may be cut; what no edit may do."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.types import Edit, Item
from ebbtide.core.view import View
from talk import talk
from work import work

READ = ("call:read", "result:900")
ITEMS = talk("user:fix it", *READ * 3, "say:done")


def note(text="[gone]", **fields):
    plain = {"id": "", "message": -1, "role": "tool", "kind": "result", "text": text, "tokens": 3}
    return Item(**{**plain, **fields})


def rewrite(item, text="[gone]", head=""):
    put = note(text, role=item.role, kind=item.kind, call_id=item.call_id, tier=item.tier)
    return Edit(by="test", first=item.id, last=item.id, head=head, put=(put,))


def texts(view):
    return [entry.text if entry.tokens < 100 else "..." for entry in view.entries]


def result(n):
    return [item for item in ITEMS if item.kind == "result"][n]


def test_a_view_without_edits_is_its_items():
    assert View.of(ITEMS).entries == ITEMS


def test_an_edit_shows_what_it_put_instead_of_what_it_covers():
    view = View.of(ITEMS, [rewrite(result(1))])

    assert texts(view) == ["fix it", "{}", "...", "{}", "[gone]", "{}", "...", "done"]
    assert view.tokens == View.of(ITEMS).tokens - 900 + 3


def test_an_edit_with_nothing_put_drops():
    view = View.of(ITEMS, [Edit(by="test", first=ITEMS[1].id, last=ITEMS[2].id)])

    assert view.entries == (ITEMS[0], *ITEMS[3:])


def test_an_edit_that_shows_is_counted_whether_or_not_anything_stands_in():
    dropped = Edit(by="test", first=ITEMS[1].id, last=ITEMS[2].id)
    hidden = rewrite(result(2))
    fold = Edit(by="fold", first=ITEMS[5].id, last=ITEMS[6].id, put=(note("summary", role="user", kind="text"),))
    hint = Edit(by="test", after=ITEMS[0].id, put=(note("hint", role="user", kind="text"),))
    elsewhere = Edit(by="test", first="nobody", last="nobody")

    view = View.of(ITEMS[:7], [dropped, hidden, fold, hint, elsewhere])

    assert (view.showing, view.extend(ITEMS[7:]).showing) == (3, 3)
    assert View.of(ITEMS, [dropped]).edited
    assert not View.of(ITEMS, [elsewhere]).edited


def test_an_inserting_edit_stands_after_its_item():
    view = View.of(ITEMS, [Edit(by="test", after=ITEMS[0].id, put=(note("hint", role="user", kind="text"),))])

    assert texts(view)[:2] == ["fix it", "hint"]
    assert len(view.entries) == len(ITEMS) + 1


def test_undo_is_leaving_an_edit_out_whatever_came_after():
    one, two = rewrite(result(0)), rewrite(result(2))
    fold = Edit(by="fold", first=ITEMS[1].id, last=ITEMS[4].id, put=(note("summary", role="user", kind="text"),))

    assert View.of(ITEMS, [one, fold, two]).entries == View.of(ITEMS, [fold, two]).entries
    assert texts(View.of(ITEMS, [one, two])) == ["fix it", "{}", "[gone]", "{}", "...", "{}", "[gone]", "done"]


def test_of_two_edits_of_the_same_item_the_newer_wins():
    assert "[newer]" in texts(View.of(ITEMS, [rewrite(result(0)), rewrite(result(0), "[newer]")]))


def test_a_fold_hides_the_edits_inside_it_in_whichever_order_they_came():
    fold = Edit(by="fold", first=ITEMS[0].id, last=ITEMS[4].id, put=(note("summary", role="user", kind="text"),))

    for edits in ([rewrite(result(0)), fold], [fold, rewrite(result(0))]):
        assert texts(View.of(ITEMS, edits)) == ["summary", "{}", "...", "done"]


class TestWhichEditsHold:
    def test_a_rewound_branch_sends_what_it_sent_then(self):
        """The edit was made when `done` had been said; before that it had not been made."""
        edit = rewrite(result(0), head=ITEMS[-1].id)

        assert View.of(ITEMS, [edit]).entries != ITEMS
        assert View.of(ITEMS[:5], [edit]).entries == ITEMS[:5]

    def test_a_fork_finds_its_own_edits(self):
        edit = rewrite(result(0), head=ITEMS[3].id)
        fork = talk("user:fix it", *READ * 2, "user:no, the other way")

        assert "[gone]" in texts(View.of(fork, [edit]))

    def test_a_client_that_moves_a_reminder_loses_no_edit(self):
        edit = rewrite(result(0), head=ITEMS[-1].id)
        moved = (ITEMS[0], talk("reminder:be brief")[0], *ITEMS[1:])

        assert "[gone]" in texts(View.of(moved, [edit]))

    def test_a_client_that_clears_one_result_itself_loses_only_that_edit(self):
        edits = [rewrite(result(0)), rewrite(result(2))]
        cleared = tuple(replace(i, id="e1-other-0", text="[x]", tokens=1) if i is result(0) else i for i in ITEMS)

        assert texts(View.of(cleared, edits)) == ["fix it", "{}", "[x]", "{}", "...", "{}", "[gone]", "done"]

    def test_an_edit_whose_ends_changed_places_does_not_hold(self):
        edit = Edit(by="test", first=ITEMS[1].id, last=ITEMS[4].id)

        assert View.of((*ITEMS[3:5], *ITEMS[1:3]), [edit]).entries == (*ITEMS[3:5], *ITEMS[1:3])


class TestGrowing:
    def test_extending_gives_the_view_of_the_whole(self):
        edits = [rewrite(result(0))]
        grown = View.of(ITEMS[:5], edits).extend(ITEMS[5:])

        assert grown == View.of(ITEMS, edits)

    def test_an_edit_that_waited_for_a_new_item_holds_once_it_comes(self):
        edit = rewrite(result(0), head=ITEMS[-1].id)
        grown = View.of(ITEMS[:5], [edit]).extend(ITEMS[5:])

        assert "[gone]" in texts(grown)


def test_a_call_that_never_had_a_result_may_fold_with_its_turn():
    """Broken input must not keep a session from folding."""
    items = talk("user:go", "call:read", "call:lost", "result#c1:9", "say:ok", "user:next")
    whole = Edit(by="x", first=items[0].id, last=items[4].id)
    half = Edit(by="x", first=items[0].id, last=items[2].id)

    assert View.of(items).refuses(whole) == ""
    assert View.of(items).refuses(half) == "parts a call from its result"


class TestCuts:
    def test_no_cut_parts_a_call_from_its_result_or_a_message_in_two(self):
        items = talk("user:go", "say:ok", "call:read", "call:grep", "result:9", "result:9", "say:done", "user:next")

        assert View.of(items).seams == (0, 1, 6, 7, 8)

    def test_results_that_come_back_in_another_order_still_bind_their_batch(self):
        items = talk("user:go", "call#a:read", "call#b:grep", "result#b:9", "result#a:9", "say:done")

        assert View.of(items).seams == (0, 1, 5, 6)

    def test_a_system_message_stays_with_the_turn_before_it(self):
        items = talk("user:go", "system:note", "say:ok")

        assert 1 not in View.of(items).seams

    def test_an_open_loop_is_cut_only_before_what_begins_with_thinking(self):
        """What is left of it must open with thinking (A37)."""
        step = ("call:read", "result:9")
        view = View.of(talk("user:go", "think:hm", *step, "think:hm", *step, *step, "think:hm", *step))

        assert view.loop == 1
        assert view.cuts == (0, 1, 4, 9)
        assert view.seams == (0, 1, 4, 7, 9, 12)

    def test_once_the_loop_has_ended_its_thinking_binds_nothing(self):
        items = talk("user:go", "think:hm", "call:read", "result:9", "say:done", "user:next")

        assert View.of(items).cuts == (0, 1, 4, 5, 6)

    def test_a_call_never_answered_does_not_bind_all_that_follows(self):
        items = talk("user:go", "call:read", "user:stop", "say:ok", "user:next")

        assert View.of(items).seams == (0, 1, 2, 3, 4, 5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("edit", "why"),
        [
            (Edit(by="t", first=ITEMS[1].id, last=ITEMS[1].id), "parts a call"),
            (Edit(by="t", first=ITEMS[2].id, last=ITEMS[2].id), "parts a call"),
            (Edit(by="t", first="e1-no-0", last="e1-no-0"), "not there"),
            (Edit(by="t", first=ITEMS[2].id, last=ITEMS[2].id, put=(note(call_id="other"),)), "parts a call"),
            (Edit(by="t", first=ITEMS[2].id, last=ITEMS[2].id, put=(note(call_id="c1", tier=1),)), "raises trust"),
            (Edit(by="t", first=ITEMS[1].id, last=ITEMS[2].id), ""),
        ],
    )
    def test_what_an_edit_may_not_do(self, edit, why):
        assert (why in View.of(ITEMS).refuses(edit)) if why else View.of(ITEMS).refuses(edit) == ""

    def test_pinned_and_locked_items_stay_unless_they_are_put_back_whole(self):
        items = talk("user:go", "pinned say:keep", "user:next")
        drop = Edit(by="t", first=items[0].id, last=items[1].id)

        assert "pinned" in View.of(items).refuses(drop)
        assert View.of(items).refuses(replace(drop, put=(items[1],))) == ""

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
    def test_the_operators_words_may_leave_once_they_were_said_again_but_for_the_numbers(self, note, later, goes):
        items = talk("user:go", note, "say:ok", "user:more", later, "say:ok")
        view = View.of(items)
        leaves = [view.refuses(Edit(by="t", first=items[n].id, last=items[n].id)) == "" for n in (1, 4)]

        assert leaves == [goes, later.startswith("user")]

    def test_of_notes_that_differ_the_newest_stay_and_those_before_the_first_answer(self):
        notes = [f"locked system:about {word}" for word in "abcdefghij"]
        steps = [line for note in notes for line in (note, "say:ok", "user:more")]
        items = talk("user:go", "locked system:# Environment", "say:ok", "user:x", "pinned system:never", *steps)
        view = View.of(items)
        leaves = [
            item.text
            for item in items
            if item.role == "system" and not view.refuses(Edit(by="t", first=item.id, last=item.id))
        ]

        assert leaves == ["about a", "about b"]
        assert len(view.aged) == 2
        assert "pinned" in view.refuses(Edit(by="t", first=items[4].id, last=items[4].id))

    def test_an_edit_contains_an_earlier_one_or_is_apart_from_it(self):
        view = View.of(
            ITEMS, [Edit(by="fold", first=ITEMS[1].id, last=ITEMS[4].id, put=(note("s", role="user", kind="text"),))]
        )

        assert "overlaps" in view.refuses(Edit(by="t", first=ITEMS[3].id, last=ITEMS[6].id))
        assert view.refuses(Edit(by="t", first=ITEMS[1].id, last=ITEMS[6].id)) == ""

    def test_what_follows_an_opaque_block_may_not_be_taken_from_it(self):
        items = tuple(
            replace(i, kind="opaque") if i.kind == "thinking" else i
            for i in talk("user:go", "think:r", "call:read", "result:9", "say:x")
        )

        assert "opaque" in View.of(items).refuses(Edit(by="t", first=items[2].id, last=items[3].id))
        assert View.of(items).refuses(Edit(by="t", first=items[1].id, last=items[3].id)) == ""


def test_results_after_the_assistant_last_spoke_are_unseen():
    items = talk("user:go", *READ, "call:read", "call:grep", "result:9", "result:9")

    assert View.of(items).unseen == {items[-1].id, items[-2].id}


def test_the_cover_of_a_stand_in_is_all_it_stands_for():
    fold = Edit(by="fold", first=ITEMS[1].id, last=ITEMS[4].id, put=(note("s", role="user", kind="text"),))

    assert View.of(ITEMS, [fold]).cover(1, 3) == (ITEMS[1].id, ITEMS[5].id)


def test_a_view_does_not_grow_from_items_that_were_never_its_own():
    view = View.of(talk("user:one", "say:a", "user:two"))
    other = talk("user:one", "say:quite another thing, and longer", "user:two", "say:b")
    tail = (*other[:2], *(replace(item, message=k) for k, item in enumerate(view.items[2:], 2)), *other[3:])

    assert view.regrow(2, tail) == View.of(tail)


def test_a_grown_view_says_how_much_it_has_of_the_one_before():
    view = View.of(ITEMS, [rewrite(result(0))])
    grown = view.extend(talk("user:more"))
    before, shared = grown.grew

    assert before is view.entries
    assert shared == len(view.entries)
    assert all(one is other for one, other in zip(before[:shared], grown.entries[:shared], strict=True))


def fold_of(first, last, text):
    put = (note(text, role="user", kind="text"),) if text else ()
    return Edit(by="fold", first=ITEMS_OF_MANY[first].id, last=ITEMS_OF_MANY[last].id, put=put)


ITEMS_OF_MANY = talk("user:go", *(("call:read", "result:9") * 9), "say:done")
RANGES = st.tuples(st.integers(0, 19), st.integers(0, 19), st.sampled_from(["", "a", "b"])).map(
    lambda one: fold_of(min(one[:2]), max(one[:2]), one[2])
)
INSERTED = st.integers(0, 19).map(
    lambda n: Edit(by="test", after=ITEMS_OF_MANY[n].id, put=(note("hint", role="user", kind="text"),))
)
ABSENT = st.just(Edit(by="test", first="nobody", last="nobody"))
EDITS = st.lists(st.one_of(RANGES, RANGES, RANGES, INSERTED, ABSENT), max_size=9, unique_by=lambda edit: edit.id)


@settings(max_examples=300)
@given(EDITS, st.integers(0, 9), st.integers(1, 20))
def test_edits_that_come_one_after_the_other_show_what_all_of_them_at_once_show(edits, before, begun):
    """Also where the conversation has grown in between, and whatever hides whatever."""
    view = View.of(ITEMS_OF_MANY[:begun], edits[:before])
    view = view.extend(ITEMS_OF_MANY[begun:])

    for edit in edits[before:]:
        view = view.apply([edit])

    assert view == View.of(ITEMS_OF_MANY, edits)
    assert view.index == {item.id: n for n, item in enumerate(ITEMS_OF_MANY)}


def test_one_edit_more_in_a_long_conversation_takes_the_steps_of_one_in_a_short_one():
    def steps(exchanges):
        items = talk("user:go", *(READ * exchanges), "say:done")
        results = [item for item in items if item.kind == "result"]
        view = View.of(items[:-3], map(rewrite, results[: exchanges // 2])).extend(items[-3:])
        return work(lambda: view.apply([rewrite(results[-2])]))

    assert steps(400) < 1.3 * steps(40)
