"""OpenCode: the storage directory and the export are the same session; pruning and compaction are marks in it."""

import json

import pytest

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Usage
from ebbtide.formats import load
from upstream.check import refusals

TOKENS = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 7, "write": 3}}


def message(role, *parts, at=0, **fields):
    kept = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    details = {"tokens": TOKENS, "modelID": "claude-x"} if role == "assistant" else {}
    return {"info": {"role": role, "time": {"created": at}, **details, **fields}, "parts": kept}


def tool(call, output="done", status="completed", **time):
    state = {"status": status, "input": {"path": "x"}, "output": output, "error": output, "time": time}
    return {"type": "tool", "callID": call, "tool": "read", "state": state}


@pytest.fixture
def load_export(tmp_path):
    def put(*messages):
        file = tmp_path / "export.json"
        file.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": list(messages)}, indent=2))
        return load(file)

    return put


def write_store(root, *messages, session="ses_1"):
    for number, pair in enumerate(messages):
        name = f"msg_{number}"
        file = root / "storage" / "message" / session / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"id": name, "sessionID": session, **pair["info"]}))
        for at, part in enumerate(pair["parts"]):
            part_file = root / "storage" / "part" / name / f"prt_{at}.json"
            part_file.parent.mkdir(parents=True, exist_ok=True)
            part_file.write_text(json.dumps({"id": part_file.stem, "messageID": name, **part}))
    return root


def plain(call):
    out = []
    for message_sent in call.request["messages"]:
        blocks = (
            [{"text": message_sent["content"]}] if isinstance(message_sent["content"], str) else message_sent["content"]
        )
        words = [block.get("text") or block.get("content") or block.get("id") for block in blocks]
        out.append(message_sent["role"][0] + ":" + " ".join(words))
    return out


TALK = (
    message("user", "go"),
    message("assistant", "look", tool("t1", "LONG"), at=1),
    message("assistant", "end", at=2),
)


def test_a_tool_part_becomes_a_call_and_the_turn_after_it(load_export):
    recording = load_export(*TALK)
    first, second = recording.requests()

    assert (recording.format, recording.session) == ("opencode", "ses_1")
    assert plain(second) == ["u:go", "a:look t1", "u:LONG"]
    assert first.usage == Usage(input=10, cache_read=7, cache_write=3, output=7)
    assert refusals("anthropic", second.request) == []


def test_the_directory_reads_as_the_export_does(tmp_path, load_export):
    root = write_store(tmp_path / "opencode", *TALK)
    for path in (root, root / "storage", root / "storage" / "message" / "ses_1"):
        assert [call.request for call in load(path).requests()] == [
            call.request for call in load_export(*TALK).requests()
        ]


def test_every_session_of_a_storage_directory_is_an_episode(tmp_path):
    root = write_store(write_store(tmp_path, *TALK), *TALK[:1], *TALK[2:], session="ses_2")

    assert [call.episode for call in load(root).requests()] == ["ses_1", "ses_1", "ses_2"]


def test_an_id_from_a_record_never_becomes_a_path(tmp_path):
    root = write_store(tmp_path / "store", *TALK)
    outside = tmp_path / "store" / "storage" / "secret"
    outside.mkdir()
    (outside / "prt.json").write_text(json.dumps({"type": "text", "text": "SECRET"}))
    (root / "storage" / "message" / "ses_1" / "msg_9.json").write_text(
        json.dumps({"id": "../secret", "role": "assistant"})
    )

    assert "SECRET" not in str([call.response for call in load(root).requests()])


def test_pruned_output_was_still_there_before_the_prune(load_export):
    talk = (
        message("user", "go"),
        message("assistant", tool("t1", "LONG", compacted=2_000_000_000_500), at=2_000_000_000_000),
    )
    talk += (
        message("assistant", "a", at=2_000_000_000_100),
        message("user", "on"),
        message("assistant", "b", at=2_000_000_001_000),
    )
    recording = load_export(*talk)
    before, after = list(recording.requests())[1:]

    assert plain(before)[2] == "u:LONG"
    assert plain(after)[2] == "u:[Old tool result content cleared]"
    assert plain(list(recording.uncompacted())[2])[2] == "u:LONG"


def test_after_a_compaction_the_history_starts_at_the_summary(load_export):
    recording = load_export(
        message("user", "one"),
        message("assistant", "1"),
        message("user", {"type": "compaction", "auto": True}),
        message("assistant", "SUMMARY", summary=True, finish="stop"),
        message("user", "two"),
        message("assistant", "2"),
    )

    assert [(plain(call), call.compacted) for call in recording.requests()] == [
        (["u:one"], False),
        (["u:one", "a:1", "u:What did we do so far?"], False),
        (["u:What did we do so far?", "a:SUMMARY", "u:two"], True),
    ]
    assert [plain(call) for call in recording.uncompacted()] == [["u:one"], ["u:one", "a:1", "u:two"]]


def test_a_summary_that_failed_restarts_nothing(load_export):
    broken = message("assistant", "half", summary=True, error={"name": "APIError"})
    recording = load_export(
        message("user", "one"),
        message("assistant", "1"),
        message("user", "sum"),
        broken,
        message("user", "two"),
        message("assistant", "2"),
    )

    assert plain(list(recording.requests())[-1])[0] == "u:one"


def test_each_step_of_a_message_is_a_call(load_export):
    start, small = {"type": "step-start"}, {**TOKENS, "input": 1}
    done = {"type": "step-finish", "tokens": small}
    recording = load_export(message("user", "go"), message("assistant", start, tool("t1"), done, start, "end", done))

    assert [plain(call) for call in recording.requests()] == [["u:go"], ["u:go", "a:t1", "u:done"]]
    assert [call.usage.input for call in recording.requests()] == [1, 1]


def test_a_tool_that_never_finished_gets_a_result_and_is_reported(load_export):
    recording = load_export(
        message("user", "go"), message("assistant", tool("t1", status="running")), message("assistant", "end")
    )

    assert refusals("anthropic", list(recording.requests())[1].request) == []
    assert "t1" in recording.problems[0].reason


def test_a_failed_tool_is_an_error_result(load_export):
    recording = load_export(
        message("user", "go"), message("assistant", tool("t1", "boom", "error")), message("assistant", "end")
    )
    result = list(recording.requests())[1].request["messages"][2]["content"][0]

    assert (result["content"], result["is_error"]) == ("boom", True)


def test_only_signed_reasoning_is_sent_back(load_export):
    signed = {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "sig"}}}
    recording = load_export(
        message("user", "go"),
        message("assistant", signed, {"type": "reasoning", "text": "bare"}, "1"),
        message("user", "on"),
        message("assistant", "2"),
    )
    blocks = list(recording.requests())[1].request["messages"][1]["content"]

    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert blocks[0]["signature"] == "sig"


def test_a_damaged_file_costs_only_its_record(tmp_path):
    root = write_store(tmp_path, *TALK)
    (root / "storage" / "part" / "msg_1" / "prt_9.json").write_text("{torn")
    recording = load(root)

    assert len(list(recording.requests())) == 2
    assert "prt_9.json" in recording.problems[0].reason


def test_a_directory_without_sessions_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="directory"):
        load(tmp_path)
