"""Claude Code's microcompact (R135-R144)."""

from functools import partial

import pytest

from ebbtide.core.stub import BlobNames
from ebbtide.core.view import View
from ebbtide.passes import clear_to_target, offload_results
from talk import budget, let, shown, situation, talk

SHELF = BlobNames(directory="/kept")
PRESSED = budget(200_000, warning=1)
CALM = budget(200_000, warning=10**6)


def reads(n, tokens, tool="Read"):
    return [line for _ in range(n) for line in (f"call:{tool}", f"result:{tokens}")]


def cleared(*lines, within=PRESSED, **changes):
    view = View.of(talk("user:go", *lines, "say:ok"))
    now = situation(view, within=within, blob_names=SHELF, **changes)
    before, after = shown(view), shown(let(clear_to_target, view, now))
    return [one != other for one, other in zip(before, after, strict=True)]


def test_the_oldest_results_are_cleared_until_the_target_is_met():
    """R139: 80,000, 70,000, 60,000, 50,000 are over 40,000."""
    assert cleared(*reads(8, 10_000)) == [True] * 4 + [False] * 4


def test_at_the_target_nothing_more_is_cleared():
    """R139: the comparison is strict."""
    assert cleared(*reads(6, 10_000)) == [True, True, *[False] * 4]


@pytest.mark.parametrize(("tokens", "gone"), [(19_999, False), (20_000, True)])
def test_it_must_be_worth_it(tokens, gone):
    """R140: at least 20,000 tokens."""
    assert cleared(*reads(1, tokens), *reads(4, 10_000)) == [gone, *[False] * 4]


def test_below_the_warning_level_nothing_is_cleared():
    """R140; acceptance check 18."""
    assert cleared(*reads(8, 10_000), within=CALM) == [False] * 8


def test_the_newest_three_count_and_stay():
    """R138."""
    assert cleared(*reads(1, 30_000), *reads(3, 30_000)) == [True, False, False, False]
    assert cleared(*reads(3, 90_000)) == [False] * 3


def test_a_target_that_was_named_sets_the_guards_aside():
    """R136."""
    assert cleared(*reads(5, 1_000), within=CALM, target=3_500) == [True, True, False, False, False]
    assert cleared(*reads(5, 1_000), within=CALM, target=0) == [True, True, False, False, False]
    assert cleared(*reads(5, 1_000), within=CALM, target=5_000) == [False] * 5


def test_only_compactable_tools_are_counted_and_cleared():
    """R135, E16."""
    others = reads(5, 30_000, tool="Task")

    assert cleared(*others, *reads(4, 10_000)) == [False] * 9
    assert cleared(*others, *reads(6, 10_000)) == [*[False] * 5, True, True, *[False] * 4]


def test_results_the_model_has_not_seen_stay():
    view = View.of(talk("user:go", *["call:Read"] * 6, *["result:30000"] * 6))

    assert list(clear_to_target(view, situation(view, within=PRESSED))) == []


@pytest.mark.parametrize("flag", ["pinned", "locked"])
def test_protected_content_stays(flag):
    """And do not count as cleared: others go in their place."""
    assert cleared("call:Read", f"{flag} result:30000", *reads(6, 10_000)) == [False, True, True, True, *[False] * 3]


def test_the_stub_text_with_and_without_saved_files():
    """R143, R253."""
    view = View.of(talk("user:go", *reads(4, 30_000), "say:ok"))
    kept = shown(let(clear_to_target, view, situation(view, within=PRESSED, blob_names=SHELF)))[0]
    lost = shown(let(clear_to_target, view, situation(view, within=PRESSED)))[0]

    assert kept == "<persisted-output>Tool result saved to: /kept/c1.txt\n\nUse Read to view</persisted-output>"
    assert lost == "[Old tool result content cleared]"


def test_a_list_is_kept_as_json():
    """R109."""
    view = View.of(talk("user:go", "call:Read", "listed result:30000", *reads(3, 30_000), "say:ok"))
    (edit,) = clear_to_target(view, situation(view, within=PRESSED, blob_names=SHELF))

    assert edit.blobs[0].name == "c1.json"


def test_cleared_results_stay_cleared_and_are_not_counted_again():
    """R146; acceptance check 20."""
    view = View.of(talk("user:go", *reads(8, 10_000), "say:ok"))
    after = let(clear_to_target, view, situation(view, within=PRESSED, blob_names=SHELF))

    assert len(after.edits) == 4
    assert list(clear_to_target(after, situation(after, within=PRESSED, blob_names=SHELF))) == []


def test_an_offloaded_result_counts_by_its_preview_and_is_not_replaced_twice():
    """R142: content that is a placeholder already is left."""
    view = View.of(talk("user:go", *reads(1, 90_000), *reads(5, 19_000), "say:ok"))
    now = situation(view, within=PRESSED, blob_names=SHELF)
    offloaded = let(partial(offload_results, limit=100_000), view, now)
    after = let(clear_to_target, offloaded, now)

    assert [edit.by for edit in after.edits] == ["offload_results", "clear_to_target", "clear_to_target"]
    assert shown(after)[0] == shown(offloaded)[0]


def memories(view, after):
    return [item.text for item in view.originals if item.source == "memory" and item not in after.entries]


def test_attached_memories_that_were_read_are_cleared_too():
    """R141: only when something was cleared, and what the model has not read stays."""
    lines = ("user:go", "memory:old", *reads(8, 10_000), "say:ok", "user:next", "memory:new")
    view = View.of(talk(*lines))
    pressed = let(clear_to_target, view, situation(view, within=PRESSED, blob_names=SHELF))
    calm = let(clear_to_target, view, situation(view, within=CALM, blob_names=SHELF))

    assert memories(view, pressed) == ["old"]
    assert [blob.text for blob in pressed.edits[-1].blobs] == ["old"]
    assert memories(view, calm) == []


def test_memories_stay_when_nothing_is_left_to_clear():
    """R137: what was cleared before is not chosen again, though its stub takes tokens too."""
    lines = ("user:go", *reads(5, 1_000), "say:ok", "user:next", "memory:new", "say:yes")
    view = View.of(talk(*lines))
    cleared_once = let(clear_to_target, View.of(view.originals[:12]), situation(view, target=3_000, blob_names=SHELF))
    again = View.of(view.originals, cleared_once.edits)

    assert len(cleared_once.edits) == 2
    assert list(clear_to_target(again, situation(again, target=3_000, blob_names=SHELF))) == []
