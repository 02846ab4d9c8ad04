"""gemini-cli's chats, in the form that version 0.61.0 writes: the rows are shortened from sessions of the real program."""

import json

import pytest

from ebbtide.core.types import Usage
from ebbtide.formats import load
from upstream.check import refusals

TOKENS = {"input": 1000, "output": 20, "cached": 400, "thoughts": 5, "tool": 30, "total": 1055}
CONTEXT = {"text": "<session_context>\nToday is Wednesday.\n</session_context>"}


class Chat:
    def __init__(self, folder):
        self.path, self.rows = folder / "session-2026-11-18T20-58-c0e6da60.jsonl", []
        self.row(sessionId="c0e6da60", projectHash="709a", startTime="2026-11-18T20:58:10.781Z", kind="main")
        self.replace([self.message("context", "user", [CONTEXT])])

    def row(self, **fields):
        self.rows.append(fields)
        return self

    def message(self, id, type, content, **fields):
        return {"id": id, "timestamp": "2026-11-18T20:58:11.418Z", "type": type, "content": content, **fields}

    def user(self, id, text):
        return self.row(**self.message(id, "user", [{"text": text}]))

    def reply(self, id, text, *calls, results=True):
        """A reply is written as soon as it is there, and again when its calls have run."""
        thoughts = [{"subject": "Plan", "description": "I read it.", "timestamp": "2026-11-18T20:58:11.418Z"}]
        message = self.message(id, "gemini", text, thoughts=thoughts, tokens=TOKENS, model="gemini-2.5-pro")
        self.row(**message)
        if calls:
            done = [{**call(name), "status": "success", "result": [result(name)]} for name in calls]
            self.row(**{**message, "toolCalls": done})
        if calls and results:
            self.row(**self.message(f"{id}-results", "user", [result(name) for name in calls]))
        return self

    def replace(self, messages):
        return self.row(**{"$set": {"messages": messages, "lastUpdated": "2026-11-18T20:59:00.000Z"}})

    def load(self):
        self.path.write_text("\n".join(map(json.dumps, self.rows)))
        return load(self.path)


def call(name):
    return {"id": f"read_file__{name}", "name": "read_file", "args": {"file_path": f"{name}.txt"}}


def result(name):
    output = {"output": f"text of {name}"}
    return {"functionResponse": {"id": f"read_file__{name}", "name": "read_file", "response": output}}


@pytest.fixture
def chat(tmp_path):
    return Chat(tmp_path)


def plain(call):
    def part(value):
        if "functionCall" in value:
            return "+" + value["functionCall"]["args"]["file_path"]
        if "functionResponse" in value:
            return "-" + value["functionResponse"]["response"]["output"]
        return value.get("text", "file").partition("\n")[0]

    return [f"{content['role'][0]}:{'|'.join(map(part, content['parts']))}" for content in call.request["contents"]]


def requests(chat):
    calls = list(chat.load().requests())
    assert [refusals("gemini", call.request) for call in calls] == [[]] * len(calls)
    return [plain(call) for call in calls]


def test_each_reply_is_a_call_with_the_history_before_it(chat):
    chat.user("u1", "read a and b").reply("r1", "I look.", "a", "b").reply("r2", "Done.")

    assert requests(chat) == [
        ["u:<session_context>|read a and b"],
        ["u:<session_context>|read a and b", "m:I look.|+a.txt|+b.txt", "u:-text of a|-text of b"],
    ]


def test_a_call_has_its_model_its_usage_and_the_reply_with_its_thoughts(chat):
    chat.user("u1", "hi").reply("r1", "Hello.")
    recording = chat.load()
    (call,) = recording.requests()

    assert (recording.format, recording.wire, recording.session) == ("gemini-cli", "gemini", "c0e6da60")
    assert (call.model, call.request["model"], call.row) == ("gemini-2.5-pro", "gemini-2.5-pro", 4)
    # Tokens of the provider's own tools are input, cached tokens are part of it, and thoughts are output.
    assert call.usage == Usage(input=630, cache_read=400, output=25)
    assert call.response["parts"] == [{"text": "**Plan** I read it.", "thought": True}, {"text": "Hello."}]


def test_older_versions_write_one_document_with_the_results_beside_the_calls(tmp_path):
    chat = Chat(tmp_path)
    chat.rows = chat.rows[:1]
    chat.user("u1", "read a").reply("r1", "", "a", results=False).reply("r2", "Done.", results=False)
    messages = {row["id"]: row for row in chat.rows[1:]}
    path = tmp_path / "session-2025-09-18T02-45-5e4a.json"
    path.write_text(json.dumps({**chat.rows[0], "messages": list(messages.values())}))
    recording = load(path)

    assert recording.format == "gemini-cli"
    assert plain(list(recording.requests())[1]) == ["u:read a", "m:+a.txt", "u:-text of a"]


def test_a_result_that_is_only_a_text_becomes_a_function_response(tmp_path):
    chat = Chat(tmp_path).user("u1", "read a").reply("r1", "", "a", results=False)
    chat.rows[-1]["toolCalls"][0]["result"] = "text of a"

    assert requests(chat.reply("r2", "Done."))[1][1:] == ["m:+a.txt", "u:-text of a"]


def test_a_compaction_keeps_the_turns_that_the_new_history_ends_with(chat):
    """It gives new ids to all that it keeps, and answers the summary in the model's name."""
    chat.user("u1", "first").reply("r1", "One.").user("u2", "second").reply("r2", "I look.", "a", results=False)
    parts = [{"text": "I look."}, {"functionCall": call("a"), "thoughtSignature": "c2ln"}]
    chat.replace(
        [
            chat.message("context", "user", [CONTEXT]),
            chat.message("n1", "user", [{"text": "<state_snapshot>"}]),
            chat.message("n2", "gemini", [{"text": "Got it."}]),
            chat.message("n3", "user", [{"text": "second"}]),
            chat.message("n4", "gemini", parts),
        ]
    )
    chat.row(**chat.message("u3", "user", [result("a")])).reply("r3", "Two.").user("u4", "third").reply("r4", "Three.")
    recording = chat.load()
    calls = list(recording.requests())
    after = ["u:<session_context>|<state_snapshot>|second", "m:I look.|+a.txt", "u:-text of a"]

    assert [call.compacted for call in calls] == [False, False, True, False]
    assert [plain(call) for call in calls][2:] == [after, [*after, "m:Two.", "u:third"]]
    assert plain(list(recording.uncompacted())[2])[:3] == ["u:<session_context>|first", "m:One.", "u:second"]


def test_a_session_that_is_resumed_has_no_call_twice(chat):
    """The new process begins with an empty history, sets the old one again, and adds each result once more."""
    chat.user("u1", "read a").reply("r1", "I look.", "a").reply("r2", "Done.")
    before = [row for row in chat.rows if row.get("id")]
    again = {row["id"]: row for row in before}
    again["r1"] = chat.message("r1", "gemini", [{"text": "I look."}, {"functionCall": call("a")}])
    again["r1_response"] = chat.message("r1_response", "user", [result("a")])
    order = ["u1", "r1", "r1_response", "r1-results", "r2"]
    chat.replace([chat.message("context", "user", [CONTEXT])])
    chat.replace([chat.message("context", "user", [CONTEXT]), *(again[id] for id in order)])
    chat.user("u2", "more").reply("r3", "Here.")
    history = ["u:<session_context>|read a", "m:I look.|+a.txt", "u:-text of a"]

    assert requests(chat) == [history[:1], history, [*history, "m:Done.", "u:more"]]


def test_a_rewind_removes_a_message_and_all_after_it(chat):
    chat.user("u1", "one").reply("r1", "One.").user("u2", "two").reply("r2", "Two.")
    chat.row(**{"$rewindTo": "u2"}).user("u3", "three").reply("r3", "Three.")

    assert requests(chat)[-1] == ["u:<session_context>|one", "m:One.", "u:three"]


def test_a_rewind_to_an_unknown_message_begins_again(chat):
    chat.user("u1", "one").reply("r1", "One.").row(**{"$rewindTo": "nobody"}).user("u2", "two").reply("r2", "Two.")

    assert requests(chat)[-1] == ["u:two"]


def test_a_turn_that_failed_is_rolled_back(chat):
    chat.user("u1", "one").reply("r1", "One.").user("u2", "two")
    chat.replace([chat.message("context", "user", [CONTEXT]), chat.rows[2], chat.rows[3]])
    chat.user("u3", "three").reply("r3", "Three.")

    assert requests(chat)[-1] == ["u:<session_context>|one", "m:One.", "u:three"]


def test_the_model_gets_files_and_no_notices(chat):
    chat.row(**chat.message("i1", "info", "Update available."))
    chat.user("u1", "look").row(
        **chat.message("i2", "info", [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}])
    )
    chat.row(**chat.message("e1", "error", "Quota exceeded.")).reply("r1", "A picture.")
    recording = chat.load()

    assert [plain(call) for call in recording.requests()] == [["u:<session_context>|look|file"]]
    assert {"i1", "e1"} <= {other.get("id") for other in recording.others}


@pytest.mark.parametrize("tokens", [{"input": "many"}, {"input": -5}, 7])
def test_impossible_usage_is_no_usage(chat, tokens):
    chat.user("u1", "hi").reply("r1", "Hello.")
    chat.rows[-1]["tokens"] = tokens
    (call,) = chat.load().requests()

    assert call.usage is None


def test_broken_rows_are_reported_and_the_rest_is_read(chat):
    chat.user("u1", "hi").rows.append([1])
    chat.row(**{"$set": 7}).row(id="x", type="gemini", content={"odd": 1}, model=5).reply("r1", "Hello.")
    chat.row(id="r1", type="gemini", toolCalls=["no call", {"name": "read_file"}], content=None)
    recording = chat.load()

    assert recording.problems[0].reason == "not a record"
    assert plain(list(recording.requests())[-1])[0] == "u:<session_context>|hi"
