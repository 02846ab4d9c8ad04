"""Old images become a line."""

from functools import partial

import pytest

from ebbtide.core.stub import BlobNames, parse
from ebbtide.core.view import View
from ebbtide.passes import clear_media
from talk import let, situation, talk

SHELF = BlobNames(directory="/kept")


def after(*lines, **settings):
    view = View.of(talk(*lines))
    return let(partial(clear_media, **settings), view, situation(view, blob_names=SHELF))


def test_an_old_image_becomes_a_line_that_says_what_it_was():
    view = View.of(talk("user:see", "+image:1500", "say:ok", "user:b"))
    (edit,) = clear_media(view, situation(view, blob_names=SHELF), keep=0)

    (put,) = edit.replacement
    stub = parse(put.text)
    assert stub is not None
    assert (stub.kind, stub.about, stub.tokens, stub.path) == ("image", "image/png", 1500, "/kept/image.json")
    assert (put.role, put.kind, put.trust) == ("user", "text", view.entries[1].trust)
    assert '"base64"' in edit.blobs[0].text


@pytest.mark.parametrize(("keep", "images"), [(0, 0), (1, 1), (2, 2), (5, 3)])
def test_the_newest_stay(keep, images):
    view = after("user:see", "+image:100", "+document:200", "+image:300", "say:ok", "user:b", keep=keep)

    assert sum(entry.kind in ("image", "document") for entry in view.entries) == images


def test_images_of_the_live_request_stay():
    assert after("user:a", "say:b", "user:see", "+image:1500", "call:x", "result:r", keep=0).edits == ()


def test_an_image_in_a_result_is_removed_and_its_text_stays():
    view = View.of(talk("user:go", "call:shot", "media result:saved as a.png", "say:ok", "user:b"))
    (edit,) = clear_media(view, situation(view, blob_names=SHELF), keep=0)

    (put,) = edit.replacement
    first, line = put.text.split("\n")
    stub = parse(line)
    assert first == "saved as a.png"
    assert stub is not None
    assert (stub.kind, stub.name, stub.tokens, stub.path) == ("image", "shot", 2_000, "/kept/c1.json")
    assert (put.kind, put.call_id, put.media) == ("result", "c1", 0)
    assert '"image"' in edit.blobs[0].text


def test_a_result_in_the_open_loop_may_lose_its_image_once_it_was_seen():
    shot = ("call:shot", "media result:900")

    assert len(after("user:go", *shot, *shot, keep=1).edits) == 1
    assert after("user:go", *["call:shot"] * 2, *["media result:900"] * 2, keep=0).edits == ()


@pytest.mark.parametrize("flag", ["pinned", "locked"])
def test_protected_content_stays(flag):
    assert after("user:a", f"+{flag} image:1500", "say:b", "user:c", keep=0).edits == ()


def test_it_is_quiet_on_its_own_output():
    view = after("user:a", "+image:1500", "call:x", "media result:900", "say:b", "user:c", keep=0)

    assert len(view.edits) == 2
    assert list(clear_media(view, situation(view), keep=0)) == []
