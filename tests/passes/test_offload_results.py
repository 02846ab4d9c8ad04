"""Persist first, preview second."""

from functools import partial

import pytest

from ebbtide.core.offload import as_received
from ebbtide.core.preset_stubs import claude_code_persisted, learn_persisted, mini_claude_persisted
from ebbtide.core.stub import BlobNames, parse
from ebbtide.core.text.preview import first_chars, head_chars, head_lines
from ebbtide.core.view import View
from ebbtide.passes import offload_results
from talk import filler, let, shown, situation, talk

SHELF = BlobNames(directory="/kept")


def arriving(*lines, **changes):
    view = View.of(talk("user:go", *lines))
    return view, situation(view, blob_names=SHELF, **changes)


def offloaded(propose, *lines):
    """Which of the results a pass offloads."""
    view, now = arriving(*lines)
    gone = {edit.first for edit in propose(view, now)}
    return [result.id in gone for result in view.results]


def test_a_large_result_is_offloaded_on_arrival_and_can_be_read_back():
    """Acceptance check 23: what is kept equals the result byte for byte."""
    view, now = arriving("call:bash", f"result:{filler(13_000)}fatal: broken")
    (edit,) = offload_results(view, now)

    assert edit.blobs[0].text == view.results[0].text
    (text,) = shown(let(offload_results, view, now))
    assert text.startswith("[ebb: result of bash shortened, 13004 tokens, 3251 lines; saved to /kept/c1.txt]\n")
    assert text.endswith("fatal: broken")
    assert now.count_tokens(text) <= 640


@pytest.mark.parametrize(
    ("unit", "text", "out"),
    [
        ("chars", "x" * 50_000, False),
        ("chars", "x" * 50_001, True),
        ("bytes", "é" * 25_000, False),
        ("bytes", "é" * 25_001, True),
        ("tokens", "x" * 200_000, False),
        ("tokens", "x" * 200_001, True),
    ],
)
def test_the_limit_itself_is_allowed(unit, text, out):
    """R102, R108, R115: the seeds measure in different units, and all of them allow the limit."""
    assert offloaded(partial(offload_results, limit=50_000, unit=unit), "call:x", f"result:{text}") == [out]


def test_a_tool_may_have_its_own_limit():
    """R108: the tool's limit, where it has one."""
    propose = partial(offload_results, limit=1_000, per_tool={"grep": 10_000})

    assert offloaded(propose, "call:grep", "result:2000", "call:read", "result:2000", "call:grep", "result:3000") == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("flag", ["media", "pinned", "locked"])
def test_images_and_protected_results_stay(flag):
    """R107."""
    assert offloaded(offload_results, "call:x", f"{flag} result:20000") == [False]


def test_an_empty_result_stays():
    """R106."""
    assert offloaded(partial(offload_results, limit=0), "call:x", "result:") == [False]


def test_only_new_results_are_examined():
    view, now = arriving("call:x", "result:20000", "call:x", "result:20000", first_unsent=3)

    assert [edit.first for edit in offload_results(view, now)] == [view.results[1].id]


def test_it_does_not_offload_its_own_preview():
    """Nor a placeholder that a tool printed: that is content like any other (acceptance check 19)."""
    view, now = arriving("call:x", "result:20000")
    once = let(partial(offload_results, limit=10), view, now)
    assert list(offload_results(once, situation(once, blob_names=SHELF), limit=10)) == []

    forged, now = arriving("call:x", f"result:{shown(once)[0]}")
    assert len(list(offload_results(forged, now, limit=10))) == 1


def test_without_saved_files_the_preview_says_that_the_rest_was_not_kept():
    view = View.of(talk("user:go", "call:x", "result:20000"))
    (edit,) = offload_results(view, situation(view))

    stub = parse(edit.replacement[0].text)
    assert stub is not None
    assert stub.path == ""
    assert edit.blobs == ()


def test_mini_claude_shows_200_lines_above_30_kilobytes():
    """R102: 30 KB, 200 lines."""
    propose = partial(
        offload_results, limit=30 * 1024, unit="bytes", preview=head_lines(200), stub=mini_claude_persisted
    )
    text = "0123456789\n" * 5_000
    view, now = arriving("call:run_shell", f"result:{text}")

    head = (
        "[Result too large (53.7 KB, 5001 lines). Full output saved to /kept/c1.txt. "
        "You can use read_file to see the full result.]\n\nPreview (first 200 lines):\n"
    )
    assert shown(let(propose, view, now)) == [head + "0123456789\n" * 199 + "0123456789"]


def test_claude_code_keeps_lists_as_json():
    """R108-R111: the list's compact JSON is measured, its indented JSON is kept and previewed."""
    propose = partial(offload_results, preview=head_chars(2000), stub=claude_code_persisted, form=as_received)
    parts = len('[{"type":"text","text":""}]')
    assert offloaded(propose, "call:x", f"listed result:{'x' * (50_000 - parts)}") == [False]

    view, now = arriving("call:x", f"listed result:{'x' * (50_001 - parts)}")
    (edit,) = propose(view, now)
    assert edit.blobs[0].name == "c1.json"
    assert edit.blobs[0].text.startswith('[\n  {\n    "type": "text"')
    assert edit.replacement[0].text.startswith(
        "<persisted-output>\nOutput too large (48.8KB). Full output saved to: /kept/c1.json\n\n"
        'Preview (first 2KB):\n[\n  {\n    "type": "text"'
    )
    assert edit.replacement[0].text.endswith("x\n...\n</persisted-output>")


def test_learn_v5_shows_2000_characters_above_40000_tokens():
    """R115: more than 40,000 tokens, 2,000 characters."""
    propose = partial(offload_results, limit=40_000, unit="tokens", preview=first_chars(2000), stub=learn_persisted)
    view, now = arriving("call:bash", "result:40000", "call:bash", "result:40001")

    whole, preview = shown(let(propose, view, now))
    assert whole == filler(40_000)
    assert preview == f"Output too large. Saved to: /kept/c2.txt\nPreview:\n{filler(500)}..."


@pytest.mark.parametrize(
    ("call", "stays"),
    [
        ("call:ebb_read", True),
        ('call:read {"file_path": "/kept/toolu_1.txt"}', True),
        ('call:bash {"command": "sed -n 1,9p /kept/toolu_1.txt | head"}', True),
        ('call:read {"file_path": "/src/toolu_1.txt"}', False),
        ('call:bash {"command": "cat /src/toolu_1.txt"}', False),
    ],
)
def test_a_result_read_back_from_disk_is_not_offloaded_again(call, stays):
    """Else the model would ask for it again, without end."""
    assert offloaded(partial(offload_results, limit=1_000, unit="tokens"), call, "result:3000") == [not stays]


def test_what_is_read_back_and_takes_over_a_quarter_of_the_room_shows_whole_lines_and_names_them():
    """Its first lines, of the same file: nothing is saved again."""
    view, now = arriving('call:read {"file_path": "/kept/toolu_1.txt"}', "result:60000")
    (edit,) = offload_results(view, now, limit=1_000, unit="tokens")
    (text,) = shown(let(partial(offload_results, limit=1_000, unit="tokens"), view, now))
    head, *lines, last = text.splitlines()

    assert edit.blobs == ()
    assert head.endswith("saved to /kept/toolu_1.txt]")
    original = view.results[0].text.splitlines()
    assert last == f"[These are lines 1 to {len(lines)} of {len(original)}. Read the others in parts, by line numbers.]"
    assert lines == original[: len(lines)]
    room = now.budget.message_budget // 4
    assert room * 0.7 < now.count_tokens("\n".join(lines)) <= room
