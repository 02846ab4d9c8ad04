"""Replies of each wire, and what stands in a request, for tests of `Conversation`."""

from __future__ import annotations

from typing import Any

WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse")


def reply(wire: str, *calls: str, text: str = "ok") -> dict[str, Any]:
    """A model's answer on that wire: some words, and a call for each id."""
    if wire == "anthropic":
        uses = [{"type": "tool_use", "id": id, "name": "read", "input": {}} for id in calls]
        return {"role": "assistant", "content": [{"type": "text", "text": text}, *uses], "stop_reason": "end_turn"}
    if wire == "openai_chat":
        made = [{"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}} for id in calls]
        message = {"role": "assistant", "content": text, "refusal": None, "tool_calls": made}
        return {"choices": [{"message": message}]}
    if wire == "gemini":
        parts = [{"functionCall": {"id": id, "name": "read", "args": {}}} for id in calls]
        content = {"role": "model", "parts": [{"text": text}, *parts]}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}
    if wire == "bedrock_converse":
        uses = [{"toolUse": {"toolUseId": id, "name": "read", "input": {}}} for id in calls]
        return {
            "output": {"message": {"role": "assistant", "content": [{"text": text}, *uses]}},
            "stopReason": "end_turn",
        }
    items = [
        {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "read", "arguments": "{}"} for id in calls
    ]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return {"output": [said, *items]}


def messages(request: dict[str, Any]) -> list[dict[str, Any]]:
    return next(request[key] for key in ("messages", "input", "contents") if request.get(key))


def answered(request: dict[str, Any]) -> list[tuple[str, object]]:
    """(call id, content) of every result in the request, on any wire, in order."""
    found = []
    for message in messages(request):
        if message.get("role") == "tool":
            found.append((message["tool_call_id"], message["content"]))
        if str(message.get("type", "")).endswith("_output"):
            found.append((message["call_id"], message["output"]))
        responses = [part["functionResponse"] for part in message.get("parts", ()) if "functionResponse" in part]
        found += [(one["id"], next(iter(one["response"].values()))) for one in responses]
        if message.get("role") == "user" and isinstance(message.get("content"), list):
            found += [(b["tool_use_id"], b["content"]) for b in message["content"] if b.get("type") == "tool_result"]
            converse = [b["toolResult"] for b in message["content"] if "toolResult" in b]
            found += [(one["toolUseId"], _text_of(one["content"])) for one in converse]
    return found


def _text_of(content: list[dict[str, Any]]) -> object:
    return content[0]["text"] if len(content) == 1 and "text" in content[0] else content


def said(message: dict[str, Any]) -> list[str]:
    return [block["text"] for block in message.get("content", message.get("parts")) if "text" in block]
