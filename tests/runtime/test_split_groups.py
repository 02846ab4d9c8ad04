"""An entry that is written as a message of its own counts as one, so that the next request takes it over."""

from dataclasses import replace

import pytest

from ebbtide.runtime.outgoing import _split_groups
from talk import talk

CALL_AND_RESULT = talk("say:a note", "call:read", "result:900")
NOTE, CALL, RESULT = replace(CALL_AND_RESULT[0], id="note"), *CALL_AND_RESULT[1:]


def test_a_note_and_the_call_beside_it_are_two_messages_where_the_api_writes_two():
    groups, written = _split_groups([[NOTE, CALL], [RESULT]], [["note", "call"], ["result"]])

    assert groups == [[NOTE], [CALL], [RESULT]]
    assert written == [["note"], ["call"], ["result"]]


@pytest.mark.parametrize(
    ("group", "messages"),
    [([NOTE, CALL], ["both"]), (list(CALL_AND_RESULT[:2]), ["one", "two"])],
    ids=["one", "theirs"],
)
def test_what_is_written_as_one_message_and_what_the_client_sent_stay_together(group, messages):
    assert _split_groups([group], [messages]) == ([group], [messages])
