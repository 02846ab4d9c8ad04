"""Codex rollouts: a call ends at a token count that raised the total, or when the client speaks over it."""

import json

import pytest

from ebbtide.core.types import Usage
from ebbtide.formats import load
from upstream.check import refusals


class Rollout:
    def __init__(self, path):
        self.path, self.rows, self.total = path / "rollout.jsonl", [], 0
        self.row("session_meta", id="s1", base_instructions={"text": "Be brief."})
        self.row("turn_context", model="gpt-x")

    def row(self, kind, **payload):
        self.rows.append({"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload})
        return self

    def item(self, kind, **fields):
        return self.row("response_item", type=kind, **fields)

    def message(self, role, text):
        part = "output_text" if role == "assistant" else "input_text"
        return self.item("message", role=role, content=[{"type": part, "text": text}])

    def call(self, name, **fields):
        return self.item("function_call", name="shell", arguments="{}", call_id=name, **fields)

    def output(self, name):
        return self.item("function_call_output", call_id=name, output=f"out {name}")

    def count(self, given=100, cached=40, output=7, *, again=False, window=258_400):
        self.total += 0 if again else given
        last = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": output}
        info = {"total_token_usage": {"input_tokens": self.total}, "last_token_usage": last}
        return self.row("event_msg", type="token_count", info={**info, "model_context_window": window})

    def load(self):
        self.path.write_text("\n".join(map(json.dumps, self.rows)))
        return load(self.path)


@pytest.fixture
def rollout(tmp_path):
    return Rollout(tmp_path)


def plain(call):
    marks = {"function_call": "+", "function_call_output": "-"}
    return [
        marks[item["type"]] + item["call_id"] if item["type"] in marks
        else item["type"] if item["type"] != "message"
        else item["role"][0] + ":" + item["content"][0]["text"]
        for item in call.request["input"]
    ]  # fmt: skip


def test_a_call_carries_the_instructions_the_model_and_the_items_before_it(rollout):
    rollout.message("user", "go").call("c1").count(100, 40, 7).output("c1").message("assistant", "done").count(
        150, 90, 3
    )
    calls = list(rollout.load().requests())

    assert [plain(call) for call in calls] == [["u:go"], ["u:go", "+c1", "-c1"]]
    assert calls[0].usage == Usage(input=60, cache_read=40, output=7)
    assert (calls[0].request["instructions"], calls[0].request["model"]) == ("Be brief.", "gpt-x")
    assert calls[1].response == {"output": [rollout.rows[-2]["payload"]]}


def test_outputs_before_the_token_count_follow_the_complete_reply(rollout):
    rollout.message("user", "go").call("c1").output("c1").call("c2").output("c2").count().message(
        "assistant", "ok"
    ).count()

    assert plain(list(rollout.load().requests())[1]) == ["u:go", "+c1", "+c2", "-c1", "-c2"]


def test_a_token_count_that_did_not_raise_the_total_is_no_call(rollout):
    rollout.row("event_msg", type="token_count", info=None)
    rollout.message("user", "go").message("assistant", "hi").count().count(again=True)
    calls = list(rollout.load().requests())

    assert [call.usage.input for call in calls] == [60]


def test_an_interrupted_call_has_no_usage_and_the_next_request_is_valid(rollout):
    rollout.message("user", "hi").message("assistant", "yes").count()
    rollout.message("user", "go").item("reasoning", summary=[], encrypted_content="x").call("c1").count(again=True)
    rollout.message("user", "stop").message("assistant", "ok").count()
    recording = rollout.load()
    calls = list(recording.requests())

    assert [call.usage is None for call in calls] == [False, True, False]
    assert plain(calls[2])[2:] == ["u:go", "reasoning", "+c1", "-c1", "u:stop"]
    assert refusals("openai_responses", calls[2].request) == []
    assert [problem.reason for problem in recording.problems] == [
        "a call without its result, answered for the tool: c1"
    ]


def test_reasoning_with_nothing_after_it_is_left_out(rollout):
    rollout.message("user", "go").item("reasoning", summary=[], encrypted_content="x").row(
        "event_msg", type="turn_aborted"
    )
    rollout.message("user", "on").message("assistant", "ok").count()

    assert plain(list(rollout.load().requests())[1]) == ["u:go", "u:on"]


def test_unencrypted_reasoning_is_left_out_with_the_ids_of_what_follows(rollout):
    rollout.message("user", "go").item("reasoning", summary=[], id="rs_1").call(
        "c1", id="fc_1", metadata={"x": 1}
    ).count()
    rollout.output("c1").message("assistant", "ok").count()
    first, second = rollout.load().requests()

    assert plain(second) == ["u:go", "+c1", "-c1"]
    assert second.request["input"][1].keys() == {"type", "name", "arguments", "call_id"}
    assert [item["type"] for item in first.response["output"]] == ["reasoning", "function_call"]


def test_a_compaction_replaces_the_history_by_its_own(rollout):
    rollout.message("user", "one").message("assistant", "1").count()
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "SUMMARY"}]}
    rollout.row("compacted", message="", replacement_history=[kept]).count(again=True)
    rollout.message("user", "two").message("assistant", "2").count()
    recording = rollout.load()

    assert [(plain(call), call.compacted) for call in recording.requests()] == [
        (["u:one"], False),
        (["u:SUMMARY", "u:two"], True),
    ]
    assert plain(list(recording.uncompacted())[1]) == ["u:one", "a:1", "u:two"]


def test_an_old_compaction_keeps_user_messages_and_the_summary(rollout):
    rollout.message("user", "one").call("c1").count().output("c1").message("assistant", "1").count()
    rollout.row("compacted", message="SUMMARY").message("user", "two").message("assistant", "2").count()

    assert plain(list(rollout.load().requests())[-1]) == ["u:one", "u:SUMMARY", "u:two"]


def test_a_usage_beyond_the_recorded_window_is_reported_and_not_counted(rollout):
    recording = rollout.message("user", "go").message("assistant", "hi").count(300_000, window=258_400).load()

    assert next(recording.requests()).usage is None
    assert "300000 tokens in a window of 258400" in recording.problems[0].reason


def test_an_output_of_the_wrong_kind_answers_nothing(rollout):
    rollout.message("user", "go").item("custom_tool_call", name="patch", input="x", call_id="c1").count()
    rollout.output("c1").message("assistant", "ok").count()
    recording = rollout.load()
    call = list(recording.requests())[1]

    assert refusals("openai_responses", call.request) == []
    assert len(recording.problems) == 2
