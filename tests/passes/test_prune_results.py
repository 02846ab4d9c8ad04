"""OpenCode's prune (R153-R155)."""

from functools import partial

import pytest

from ebbtide.core.stub import BlobNames
from ebbtide.core.types import OURS, Edit, Item
from ebbtide.core.view import View
from ebbtide.passes import prune_results
from talk import let, shown, situation, talk

TURNS = ("say:ok", "user:b", "say:c", "user:d")
"""Two turns without results."""
PRUNED = "[Old tool result content cleared]"


def calls(*sizes, tool="bash"):
    return [line for tokens in sizes for line in (f"call:{tool}", f"result:{tokens}")]


def pruned(*lines):
    view = View.of(talk("user:a", *lines))
    return [text == PRUNED for text in shown(let(prune_results, view, situation(view)))]


def test_a_large_output_two_turns_back_is_marked_and_kept():
    """Acceptance check 17."""
    view = View.of(talk("user:a", *calls(50_000, 100), *TURNS))
    (edit,) = prune_results(view, situation(view, blob_names=BlobNames(directory="/kept")))

    assert edit.replacement[0].text == PRUNED
    assert edit.blobs[0].text == view.results[0].text


def test_the_newest_tokens_stay_and_the_result_that_crosses_the_limit_is_pruned():
    assert pruned(*calls(21_000, 30_000, 10_000), *TURNS) == [True, False, False]
    assert pruned(*calls(21_000, 30_001, 10_000), *TURNS) == [True, True, False]


@pytest.mark.parametrize(("tokens", "gone"), [(20_000, False), (20_001, True)])
def test_pruning_must_free_more_than_twenty_thousand_tokens(tokens, gone):
    assert pruned(*calls(tokens, 40_000), *TURNS) == [gone, False]


def test_the_newest_two_turns_stay():
    assert pruned(*calls(90_000), "say:ok", "user:b", *calls(90_000), "say:c") == [False, False]
    assert pruned(*calls(90_000), "say:ok", "user:b", *calls(90_000), "say:c", "user:d") == [True, False]


def test_skills_stay_and_do_not_count():
    assert pruned(
        *calls(90_000, tool="skill"), *calls(90_000), *calls(39_000, tool="skill"), *calls(40_000), *TURNS
    ) == [
        False,
        True,
        False,
        False,
    ]


def test_it_looks_no_further_than_what_it_pruned():
    """Nor again at what it left."""
    lines = ("user:a", *calls(90_000, 40_000), *TURNS)
    view = View.of(talk(*lines))
    once = let(prune_results, view, situation(view))
    assert list(prune_results(once, situation(once))) == []

    grown = View.of(talk(*lines, *calls(50_000), *TURNS, "say:e"), once.edits)
    assert [text == PRUNED for text in shown(let(prune_results, grown, situation(grown)))] == [True, True, True]

    unpruned = View.of(talk("user:a", *calls(50_000, 90_000, 40_000), *TURNS))
    middle = let(prune_results, unpruned, situation(unpruned)).edits[1]
    stopped = unpruned.apply([middle])
    assert list(prune_results(stopped, situation(stopped))) == []


def test_it_looks_no_further_than_a_summary():
    view = View.of(talk("user:a", *calls(90_000), "say:x", "say:y", "user:z", *calls(40_000), *TURNS))
    said = [item for item in view.originals if item.text in ("x", "y")]
    summary = Item(id="", message=-1, role="assistant", kind="text", text="summary", tokens=2, source=OURS)
    folded = view.apply([Edit(by="fold", first=said[0].id, last=said[1].id, replacement=(summary,))])

    assert list(prune_results(folded, situation(folded))) == []
    assert len(list(prune_results(view, situation(view)))) == 1


def test_protected_results_and_unfinished_calls_stay():
    """R155."""
    assert pruned("call:bash", "pinned result:90000", *calls(30_000, 40_000), *TURNS) == [False, True, False]
    assert pruned("call:bash", *TURNS) == []


def test_all_turns_may_be_pruned():
    view = View.of(talk("user:a", *calls(90_000), "say:ok"))

    assert len(list(partial(prune_results, keep_turns=0)(view, situation(view)))) == 1
