"""Throttle at the source (R117)."""

import pytest

from ebbtide.core.stub import BlobNames
from ebbtide.core.view import View
from ebbtide.passes import limit_output
from talk import let, shown, situation, talk


def test_a_command_that_prints_too_much_keeps_its_head():
    view = View.of(talk("user:go", "call:bash", "result:" + "x" * 30_001))
    now = situation(view, blob_names=BlobNames(directory="/kept"))
    (edit,) = limit_output(view, now)

    note = "[Output truncated, 30001 bytes total. Save to file with > if you need full output.]"
    assert edit.replacement[0].text == "x" * 30_000 + f"\n\n{note}"
    assert edit.blobs[0].text == "x" * 30_001


def test_a_cut_output_shows_only_its_head():
    view = View.of(talk("user:go", "call:bash", "result:" + "x" * 30_000 + "y" * 1_000))
    (cut,) = shown(let(limit_output, view, situation(view)))

    assert "y" not in cut.partition("\n")[0]


@pytest.mark.parametrize(
    "lines",
    [
        ("call:bash", "result:" + "x" * 30_000),
        ("call:read", "result:" + "x" * 40_000),
        ("call:bash", "media result:20000"),
        ("call:bash", "pinned result:20000"),
    ],
)
def test_short_output_other_tools_media_and_pinned_results_stay(lines):
    view = View.of(talk("user:go", *lines))

    assert list(limit_output(view, situation(view))) == []


def test_it_is_quiet_on_its_own_output_and_on_what_is_old():
    view = View.of(talk("user:go", "call:bash", "result:20000"))
    after = let(limit_output, view, situation(view))

    assert list(limit_output(after, situation(after))) == []
    assert list(limit_output(view, situation(view, first_unsent=3))) == []
