"""The budget of results tightens with utilisation (R067, R121-R122)."""

from functools import partial

import pytest

from ebbtide.core.stub import BlobNames
from ebbtide.core.text.preview import head_chars
from ebbtide.core.view import View
from ebbtide.passes import budget_results, offload_results
from talk import let, shown, situation, talk

SHELF = BlobNames(directory="/kept")


def at(view, utilisation):
    return situation(view, utilisation=utilisation, blob_names=SHELF)


@pytest.mark.parametrize(
    ("utilisation", "most"),
    [(0.0, 100_000), (0.499, 100_000), (0.50, 30_000), (0.70, 30_000), (0.701, 15_000), (1.5, 15_000)],
)
def test_the_tiers_at_their_edges(utilisation, most):
    """R067: exactly 50 % is on, exactly 70 % is still loose."""
    view = View.of(talk("user:go", "call:x", "result:" + "x" * 100_000, "say:ok"))
    (text,) = shown(let(budget_results, view, at(view, utilisation)))

    assert most - 80 < len(text) <= most


@pytest.mark.parametrize(("length", "shrinks"), [(30_000, False), (30_001, True)])
def test_a_result_of_exactly_the_budget_stays(length, shrinks):
    view = View.of(talk("user:go", "call:x", "result:" + "x" * length, "say:ok"))

    assert bool(list(budget_results(view, at(view, 0.6)))) == shrinks


def test_head_and_tail_are_kept_and_the_cut_is_reported():
    """R121: (30,000 - 80) / 2 of either end."""
    view = View.of(talk("user:go", "call:x", "result:" + "a" * 50_000 + "b" * 50_000, "say:ok"))
    (text,) = shown(let(budget_results, view, at(view, 0.6)))

    assert text == "a" * 14_960 + "\n\n[... budgeted: 70080 chars truncated ...]\n\n" + "b" * 14_960


def test_a_tighter_budget_is_cut_from_the_original():
    """The marker tells the whole loss, not that since the last budget; it stays quiet until it tightens."""
    view = View.of(talk("user:go", "call:x", "result:" + "x" * 100_000, "say:ok"))
    loose = let(budget_results, view, at(view, 0.6))
    tight = let(budget_results, loose, at(loose, 0.8))

    assert list(budget_results(loose, at(loose, 0.6))) == []
    assert "[... budgeted: 85080 chars truncated ...]" in shown(tight)[0]
    assert list(budget_results(tight, at(tight, 0.8))) == []
    assert list(budget_results(tight, at(tight, 0.6))) == []
    assert tight.edits[-1].blobs[0].text == "x" * 100_000
    assert tight.tokens == loose.tokens - tight.edits[-1].saved


def test_a_preview_is_budgeted_from_the_preview():
    view = View.of(talk("user:go", "call:x", "result:" + "x" * 100_000, "say:ok"))
    offloaded = let(partial(offload_results, preview=head_chars(40_000)), view, at(view, 0.6))
    loose = let(budget_results, offloaded, at(offloaded, 0.6))
    tight = let(budget_results, loose, at(loose, 0.8))

    length = len(shown(offloaded)[0])
    assert shown(tight)[0].startswith("[ebb: result of x ")
    assert f"[... budgeted: {length - 2 * 7460} chars truncated ...]" in shown(tight)[0]
    assert tight.edits[-1].blobs[0].text == "x" * 100_000


@pytest.mark.parametrize(
    "lines",
    [
        ("call:x", "listed result:20000", "say:ok"),
        ("call:x", "media result:20000", "say:ok"),
        ("call:x", "pinned result:20000", "say:ok"),
        ("call:x", "locked result:20000", "say:ok"),
        ("call:x", "result:20000"),
        ("say:20000",),
    ],
    ids=["parts", "image", "pinned", "locked", "unseen", "words"],
)
def test_parts_pictures_pinned_and_unseen_results_stay(lines):
    view = View.of(talk("user:go", *lines))

    assert list(budget_results(view, at(view, 0.9))) == []
