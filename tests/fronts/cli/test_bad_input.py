"""Bad input: a sentence with the place, exit code 2, no traceback, nothing written."""

import gzip
import json
import os
import pty
import socket
import subprocess

import pytest

from fronts.cli.terminal import PROGRAM, recorded, run_program, stored

_USER = b'{"role":"user","content":"x"}'

HOSTILE = {
    "empty": (b"", "empty"),
    "blank": (b" \n ", "empty"),
    "not JSON": (b"hello", "not JSON"),
    "zeros": (b"\0\0\0", "not JSON"),
    "cut short": (b'{"messages": [', "messages.0"),
    "cut in a message": (b'{"messages": [{"role": "us', "messages.0"),
    "a number": (b"7", "a number alone"),
    "null": (b"null", "null alone"),
    "an empty list": (b"[]", "an empty list"),
    "an empty object": (b"{}", "messages"),
    "messages is a number": (b'{"messages":7}', "messages"),
    "input is a number": (b'{"input":7}', "input"),
    "a message is a number": (b'{"messages":[1]}', "messages.0"),
    "a message is null": (b'{"messages":[null]}', "messages.0"),
    "an unknown role": (b'{"messages":[{"role":"alien","content":"x"}]}', "messages.0.role"),
    "content is a number": (b'{"messages":[{"role":"user","content":7}]}', "messages.0.content"),
    "a block is a number": (b'{"messages":[' + _USER + b',{"role":"user","content":[7]}]}', "messages.1.content.0"),
    "NaN": (b'{"messages":[' + _USER + b'],"temperature":NaN}', "temperature"),
    "NaN in a message": (b'{"messages":[' + _USER + b',{"role":"user","content":NaN}]}', "messages.1"),
    "Infinity": (b'{"messages":[' + _USER + b'],"temperature":-Infinity}', "temperature"),
    "not UTF-8": (b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', "byte 39"),
    "UTF-16": ('{"messages":[]}'.encode("utf-16"), "UTF-8"),
    "nested deeply": (b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    "nested in a result": (
        b'{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":'
        + b'[{"a":' * 400 + b"1" + b"}]" * 400 + b"}]}]}",
        "nested too deep",
    ),
    "two documents": (b'{"messages":[]} {}', "extra data"),
    "no messages": (b'{"messages":[]}', "messages"),
    "damaged gzip": (b"\x1f\x8b\x08 nothing", "gzip"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_fit_says_where_and_writes_nothing(ebb, tmp_path, name):
    raw, place = HOSTILE[name]
    (tmp_path / "in.json").write_bytes(raw)

    for ran in (ebb("fit", stdin=raw), ebb("fit", "in.json"), ebb("fit", "in.json", "--session", "s")):
        assert ran.code == 2
        assert ran.out == b""
        assert place in ran.err
        assert "Traceback" not in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.json"]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("command", ["context", "explain"])
def test_other_commands_end_with_a_sentence_too(ebb, name, command):
    result = ebb(command, "-", stdin=HOSTILE[name][0])

    assert result.code in (0, 2)
    assert "Traceback" not in result.err
    assert "fault of ours" not in result.err


def test_the_real_program_shows_no_traceback():
    result = run_program("fit", stdin=HOSTILE["nested deeply"][0])

    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.count(b"\n") == 1


def test_an_escaped_lone_surrogate_is_repaired(ebb):
    result = ebb("fit", stdin=b'{"messages":[{"role":"user","content":"a\\ud800b"}]}')

    assert result.code == 0
    assert result.json["messages"][0]["content"] == "a\ufffdb"


def test_a_session_with_bad_rows_is_read_up_to_them_and_says_so(ebb, tmp_path):
    path = recorded(tmp_path / "s.jsonl", steps=2, usage=900)
    path.write_bytes(path.read_bytes() + b'{"oops\n')

    result = ebb("context", path, "--json")

    assert result.code == 0
    assert json.loads(result.out)["billed"]
    assert "row 6" in result.err


def test_a_packed_file_over_the_limit_is_called_too_large_and_not_damaged(ebb, tmp_path):
    packed = gzip.compress(recorded(tmp_path / "s.jsonl").read_bytes())
    (tmp_path / "s.jsonl.gz").write_bytes(packed)

    result = ebb("context", "s.jsonl.gz", "--max-bytes", len(packed) - 1)

    assert result.code == 2
    assert "allow more with --max-bytes" in result.err


def test_an_impossible_number_of_tokens_is_reported_as_written(ebb, tmp_path):
    assert "'0.5' is not a number of tokens" in ebb("context", recorded(tmp_path / "s.jsonl"), "--window", "0.5").err


READERS = (["fit"], ["context"], ["explain"], ["report"], ["show"], ["diff"], ["why", "text"], ["replay"], ["ui"])
NO_FILE = {
    "a name that is too long": "x" * 300,
    "a path that is too long": "/".join(["y" * 200] * 30),
    "a NUL": "a\0b",
    "half of a surrogate pair": "\ud800",
    "below a file": "file/below",
    "a link to itself": "loop",
    "a folder": "folder",
    "a pipe that nobody writes to": "pipe",
    "a device without an end": "/dev/zero",
    "a terminal": "{terminal}",
    "a socket": "socket",
    "what cannot be read": "/proc/self/mem",
}


@pytest.fixture
def strange(tmp_path):
    """Things under names that are no files to read."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    leader, follower = pty.openpty()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        yield lambda name: NO_FILE[name].format(terminal=os.ttyname(follower))
    os.close(leader), os.close(follower)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", NO_FILE)
@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_a_path_that_is_no_file_is_refused_at_once_by_every_command_that_reads_one(ebb, strange, words, name):
    result = ebb(*words, strange(name))

    assert result.code == 2
    assert result.out == b""
    assert result.err.startswith("ebb: ")
    assert "Traceback" not in result.err


@pytest.mark.timeout(240)
@pytest.mark.parametrize("words", [["fit"], ["context"], ["replay", "--policies", "raw"]], ids=lambda words: words[0])
def test_piped_input_is_read_like_a_file(ebb, tmp_path, words):
    """As in `ebb context <(command)`: it can be read only once."""
    data = recorded(tmp_path / "s.jsonl", steps=2, usage=900).read_bytes()
    pipe, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(data)

    result = ebb(*words, f"/dev/fd/{pipe}")
    os.close(pipe)

    assert result.code == 0
    assert result.out


@pytest.mark.parametrize(
    "name",
    [
        "a name that is too long",
        "a path that is too long",
        "below a file",
        "a link to itself",
        "a pipe that nobody writes to",
        "a device without an end",
    ],
)
@pytest.mark.parametrize(
    "words",
    [["sessions"], ["context"], ["gc"], ["verify"], ["recall", "x"], ["ui"], ["fit", "--example", "--session", "s"]],
    ids=lambda words: words[0],
)
def test_a_store_that_can_be_no_directory_is_bad_input(ebb, strange, words, name):
    result = ebb(*words, "--store", strange(name))

    assert result.code == 2
    assert "directory" in result.err or "not a folder" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("name", ["a name that is too long", "a link to itself"])
def test_the_doctor_reports_such_a_store_and_continues(ebb, strange, name):
    result = ebb("doctor", "--store", strange(name))

    assert result.code == 1
    assert "cannot be a directory" in result.text
    assert "recall" in result.text


@pytest.mark.parametrize("name", ["a name that is too long", "below a file"])
@pytest.mark.parametrize(
    "words", [["report", "--example", "--html"], ["replay", "--example", "--plot"]], ids=lambda words: words[0]
)
def test_an_unwritable_path_is_bad_input(ebb, strange, words, name):
    result = ebb(*words, strange(name) + ".png")

    assert result.code == 2
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "words", [["fit"], ["context"], ["explain"], ["report"], ["show"], ["diff"], ["why", "x"], ["replay"]]
)
def test_an_empty_name_is_refused_and_is_not_the_newest_session(ebb, tmp_path, words):
    """As of a variable that is not set."""
    stored(tmp_path, steps=1)

    result = ebb(*words, "")

    assert (result.code, result.out) == (2, b"")
    assert "the name is empty" in result.err


def test_a_session_without_a_name_is_not_begun(ebb, tmp_path):
    result = ebb("fit", "--example", "--session", "")

    assert (result.code, result.out) == (2, b"")
    assert "--session: a session needs a name" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_names_the_file_and_the_place(ebb, tmp_path):
    (tmp_path / "r.json").write_text('{"mess')

    told = ebb("fit", "r.json").err

    assert told == "ebb: r.json: not valid JSON: Unterminated string starting at line 1 column 2\n"


def test_a_folder_is_answered_with_a_request_for_a_file(ebb, tmp_path):
    (tmp_path / "sessions").mkdir()

    assert "sessions is a folder, and not one of OpenCode's" in ebb("context", "sessions").err


def test_waiting_for_a_request_at_a_terminal_is_announced():
    leader, follower = pty.openpty()
    os.write(leader, b"\x04")

    done = subprocess.run([*PROGRAM, "fit"], stdin=follower, capture_output=True, check=False, timeout=120)

    os.close(leader), os.close(follower)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"reading a request from the terminal until Ctrl-D")
