"""A user's message larger than a limit becomes a reference (R116, R259)."""

from functools import partial

import pytest

from ebbtide.core.preset_stubs import region_input
from ebbtide.core.stub import BlobNames
from ebbtide.core.types import USER
from ebbtide.core.view import View
from ebbtide.passes import offload_input
from talk import filler, let, shown, situation, talk

SHELF = BlobNames(directory="/kept")


def test_a_large_paste_is_saved_to_disk_and_stays_a_user_message():
    view = View.of(talk(f"user:Why does this fail?\n{filler(60_000)}"))
    now = situation(view, blob_names=SHELF)
    (edit,) = offload_input(view, now)
    (entry,) = let(offload_input, view, now).entries

    assert edit.blobs[0].text == view.entries[0].text
    assert (entry.role, entry.trust) == ("user", USER)
    assert entry.text.startswith("[ebb: message shortened, 60005 tokens,")
    assert "\nWhy does this fail?\n" in entry.text


def test_region_says_where_a_large_input_was_saved():
    view = View.of(talk("user:" + "x" * 101))

    after = let(partial(offload_input, limit=100, stub=region_input), view, situation(view, blob_names=SHELF))
    assert shown(after, "text") == ["[Large input saved to /kept/input.txt, 101 chars. Use Read tool to access.]"]


@pytest.mark.parametrize("line", ["user:" + "x" * 100, "say:200", "pinned user:200", "call:x", "image:200"])
def test_short_and_pinned_text_and_all_that_is_not_the_users_stays(line):
    view = View.of(talk(line))

    assert list(offload_input(view, situation(view, blob_names=SHELF), limit=100)) == []


def test_the_users_text_stays_when_nothing_can_be_saved():
    view = View.of(talk("user:200"))

    assert list(offload_input(view, situation(view), limit=100)) == []


def test_only_new_input_is_examined():
    view = View.of(talk("user:200", "say:ok", "user:300"))

    assert len(list(offload_input(view, situation(view, blob_names=SHELF, first_unsent=2), limit=100))) == 1


def test_it_is_quiet_on_its_own_output():
    view = View.of(talk("user:20000"))
    after = let(partial(offload_input, limit=100), view, situation(view, blob_names=SHELF))

    assert after.edits
    assert list(offload_input(after, situation(after, blob_names=SHELF), limit=10)) == []
