"""What a model answered, as `Conversation` takes it: dicts, objects of SDKs, and what is no reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conversation_replies import WIRES, answered, messages, reply
from ebbtide.assembly import (
    NO_OUTPUT,
    NOT_EXECUTED,
    Conversation,
)
from ebbtide.core.errors import BadConfig, BadRequest
from upstream.check import refusals_bytes


@pytest.mark.parametrize("wire", WIRES)
def test_no_empty_block_and_no_lone_surrogate_is_sent(wire: Any) -> None:
    talk = Conversation(model="m", wire=wire)
    talk.user("broken \ud83d paste")
    talk.assistant(reply(wire, "a", "b", "c"))
    talk.tool_result("a", "")
    talk.tool_result("b", [{"type": "text", "text": " "}])
    talk.tool_result("c", "\udcff")

    request = talk.request()

    assert [content for _, content in answered(request)] == [NO_OUTPUT, NO_OUTPUT, "\ufffd"]
    assert refusals_bytes(wire, json.dumps(request).encode()) == []


def test_an_empty_reply_leaves_no_empty_message() -> None:
    talk = Conversation(model="m")
    talk.user("start")
    talk.assistant({"role": "assistant", "content": [{"type": "text", "text": ""}], "stop_reason": "end_turn"})
    talk.user("hello?")

    assert [message["role"] for message in messages(talk.request())] == ["user", "user"]


class Dumped:
    """Stands for an SDK's object: what it dumps, if asked the way the SDKs ask themselves."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]:
        assert (mode, exclude_unset) == ("json", True)
        return self.value


@pytest.mark.parametrize("wire", WIRES)
def test_an_sdks_object_is_read_as_its_dict(wire: Any) -> None:
    def told(response: object) -> dict[str, Any]:
        talk = Conversation(model="m", wire=wire)
        talk.user("start")
        talk.assistant(response)
        talk.tool_result("a", "one")
        return talk.request()

    assert told(Dumped(reply(wire, "a"))) == told(reply(wire, "a"))


def test_sdk_blocks_inside_a_message_are_read_too() -> None:
    blocks = [Dumped(block) for block in reply("anthropic", "a")["content"]]
    talk = Conversation(model="m")
    talk.user("start")
    talk.assistant({"role": "assistant", "content": blocks})

    assert answered(talk.request()) == [("a", NOT_EXECUTED)]


@pytest.mark.parametrize(
    ("wire", "response"),
    [
        ("anthropic", "words"),
        ("anthropic", {"type": "error"}),
        ("openai_chat", {"role": "user", "content": "x"}),
        ("openai_responses", {"error": {}}),
        ("gemini", {"error": {}}),
        ("gemini", {"role": "user", "parts": [{"text": "x"}]}),
    ],
)
def test_a_value_that_is_not_a_reply_is_refused_with_its_path(wire: Any, response: object) -> None:
    talk = Conversation(model="m", wire=wire)
    talk.user("start")
    with pytest.raises(BadRequest, match=r"^response"):
        talk.assistant(response)


def test_a_chat_reply_keeps_its_refusal_and_drops_null_fields() -> None:
    talk = Conversation(model="m", wire="openai_chat")
    talk.user("start")
    talk.assistant({"role": "assistant", "content": None, "refusal": "no", "tool_calls": [], "audio": None})
    talk.user("please")

    assert messages(talk.request())[1] == {"role": "assistant", "content": None, "refusal": "no"}


def test_each_wire_has_its_own_body() -> None:
    def body(wire: Any, cap: int | None) -> dict[str, Any]:
        talk = Conversation(model="m", system="s", tools=[{"name": "t"}], max_tokens=cap, wire=wire)
        talk.user("hi")
        keys = ("messages", "input", "contents")
        return {key: value for key, value in talk.request().items() if key not in keys}

    head: dict[str, Any] = {"model": "m", "tools": [{"name": "t"}]}
    assert body("anthropic", 9) == {**head, "max_tokens": 9, "system": [{"type": "text", "text": "s"}]}
    assert body("anthropic", None)["max_tokens"] == 4096
    assert body("openai_chat", 9) == {**head, "max_completion_tokens": 9}
    assert body("openai_responses", 9) == {**head, "max_output_tokens": 9, "instructions": "s"}
    assert body("openai_responses", None) == {**head, "instructions": "s"}
    system = {"systemInstruction": {"parts": [{"text": "s"}]}}
    assert body("gemini", 9) == {**head, **system, "generationConfig": {"maxOutputTokens": 9}}
    assert body("gemini", None) == {**head, **system}


def test_an_unknown_wire_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadConfig, match="anthropic, openai_chat, openai_responses, gemini"):
        Conversation(model="m", wire="smoke")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "output"),
    [
        ("function_call", "function_call_output"),
        ("custom_tool_call", "custom_tool_call_output"),
        ("local_shell_call", "function_call_output"),
    ],
)
def test_a_responses_output_has_the_kind_its_call_asks_for(kind: str, output: str) -> None:
    talk = Conversation(model="m", wire="openai_responses")
    talk.user("start")
    talk.assistant({"output": [{"type": kind, "call_id": "a"}]})
    talk.tool_result("a", "no such file", is_error=True)

    assert messages(talk.request())[-1] == {"type": output, "call_id": "a", "output": "Error: no such file"}
