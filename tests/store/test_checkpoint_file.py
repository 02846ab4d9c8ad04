"""Who goes on with a session reads what it needs: places of messages, not words; a memo instead of what it covers."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.store import DirectoryStore, Position, message_record
from ebbtide.store.log_lines import encode_commit, scan, scan_for_resume
from store.faulty_fs import Quick

UUID = "0f" * 4 + "-1111-5222-8333-" + "ab" * 6
TRAPS = [
    ',"ebbids":["e1-0-0"],"uuid":"' + UUID + '","timestamp":"t",',
    '","ebbids":["e1-0-0"],"uuid":"' + UUID + '","timestamp":"t","x":"',
    '{"parentUuid":null,',
    '"}',
    "\\",
    "\u2028 é 世",
]
words = st.lists(st.sampled_from(TRAPS) | st.text(max_size=8), max_size=4).map("".join)
inner = st.dictionaries(
    st.sampled_from(["ebbids", "uuid", "timestamp", "x"]), words | st.lists(words, max_size=2), max_size=3
)


@st.composite
def messages(draw):
    message = {
        "role": draw(st.sampled_from(["user", "assistant"])),
        "content": draw(words | st.lists(inner, max_size=2)),
    }
    ids = [f"e1-{n:020x}-0" for n in range(draw(st.integers(0, 3)))]
    wire = draw(st.none() | inner)
    extra = {"ebbids": ids, **({"ebbwire": "openai_chat"} if wire else {})}
    parent = draw(st.none() | st.just(UUID))
    return message_record(message, session=draw(words), parent=parent, at=1.0, wire=wire, extra=extra)


others = st.fixed_dictionaries({"type": st.just("ebb"), "kind": words}) | st.dictionaries(words, words, max_size=2)


def place(record):
    if record.get("ebbids") is None or "parentUuid" not in record:
        return record
    return {key: record[key] for key in ("parentUuid", "uuid", "ebbids")}


@settings(max_examples=200)
@given(st.lists(messages() | others, max_size=6))
def test_the_place_of_a_message_is_read_whatever_its_content(records):
    data, _ = encode_commit(records, Position())
    taken = []

    told = scan_for_resume([data], Position(), taken.extend)

    whole = scan([data], Position())
    assert taken == [place(record) for record in whole.records]
    assert (told.position, told.damage, told.records) == (whole.position, whole.damage, [])


def test_a_record_of_cleared_results_is_read_completely():
    record = message_record(
        {"role": "user", "content": "x"}, session="s", parent=None, at=1.0,
        extra={"microcompactMetadata": {"compactedToolIds": ["t1"]}, "ebbids": ["e1-0-0"]},
    )  # fmt: skip
    taken = []
    scan_for_resume([encode_commit([record], Position())[0]], Position(), taken.extend)
    assert taken[0]["microcompactMetadata"] == {"compactedToolIds": ["t1"]}


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_resuming_detects_the_same_damage_as_a_full_read(at):
    commits = [
        [message_record({"role": "user", "content": f"{n} " * 9}, session="s", parent=None, at=1.0)] for n in "ab"
    ]
    first, end = encode_commit(commits[0], Position())
    data = bytearray(first + encode_commit(commits[1], end)[0])
    data[at % len(data)] ^= 1

    told = scan_for_resume([bytes(data)], Position(), list)

    assert told.damage == scan([bytes(data)], Position()).damage != ()


# --- the memo ---------------------------------------------------------------------------------------------------------


class Reads(Quick):
    """Counts what is read."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def read(self, fd, limit, offset):
        found = super().read(fd, limit, offset)
        self.bytes += len(found)
        return found


@pytest.fixture
def log(tmp_path):
    """A log of a hundred records whose memo covers ninety."""
    log = DirectoryStore(tmp_path, fs=Quick()).open("s", now=1.0)
    log.save_blob("a.txt", "kept")
    for n in range(100):
        position = log.commit([{"n": n, "words": "x" * 10_000}], at=1.0)
        if n == 89:
            log.write_checkpoint([{"sum": 90}], position, "f1")
    return log


def resumed(tmp_path, form="f1", fs=None):
    taken = []
    log = DirectoryStore(tmp_path, fs=fs or Quick()).open("s", now=2.0)
    reading = log.resume(taken.extend, form)
    return log, [record.get("n", record) for record in taken], reading


def memo(tmp_path):
    return next(Path(tmp_path).rglob("s.resume"))


def test_the_part_of_a_log_before_its_checkpoint_is_not_read(tmp_path, log):
    fs = Reads()

    again, told, reading = resumed(tmp_path, fs=fs)

    assert told == [{"sum": 90}, *range(90, 100)]
    assert reading.position == log.read().position
    assert fs.bytes < 250_000, "of a million"
    assert again.commit([{"n": 100}], at=2.0) == log.read().position


def test_a_checkpoint_keeps_the_checksums_of_blobs(tmp_path, log):
    again, _, _ = resumed(tmp_path)
    Path(again.blob_path("a.txt")).write_text("changed")
    with pytest.raises(Exception, match="checksum differs"):
        again.read_blob("a.txt")


@pytest.mark.parametrize("harm", ["gone", "byte", "short", "form", "log", "cut", "empty", "other"])
def test_a_stale_or_damaged_checkpoint_is_ignored(tmp_path, log, harm):
    path, form, expected = memo(tmp_path), "f1", [*range(100)]
    jsonl = path.with_suffix(".jsonl")
    if harm == "gone":
        path.unlink()
    elif harm == "byte":
        data = bytearray(path.read_bytes())
        data[data.index(b'"sum":90') + 6] ^= 1
        path.write_bytes(data)
    elif harm == "short":
        path.write_bytes(path.read_bytes()[:-5])
    elif harm == "form":
        form = "f2"
    elif harm == "log":
        # The same session begun again: as long, and another.
        told = jsonl.read_bytes()
        jsonl.unlink()
        twin = DirectoryStore(tmp_path, fs=Quick()).open("s", now=9.0)
        twin.save_blob("a.txt", "kept")
        for n in range(100):
            twin.commit([{"n": n, "words": "y" * 10_000}], at=1.0)
        assert jsonl.stat().st_size == len(told)
    elif harm == "cut":
        lines = jsonl.read_bytes().splitlines(keepends=True)
        jsonl.write_bytes(b"".join(lines[:52]))  # the header, a blob's sum, and fifty
        expected = [*range(50)]
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        path.write_text(json.dumps({"n": 7}) + "\n")

    assert resumed(tmp_path, form)[1] == expected


def test_a_checkpoint_that_cannot_be_written_is_no_error(tmp_path, log):
    path = memo(tmp_path)
    path.unlink()
    path.mkdir()
    log.write_checkpoint([{"sum": 100}], log.read().position, "f1")
    assert resumed(tmp_path)[1] == [*range(100)]


def test_a_checkpoint_is_removed_with_its_session(tmp_path, log):
    day = 86_400.0
    DirectoryStore(tmp_path, fs=Quick()).gc(older_than=day, now=10 * day + memo(tmp_path).stat().st_mtime)
    assert not list(Path(tmp_path).rglob("s.*"))
