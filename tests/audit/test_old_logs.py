"""A store that was written before edits recorded the items they cover: it opens, and sends what it sent.

`old_store.tar.gz` was written by the code of 0421c75: batches of cleared results, one of them undone, a fold, and a
recall that was inserted; with the newest request, and what went out for it.
"""

import json
import tarfile
from pathlib import Path

import pytest

from ebbtide import Context
from ebbtide.audit.replan import check_message_ids, replan_each
from ebbtide.state.binding_records import upgrade_log
from ebbtide.state.session_state import SessionState, apply_records
from ebbtide.store import open_store
from runtime.sessions import Clock

ARCHIVE = Path(__file__).parent / "old_store.tar.gz"


@pytest.fixture
def old(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def read(old, name):
    return json.loads((old / name).read_text())


def context(old):
    return Context(
        model="claude-opus-4-5", window=24_000, clock=Clock(1_001_000.0), store=str(old / "store"), session="old",
        recall="tool",
    )  # fmt: skip


def test_the_same_request_is_sent_as_before(old):
    ready = context(old).prepare(read(old, "request.json"))

    assert ready.report.edits == ()
    assert json.dumps(ready.body) == json.dumps(read(old, "sent.json"))


def test_the_session_continues_and_another_process_reads_it(old):
    request = read(old, "request.json")
    first = context(old)
    first.prepare(request)
    first.compact(request)
    grown = {**request, "messages": [*request["messages"], {"role": "assistant", "content": "Done."}]}
    grown["messages"].append({"role": "user", "content": "And now?"})
    sent = first.prepare(grown).body

    assert len(first.edits()) > len(context(old).prepare(request).report.edits)
    assert json.dumps(context(old).prepare(grown).body) == json.dumps(sent)


def test_a_corrected_message_is_sent(old):
    request = read(old, "request.json")
    sent = read(old, "sent.json")
    request["messages"][0] = {"role": "user", "content": "fix the gauge in the harbour"}

    out = json.dumps(context(old).prepare(request).body)
    assert "fix the gauge in the harbour" in out
    assert out != json.dumps(sent)


def test_every_edit_is_bound_and_removed_content_can_be_read(old):
    log = open_store(str(old / "store")).peek("old")
    state = apply_records(SessionState(), upgrade_log(log.read().records))
    opened = context(old)
    opened.prepare(read(old, "request.json"))

    assert all(edit.binding is not None for batch in state.batches for edit in batch.edits)
    for edit in opened.edits():
        for blob in edit.blobs:
            assert opened.read(blob.name).text in log.read_blob(blob.name)


def test_an_edit_whose_request_is_not_in_the_log_holds_nowhere(old):
    records = open_store(str(old / "store")).peek("old").read().records
    lost = [record for record in records if record.get("kind") != "turn"]

    edits = apply_records(SessionState(), upgrade_log(lost)).edits
    assert edits != ()
    assert all(edit.binding is None for edit in edits)


def test_its_plans_can_be_repeated_and_its_messages_are_unchanged(old):
    records = open_store(str(old / "store")).peek("old").read().records

    results = list(replan_each(records))
    assert len(results) >= 3
    assert not [result for result in results if result is not None and result.is_comparable]
    assert check_message_ids(records) == []
