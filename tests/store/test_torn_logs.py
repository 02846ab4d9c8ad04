"""What was cut short or damaged is set aside, never lost and never rewritten."""

import json
import os
from pathlib import Path

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import DirectoryStore
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.log_lines import encode_commit
from store.faulty_fs import Faulty
from store.open_logs import log_file, open_log


def test_a_tail_torn_at_any_byte_is_moved_away_and_the_log_continues(tmp_path):
    log = open_log(tmp_path)
    log.commit([{"n": 1}], at=1.0)
    middle = log.commit([{"n": 2}, {"n": 3}], at=1.0)
    log.commit([{"n": 4}], at=1.0)
    data = log_file(tmp_path).read_bytes()
    first = data.index(b'{"n":2')
    for cut in range(first, len(data)):
        root = tmp_path / str(cut)
        log_file(root).parent.mkdir(parents=True)
        log_file(root).write_bytes(data[:cut])
        whole = middle.size if cut >= middle.size else first

        reopened = open_log(root)
        assert log_file(root).read_bytes() == data[:whole]
        aside = b"".join(Path(path).read_bytes() for path in reopened.torn_files)
        assert data[:whole] + aside == data[:cut]
        reopened.commit([{"n": 9}], at=1.0)

        expected = [1, 2, 3] if cut >= middle.size else [1]
        assert [record["n"] for record in reopened.read().records] == [*expected, 9]
        assert verify_log(log_file(root)).ok


@pytest.mark.parametrize("garbage", [b"\0" * 5000, b"{", b"\xff\xfe", b'{"a":1}{'])
def test_garbage_after_the_last_line_is_moved_away(tmp_path, garbage):
    open_log(tmp_path).commit([{"n": 1}], at=1.0)
    before = log_file(tmp_path).read_bytes()
    log_file(tmp_path).write_bytes(before + garbage)

    log = open_log(tmp_path)

    assert log_file(tmp_path).read_bytes() == before
    assert Path(log.torn_files[0]).read_bytes() == garbage


def test_a_reader_reports_a_torn_tail_and_writes_nothing(tmp_path):
    open_log(tmp_path).commit([{"n": 1}], at=1.0)
    log_file(tmp_path).open("ab").write(b'{"n":')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    reading = DirectoryStore(tmp_path).peek("s").read()

    assert [damage.kind for damage in reading.damage] == ["torn"]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_torn_tail_is_left_alone_while_its_writer_may_be_at_work(tmp_path):
    writer = open_log(tmp_path)
    writer.commit([{"n": 1}], at=1.0)
    log_file(tmp_path).open("ab").write(b'{"n":')
    with writer.lock():
        assert open_log(tmp_path).torn_files == ()

    assert len(open_log(tmp_path).torn_files) == 1


def test_damage_in_the_middle_is_reported_and_never_rewritten(tmp_path):
    log = open_log(tmp_path)
    for number in range(4):
        log.commit([{"n": number}], at=1.0)
    damaged = log_file(tmp_path).read_bytes().replace(b'{"n":2', b'{"n":7')
    log_file(tmp_path).write_bytes(damaged)

    again = open_log(tmp_path)
    again.commit([{"n": 4}], at=1.0)

    assert log_file(tmp_path).read_bytes().startswith(damaged)
    reading = again.read()
    assert [record["n"] for record in reading.records] == [0, 1, 3, 4]
    assert [(damage.kind, damage.line) for damage in reading.damage] == [("altered", 4)]


def test_a_tail_that_cannot_be_cut_off_stays_before_the_next_commit(tmp_path):
    """An append-only file by attribute: what was never finished stays in place and stays unread."""
    log = open_log(tmp_path)
    end = log.commit([{"n": 1}], at=1.0)
    half = encode_commit([{"n": 2}, {"n": 3}], end)[0]
    for torn in (half[:-9], half[: half.index(b"\n") + 1]):
        log_file(tmp_path).open("ab").write(torn)
        stuck = open_log(tmp_path, fs=Faulty("EPERM", 1, sticky=True, only=("truncate",)))
        stuck.commit([{"n": 4}], at=1.0)
        stuck.commit([{"n": 5}], at=1.0)

    assert [r["n"] for r in open_log(tmp_path).read().records] == [1, 4, 5, 4, 5]
    assert sorted(path.name for path in tmp_path.rglob("s.torn-*")) == ["s.torn-1", "s.torn-2"]


def test_another_programs_last_line_without_a_newline_is_kept(tmp_path):
    log_file(tmp_path).parent.mkdir(parents=True)
    log_file(tmp_path).write_bytes(b'{"type":"user"}\n{"type":"assistant"}')

    log = open_log(tmp_path)
    log.commit([{"n": 1}], at=1.0)

    assert log.read().records == [{"type": "user"}, {"type": "assistant"}, {"n": 1}]
    assert (log.torn_files, verify_log(log_file(tmp_path)).damage) == ((), ())


@pytest.mark.data
def test_a_session_file_of_claude_code_is_continued(tmp_path, data):
    original = (data / "claude-code-log" / "representative_messages.jsonl").read_bytes()
    log_file(tmp_path).parent.mkdir(parents=True)
    log_file(tmp_path).write_bytes(original)
    expected = [json.loads(line) for line in original.decode().split("\n") if line.strip()]

    log = open_log(tmp_path)
    log.commit([{"type": "ebb", "n": 1}], at=1.0)

    assert log_file(tmp_path).read_bytes().startswith(original)
    assert log.read().records == [*expected, {"type": "ebb", "n": 1}]
    assert verify_log(log_file(tmp_path)).ok
    assert DirectoryStore(tmp_path).list_sessions()[0].first_prompt.startswith("Hello Claude!")


def test_reading_on_in_a_log_that_became_shorter_is_an_error(tmp_path):
    log = open_log(tmp_path)
    position = log.commit([{"n": 1}], at=1.0)
    os.truncate(log_file(tmp_path), 10)
    with pytest.raises(StoreError, match="shorter"):
        log.read_since(position)
