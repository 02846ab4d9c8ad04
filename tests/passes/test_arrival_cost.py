"""What a turn brings is looked at; what it does not bring is not even indexed."""

from __future__ import annotations

from ebbtide.core.view import View
from ebbtide.policy import preset
from talk import situation, talk

LONG = ("user:go", *("call:read a.py", "result:300") * 40)


def counted(view):
    """The arrival passes of our own policy over a view, and every text whose tokens they counted."""
    texts = []

    def count(text):
        texts.append(text)
        return -(-len(text) // 4)

    now = situation(view, count_tokens=count, first_unsent=0)
    edits = [edit for propose in preset("default").arrival for edit in propose(view, now)]
    return edits, texts


def test_a_result_that_the_reader_counted_and_found_small_is_not_counted_again():
    """A first read would otherwise pay for every result twice."""
    edits, texts = counted(View.of(talk(*LONG)))

    assert edits == []
    assert texts == []


def test_arrival_passes_do_not_index_the_conversation():
    """Looking a result's call up costs the whole history on every turn; its name is on the result."""
    view = View.of(talk(*LONG))
    counted(view)

    assert not {"calls", "index", "results"} & vars(view).keys()
