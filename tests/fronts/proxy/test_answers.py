"""The copy of an answer adds up to the same response, whether its events are parsed singly or joined."""

from __future__ import annotations

import json

import pytest

from ebbtide.fronts.proxy.answers import ObservedResponse, ResponseCopy


def chat_event(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    event = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def anthropic_event(kind: str, padding: str = "", **fields: object) -> bytes:
    data = json.dumps({"type": kind, **fields})[:-1] + padding + "}"
    return f"event: {kind}\ndata: {data}\n\n".encode()


def anthropic_delta(text: str, padding: str = "") -> bytes:
    return anthropic_event("content_block_delta", padding, index=0, delta={"type": "text_delta", "text": text})


USAGE = {"prompt_tokens": 3, "completion_tokens": 4}
TEXTS = ("one ", 'a "quoted" word', "", "\\", 'ends in \\"', "two\n\nlines, é and \U0001f30a", "data: {}", "}")
CHAT = [
    chat_event({"role": "assistant", "content": ""}),
    *(chat_event({"content": text}) for text in TEXTS),
    chat_event({"content": "with a name", "name": "x"}),
    *(chat_event({"content": text}) for text in TEXTS),
    chat_event({"content": "!"}, "stop"),
    chat_event({}, None, usage=USAGE),
    b"data: [DONE]\n\n",
]
FILLED_CHAT = [
    *(chat_event({"content": text}, obfuscation="x" * n).replace(b', "obf', b',"obf') for n, text in enumerate(TEXTS)),
    chat_event({}, "stop", usage=USAGE),
]
REASONING = [
    *(chat_event({"reasoning_content": text}) for text in TEXTS),
    *(chat_event({"content": text}) for text in TEXTS),
    chat_event({}, "stop", usage=USAGE),
]
ANTHROPIC = [
    anthropic_event("message_start", message={"id": "m", "role": "assistant", "usage": {"input_tokens": 3}}),
    anthropic_event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    *(anthropic_delta(text) for text in TEXTS),
    anthropic_event("ping"),
    *(anthropic_delta(text, " " * n) for n, text in enumerate(TEXTS)),
    anthropic_event("content_block_stop", index=0),
    anthropic_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 4}),
    anthropic_event("message_stop"),
]


def read_whole(wire: str, events: list[bytes]) -> ObservedResponse:
    copy = ResponseCopy(wire, "text/event-stream", "")
    copy.feed(b"".join(events))
    return copy.read()


def read_singly(wire: str, events: list[bytes]) -> ObservedResponse:
    """With a comment before each event, which the parser of plain events does not take."""
    return read_whole(wire, [b": comment\n" + event for event in events])


@pytest.mark.parametrize(
    ("wire", "events"),
    [("openai_chat", CHAT), ("openai_chat", FILLED_CHAT), ("openai_chat", REASONING), ("anthropic", ANTHROPIC)],
    ids=["chat", "chat with filler", "reasoning", "anthropic"],
)
def test_joined_text_events_add_up_to_the_same_response(wire: str, events: list[bytes]) -> None:
    expected = read_singly(wire, events)
    assert expected.is_complete
    assert TEXTS[1] in json.loads(json.dumps(str(expected.response)))
    assert read_whole(wire, events) == expected


def test_fields_beside_the_text_are_not_lost() -> None:
    events = [chat_event({"content": text, "refusal": "no "}) for text in ("a", "b")]
    events += [chat_event({"content": "c"}), chat_event({"content": "d", "note": "x"}), chat_event({}, "stop")]
    observed = read_whole("openai_chat", events)
    assert observed == read_singly("openai_chat", events)
    message = observed.response["choices"][0]["message"]  # type: ignore[index]
    assert (message["content"], message["refusal"], message["note"]) == ("abcd", "no no ", "x")
