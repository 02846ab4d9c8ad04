"""Requests that no client should send: every part of a message is in turn something else.

A value stands for a kind of mistake. Most are JSON; some are Python objects that only a program in the same process can
hand in.
"""

from __future__ import annotations

import copy
import datetime
import decimal
from collections.abc import Iterator
from typing import Any, NamedTuple


class Odd(NamedTuple):
    """One request with one odd part."""

    wire: str
    where: str
    kind: str
    body: Any


def cycle() -> Any:
    ring: dict[str, Any] = {"type": "text"}
    ring["text"] = [ring]
    return ring


def nested(depth: int) -> Any:
    whole: Any = "x"
    for n in range(depth):
        whole = [whole] if n % 2 else {"type": whole}
    return whole


class RaisingObject:
    """Raises at whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __hash__(self) -> int:
        raise RuntimeError("not to be hashed")

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


JSON: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "negative": -1,
    "huge": 10**400,
    "fraction": 0.5,
    "empty": "",
    "blank": " \n",
    "nul": "a\0b",
    "surrogate": "half \ud83d",
    "long": "x" * 3_000,
    "list": [],
    "listed": ["x"],
    "listed_number": [1],
    "listed_null": [None],
    "listed_list": [["x"]],
    "object": {},
    "filled": {"a": 1},
    "object_text": {"type": "text", "text": 7},
    "unknown_block": [{"type": "zebra"}],
    "block_of_list": [{"type": ["text"]}],
    "block_of_object": [{"type": {"a": 1}}],
    "deep": nested(60),
    "deeper": nested(900),
}
FOREIGN: dict[str, Any] = {
    "digits": 10**5_000,
    "nan": float("nan"),
    "infinite": float("inf"),
    "bytes": b"x",
    "set": {"x"},
    "tuple": ("x",),
    "type": dict,
    "object": object(),
    "function": nested,
    "moment": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "decimal": decimal.Decimal("1.5"),
    "complex": 1j,
    "iterator": iter(["x"]),
    "number_key": {1: "x", "a": "y"},
    "null_key": {None: "x"},
    "tuple_key": {("a",): "x"},
    "cycle": cycle(),
    "unfriendly": RaisingObject(),
    "bytearray": bytearray(b"x"),
    "abyss": nested(20_000),
}
"""What is no JSON, or what no JSON can be written of."""

_PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
_CALL = {"type": "function", "id": "c1", "function": {"name": "f", "arguments": "{}"}}

BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "claude-sonnet-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": _PNG}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "r"}]},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
                ],
            },
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "next"},
        ],
    },
    "openai_chat": {
        "model": "gpt-5",
        "max_completion_tokens": 100,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                    {"type": "file", "file": {"file_data": "x"}},
                ],
            },
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
            {"role": "assistant", "content": "done", "refusal": None},
            {"role": "user", "content": "next"},
        ],
    },
    "openai_responses": {
        "model": "gpt-5",
        "max_output_tokens": 100,
        "instructions": "be brief",
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "hi"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                ],
            },
            {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "r"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
            {"role": "user", "content": "next"},
        ],
    },
    "gemini": {
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"thinkingBudget": 128}},
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "object"}}]}],
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
            },
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"id": "c1", "name": "f", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"output": "r"}}}]},
            {"role": "model", "parts": [{"text": "done"}]},
            {"role": "user", "parts": [{"text": "next"}]},
        ],
    },
    "bedrock_converse": {
        "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "inferenceConfig": {"maxTokens": 100},
        "system": [{"text": "be brief"}, {"cachePoint": {"type": "default"}}],
        "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]},
        "messages": [
            {
                "role": "user",
                "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"path": "a"}}},
                ],
            },
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "r"}]}}]},
            {"role": "assistant", "content": [{"text": "done"}]},
            {"role": "user", "content": [{"text": "next"}, {"cachePoint": {"type": "default"}}]},
        ],
    },
}


def odd_requests(values: dict[str, Any], bodies: dict[str, dict[str, Any]] = BODIES) -> Iterator[Odd]:
    """Every place in every body with every value."""
    for wire, body in bodies.items():
        for place in _places(body):
            for kind, value in values.items():
                yield Odd(wire, ".".join(map(str, place)), kind, _with(body, place, value))


def _places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if here:
        yield here
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _places(part, (*here, key))


def _with(body: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(body)
    at: Any = made
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return made
