"""What newer results have made stale (R125-R130)."""

from functools import partial

import pytest

from ebbtide.core.preset_stubs import mini_claude_snipped
from ebbtide.core.stub import BlobNames, parse
from ebbtide.core.view import View
from ebbtide.passes import snip_results
from ebbtide.passes.snip_results import same_file
from talk import let, shown, situation, talk

SNIPPED = "[Content snipped - re-read if needed]"
MINI_CLAUDE = partial(
    snip_results,
    searches=frozenset(("grep_search", "list_files", "run_shell")),
    readers=frozenset(("read_file",)),
    same=same_file,
    stub=mini_claude_snipped,
)
NEWER = ("call:other", "result:x1", "call:other", "result:x2", "call:other", "result:x3")
"""Three results that count as the newest."""


def read(*files, tool="read_file"):
    return [line for file in files for line in (f"call:{tool} {file}", "result:300")]


def snipped(propose, *lines):
    view = View.of(talk("user:go", *lines, "say:ok"))
    before, after = shown(view), shown(let(propose, view, situation(view)))
    return [one != other for one, other in zip(before, after, strict=True)]


def test_only_the_newest_of_several_reads_of_a_file_stays():
    """R126."""
    assert snipped(MINI_CLAUDE, *read("a", "b", "a", "a"), *NEWER) == [True, False, True, False, *[False] * 3]


def test_the_newest_three_results_always_stay():
    """R128, E11: six readings a a a b b b, of which the seed's code would keep one."""
    assert snipped(MINI_CLAUDE, *read("a", "a", "a", "b", "b", "b")) == [True, True, False, False, False, False]
    assert snipped(MINI_CLAUDE, *read("a", "a", "a")) == [False] * 3
    assert snipped(partial(MINI_CLAUDE, keep_results=0), *read("a", "a", "a")) == [True, True, False]


def test_the_newest_three_results_of_each_search_stay():
    """R127: more than three of the same kind."""
    greps = read("x", "y", "z", "w", "v", tool="grep_search")
    lists = read("x", "y", "z", tool="list_files")

    assert snipped(MINI_CLAUDE, *greps, *lists, *NEWER) == [True, True, *[False] * 9]


def test_other_tools_stay():
    """R125."""
    assert snipped(MINI_CLAUDE, *read("a", "a", "a", "a", "a", tool="edit_file"), *NEWER) == [False] * 8


def test_only_content_is_removed_and_the_text_is_the_reference_agents():
    """R125, R129."""
    view = View.of(talk("user:go", *read("a", "a"), *NEWER, "say:ok"))
    after = let(MINI_CLAUDE, view, situation(view))

    assert shown(after)[0] == SNIPPED
    assert shown(after, "call") == shown(view, "call")


def part(offset):
    return f'call:Read {{"file_path": "a", "offset": {offset}}}', "result:300"


def test_the_default_pass_keeps_another_part_of_the_same_file():
    assert snipped(snip_results, *part(1), *part(500), *NEWER) == [False] * 5
    assert snipped(snip_results, *part(1), *part(1), *NEWER) == [True, *[False] * 4]
    assert snipped(snip_results, *part(1), *read("a", tool="Read"), *NEWER) == [True, *[False] * 4]
    assert snipped(snip_results, *read("a", tool="Read"), *part(1), *NEWER) == [False] * 5


def test_a_failed_read_supersedes_nothing():
    assert snipped(snip_results, *read("a"), "call:read_file a", "error result:300", *NEWER) == [False] * 5


@pytest.mark.parametrize("flag", ["pinned", "locked"])
def test_protected_content_stays(flag):
    assert snipped(snip_results, "call:Read a", f"{flag} result:300", *read("a", tool="Read"), *NEWER) == [False] * 5


def test_results_the_model_has_not_seen_stay():
    """Five readings of one file at once: none was seen."""
    calls, results = ["call:Read a"] * 5, ["result:300"] * 5
    view = View.of(talk("user:go", *calls, *results))

    assert list(snip_results(view, situation(view))) == []
    assert len(list(snip_results(View.of(talk("user:go", *calls, *results, "say:ok")), situation(view)))) == 2


def test_snipped_results_are_saved():
    view = View.of(talk("user:go", *read("a", "a"), *NEWER, "say:ok"))
    (edit,) = snip_results(view, situation(view, blob_names=BlobNames(directory="/kept")))

    stub = parse(edit.replacement[0].text)
    assert stub is not None
    assert stub.path == "/kept/c1.txt"
    assert edit.blobs[0].text == view.results[0].text


def test_it_is_quiet_on_its_own_output():
    view = View.of(talk("user:go", *read("a", "a", "a"), *NEWER, "say:ok"))
    after = let(snip_results, view, situation(view))

    assert after.edits
    assert list(snip_results(after, situation(after))) == []
