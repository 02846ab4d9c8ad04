"""Plain messages and steps of every wire, for tests that say the same on all of them."""

from __future__ import annotations

import json
from typing import Any

Body = dict[str, Any]


def text_message(wire: str, role: str, text: str) -> Body:
    """`role` is `user`, `assistant` or `system`."""
    if wire == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    if wire == "bedrock_converse":
        return {"role": role, "content": [{"text": text}]}
    return {"role": role, "content": text}


def step_messages(wire: str, id: str, name: str, given: Body, output: str) -> list[Body]:
    """A call and its result."""
    if wire == "anthropic":
        call: Body = {"type": "tool_use", "id": id, "name": name, "input": given}
        result: Body = {"type": "tool_result", "tool_use_id": id, "content": output}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    if wire == "openai_chat":
        function = {"name": name, "arguments": json.dumps(given)}
        calls = [{"id": id, "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        return [message, {"role": "tool", "tool_call_id": id, "content": output}]
    if wire == "gemini":
        call = {"functionCall": {"name": name, "args": given}}
        result = {"functionResponse": {"name": name, "response": {"output": output}}}
        return [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    if wire == "bedrock_converse":
        call = {"toolUse": {"toolUseId": id, "name": name, "input": given}}
        result = {"toolResult": {"toolUseId": id, "content": [{"text": output}]}}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    call = {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(given)}
    return [call, {"type": "function_call_output", "call_id": id, "output": output}]
