"""Events are the same however their bytes are cut, and a line without end costs no memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.wire.sse import Event, EventReader

STREAM = 'event: a\ndata: {"文":1}\n\n: comment\ndata:two\ndata: lines\n\nid: 7\nretry: 3\ndata: [DONE]\n\n'.encode()
EVENTS = [Event("a", '{"文":1}'.encode()), Event("", b"two\nlines"), Event("", b"[DONE]")]


def read(pieces, most=1 << 20):
    reader = EventReader(most)
    found = [event for piece in pieces for event in reader.feed(piece)]
    return [*found, *reader.close()]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@given(data=st.data())
def test_events_do_not_depend_on_where_the_bytes_are_cut_or_how_lines_end(end, data):
    whole = STREAM.replace(b"\n", end)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    assert read(pieces) == EVENTS


def test_an_event_without_a_blank_line_at_the_end_is_given_at_the_close():
    reader = EventReader()

    assert list(reader.feed(b"data: 1\n\ndata: 2")) == [Event("", b"1")]
    assert list(reader.close()) == [Event("", b"2")]


def test_a_byte_order_mark_at_the_beginning_does_not_count():
    assert read([b"\xef\xbb\xbfdata: x\n\n"]) == [Event("", b"x")]


def test_a_byte_order_mark_that_arrives_in_pieces_does_not_count_either():
    assert read([b"\xef", b"", b"\xbb", b"\xbfdata: x\n\n"]) == [Event("", b"x")]
    assert read([b"\xef\xbb", b"data: x\n\ndata: y\n\n"]) == [Event("", b"y")], "no mark, and no field of that name"


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_no_bytes_break_it(pieces):
    assert all(isinstance(event.data, bytes) for event in read(pieces))


def test_an_event_that_is_too_large_is_passed_over_and_the_next_is_read():
    long = [b"data: first\n\ndata: ", *[b"x" * 100] * 30, b"\ndata: more\n\n", b"data: next\n\n"]

    assert [event.data for event in read(long, most=1000)] == [b"first", b"next"]


def test_a_line_without_end_is_not_kept():
    reader, piece = EventReader(1 << 16), b"x" * (1 << 16)
    tracemalloc.start()
    for _ in range(200):
        assert not list(reader.feed(piece))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 1 << 20
