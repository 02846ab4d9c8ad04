"""Old results become stubs (R132, R151, acceptance checks 10-21)."""

from dataclasses import replace
from functools import partial

import pytest

from ebbtide.core.preset_stubs import learn_cleared, mini_claude_cleared
from ebbtide.core.stub import BlobNames, parse, render
from ebbtide.core.types import OURS
from ebbtide.core.view import View
from ebbtide.passes import clear_results
from talk import let, shown, situation, talk

READ = ("call:read", "result:900")
SHELF = BlobNames(directory="/kept")


def cleared(propose, *lines):
    view = View.of(talk("user:go", *lines))
    before, after = shown(view), shown(let(propose, view, situation(view)))
    return [one != other for one, other in zip(before, after, strict=True)]


@pytest.mark.parametrize(
    ("reads", "keep", "gone"),
    [(3, 3, 0), (2, 3, 0), (5, 3, 2), (3, 1, 2), (2, 0, 2)],  # 10, 11; keep=0 clears all: 15
)
def test_all_but_the_newest_are_cleared(reads, keep, gone):
    propose = partial(clear_results, keep_results=keep)

    assert cleared(propose, *READ * reads, "say:ok") == [True] * gone + [False] * (reads - gone)


@pytest.mark.parametrize("source", ["", OURS])
def test_a_name_that_a_result_says_that_stays_is_no_reason_to_keep_a_line(source):
    """The newest one, or what an earlier batch left of one."""
    items = talk("user:go", "call:read", "result:low_waters", "call:read", "result:high_waters\nlow_waters", "say:ok")
    items = items if source else [items[0], *items[3:5], *items[1:3], items[5]]
    view = View.of(
        [replace(item, source=source or item.source) if item.text == "low_waters" else item for item in items]
    )
    keep = 0 if source else 1
    (edit,) = clear_results(view, situation(view), keep_results=keep, min_tokens=0, telling=3.0)

    stub = parse(edit.replacement[0].text)
    assert stub is not None
    assert stub.preview == "high_waters"


def test_a_stub_names_the_file_and_the_call_stays():
    view = View.of(talk("user:go", *READ * 4, "say:ok"))
    now = situation(view, blob_names=SHELF)
    (edit,) = clear_results(view, now)
    after = let(clear_results, view, now)

    stub = parse(shown(after)[0])
    assert stub is not None
    assert (stub.name, stub.tokens, stub.path) == ("read", 900, "/kept/c1.txt")
    assert edit.blobs[0].text == view.results[0].text
    assert shown(after, "call") == shown(view, "call")


@pytest.mark.parametrize(("tokens", "gone"), [(1000, False), (1001, True)])
def test_a_small_result_stays(tokens, gone):
    """R151: more than 1,000 tokens. Acceptance check 12."""
    propose = partial(clear_results, min_tokens=1000, keep_results=0)

    assert cleared(propose, "call:bash", f"result:{tokens}", "say:ok") == [gone]


def test_results_the_model_has_not_seen_stay():
    """Acceptance check 13: a batch of five just came; once the model has answered, two of them may go."""
    batch = (*["call:read"] * 5, *["result:900"] * 5)

    assert cleared(clear_results, *batch) == [False] * 5
    assert cleared(partial(clear_results, keep_results=0), *READ, *batch) == [True, *[False] * 5]
    assert cleared(clear_results, *batch, "say:ok") == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("keep_turns", "gone"),
    [(0, [True, True, True]), (1, [True, True, False]), (2, [True, False, False]), (9, [False, False, False])],
)
def test_results_of_the_newest_turns_stay(keep_turns, gone):
    propose = partial(clear_results, keep_results=0, keep_turns=keep_turns)

    assert cleared(propose, *READ, "say:a", "user:b", *READ, "say:c", "user:d", *READ, "say:e") == gone


@pytest.mark.parametrize(
    ("keep_tokens", "gone"),
    [(0, [True] * 3), (899, [True] * 3), (900, [True, True, False]), (1800, [True, False, False])],
)
def test_the_newest_tokens_stay(keep_tokens, gone):
    propose = partial(clear_results, keep_results=0, keep_tokens=keep_tokens)

    assert cleared(propose, *READ * 3, "say:ok") == gone


def test_every_rule_that_keeps_is_enough():
    """D6: the rules are joined."""
    propose = partial(clear_results, keep_results=2, keep_tokens=900, keep_turns=1)

    assert cleared(propose, *READ * 3, "say:a", "user:b", "say:c") == [True, False, False]


def test_protected_tools_stay_and_only_named_ones_are_cleared():
    """Acceptance check 16, D7."""
    lines = ("call:skill", "result:900", "call:bash", "result:900", "call:read", "result:900", "say:ok")

    assert cleared(partial(clear_results, keep_results=0), *lines) == [False, True, True]
    assert cleared(partial(clear_results, keep_results=0, only=frozenset(("read",))), *lines) == [False, False, True]
    assert cleared(partial(clear_results, keep_results=0, never=frozenset()), *lines) == [True, True, True]


def test_keep_results_counts_only_the_tools_that_may_be_cleared():
    """R151: the newest three of the compactable ones."""
    lines = (*READ, "call:task", "result:900", "call:task", "result:900", "say:ok")

    assert cleared(partial(clear_results, keep_results=1, only=frozenset(("read",))), *lines) == [False] * 3
    assert cleared(partial(clear_results, keep_results=1), *lines) == [True, True, False]


@pytest.mark.parametrize("flag", ["pinned", "locked"])
def test_protected_content_stays(flag):
    assert cleared(partial(clear_results, keep_results=0), "call:x", f"{flag} result:900", "say:ok") == [False]


def test_images_are_saved_as_json_before_they_are_cleared():
    view = View.of(talk("user:go", "call:x", "media result:900", "say:ok"))
    (edit,) = clear_results(view, situation(view, blob_names=SHELF), keep_results=0)

    assert edit.blobs[0].name == "c1.json"
    assert '"image"' in edit.blobs[0].text
    assert edit.replacement[0].media == 0


def test_twice_is_once():
    """Acceptance check 20."""
    view = View.of(talk("user:go", *READ * 8, "say:ok"))
    after = let(clear_results, view, situation(view))

    assert len(after.edits) == 5
    assert list(clear_results(after, situation(after))) == []


def test_a_stub_that_a_client_sends_back_is_left_alone_and_one_that_a_tool_prints_is_not():
    """Acceptance check 19: recognised by what it is, not by what it reads like."""
    view = View.of(talk("user:go", *READ, "say:ok"))
    stub = shown(let(partial(clear_results, keep_results=0), view, situation(view)))[0] + "\n" + "x" * 4000
    fed = View.of(
        replace(item, source=OURS) if item.kind == "result" else item
        for item in talk("user:go", "call:read", f"result:{stub}", "say:ok")
    )

    assert list(clear_results(fed, situation(fed), keep_results=0)) == []
    assert cleared(partial(clear_results, keep_results=0), "call:read", f"result:{stub}", "say:ok") == [True]


@pytest.mark.parametrize(
    ("template", "text"),
    [(mini_claude_cleared, "[Old result cleared]"), (learn_cleared, "[Output compacted - re-read if needed]")],
)
def test_the_reference_agents_stub_text_is_used_and_nothing_is_lost(template, text):
    """R132, R151; and no preset clears what is not kept."""
    view = View.of(talk("user:go", *READ * 4, "say:ok"))
    (edit,) = clear_results(view, situation(view, blob_names=SHELF), stub=template)

    assert edit.replacement[0].text == text
    assert edit.blobs[0].text == view.results[0].text


def test_an_orphan_is_cleared_under_the_name_unknown():
    """Acceptance check 14."""
    view = View.of(talk("user:go", "result#lost:900", "say:ok"))
    (edit,) = clear_results(view, situation(view), keep_results=0, stub=render)

    assert edit.replacement[0].text.startswith("[ebb: result of unknown ")
