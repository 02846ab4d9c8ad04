"""Thinking of finished turns goes, that of an open loop stays."""

from functools import partial

import pytest

from ebbtide.core.view import View
from ebbtide.passes import strip_thinking
from talk import let, shown, situation, talk


def left(*lines, **settings):
    view = View.of(talk(*lines))
    return shown(let(partial(strip_thinking, **settings), view, situation(view)), "thinking")


FIRST = ("user:a", "think:one", "call:x", "result:r", "think:two", "say:b")


def test_thinking_of_finished_turns_is_removed():
    assert left(*FIRST, "user:c") == []
    assert left(*FIRST, "user:c", "think:three", "say:d", "user:e") == []


def test_the_open_loop_keeps_its_thinking():
    """A37."""
    assert left(*FIRST, "user:c", "think:three", "call:x", "result:r") == ["three"]
    assert left("user:a", "think:one", "call:x", "result:r") == ["one"]


def test_a_turn_that_is_about_to_be_continued_keeps_its_thinking():
    assert left(*FIRST) == ["one", "two"]
    assert left(*FIRST, "user:c", "think:three", "say:d") == ["three"]


def test_the_newest_turns_may_be_kept():
    assert left(*FIRST, "user:c", "think:three", "say:d", "user:e", keep_turns=2) == ["three"]


@pytest.mark.parametrize("flag", ["locked", "pinned"])
def test_protected_content_stays(flag):
    assert left("user:a", f"{flag} think:one", "say:b", "user:c") == ["one"]


def test_an_empty_conversation_has_none():
    assert left() == []


def test_an_empty_thinking_block_counts_as_a_saving():
    """A redacted one has no text, and yet it is sent."""
    view = View.of(talk("user:a", "think:", "say:b", "user:c"))

    assert [edit.saved for edit in strip_thinking(view, situation(view))] == [1]
