"""Regions of calls between words fold where they stand (R168, R189 to R196)."""

from dataclasses import replace
from functools import partial

import pytest

from ebbtide.core.edit_rules import rejection_reason
from ebbtide.core.planner import CompactionInput, make_plan
from ebbtide.core.stub import BlobNames
from ebbtide.core.types import OURS, QUOTED, Answer, Question
from ebbtide.core.view import View
from ebbtide.passes import fold_regions
from talk import budget, situation, talk

SHELF = BlobNames(directory="/kept")
SMALL = ("call:Read a.py", "result:300", "call:Read b.py", "result:300")
LARGE = ("call:bash", "result:3000", "call:bash", "result:3000")
TURNS = ("user:one", *SMALL, "say:done one", "user:two", *LARGE, "say:done two", "user:three")
WITHIN = budget(20_000, low=1_000)
EAGER = partial(fold_regions, keep_turns=1, keep_tokens=0)


def at(view, *, within=WITHIN, compaction=None, **changes):
    return situation(view, within=within, blob_names=SHELF, compaction=compaction or CompactionInput(), **changes)


def steps(view, propose=EAGER, **changes):
    return list(propose(view, at(view, **changes)))


def edits(view, propose=EAGER, **changes):
    found = steps(view, propose, **changes)
    assert [rejection_reason(view, edit) for edit in found] == [""] * len(found)
    return found


def covered(view, edit):
    return view.originals[view.index[edit.first] : view.index[edit.last] + 1]


def outline(view):
    """u and a for words, c and r for calls and results, S for what stands for a region."""
    letters = {("user", "text"): "u", ("assistant", "text"): "a", ("assistant", "call"): "c", ("tool", "result"): "r"}
    return "".join(
        "S" if entry.id in view.edit_by_entry else letters.get((entry.role, entry.kind), "?") for entry in view.entries
    )


def test_each_region_becomes_one_block_and_the_users_text_stays():
    view = View.of(talk(*TURNS))

    assert outline(view.apply(edits(view))) == "uSauSau"


def test_the_largest_region_is_summarized_first():
    view = View.of(talk(*TURNS))

    assert [covered(view, edit)[0].name for edit in edits(view)] == ["bash", "Read"]


def test_the_plan_stops_when_enough_is_saved():
    view = View.of(talk(*TURNS))
    within = budget(20_000, soft=1, auto=2, low=view.tokens - 3_000)
    plan = make_plan(view, [EAGER], within, at(view, within=within))

    assert outline(plan.after) == "ucrcrauSau"


@pytest.mark.parametrize(("keep_turns", "left"), [(1, "uSauSau"), (2, "uSaucrcrau"), (3, "ucrcraucrcrau")])
def test_the_newest_turns_are_not_touched(keep_turns, left):
    view = View.of(talk(*TURNS))

    assert outline(view.apply(edits(view, partial(EAGER, keep_turns=keep_turns)))) == left


def test_the_newest_tokens_are_not_touched_but_a_quarter_of_the_window_at_most():
    view = View.of(talk(*TURNS))

    assert outline(view.apply(edits(view, partial(EAGER, keep_tokens=4_000)))) == "uSauScrau"
    assert outline(view.apply(edits(view, partial(EAGER, keep_tokens=10**6)))) == "uSauScrau"


def test_a_region_hardly_longer_than_its_summary_stays():
    view = View.of(talk("user:a", "call:Read a.py", "result:20", "say:b", "user:c"))

    assert edits(view) == []


@pytest.mark.parametrize("held", ["pinned ", "locked "])
def test_pinned_or_locked_items_end_a_region_with_their_pair(held):
    view = View.of(talk("user:a", *SMALL, f"{held}call:Read p.py", "result:500", *SMALL, "say:b", "user:c"))
    after = view.apply(edits(view))

    kept = [entry for entry in after.entries if entry.id not in after.edit_by_entry and entry.call_id]
    assert [entry.kind for entry in kept] == ["call", "result"]
    assert outline(after).count("S") == 2


def test_results_the_model_has_not_seen_stay():
    view = View.of(talk("user:a", *LARGE, "call:bash", "result:3000"))
    found = edits(view, partial(EAGER, keep_turns=0))

    assert [view.originals[-1] in covered(view, edit) for edit in found] == [False]


def test_a_summary_is_never_summarized_again():
    view = View.of(talk(*TURNS))
    after = view.apply(edits(view))
    assert edits(after) == []

    grown = View.of(talk(*TURNS, *LARGE, "say:done three", "user:four"), after.edits)
    assert outline(grown.apply(edits(grown))) == "uSauSauSau"


def test_a_summary_that_a_client_sends_back_is_not_summarized_again():
    """It comes back on the user's side, as what the harness says."""
    back = talk("user:a", "reminder:900", *SMALL, "say:b", "user:c")
    view = View.of([replace(one, source=OURS) if one.source == "reminder" else one for one in back])

    assert outline(view.apply(edits(view))) == "uuSau"


def test_it_says_which_turns_and_is_quoted():
    view = View.of(talk(*TURNS))
    put = [edit.replacement for edit in edits(view)]

    assert [(len(one), one[0].role, one[0].trust) for one in put] == [(1, "user", QUOTED)] * 2
    assert put[0][0].text.startswith("[compacted summary of turns 2-2]")


def test_two_regions_of_one_plan_never_share_a_file():
    view = View.of(talk(*TURNS))
    names = [blob.name for edit in edits(view) for blob in edit.blobs]

    assert len(names) == len(set(names)) == 2
    for edit in edits(view):
        assert all(item.text in edit.blobs[0].text for item in covered(view, edit))


def test_it_asks_about_the_regions_it_needs_and_uses_the_answers():
    view = View.of(talk(*TURNS))
    asks = steps(view, compaction=CompactionInput(asks=True))
    assert [type(ask) for ask in asks] == [Question, Question]
    assert [ask.answer_mode for ask in asks] == ["transcript", "transcript"]
    assert asks[0].max_tokens > asks[1].max_tokens

    answers = {
        ask.key: Answer(key=ask.key, first=ask.first, last=ask.last, text=f"Said of {ask.first}.") for ask in asks
    }
    found = edits(view, compaction=CompactionInput(asks=True, answers=answers))
    assert [f"Said of {edit.first}." in edit.replacement[0].text for edit in found] == [True, True]


def test_a_region_with_a_useless_answer_stays_for_the_last_resort():
    """R252: the oldest leave instead, once the window forces it."""
    view = View.of(talk(*TURNS))
    large, small = steps(view, compaction=CompactionInput(asks=True))
    answers = {
        large.key: Answer(key=large.key, first=large.first, last=large.last, failed="refused"),
        small.key: Answer(key=small.key, first=small.first, last=small.last, text="Two files were read."),
    }

    (edit,) = edits(view, compaction=CompactionInput(asks=True, answers=answers))

    assert (edit.first, edit.last) == (small.first, small.last)


def test_a_forbidden_compaction_is_not_made():
    assert steps(View.of(talk(*TURNS)), compaction=CompactionInput(forbidden=True)) == []
