"""Name, blob, stub and edit are made together."""

from dataclasses import replace

from ebbtide.core.offload import Offloader, as_received, readable
from ebbtide.core.stub import BlobNames, digest, parse, render
from ebbtide.core.view import View
from talk import filler, situation, talk

SHELF = BlobNames(directory="/kept")


def leaving(view, shelf=SHELF):
    return Offloader(by="test", view=view, plan_input=situation(view, blob_names=shelf))


def test_the_stub_names_the_file_that_the_blob_becomes():
    view = View.of(talk("user:go", "call:read", "result:900", "say:ok"))
    edit = leaving(view).stub_result(view.results[0], render, "old")

    (blob,) = edit.blobs
    assert blob.text == filler(900)
    stub = parse(edit.replacement[0].text)
    assert stub is not None
    assert (stub.path, stub.name, stub.tokens, stub.lines) == (
        f"/kept/{blob.name}",
        "read",
        900,
        filler(900).count("\n") + 1,
    )


def test_without_saved_files_nothing_is_kept_and_the_stub_says_so():
    view = View.of(talk("user:go", "call:read", "result:900", "say:ok"))
    edit = leaving(view, None).stub_result(view.results[0], render, "old")

    assert edit.blobs == ()
    assert edit.replacement[0].text.endswith("; not saved]")


def test_a_replacement_keeps_pair_role_and_trust_and_counts_its_saving():
    view = View.of(talk("user:go", "call:read", "result:900", "say:ok"))
    result = view.results[0]
    edit = leaving(view).stub_result(result, render, "old")

    (put,) = edit.replacement
    assert (put.role, put.kind, put.call_id, put.name, put.trust) == ("tool", "result", "c1", "read", result.trust)
    assert edit.saved == 900 - situation(view).count_tokens(put.text) == view.tokens - view.apply([edit]).tokens


def test_two_contents_of_one_call_id_never_share_a_name():
    """Not in one run, not with an edit planned before, not with what stands on the shelf."""
    view = View.of(talk("user:go", "call#c:read", "result#c:one", "call#c:read", "result#c:two", "say:ok"))
    run = leaving(view)
    first, second = (run.stub_result(result, render, "old") for result in view.results)
    later = leaving(view.apply([first])).stub_result(view.results[1], render, "old")
    shelved = leaving(view, replace(SHELF, taken={"c.txt": digest("three")})).stub_result(
        view.results[0], render, "old"
    )

    assert first.blobs[0].name == "c.txt"
    assert second.blobs[0].name == later.blobs[0].name != "c.txt"
    assert shelved.blobs[0].name != "c.txt"


def test_a_hostile_id_does_not_become_a_path():
    """Acceptance check 25."""
    view = View.of(talk("user:go", "call#../../etc/x:read", "result#../../etc/x:one", "say:ok"))
    (blob,) = leaving(view).stub_result(view.results[0], render, "old").blobs

    assert "/" not in blob.name
    assert ".." not in blob.name


def test_text_parts_are_kept_as_text_and_images_as_json():
    texts, image = (talk("call:x", f"{flag} result:hi")[1] for flag in ("listed", "media"))

    assert readable(texts) == ("hi", ".txt")
    assert readable(image)[1] == ".json"
    assert '"image"' in readable(image)[0]


def test_as_received_a_list_is_json_and_a_string_text():
    """R109."""
    assert as_received(talk("call:x", "listed result:hi")[1])[1] == ".json"
    assert as_received(talk("call:x", "result:hi")[1]) == ("hi", ".txt")
