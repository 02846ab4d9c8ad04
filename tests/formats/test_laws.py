"""Laws of every recording, on sessions that nobody could have recorded."""

import json
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.formats import load
from upstream.check import refusals

CALLS = st.sampled_from(["t1", "t2", "t3"])
TEXTS = st.sampled_from(["a", "b", "", "  ", "long words"])


def text(words):
    return {"type": "text", "text": words}


def use(name):
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}}


def result(name):
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


@st.composite
def claude_rows(draw):
    """Rows in any order, under any parent, with results that fit nothing and rows that are not even objects."""
    rows, used = [], set()
    for number in range(draw(st.integers(1, 14))):
        parent = draw(st.sampled_from([None, "gone", *[f"r{n}" for n in range(number)]]))
        row = {
            "uuid": f"r{number}",
            "parentUuid": parent,
            "sessionId": "s",
            "isSidechain": draw(st.integers(0, 9)) == 0,
        }
        kind = draw(st.sampled_from(["user", "user", "result", "assistant", "assistant", "boundary", "broken"]))
        if kind == "user":
            row |= {"type": "user", "message": {"role": "user", "content": draw(TEXTS)}}
            row["isCompactSummary"] = draw(st.integers(0, 9)) == 0
        elif kind == "result":
            row |= {"type": "user", "message": {"role": "user", "content": [result(draw(CALLS)), text(draw(TEXTS))]}}
        elif kind == "assistant":
            # Ids are unique in a session; what is answered, and when, is anybody's guess.
            fresh = sorted({draw(CALLS) for _ in range(2)} - used)
            used |= set(fresh)
            content = [text(draw(TEXTS)), *map(use, fresh)]
            row |= {"type": "assistant", "message": {"id": f"m{number}", "model": "claude-x", "content": content}}
        elif kind == "boundary":
            row |= {"type": "system", "subtype": "compact_boundary", "logicalParentUuid": parent}
        else:
            row = draw(st.sampled_from([42, "words", {"silly": "this"}, {**row, "type": "user", "message": "error"}]))
        rows.append(row)
    return rows


def read(rows):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.jsonl"
        first = {"type": "user", "uuid": "first", "parentUuid": None, "message": {"role": "user", "content": "go"}}
        file.write_text("\n".join(map(json.dumps, [first, *rows])))
        return load(file)


@given(claude_rows())
def test_a_provider_would_accept_every_request(rows):
    recording = read(rows)

    for call in [*recording.requests(), *recording.uncompacted()]:
        assert refusals("anthropic", call.request) == []


@given(claude_rows())
def test_no_row_is_lost(rows):
    """A row is a call's answer, a message, a record that says nothing, or a problem: never nowhere."""
    recording = read(rows)
    kept = json.dumps([[repr(step) for step in episode.steps] for episode in recording.episodes])
    kept += json.dumps(recording.others) + "".join(problem.raw for problem in recording.problems)
    answered = {call.row for call in recording.uncompacted()}

    for line, row in enumerate(rows, 2):
        message = row.get("message") if isinstance(row, dict) else None
        if isinstance(message, dict) and row["type"] == "assistant":
            assert line in answered
        elif isinstance(message, dict) and isinstance(message["content"], list):
            assert message["content"][0]["tool_use_id"] in kept
        elif not isinstance(row, dict) or "silly" in row or message == "error":
            assert json.dumps(row) in kept


@given(claude_rows())
def test_reading_twice_gives_the_same_and_the_messages_are_shared(rows):
    recording = read(rows)
    calls = list(recording.requests())

    assert [call.request for call in calls] == [call.request for call in recording.requests()]
    for one, two in pairwise(calls):
        for a, b in zip(one.request["messages"], two.request["messages"], strict=False):
            assert a is b or a != b or one.episode != two.episode
        assert one.request["messages"] is not two.request["messages"]


IDS = st.sampled_from(["a", "b", "c", "d", "a_response"])


def gemini_call(name):
    return {"functionCall": {"id": name, "name": "read", "args": {}}}


def gemini_result(name):
    return {"functionResponse": {"id": name, "name": "read", "response": {"output": "done"}}}


@st.composite
def gemini_messages(draw):
    """Messages that come again with other content, results of no call, and fields of any kind."""
    content = draw(st.sampled_from(["text", "parts", "results", "calls", "odd"]))
    recorded = {
        "text": draw(TEXTS),
        "parts": [{"text": draw(TEXTS)}],
        "results": [gemini_result(draw(CALLS)), {"text": draw(TEXTS)}],
        "calls": [{"text": draw(TEXTS)}, gemini_call(draw(CALLS))],
        "odd": draw(st.sampled_from([None, 7, [None, 3]])),
    }[content]
    row = {"id": draw(IDS), "type": draw(st.sampled_from(["user", "gemini", "gemini", "info"])), "content": recorded}
    if row["type"] == "gemini":
        row |= draw(st.sampled_from([{}, {"model": "gemini-x"}, {"model": "gemini-x", "tokens": {"input": 5}}]))
        call = {"id": draw(CALLS), "name": "read", "args": {}, "result": draw(st.sampled_from([None, "done", 5]))}
        row |= draw(st.sampled_from([{}, {"toolCalls": [call]}, {"toolCalls": 7}]))
    return row


GEMINI_ROWS = st.lists(
    st.one_of(
        gemini_messages(),
        gemini_messages(),
        st.builds(lambda id: {"$rewindTo": id}, IDS),
        st.builds(lambda messages: {"$set": {"messages": messages}}, st.lists(gemini_messages(), max_size=4)),
        st.just({"$set": {"summary": "x"}}),
    ),
    max_size=12,
)


@given(GEMINI_ROWS)
def test_gemini_accepts_every_request_of_a_chat(rows):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "session.jsonl"
        file.write_text("\n".join(map(json.dumps, [{"sessionId": "s", "projectHash": "h"}, *rows])))
        recording = load(file)

    for call in [*recording.requests(), *recording.uncompacted()]:
        assert refusals("gemini", call.request) == []
