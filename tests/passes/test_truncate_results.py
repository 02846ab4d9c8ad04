"""The hard limit, after offloading (R099-R104)."""

from functools import partial

import pytest

from ebbtide.core.planner import make_plan
from ebbtide.core.preset_stubs import mini_claude_persisted
from ebbtide.core.stub import BlobNames
from ebbtide.core.text.preview import head_lines
from ebbtide.core.view import View
from ebbtide.passes import offload_results, truncate_results
from talk import budget, let, shown, situation, talk

SHELF = BlobNames(directory="/kept")


@pytest.mark.parametrize("length", [49_999, 50_000])
def test_up_to_the_limit_nothing_changes(length):
    view = View.of(talk("user:go", "call:x", "result:" + "x" * length))

    assert list(truncate_results(view, situation(view, blob_names=SHELF))) == []


def test_head_and_tail_are_kept_and_the_cut_is_reported():
    """R099: 24,970 characters of either end."""
    text = "a" * 50_000 + "b"
    view = View.of(talk("user:go", "call:x", f"result:{text}"))

    (cut,) = shown(let(truncate_results, view, situation(view, blob_names=SHELF)))
    assert cut == "a" * 24_970 + "\n\n[... truncated 61 chars ...]\n\n" + "a" * 24_969 + "b"
    assert len(cut) <= 50_000


def test_nothing_is_cut_that_was_not_saved():
    """R104."""
    view = View.of(talk("user:go", "call:x", "result:20000"))
    (edit,) = truncate_results(view, situation(view, blob_names=SHELF))

    assert edit.blobs[0].text == view.results[0].text


def test_a_preview_that_is_still_too_long_is_cut_and_still_names_the_file():
    """R101: offload first, truncate last. The blob is the whole result, not the preview."""
    text = "\n".join("x" * 1_000 for _ in range(300))
    view = View.of(talk("user:go", "call:x", f"result:{text}"))
    offload = partial(
        offload_results, limit=30 * 1024, unit="bytes", preview=head_lines(200), stub=mini_claude_persisted
    )
    plan = make_plan(view, (), budget(), situation(view, blob_names=SHELF), arrival=(offload, truncate_results))

    (cut,) = shown(plan.after)
    assert cut.startswith("[Result too large (293.3 KB, 300 lines). Full output saved to /kept/c1.txt.")
    assert "[... truncated " in cut
    assert len(cut) <= 50_000
    assert {(blob.name, blob.text) for edit in plan.edits for blob in edit.blobs} == {("c1.txt", text)}
    assert list(truncate_results(plan.after, situation(plan.after, blob_names=SHELF))) == []


@pytest.mark.parametrize("flag", ["media", "pinned", "locked"])
def test_images_and_protected_results_stay(flag):
    view = View.of(talk("user:go", "call:x", f"{flag} result:20000"))

    assert list(truncate_results(view, situation(view))) == []


def test_old_results_are_not_examined():
    view = View.of(talk("user:go", "call:x", "result:20000", "say:ok"))

    assert list(truncate_results(view, situation(view, first_unsent=4))) == []
