"""The line format: round trip, chain, commits that count whole or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.errors import StoreError
from ebbtide.store.log_lines import LineEnd, Position, encode_commit, scan

START = Position()
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters())
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3), max_leaves=8
)
records = st.dictionaries(st.text().filter(lambda key: key not in ("ebbsum", "store")), values, max_size=4)


def log(*commits):
    """The bytes of a log, and where each commit ends."""
    data, end, ends = b"", START, []
    for commit in commits:
        more, end = encode_commit(commit, end)
        data += more
        ends.append(end)
    return data, ends


@given(st.lists(st.lists(records, min_size=1, max_size=3), max_size=4), st.integers(1, 50))
def test_records_are_read_back_whatever_the_chunk_size(commits, step):
    data, ends = log(*commits)

    reading = scan([data[i : i + step] for i in range(0, len(data), step)], START)

    assert reading.records == [record for commit in commits for record in commit]
    assert (reading.damage, reading.unchecked_lines) == ((), 0)
    assert reading.position == (ends[-1] if ends else START)


@pytest.mark.parametrize(
    "value",
    ["\ud800", "a\udfffb é", "\0", "\u2028\u2029\x85\x1c\r\n", 10**5000, -(10**4300), 1.1e308, [[10**4400, "é"]], "😀"],
    ids=["lone", "lone inside", "nul", "line ends", "huge", "huge negative", "float", "nested", "astral"],
)
def test_any_value_round_trips(value):
    data, _ = log([{"value": value, "also": "é"}])

    assert scan([data], START).records == [{"value": value, "also": "é"}]
    assert data.count(b"\n") == 1


def test_text_is_utf8_except_for_what_utf8_cannot_hold():
    data, _ = log([{"text": "é\ud800"}])

    assert "é\\ud800".encode() in data


def test_a_line_is_plain_json_whose_last_key_is_the_sum():
    data, _ = log([{"a": 1}], [{}])

    assert [list(json.loads(line)) for line in data.splitlines()] == [["a", "ebbsum"], ["ebbsum"]]


def test_the_sum_is_the_stores_own_key():
    """A record that comes from another log carries its sum; it is replaced, not doubled."""
    data, _ = log([{"a": 1, "ebbsum": "old"}])

    assert data.count(b"ebbsum") == 1
    assert scan([data], START).records == [{"a": 1}]


@pytest.mark.parametrize("bad", [{"a": object()}, {"a": {1, 2}}])
def test_a_record_that_json_cannot_express_is_refused(bad):
    with pytest.raises(StoreError, match="cannot be written as JSON"):
        encode_commit([bad], START)


def test_a_record_too_deep_to_write_is_refused():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(StoreError, match="cannot be written as JSON"):
        encode_commit([{"a": deep}], START)


def test_a_line_too_deep_to_read_costs_that_line_only():
    data, _ = log([{"a": 1}], [{"b": 2}])
    first, second = data.splitlines(keepends=True)

    reading = scan([first, b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", second], START)

    assert reading.records == [{"a": 1}, {"b": 2}]
    assert [damage.kind for damage in reading.damage] == ["unreadable"]


def test_reading_continues_from_a_position():
    data, ends = log([{"a": 1}], [{"b": 2}, {"c": 3}])

    reading = scan([data[ends[0].size :]], ends[0])

    assert (reading.records, reading.position, reading.damage) == ([{"b": 2}, {"c": 3}], ends[1], ())


COMMITS = ([{"a": 1}], [{"b": 2}, {"c": 3}], [{"d": 4}], [{"e": 5}])
# The last line of a commit of two, damaged at the end of the file, must not take the first with it.
ENDING = (*COMMITS, [{"f": 6}, {"g": 7}])


def test_a_tail_torn_at_any_byte_leaves_the_complete_commits():
    """The last three records are one commit of two and one of one: no half of a commit is ever read."""
    data, ends = log([{"a": "x"}], [{"b": "é" * 9}, {"c": 3}], [{"d": 4}])
    records = [{"a": "x"}, {"b": "é" * 9}, {"c": 3}, {"d": 4}]
    for cut in range(ends[0].size, len(data)):
        reading = scan([data[:cut]], START)
        whole = [end for end in ends if end.size <= cut][-1]
        assert reading.position == whole
        assert reading.records == records[: LineEnd.at(whole).lines]
        torn = data[whole.size : cut]
        assert [(d.kind, d.offset, d.raw) for d in reading.damage] == ([("torn", whole.size, torn)] if torn else [])


@pytest.mark.parametrize("tail", [b"\0" * 40, b"garbage", b'{"half":', b'{"a":1}', b'{"a":1}\r'])
def test_any_bytes_after_the_last_newline_are_torn(tail):
    data, ends = log([{"a": 1}])

    reading = scan([data + tail], START)

    assert (reading.position, reading.damage[0].raw) == (ends[0], tail)


def test_any_changed_byte_is_detected_and_costs_no_other_record():
    data, _ = log(*ENDING)
    lines = data.splitlines(keepends=True)
    everything = [record for commit in ENDING for record in commit]
    for at in range(len(data)):
        hit = data[:at].count(b"\n")
        # A newline that is gone joins two lines; without the last one, or one early, the last commit looks torn.
        lost = {hit, hit + 1} if data[at : at + 1] == b"\n" else {hit}
        lost |= {hit - 1} if at >= len(data) - 2 else set()
        for new in {data[at] ^ 1, data[at] ^ 0x80, 0x0A, 0x20, 0x2B, 0x2E, 0x22, 0x30} - {data[at]}:
            reading = scan([data[:at], bytes([new]), data[at + 1 :]], START)
            assert reading.damage, (at, new)
            kept = [r for i, r in enumerate(everything) if i not in lost]
            assert all(record in reading.records for record in kept), (at, new, lines[hit])
            assert all(record in everything for record in reading.records), (at, new)


def places(reading):
    return [(damage.kind, damage.line) for damage in reading.damage]


def test_a_missing_line_is_a_gap_and_the_rest_is_read():
    a, b, c, _, e = log(*COMMITS)[0].splitlines(keepends=True)

    reading = scan([a, b, c, e], START)

    assert (reading.records[-1], places(reading)) == ({"e": 5}, [("gap", 4)])


def test_a_missing_first_line_is_a_gap():
    assert places(scan(log(*COMMITS)[0].splitlines(keepends=True)[1:], START)) == [("gap", 1)]


def test_lines_out_of_order_are_found():
    a, b, c, d, e = log(*COMMITS)[0].splitlines(keepends=True)

    assert places(scan([a, b, c, e, d], START)) == [("gap", 4), ("gap", 5)]


def test_a_doubled_line_is_found():
    a, *rest = log(*COMMITS)[0].splitlines(keepends=True)

    assert places(scan([a, a, *rest], START)) == [("gap", 2)]


def test_an_inserted_foreign_line_is_found_by_our_next_line():
    a, *rest = log(*COMMITS)[0].splitlines(keepends=True)

    reading = scan([a, b'{"foreign":1}\n', *rest], START)

    assert (places(reading), reading.unchecked_lines) == ([("gap", 3)], 1)


def test_line_ends_changed_by_an_editor_are_found():
    data, _ = log(*COMMITS)

    assert len(scan([data.replace(b"\n", b"\r\n")], START).damage) >= 5


def test_another_programs_lines_are_read_unchecked_and_enter_the_chain():
    foreign = b'{"type":"user","message":{"role":"user","content":"hi"}}\n\n'
    before = scan([foreign], START)
    data, _ = encode_commit([{"ours": 1}], before.position)

    whole = scan([foreign + data], START)
    changed = scan([foreign.replace(b"hi", b"ho") + data], START)

    assert (len(whole.records), whole.unchecked_lines, whole.damage) == (2, 2, ())
    assert places(changed) == [("gap", 3)]


def test_another_programs_line_cannot_pass_for_the_stores_own():
    foreign = b'{"type":"ebb","store":"blob","name":"../../x","sha256":"0"}\n'

    reading = scan([foreign], START)

    assert (reading.blob_sums, reading.unchecked_lines) == ({}, 1)


@pytest.mark.parametrize("cut", [1, 30])
def test_an_empty_line_ends_a_commit_that_was_never_finished(cut):
    """Where a torn tail could not be cut off, the next commit goes after it, and half a commit stays none."""
    first, ends = log([{"a": 1}])
    second, _ = encode_commit([{"b": 2}, {"c": 3}], ends[0])
    half = second[:-cut] if cut > 1 else second[: second.index(b"\n") + 1]
    third, _ = encode_commit([{"d": 4}], scan([half, b"\n\n"], ends[0]).position)

    reading = scan([first, half, b"\n\n", third], START)

    assert reading.records == [{"a": 1}, {"d": 4}]
    assert "unfinished" in [damage.kind for damage in reading.damage]
    assert "gap" not in [damage.kind for damage in reading.damage]
