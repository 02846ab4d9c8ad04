"""Claude Code's rows: one call is several of them, branches are rewinds, and a compaction restarts the history."""

import json

import pytest

from ebbtide.core.records import message_record
from ebbtide.core.types import Usage
from ebbtide.formats import load
from upstream.check import refusals


class Log:
    """Writes rows the way the client does, each as a child of the previous one by default."""

    def __init__(self, path):
        self.path, self.rows, self.tip = path / "log.jsonl", [], None

    def row(self, kind, *, uuid=None, parent=..., **fields):
        uuid = uuid or f"r{len(self.rows) + 1}"
        above = self.tip if parent is ... else parent
        self.rows.append({"type": kind, "uuid": uuid, "parentUuid": above, "sessionId": "s1", **fields})
        self.tip = uuid
        return self

    def user(self, content, **fields):
        return self.row("user", message={"role": "user", "content": content}, **fields)

    def result(self, call, content="done", **fields):
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content}], **fields)

    def says(self, *blocks, id=None, usage=(10, 0, 0, 5), model="claude-x", **fields):
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        message = {"id": id or f"m{len(self.rows)}", "role": "assistant", "model": model, "content": content}
        if usage is not None:
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
            message["usage"] = dict(zip(names, usage, strict=True))
        return self.row("assistant", message=message, **fields)

    def load(self):
        self.path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in self.rows))
        return load(self.path)


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


def use(name):
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}}


def plain(call):
    """A request in shorthand: role's first letter, then the texts, calls as +id and results as -id."""
    out = []
    for message in call.request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts = [
            "+" + block["id"] if block["type"] == "tool_use"
            else "-" + block["tool_use_id"] if block["type"] == "tool_result"
            else block.get("text", block["type"])
            for block in blocks
        ]  # fmt: skip
        out.append(message["role"][0] + ":" + " ".join(parts))
    return out


def test_every_call_has_the_messages_before_it(log):
    calls = list(log.user("one").says("1").user("two").says("2").load().requests())

    assert [plain(call) for call in calls] == [["u:one"], ["u:one", "a:1", "u:two"]]
    assert calls[0].response["content"] == [{"type": "text", "text": "1"}]
    assert calls[0].request["model"] == "claude-x"


def test_rows_that_share_a_message_id_are_one_call_and_the_last_usage_counts(log):
    log.user("go").says("thinking aloud", id="m", usage=(10, 5, 2, 1)).says(use("t1"), id="m", usage=(10, 5, 2, 40))
    calls = list(log.result("t1").says("end").load().requests())

    assert [plain(call) for call in calls] == [["u:go"], ["u:go", "a:thinking aloud +t1", "u:-t1"]]
    assert calls[0].usage == Usage(input=10, cache_read=5, cache_write=2, output=40)
    assert [call.row for call in calls] == [2, 5]


def test_a_version_that_repeats_all_blocks_so_far_does_not_double_them(log):
    log.user("go").says("a", id="m").says("a", use("t1"), id="m").result("t1").says("end")

    assert plain(list(log.load().requests())[1])[1] == "a:a +t1"


def test_a_result_that_arrives_between_the_rows_of_a_call_waits_for_the_whole_call(log):
    log.user("go").says(use("t1"), id="m", uuid="A").result("t1", uuid="R1")
    log.says(use("t2"), id="m", uuid="B", parent="A").result("t2").says("end")
    recording = log.load()

    assert plain(list(recording.requests())[1]) == ["u:go", "a:+t1 +t2", "u:-t1 -t2"]
    assert recording.problems == ()


def test_parallel_results_are_siblings_and_no_branches(log):
    log.user("go").says(use("t1"), id="m", uuid="A").says(use("t2"), id="m", uuid="B")
    log.result("t1", parent="A", uuid="R1").result("t2", parent="B", uuid="R2").says("end", parent="R1")

    assert plain(list(log.load().requests())[1]) == ["u:go", "a:+t1 +t2", "u:-t1 -t2"]


def test_after_going_back_the_other_branch_is_not_sent(log):
    log.user("one").says("1", uuid="A").user("wrong").says("w").user("right", parent="A").says("r")

    assert plain(list(log.load().requests())[-1]) == ["u:one", "a:1", "u:right"]


def test_going_back_to_the_start_begins_an_empty_history(log):
    log.user("one").says("1").user("again", parent=None).says("2")

    assert plain(list(log.load().requests())[-1]) == ["u:again"]


def test_a_branch_that_is_continued_later_has_its_history_and_the_same_objects(log):
    log.user("one").says(use("t1"), id="m", uuid="A").says(use("t2"), id="m", uuid="B")
    log.result("t1", parent="A").result("t2", parent="B", uuid="R").says("1", uuid="C")
    log.user("left", uuid="L").says("l", uuid="LA").user("right", parent="C").says("r").user("more", parent="LA").says(
        "m"
    )
    calls = list(log.load().requests())

    assert plain(calls[-1])[-3:] == ["u:left", "a:l", "u:more"]
    shared = calls[2].request["messages"]
    assert all(a is b for a, b in zip(shared, calls[-1].request["messages"], strict=False))


def test_rows_without_a_message_still_link_and_are_kept(log):
    log.user("one").row("progress", data={}).says("1").row("ebb", edit="x1").user("two").says("2")
    recording = log.load()

    assert plain(list(recording.requests())[-1]) == ["u:one", "a:1", "u:two"]
    assert [record["type"] for record in recording.others] == ["progress", "ebb"]
    assert recording.problems == ()


def test_a_branch_from_a_row_without_a_message_begins_at_the_message_before_it(log):
    log.user("one").says("1").row("progress", uuid="P").user("wrong").says("w").user("right", parent="P").says("r")

    assert plain(list(log.load().requests())[-1]) == ["u:one", "a:1", "u:right"]


def test_a_file_whose_rows_name_no_parents_is_read_in_file_order(log):
    for words in ("one", "two"):
        log.user(words, parent=None).says(words[0], parent=None)

    assert plain(list(log.load().requests())[-1]) == ["u:one", "a:o", "u:two"]


def test_a_sidechain_is_a_separate_conversation(log):
    log.user("main").says(use("t1"), uuid="A")
    log.user("sub", parent=None, isSidechain=True, uuid="S").says("s", isSidechain=True)
    log.result("t1", parent="A").says("end")
    calls = list(log.load().requests())

    assert [(call.episode, plain(call)) for call in calls] == [
        ("", ["u:main"]),
        ("", ["u:main", "a:+t1", "u:-t1"]),
        ("S", ["u:sub"]),
    ]


def compacted(log):
    log.user("one").says("1").user("two").says("2")
    log.row("system", subtype="compact_boundary", parent=None, logicalParentUuid=log.tip)
    log.user("SUMMARY", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    return log.user("three").says("3").user("four").says("4")


def test_after_a_compaction_the_request_begins_with_the_summary(log):
    calls = list(compacted(log).load().requests())

    assert [call.compacted for call in calls] == [False, False, True, False]
    assert plain(calls[2]) == ["u:SUMMARY three"]
    assert plain(calls[3]) == ["u:SUMMARY three", "a:3", "u:four"]


def test_without_its_compactions_a_session_has_the_full_history_and_no_summary(log):
    calls = list(compacted(log).load().uncompacted())

    assert plain(calls[3]) == ["u:one", "a:1", "u:two", "a:2", "u:three", "a:3", "u:four"]
    assert not any(call.compacted for call in calls)


def test_a_summary_without_a_boundary_row_restarts_too(log):
    log.user("one").says("1").user("SUMMARY", isCompactSummary=True).user("two").says("2")
    calls = list(log.load().requests())

    assert (plain(calls[1]), calls[1].compacted) == (["u:SUMMARY two"], True)


def test_a_boundary_without_a_summary_restarts_the_history(log):
    log.user("one").says("1").row("system", subtype="compact_boundary", parent=None).user("two").says("2")
    calls = list(log.load().requests())

    assert (plain(calls[1]), calls[1].compacted) == (["u:two"], True)


def test_results_that_the_client_cleared_are_still_in_earlier_requests(log):
    log.user("go").says(use("t1")).result("t1", "LONG").says("seen").user("next")
    log.row("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t1"]}).says("end")
    recording = log.load()
    before, after = list(recording.requests())[1:]

    assert before.request["messages"][2]["content"][0]["content"] == "LONG"
    assert after.request["messages"][2]["content"][0]["content"] == "[Old tool result content cleared]"
    assert list(recording.uncompacted())[2].request["messages"][2]["content"][0]["content"] == "LONG"


def test_an_interrupted_call_is_answered_for_the_tool_and_reported(log):
    log.user("go").says(use("t1"), use("t2")).result("t2").user("stop that").says("ok")
    recording = log.load()
    call = list(recording.requests())[1]

    assert plain(call) == ["u:go", "a:+t1 +t2", "u:-t2 -t1 stop that"]
    assert call.request["messages"][2]["content"][1]["is_error"] is True
    assert [problem.reason for problem in recording.problems] == [
        "a call without its result, answered for the tool: t1"
    ]
    assert refusals("anthropic", call.request) == []


def test_results_without_a_call_and_second_results_are_left_out_and_reported(log):
    log.user("go").says(use("t1")).result("t1", "first").result("t1", "second").result("stray").says("ok")
    recording = log.load()
    call = list(recording.requests())[1]

    assert plain(call) == ["u:go", "a:+t1", "u:-t1"]
    assert call.request["messages"][2]["content"][0]["content"] == "second"
    assert "stray" in recording.problems[0].reason


def test_text_before_the_results_is_moved_after_them(log):
    log.user("go").says(use("t1")).user("by the way").result("t1").says("ok")

    assert plain(list(log.load().requests())[1])[-1] == "u:-t1 by the way"


def test_a_reply_that_the_client_wrote_itself_has_no_usage(log):
    log.user("go").says("No response requested.", model="<synthetic>", usage=(0, 0, 0, 0)).user("on").says("1")
    log.user("fail").says("API Error", model="<synthetic>", isApiErrorMessage=True).user("retry").says("2")
    calls = list(log.load().requests())

    assert [call.usage is None for call in calls] == [True, False, True, False]
    assert plain(calls[-1])[-1] == "u:fail retry"


@pytest.mark.parametrize("usage", [(-5, 0, 0, 1), (9_000_000, 0, 0, 1), ("many", 0, 0, 1)])
def test_an_impossible_usage_is_reported_and_not_counted(log, usage):
    recording = log.user("go").says("1", usage=usage).load()

    assert next(recording.requests()).usage is None
    assert (recording.problems[0].row, recording.problems[0].raw != "") == (2, True)


def test_malformed_rows_are_kept_as_problems_and_the_rest_is_read(log):
    log.user("go").says("1")
    log.rows += ['"massive error"', {"type": "user", "uuid": "x", "sessionId": "s1", "message": "error"}]
    log.rows += [{"type": "user", "uuid": "y", "sessionId": "s1", "message": {"role": "user", "contenst": []}}]
    log.user(["wow error"]).user("on").says("2")
    recording = log.load()

    assert plain(list(recording.requests())[-1]) == ["u:go", "a:1", "u:on"]
    assert [problem.row for problem in recording.problems] == [3, 4, 5, 6]
    assert all(problem.raw for problem in recording.problems)


def test_blocks_that_providers_refuse_are_left_out(log):
    log.user("go").says({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": " "}, use("functions.Read:0"))
    reference = {"type": "tool_reference", "tool_name": "Task"}
    log.result("functions.Read:0", [reference, {"type": "text", "text": ""}]).says("ok")
    call = list(log.load().requests())[1]

    assert refusals("anthropic", call.request) == []
    assert call.request["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "[tool Task]"}]


def test_a_file_that_begins_in_the_middle_is_read_and_reported(log):
    recording = log.says("welcome back", parent="gone").user("go").says("1").load()

    assert [refusals("anthropic", call.request) for call in recording.requests()] == [[], []]
    assert "gone" in recording.problems[0].reason


def test_texts_that_the_client_attached_are_part_of_the_request(log):
    log.user("go").row("attachment", attachment={"type": "queued_command", "prompt": "also this"})
    log.row("attachment", attachment={"type": "skill_listing", "content": "- one"})
    log.row("attachment", attachment={"type": "task_reminder", "content": []})
    log.row("system", subtype="local_command", content="<command-name>/x</command-name>").says("1")
    recording = log.load()

    reminder = "<system-reminder>\n- one\n</system-reminder>"
    assert plain(next(recording.requests())) == [f"u:go also this {reminder} <command-name>/x</command-name>"]
    assert [record["attachment"]["type"] for record in recording.others] == ["task_reminder"]


def test_times_are_seconds_since_the_epoch(log):
    log.user("go").says("1", timestamp="2026-02-09T11:06:05.287Z").user("on").says("2", timestamp="nonsense")

    assert [call.at for call in log.load().requests()] == [1770635165.287, None]


def test_a_repeated_row_of_a_resumed_session_is_sent_once(log):
    log.user("go", uuid="same", parent=None).says("1", parent=None)
    log.rows.append(log.rows[0])
    log.user("on", parent=None).says("2", parent=None)

    assert plain(list(log.load().requests())[-1]) == ["u:go", "a:1", "u:on"]


def test_our_own_log_is_read_like_a_session_file_of_claude_code(tmp_path):
    messages = [("user", "one"), ("assistant", [{"type": "text", "text": "1"}]), ("user", "two"), ("assistant", "2")]
    rows, parent = [{"type": "ebb", "store": "session", "sessionId": "s1"}], None
    for at, (role, content) in enumerate(messages):
        rows.append(message_record({"role": role, "content": content}, session="s1", parent=parent, at=at))
        parent = rows[-1]["uuid"]
        rows.append({"type": "ebb", "kind": "turn"})
    file = tmp_path / "s1.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    recording = load(file)

    assert [plain(call) for call in recording.requests()] == [["u:one"], ["u:one", "a:1", "u:two"]]
    assert (recording.session, len(recording.others), recording.problems) == ("s1", 5, ())
