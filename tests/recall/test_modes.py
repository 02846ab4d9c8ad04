"""A stub speaks the way of recall that is in force: a path only where the model may open files."""

from __future__ import annotations

import json

import pytest

import ebbtide
from ebbtide.core.stub import parse

CALL = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "make"}}
TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]
OUTPUT = "\n".join(f"{n}: a line of the log" for n in range(4_000))


def body() -> dict:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": OUTPUT}
    messages = [
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [result]},
    ]
    return {"model": "claude-opus-4-8", "max_tokens": 1_000, "tools": TOOLS, "messages": messages}


@pytest.mark.parametrize(
    ("mode", "saved"), [("path", "saved to /"), ("tool", "saved as ebb:"), ("off", "saved as ebb:")]
)
def test_a_stub_names_a_file_only_if_the_model_may_open_it(mode, saved, tmp_path):
    context = ebbtide.Context(model="claude-opus-4-8", window=40_000, store=tmp_path, recall=mode)
    sent = context.prepare(body()).body
    stub = sent["messages"][2]["content"][0]["content"]

    assert saved in stub
    assert (str(tmp_path) in json.dumps(sent)) == (mode == "path")
    handle = parse(stub).path
    read = context.recall_answer("ebb_read", {"handle": handle, "start": 0, "end": 40})
    assert OUTPUT[:40] in read
