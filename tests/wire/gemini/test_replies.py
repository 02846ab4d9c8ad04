"""Answers of the Gemini API: usage, streams, answers merged around recall calls, and errors."""

from __future__ import annotations

import json

import pytest

from ebbtide.core.tool_calls import SEARCH_TOOL
from ebbtide.core.types import Usage
from ebbtide.wire import WIRES, detect_response
from ebbtide.wire.gemini.fields import PLACEHOLDER_SIGNATURE
from ebbtide.wire.overflow import find_overflow

REPLIES = WIRES["gemini"].replies
RECALL = {"functionCall": {"id": "r1", "name": SEARCH_TOOL, "args": {"query": "port"}}, "thoughtSignature": "c2ln"}
CALL = {"functionCall": {"name": "read", "args": {}}}


def response(*parts, reason="STOP", **counts):
    usage = {"usageMetadata": {"totalTokenCount": sum(counts.values()), **counts}} if counts else {}
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": reason, "index": 0}], **usage, "responseId": "x"}


def chunk(*parts, reason=None, **counts):
    whole = response(*parts, reason=reason, **counts)
    if reason is None:
        del whole["candidates"][0]["finishReason"]
    return whole


def assembled(*events):
    assembler = REPLIES.stream_assembler()
    texts = [assembler.add(event) for event in events]
    return assembler, "".join(texts)


def test_thoughts_are_output_and_what_googles_tools_read_is_input():
    counts = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 7}
    more = {"thoughtsTokenCount": 20, "toolUsePromptTokenCount": 11}

    assert REPLIES.usage({"usageMetadata": {**counts, **more}}) == Usage(input=51, cache_read=60, output=27)
    snake = {"prompt_token_count": 100, "cached_content_token_count": 60, "candidates_token_count": 7}
    assert REPLIES.usage({"usage_metadata": snake}) == Usage(input=40, cache_read=60, output=7)


@pytest.mark.parametrize("counts", [None, {}, {"promptTokenCount": 0}, {"promptTokenCount": "x"}, 7])
def test_a_bill_without_a_prompt_is_none(counts):
    assert REPLIES.usage({"usageMetadata": counts}) is None


def test_responses_are_recognized():
    assert detect_response(response({"text": "x"})).name == "gemini"


def test_a_stream_joins_texts_and_never_a_signed_part():
    signed = {"text": "so", "thoughtSignature": "c2ln"}
    thought = {"text": "hm", "thought": True}
    assembler, text = assembled(
        chunk(thought), chunk({"text": "a"}), chunk({"text": "b"}), chunk(signed), chunk({"text": "c"}, CALL),
        chunk({"text": ""}, reason="STOP", promptTokenCount=9, candidatesTokenCount=3),
    )  # fmt: skip

    assert assembler.is_complete
    assert text == "absoc"
    answer = assembler.response()
    assert answer["candidates"][0]["content"]["parts"] == [thought, {"text": "ab"}, signed, {"text": "c"}, CALL]
    assert answer["candidates"][0]["finishReason"] == "STOP"
    assert REPLIES.usage(answer) == Usage(input=9, output=3)


def test_a_json_array_of_chunks_adds_up_alike():
    """The form of a stream that was not asked for as events."""
    chunks = [chunk({"text": "a"}), chunk({"text": "b"}, reason="STOP")]
    assembler, _ = assembled(*json.loads(json.dumps(chunks)))

    assert assembler.response()["candidates"][0]["content"]["parts"] == [{"text": "ab"}]


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
        chunk({"functionCall": {"name": "read", "willContinue": True}}),
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}}]},
        chunk("no part"),
    ],
    ids=["error", "arguments in pieces", "several answers", "no part"],
)
def test_a_stream_that_is_not_understood_is_no_answer(event):
    assembler, _ = assembled(chunk({"text": "a"}), event, chunk({"text": "b"}, reason="STOP"))

    assert not assembler.is_complete


def test_a_blocked_prompt_is_a_complete_answer_without_words():
    assembler, _ = assembled({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}})

    assert assembler.is_complete
    assert REPLIES.as_messages(assembler.response()) == []
    assert REPLIES.read_answer(assembler.response()).is_refusal


def test_a_recall_call_is_read_with_its_signature():
    content = REPLIES.response_merger().read(response({"text": "I look."}, RECALL))

    (batch,) = content.recalls
    (call,) = batch.calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("r1", SEARCH_TOOL, {"query": "port"})
    assert call.raw["thoughtSignature"] == "c2ln"
    assert (batch.visible, content.hidden_text) == ([], "I look."), "the text is repeated with the hidden call"
    assert not content.has_client_calls
    assert REPLIES.response_merger().read(response(RECALL, reason="MAX_TOKENS")).recalls == []


def test_two_answers_are_shown_as_one_with_the_output_of_both():
    first = response({"text": "I look. "}, RECALL, promptTokenCount=100, candidatesTokenCount=5, thoughtsTokenCount=7)
    second = response({"text": "It was 8123."}, promptTokenCount=150, candidatesTokenCount=6)

    merged = REPLIES.response_merger().merge([first, second])

    assert merged["candidates"][0]["content"]["parts"] == [{"text": "I look. It was 8123."}]
    assert REPLIES.usage(merged) == Usage(input=150, output=18)
    assert merged["usageMetadata"]["totalTokenCount"] == 168


def test_beside_a_hidden_signed_call_the_clients_own_gets_the_placeholder():
    content = REPLIES.response_merger().read(response(RECALL, CALL))

    signed = {**CALL, "thoughtSignature": PLACEHOLDER_SIGNATURE}
    assert content.has_client_calls
    assert content.recalls[0].visible == [{"role": "model", "parts": [signed]}]


def test_a_streamed_recall_call_is_hidden_and_the_stream_goes_on():
    merger = REPLIES.response_merger()
    first = [
        chunk({"text": "I "}),
        chunk({"text": "look."}, RECALL, reason="STOP", promptTokenCount=9, candidatesTokenCount=4),
    ]
    shown = [merger.convert(event) for event in first]

    assert shown[0] is first[0]
    assert merger.is_hiding
    assert shown[1]["candidates"][0] == {"content": {"role": "model", "parts": [{"text": "look."}]}, "index": 0}
    assert not merger.is_end(first[1]), "it brings words, so the client sees it"

    merger.start_next()
    last = {**chunk({"text": "8123"}, reason="STOP", promptTokenCount=20, candidatesTokenCount=2), "responseId": "y"}
    shown_last = merger.convert(last)
    assert shown_last["responseId"] == "x"
    assert shown_last["usageMetadata"]["candidatesTokenCount"] == 6
    assert not merger.is_hiding


def test_a_chunk_of_nothing_but_a_recall_call_is_the_end_or_nothing():
    merger = REPLIES.response_merger()
    assert merger.convert(chunk(RECALL)) is None
    ending = chunk(RECALL, reason="STOP")
    assert merger.convert(ending)["candidates"][0]["content"]["parts"] == []
    assert merger.is_end(ending)


def test_errors_have_googles_form():
    error = REPLIES.error_body("too long", is_overloaded=False)
    assert error == {"error": {"code": 400, "message": "too long", "status": "INVALID_ARGUMENT"}}
    assert REPLIES.error_body("busy", is_overloaded=True)["error"]["status"] == "UNAVAILABLE"
    assert REPLIES.error_event(error["error"]) == ("", error)


def test_the_overflow_of_both_hosts_is_read():
    studio = "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."
    vertex = "The input token count is 1200000 but model only supports up to 1048576."
    for text in (studio, vertex):
        found = find_overflow(400, {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}})
        assert found is not None
        assert found.limit == 1_048_576
