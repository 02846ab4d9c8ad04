"""Long old words of the assistant become their first and last lines."""

from functools import partial

import pytest

from ebbtide.core.stub import BlobNames
from ebbtide.core.view import View
from ebbtide.passes import shorten_text
from talk import filler, let, shown, situation, talk

LONG = "\n".join(f"line {n} " + "x" * 60 for n in range(60))
LATER = ("user:b", "say:c", "user:d")


def test_the_first_and_last_lines_stay_and_the_rest_is_kept():
    view = View.of(talk("user:a", f"say:{LONG}", *LATER))
    now = situation(view, blob_names=BlobNames(directory="/kept"))
    (edit,) = shorten_text(view, now, lines=2)

    text = edit.replacement[0].text
    assert [line.split(" x")[0] for line in text.split("\n")[1:]] == ["line 0", "line 1", "[...]", "line 58", "line 59"]
    assert text.startswith("[ebb: text shortened, ")
    assert "saved to /kept/text.txt]" in text
    assert edit.blobs[0].text == LONG
    assert let(shorten_text, view, now).entries[1].role == "assistant"


def test_a_paragraph_without_line_breaks_is_clipped():
    view = View.of(talk("user:a", "say:" + "x" * 10_000, *LATER))
    (edit,) = shorten_text(view, situation(view))

    assert edit.replacement[0].text.endswith("\n" + "x" * 200 + "...")


@pytest.mark.parametrize(
    "lines",
    [
        (f"say:{filler(600)}", *LATER),
        (f"pinned say:{LONG}", *LATER),
        (f"locked say:{LONG}", *LATER),
        ("say:x", f"user:{LONG}", "say:y", *LATER),
        ("reason:x", f"say:{LONG}", *LATER),
        (f"say:{LONG}", "user:b"),
        (f"say:{LONG}",),
    ],
    ids=["short", "pinned", "locked", "the user's", "reasoned", "newest turn but one", "newest turn"],
)
def test_short_pinned_and_new_text_stays_and_so_does_the_users(lines):
    view = View.of(talk("user:a", *lines))

    assert list(shorten_text(view, situation(view))) == []


def test_text_in_the_open_loop_stays():
    view = View.of(talk("user:a", f"say:{LONG}", "call:x", "result:r"))

    assert list(shorten_text(view, situation(view), keep_turns=0)) == []


def test_two_long_texts_get_two_files_and_it_is_quiet_afterwards():
    view = View.of(talk("user:a", f"say:{LONG}", "user:aa", f"say:{LONG}!", *LATER))
    now = situation(view, blob_names=BlobNames(directory="/kept"))
    after = let(partial(shorten_text), view, now)

    assert len({blob.name for edit in after.edits for blob in edit.blobs}) == 2
    assert shown(after, "text") != shown(view, "text")
    assert list(shorten_text(after, situation(after))) == []
