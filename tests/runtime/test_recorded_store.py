"""A store written before the redesign of the code: it opens, sends the same bytes, and passes every check.

`recorded_store.tar.gz` was written by the code of 4017a0b with `scripts/record_store.py`, which says what is in it. It
is read here through public names and commands only. Do not record it again: its age is its worth.
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import ebbtide
from runtime.sessions import without_breakpoints

ARCHIVE = Path(__file__).parent / "recorded_store.tar.gz"
PLANS = 21
PLANS_OF_OTHER_TEXTS = 21
"""Plans that come out differently because texts for models changed since. They are counted, and are no problem."""


@pytest.fixture
def recorded(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def read(recorded, name):
    return json.loads((recorded / name).read_text("utf-8"))


def log_path(recorded):
    return recorded / "store" / "projects" / "_" / "recorded.jsonl"


def open_context(recorded):
    return ebbtide.Context(
        model="claude-opus-4-5",
        window=100_000,
        store=recorded / "store",
        session="recorded",
        recall="tool",
        marks=True,
        clock=lambda: 1_010_000.0,
    )


def verify(recorded, *options):
    command = [sys.executable, "-m", "ebbtide", "verify", *options, "--json", "--store", str(recorded / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_next_request_is_sent_as_it_was_recorded(recorded):
    ready = open_context(recorded).prepare(read(recorded, "request.json"))

    assert ready.report.edits == ()
    assert json.dumps(without_breakpoints(ready.body)) == json.dumps(without_breakpoints(read(recorded, "sent.json")))


def test_the_same_bytes_are_sent_without_the_checkpoint(recorded):
    checkpoint = log_path(recorded).with_suffix(".resume")
    assert log_path(recorded).stat().st_size > 4_000_000
    checkpoint.unlink()

    ready = open_context(recorded).prepare(read(recorded, "request.json"))
    assert json.dumps(without_breakpoints(ready.body)) == json.dumps(without_breakpoints(read(recorded, "sent.json")))


def test_the_undone_compaction_can_be_brought_back(recorded):
    context = open_context(recorded)
    request = read(recorded, "request.json")
    context.prepare(request)

    assert len(context.redo()) == 1
    assert json.dumps(context.prepare(request).body) == json.dumps(read(recorded, "sent_after_redo.json"))


def test_every_saved_output_can_be_read_back_by_its_handle(recorded):
    records = [json.loads(line) for line in log_path(recorded).read_text("utf-8").splitlines()]
    handles = [record["name"] for record in records if record.get("store") == "blob"]
    context = open_context(recorded)
    context.prepare(read(recorded, "request.json"))

    assert len(handles) == 131
    for handle in handles:
        saved = (log_path(recorded).parent / "recorded" / "tool-results" / handle).read_text("utf-8")
        page = context.read(handle)
        assert page.total == len(saved)
        assert page.text == saved[page.start : page.end]


def test_every_checksum_holds(recorded):
    code, (report,) = verify(recorded)

    assert code == 0
    assert (report["ok"], report["unchecked"], report["results"], report["problems"]) == (True, 0, 131, [])


def test_every_plan_is_the_same_when_it_is_repeated_except_for_texts(recorded):
    code, (report,) = verify(recorded, "--replan")

    assert code == 0
    assert (report["plans"], report["plans_not_comparable"]) == (PLANS, PLANS_OF_OTHER_TEXTS)
    assert report["problems"] == []
