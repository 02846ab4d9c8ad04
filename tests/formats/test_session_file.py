"""Hostile bytes: every row that can be read is read, and every row that cannot is kept."""

import gzip
import json

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.formats import load
from ebbtide.formats.session_file import unpack

ASK = {"role": "user", "content": "hello"}
REPLY = {"role": "assistant", "content": "hi"}


def rows(*values):
    return b"\n".join(value if isinstance(value, bytes) else json.dumps(value).encode() for value in values)


@pytest.fixture
def load_bytes(tmp_path):
    def put(data, name="session.jsonl"):
        file = tmp_path / name
        file.write_bytes(data)
        return load(file)

    return put


def words(recording):
    """The messages of the last request."""
    return [message["content"] for message in list(recording.requests())[-1].request["messages"]]


def test_gzip_is_recognised_by_its_bytes_and_not_by_the_name(load_bytes):
    assert words(load_bytes(gzip.compress(rows(ASK, REPLY)), "plain.txt")) == ["hello"]
    assert words(load_bytes(rows(ASK, REPLY), "packed.gz")) == ["hello"]


def test_a_row_that_holds_two_objects_gives_both_and_is_reported(load_bytes):
    recording = load_bytes(rows(ASK, json.dumps(REPLY).encode() + json.dumps(ASK).encode(), REPLY))

    assert words(recording) == ["hello", "hi", "hello"]
    assert [(problem.row, problem.reason) for problem in recording.problems] == [
        (2, "2 JSON values on one line, all read")
    ]
    assert recording.problems[0].raw == json.dumps(REPLY) + json.dumps(ASK)


def test_a_torn_row_is_reported_and_the_rest_is_read(load_bytes):
    recording = load_bytes(rows(ASK, b'{"role": "user", "content": "to', REPLY))

    assert words(recording) == ["hello"]
    assert recording.problems[0].row == 2
    assert recording.problems[0].raw == '{"role": "user", "content": "to'


def test_an_object_followed_by_garbage_is_still_read(load_bytes):
    recording = load_bytes(rows(json.dumps(ASK).encode() + b" trailing", REPLY))

    assert words(recording) == ["hello"]
    assert "not JSON" in recording.problems[0].reason


def test_blank_lines_are_counted_and_not_reported(load_bytes):
    recording = load_bytes(b"\n\n" + rows(ASK) + b"\n   \n" + rows(REPLY) + b"\n\n")

    assert recording.problems == ()
    assert [call.row for call in recording.requests()] == [5]


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999"])
def test_a_number_that_json_does_not_have_is_read_as_null_and_reported(load_bytes, number):
    broken = b'{"role": "user", "content": "hello", "content_score": ' + number + b"}"
    recording = load_bytes(rows(broken, REPLY))

    assert words(recording) == ["hello"]
    assert "is not JSON" in recording.problems[0].reason


def test_bytes_that_are_not_utf8_are_replaced_in_the_request_and_kept_in_the_report(load_bytes):
    recording = load_bytes(rows(b'{"role": "user", "content": "caf\xe9"}', REPLY))

    assert words(recording) == ["caf\ufffd"]
    assert "not UTF-8" in recording.problems[0].reason
    assert "caf\\xe9" in recording.problems[0].raw


def test_half_a_surrogate_pair_never_reaches_a_request(load_bytes):
    recording = load_bytes(rows(b'{"role": "user", "content": "\\ud83d and \\ud83d\\ude00"}', REPLY))

    assert words(recording) == ["\ufffd and \U0001f600"]
    assert "surrogate" in recording.problems[0].reason


def test_a_line_separator_inside_a_string_does_not_end_the_row(load_bytes):
    recording = load_bytes(
        rows(json.dumps({"role": "user", "content": "a\u2028b"}, ensure_ascii=False).encode(), REPLY)
    )

    assert words(recording) == ["a\u2028b"]
    assert recording.problems == ()


def test_nesting_deeper_than_we_can_follow_is_a_problem_and_not_a_crash(load_bytes):
    recording = load_bytes(rows(ASK, b"[" * 200_000, REPLY))

    assert words(recording) == ["hello"]
    assert recording.problems[0].row == 2


@pytest.mark.parametrize(
    ("data", "where", "why"),
    [
        (b"", "", "empty"),
        (b" \n\n ", "", "empty"),
        (b"just some prose\nand more", "line 1", "not JSON"),
        (b'{"Emily": {"history": {}}}', "", "'Emily'"),
        (b'{"Emily": []}\n{"Frank": []}', "line 1", "'Emily'"),
        (b"[1, 2, 3]", "", "a list of 3"),
        (b"42", "", "a number alone"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-20], "", "gzip"),
    ],
)
def test_a_file_that_is_no_session_is_refused_with_a_reason_and_a_place(load_bytes, data, where, why):
    with pytest.raises(BadRequest, match=why) as refused:
        load_bytes(data)

    assert refused.value.path == where


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="cannot be read"):
        load(tmp_path / "nowhere.jsonl")


ODD_WORDS = ([], {}, ["x"], {"a": 1}, 7, 10**400)


@pytest.mark.parametrize("odd", ODD_WORDS, ids=repr)
def test_a_value_that_is_not_a_string_never_crashes_the_reader(load_bytes, odd):
    """One row each in which a type, a role, a call's id or a reason to stop is something else."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = [ASK, {"role": "assistant", "content": None, "tool_calls": [call]}]
    session = {"type": "session", "version": 3, "id": "s1"}
    message = {"role": "assistant", "content": [{"type": "text", "text": "x"}], "stopReason": odd}
    meta = {"type": "session_meta", "payload": {"id": "s"}}
    files = [
        rows({"type": odd, "payload": {}}, ASK, REPLY),
        rows(ASK, {"role": odd, "content": "x"}, REPLY),
        rows(*chat, {"role": "tool", "tool_call_id": odd, "content": "done"}, REPLY),
        rows(session, {"type": "message", "message": ASK}, {"type": "message", "message": message}),
        rows(meta, {"type": "response_item", "payload": {"type": "function_call", "name": "f", "call_id": odd}},
             {"type": "response_item", "payload": {"type": "function_call_output", "call_id": odd, "output": "x"}},
             {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": []}}),
    ]  # fmt: skip

    for data in files:
        assert all(call.request for call in load_bytes(data).requests())


def test_a_time_or_usage_with_a_huge_integer_is_ignored(load_bytes):
    message = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "hi"}]}
    usage = {"input_tokens": 10**400, "output_tokens": 1}
    request_row = {"type": "user", "uuid": "a", "parentUuid": None, "message": ASK}
    reply_row = {"type": "assistant", "uuid": "b", "parentUuid": "a", "timestamp": 10**400}

    recording = load_bytes(rows(request_row, {**reply_row, "message": {**message, "usage": usage}}))

    (call,) = recording.requests()
    assert (call.at, call.usage) == (None, None)
    assert any("usage" in problem.reason for problem in recording.problems)


def test_a_packed_file_that_unpacks_to_more_than_the_limit_is_refused():
    with pytest.raises(BadRequest, match="more than 1,000 bytes"):
        unpack(gzip.compress(bytes(1_001)), "bomb.gz", limit=1_000)
    assert unpack(gzip.compress(bytes(600)) + gzip.compress(bytes(400)), "two.gz", limit=1_000) == bytes(1_000)


@pytest.mark.parametrize("data", [b"", b" \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", "\u3000\n\u2028".encode()])
def test_a_file_of_blanks_is_empty(load_bytes, data):
    with pytest.raises(BadRequest, match="is empty"):
        load_bytes(data)
