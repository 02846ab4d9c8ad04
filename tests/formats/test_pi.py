"""pi sessions: its messages as Anthropic's, its compactions by position or by name."""

import json

import pytest

from ebbtide.core.types import Usage
from ebbtide.formats import load
from upstream.check import refusals


class Session:
    def __init__(self, path):
        self.path = path / "pi.jsonl"
        self.rows = [{"type": "session", "id": "s1", "cwd": "here"}]

    def row(self, **fields):
        self.rows.append(fields)
        return self

    def message(self, role, content, message=None, **fields):
        return self.row(type="message", message={"role": role, "content": content, **(message or {})}, **fields)

    def user(self, text, **fields):
        return self.message("user", [{"type": "text", "text": text}], **fields)

    def says(self, *parts, stop="stop", usage=(1, 2, 3, 4), **fields):
        content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        billed = dict(zip(("input", "cacheRead", "cacheWrite", "output"), usage, strict=True))
        details = {"model": "claude-x", "usage": billed, "stopReason": stop, "timestamp": 1765233665294}
        return self.message("assistant", content, details, **fields)

    def result(self, call, text="done", **fields):
        return self.message("toolResult", [{"type": "text", "text": text}], {"toolCallId": call}, **fields)

    def load(self):
        self.path.write_text("\n".join(map(json.dumps, self.rows)))
        return load(self.path)


@pytest.fixture
def session(tmp_path):
    return Session(tmp_path)


def tool(name):
    return {"type": "toolCall", "id": name, "name": "read", "arguments": {"path": "x"}}


def plain(call):
    out = []
    for message in call.request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = [block.get("text") or block.get("tool_use_id") or block.get("id") or block["type"] for block in blocks]
        out.append(message["role"][0] + ":" + " ".join(words))
    return out


def test_calls_results_and_usage_are_read(session):
    recording = session.user("go").says(tool("t1"), stop="toolUse").result("t1").says("end").load()
    first, second = recording.requests()

    assert (recording.format, recording.session) == ("pi", "s1")
    assert plain(second) == ["u:go", "a:t1", "u:t1"]
    assert first.response["content"][0] == {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "x"}}
    assert first.usage == Usage(input=1, cache_read=2, cache_write=3, output=4)
    assert first.at == 1765233665.294


def test_the_incomplete_tool_call_of_an_aborted_reply_is_not_sent_back(session):
    session.user("go").says("so far", {"type": "thinking", "thinking": "hm"}, tool("t1"), stop="aborted")
    session.user("again").says(stop="aborted", usage=(0, 0, 0, 0)).user("and again").says("end")
    recording = session.load()
    calls = list(recording.requests())

    assert plain(calls[2]) == ["u:go", "a:so far", "u:again and again"]
    assert [call.usage is None for call in calls] == [False, True, False]
    assert recording.problems == ()


def test_a_call_without_a_result_is_answered_for_the_tool(session):
    recording = session.user("go").says(tool("t1"), stop="toolUse").user("stop").says("end").load()

    assert refusals("anthropic", list(recording.requests())[1].request) == []
    assert recording.problems[0].row == 5


def test_a_compaction_by_position_keeps_the_entries_from_there_on(session):
    session.user("one").says("1").user("two").says(tool("t1"), stop="toolUse").result("t1").says("2")
    session.row(type="compaction", summary="SUMMARY", firstKeptEntryIndex=3).user("three").says("3")
    recording = session.load()
    last = list(recording.requests())[-1]

    assert last.compacted
    assert plain(last)[1:] == ["a:t1", "u:t1", "a:2", "u:three"]
    assert "SUMMARY" in plain(last)[0]
    assert plain(last)[0].endswith(" two")
    assert plain(list(recording.uncompacted())[-1])[0] == "u:one"


def test_a_compaction_that_keeps_from_an_answer_on_needs_no_placeholder(session):
    session.user("one").says("1").row(type="compaction", summary="SUMMARY", firstKeptEntryIndex=2).user("two").says("2")
    recording = session.load()

    assert plain(list(recording.requests())[-1])[1:] == ["a:1", "u:two"]
    assert recording.problems == ()


def test_a_compaction_by_name_keeps_the_entries_from_there_on(session):
    session.user("one", id="a").says("1", id="b", parentId="a").user("two", id="c", parentId="b").says(
        "2", id="d", parentId="c"
    )
    session.row(type="compaction", id="e", parentId="d", summary="SUMMARY", firstKeptEntryId="c")
    session.user("three", id="f", parentId="e").says("3", id="g", parentId="f")
    last = list(session.load().requests())[-1]

    assert plain(last)[0].endswith(" two")
    assert plain(last)[1:] == ["a:2", "u:three"]


def test_a_second_compaction_does_not_restore_what_the_first_removed(session):
    session.user("one").says("1").row(type="compaction", summary="FIRST", firstKeptEntryIndex=9).user("two").says("2")
    session.row(type="compaction", summary="SECOND", firstKeptEntryIndex=1).user("three").says("3")
    last = plain(list(session.load().requests())[-1])

    assert "SECOND" in last[0]
    assert not any("FIRST" in words for words in last)


def test_a_branch_does_not_contain_the_other(session):
    session.user("one", id="a").says("1", id="b", parentId="a").user("wrong", id="c", parentId="b")
    session.says("w", id="d", parentId="c").user("right", id="e", parentId="b").says("r", id="f", parentId="e")

    assert plain(list(session.load().requests())[-1]) == ["u:one", "a:1", "u:right"]


def test_a_command_the_user_ran_is_shown_to_the_model_and_ids_of_other_providers_are_made_to_fit(session):
    session.message("bashExecution", None, {"command": "ls", "output": "a.txt", "exitCode": 1})
    session.user("go").says(tool("call_1|fc_2"), stop="toolUse").result("call_1|fc_2").says("end")
    call = list(session.load().requests())[1]

    assert "Ran `ls`" in plain(call)[0]
    assert "exit code 1" in plain(call)[0]
    assert refusals("anthropic", call.request) == []


def test_records_that_are_not_messages_are_kept(session):
    recording = session.row(type="model_change", modelId="x").user("go").says("1").load()

    assert [record["type"] for record in recording.others] == ["session", "model_change"]
