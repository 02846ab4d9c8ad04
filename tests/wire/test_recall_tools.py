"""The recall tools stand before the cached prefix: valid on their wire, and the same bytes in every process."""

import json
import os
import subprocess
import sys

import pytest

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.wire import WIRES, detect
from ebbtide.wire.recall_tools import recall_tools

BODIES = {
    "anthropic": {"model": "claude-opus-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]},
    "openai_chat": {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]},
    "openai_responses": {"model": "gpt-5", "input": [{"role": "user", "content": "hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    "bedrock_converse": {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
}


def function(tool):
    if "toolSpec" in tool:
        return {**tool["toolSpec"], "parameters": tool["toolSpec"]["inputSchema"]["json"]}
    return tool["functionDeclarations"][0] if "functionDeclarations" in tool else tool.get("function", tool)


@pytest.mark.parametrize("wire", list(WIRES))
def test_each_wire_gets_both_tools_in_its_own_shape(wire):
    tools = recall_tools(WIRES[wire])

    assert tuple(function(tool)["name"] for tool in tools) == RECALL_TOOLS
    schemas = [function(tool).get("input_schema") or function(tool)["parameters"] for tool in tools]
    assert [schema["required"] for schema in schemas] == [["query"], ["handle"]]
    assert [list(schema["properties"]) for schema in schemas] == [["query"], ["handle", "start", "end"]]
    assert ("type" in tools[0], "function" in tools[0], "input_schema" in tools[0]) == {
        "anthropic": (False, False, True),
        "openai_chat": (True, True, False),
        "openai_responses": (True, False, False),
        "gemini": (False, False, False),
        "bedrock_converse": (False, False, False),
    }[wire]
    assert detect({**BODIES[wire], "tools": tools}).name == wire


def test_they_are_the_same_bytes_in_another_process():
    code = "import json; from ebbtide.wire import WIRES; from ebbtide.wire.recall_tools import recall_tools; print(json.dumps([recall_tools(WIRES[w]) for w in WIRES]))"
    told = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True)  # fmt: skip

    assert told.stdout.strip() == json.dumps([recall_tools(WIRES[wire]) for wire in WIRES])


def test_a_changed_definition_is_complete_the_next_time():
    recall_tools(WIRES["anthropic"])[0]["input_schema"]["required"].clear()

    assert recall_tools(WIRES["anthropic"])[0]["input_schema"]["required"] == ["query"]
