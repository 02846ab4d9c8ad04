"""`verify` believes nothing."""

from pathlib import Path

import pytest

from ebbtide.core.errors import StoreError
from ebbtide.store import DirectoryStore, message_record
from ebbtide.store.directory.verify import verify_log
from ebbtide.store.log_lines import Position, encode_commit, header_record
from store.faulty_fs import Quick


@pytest.fixture
def log(tmp_path):
    """Two messages, an edit, a blob."""
    log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)
    one = message_record({"role": "user", "content": "hi"}, session="s", parent=None, at=1.0)
    two = message_record({"role": "assistant", "content": "é"}, session="s", parent=str(one["uuid"]), at=1.0)
    log.commit([one, two], at=1.0)
    log.save_blob("a.txt", "some result")
    log.commit([{"type": "ebb", "kind": "edit"}], at=1.0)
    return log


@pytest.fixture
def path(log, tmp_path):
    return tmp_path / "projects/_/s.jsonl"


def test_an_intact_log_passes(path):
    result = verify_log(path)

    assert result.ok
    assert (result.lines, result.unchecked_lines, result.blobs, result.torn_files) == (5, 0, 1, ())


@pytest.mark.parametrize("head", [True, False], ids=["with its lock file", "copied alone"])
def test_any_flipped_byte_of_the_log_is_found(tmp_path, head):
    log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)
    log.commit([{"n": 1}, {"é": "x"}], at=1.0)
    log.commit([{}], at=1.0)
    path = tmp_path / "projects/_/s.jsonl"
    if not head:
        path.with_suffix(".lock").unlink()
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        assert not verify_log(path).ok, at
    path.write_bytes(data)
    assert verify_log(path).ok


def test_any_flipped_byte_of_a_blob_is_found(log, path):
    blob = Path(log.blob_path("a.txt"))
    data = blob.read_bytes()
    for at in range(len(data)):
        blob.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert "checksum differs" in verify_log(path).problems[0]
    blob.unlink()
    assert "cannot be read" in verify_log(path).problems[0]


def test_a_log_whose_end_was_cut_at_a_line_is_found(path):
    """A chain cannot miss its own end; the lock file remembers it."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))

    assert "no longer as they were" in verify_log(path).problems[0]


def test_a_log_that_was_emptied_or_replaced_is_detected(path):
    other, _ = encode_commit([header_record("s", "", 1.0), {"n": "x" * 5000}], Position())
    for content in (b"", other):
        path.write_bytes(content)
        assert not verify_log(path).ok


def test_a_log_longer_than_its_noted_end_passes(log, path):
    head = path.with_suffix(".lock").read_bytes()
    log.commit([{"n": 1}], at=1.0)
    path.with_suffix(".lock").write_bytes(head)

    assert verify_log(path).ok
    assert verify_log(path).lines == 6


@pytest.mark.parametrize("noise", [b"", b"noise", b"9" * 50])
def test_an_unreadable_noted_end_is_ignored(path, noise):
    path.with_suffix(".lock").write_bytes(noise)

    assert verify_log(path).ok


def test_an_id_that_does_not_match_its_content_is_detected(tmp_path):
    """Whole by its checksum, and still not the message that it says it is."""
    log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)
    record = message_record({"role": "user", "content": "hi"}, session="s", parent=None, at=1.0)
    log.commit([{**record, "message": {"role": "user", "content": "ho"}}], at=1.0)
    log.commit([{**record, "uuid": "5ecb521f-6ebe-4a84-beee-e3f9d7f201c2"}], at=1.0)

    result = verify_log(tmp_path / "projects/_/s.jsonl")

    assert [str(record["uuid"]) in problem for problem in result.problems] == [True]


def test_a_hostile_blob_name_in_a_log_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("x")
    bad = {"type": "ebb", "store": "blob", "name": "../../secret", "sha256": "0"}
    (tmp_path / "s" / "tool-results").mkdir(parents=True)
    (tmp_path / "s.jsonl").write_bytes(encode_commit([bad], Position())[0])

    assert "cannot name" in verify_log(tmp_path / "s.jsonl").problems[0]


def test_lines_of_another_program_are_counted_and_no_problem(log, path):
    with path.open("ab") as file:
        file.write(b'{"type":"user"}\n')
    log.commit([{"n": 1}], at=1.0)

    result = verify_log(path)

    assert (result.ok, result.unchecked_lines, result.lines) == (True, 1, 7)


def test_torn_tails_are_listed(path, tmp_path):
    with path.open("ab") as file:
        file.write(b"torn")
    assert [damage.kind for damage in verify_log(path).damage] == ["torn"]
    DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)

    assert (verify_log(path).ok, verify_log(path).torn_files) == (True, ("s.torn-1",))


def test_verifying_writes_nothing(path, tmp_path):
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()}
    verify_log(path)

    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p.is_file()} == before


def test_verifying_a_missing_log_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="cannot verify"):
        verify_log(tmp_path / "none.jsonl")


@pytest.mark.parametrize("cut", ["at a line", "within a line", "emptied"])
def test_a_cut_off_end_is_reported_even_after_more_commits(path, tmp_path, cut):
    """The next commit moves the head that gave it away, so it writes down what it saw."""
    lines = path.read_bytes().splitlines(keepends=True)
    left = {"at a line": 3, "within a line": 3, "emptied": 0}[cut]
    path.write_bytes(b"".join(lines[:left]) + (lines[left][:40] if cut == "within a line" else b""))
    first = verify_log(path)
    for n in range(3):
        log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=2.0)
        log.commit([{"n": n}], at=2.0)
        log.commit([{"n": n, "again": True}], at=2.0)

    later = verify_log(path)

    assert not first.ok
    assert later.damage == ()
    assert [one for one in later.problems if "cut off" in one] == [
        f"before 1970-01-01T00:00:02.000Z the end of the log was cut off: of 5 committed lines the first {left} were left"
    ]
    assert [one.get("n") for one in log.read().records if "n" in one] == [0, 0, 1, 1, 2, 2]


def test_an_open_session_records_that_its_log_was_cut(log, path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    log.commit([{"n": 1}], at=2.0)

    assert [problem for problem in verify_log(path).problems if "the first 3 were left" in problem]


def test_a_session_that_was_removed_begins_again_without_a_lost_end(log, path):
    path.unlink()
    log.commit([{"n": 1}], at=2.0)

    assert [problem for problem in verify_log(path).problems if "cut off" in problem] == []


def test_a_torn_tail_that_was_never_acknowledged_is_no_loss(log, path):
    with path.open("ab") as file:
        file.write(b'{"n":')
    log.commit([{"n": 1}], at=2.0)

    assert verify_log(path).ok
