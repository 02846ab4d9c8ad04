"""Records in the shape of Claude Code's own session files."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ebbtide.core.records import format_time
from ebbtide.store import derive_uuid, message_record, messages_on_branch, summary_record


def said(text, parent=None, **more):
    return message_record({"role": "user", "content": text}, session="s", parent=parent, at=1769235154.604, **more)


def test_a_message_record_has_the_fields_of_a_session_file_in_their_order():
    client = {"gitBranch": "main", "version": "1", "permissionMode": "default", "todos": []}
    record = said("你好", project="/p", extra=client)

    fields = "parentUuid isSidechain userType cwd sessionId version gitBranch type message"
    assert list(record) == [*fields.split(), "permissionMode", "todos", "uuid", "timestamp"]
    assert record["message"] == {"role": "user", "content": "你好"}
    assert (record["type"], record["timestamp"]) == ("user", "2026-01-24T06:12:34.604Z")
    assert (record["cwd"], record["gitBranch"], record["sessionId"]) == ("/p", "main", "s")


@pytest.mark.parametrize(
    ("role", "kind"),
    [("user", "user"), ("assistant", "assistant"), ("system", "system"), ("developer", "system"), ("tool", "user")],
)
def test_the_type_follows_the_role(role, kind):
    assert message_record({"role": role, "content": ""}, session="s", parent=None, at=0.0)["type"] == kind


def test_the_same_message_in_the_same_place_always_has_the_same_id():
    late = message_record({"content": "a", "role": "user"}, session="s", parent=None, at=9.0)

    assert said("a")["uuid"] == late["uuid"] == derive_uuid(late)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(late["uuid"]))


def test_text_place_session_and_wire_each_change_the_id():
    other = message_record({"role": "user", "content": "a"}, session="t", parent=None, at=0.0)
    ids = [r["uuid"] for r in (said("a"), said("b"), said("a", parent="x"), other, said("a", wire={"role": "tool"}))]

    assert len(set(ids)) == 5


def test_a_lone_surrogate_has_an_id_too():
    assert said("\ud800")["uuid"] != said("\ud801")["uuid"]


def test_a_summary_is_marked_as_one():
    record = summary_record("what happened", session="s", parent="p", at=0.0, slug="wondrous")

    assert (record["isCompactSummary"], record["isVisibleInTranscriptOnly"], record["slug"]) == (True, True, "wondrous")
    assert (record["type"], record["parentUuid"]) == ("user", "p")


def test_a_branch_is_the_messages_that_lead_to_its_leaf():
    """To rewind is to answer an earlier message."""
    a = said("a")
    b = said("b", parent=str(a["uuid"]))
    c = said("c", parent=str(a["uuid"]))
    log = [a, {"type": "ebb"}, b, c]

    assert messages_on_branch(log) == [a, c]
    assert messages_on_branch(log, str(b["uuid"])) == [a, b]
    assert messages_on_branch([]) == []
    assert messages_on_branch(log, "unknown") == []


def test_a_circle_of_parents_ends():
    a, b = {"type": "user", "uuid": "a", "parentUuid": "b"}, {"type": "user", "uuid": "b", "parentUuid": "a"}

    assert messages_on_branch([a, b]) == [a, b]


@example(-0.25)
@example(1769235154.9999999)
@example(1769235154.57)
@given(st.floats(-1e9, 1e11))
def test_a_time_is_written_as_python_writes_it(at):
    told = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    assert format_time(at) == told
