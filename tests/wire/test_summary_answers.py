"""An answer is read for its words and for how it ended; what is none ends in nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.wire import WIRES
from ebbtide.wire.summary_request import TextAnswer, read_answer

Body = dict[str, Any]


def message(*content: Body, stop: str | None = "end_turn") -> Body:
    return {
        "type": "message",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }


def choice(finish: str | None = "stop", **said: Any) -> Body:
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return {"choices": [{"message": {"role": "assistant", **said}, "finish_reason": finish}], "usage": usage}


def response(*output: Body, status: str = "completed", why: str = "") -> Body:
    usage = {"input_tokens": 7, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 0}}
    return {
        "output": list(output),
        "status": status,
        "incomplete_details": {"reason": why} if why else None,
        "usage": usage,
    }


def spoken(text: str, kind: str = "output_text") -> Body:
    return {"type": "message", "content": [{"type": kind, "text": text, "refusal": text}]}


def candidate(*parts: Body, reason: str | None = "STOP", **more: Any) -> Body:
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 1, "thoughtsTokenCount": 1, "totalTokenCount": 9}
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": reason}], "usageMetadata": counts, **more}


def converse(*content: Body, reason: str | None = "end_turn") -> Body:
    usage = {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9}
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": reason,
        "usage": usage,
    }


TEXT: Body = {"type": "text", "text": "all"}
WORDS: Body = {"text": "all"}
ANSWERS: list[tuple[str, Body, str, str]] = [
    ("anthropic", message({"type": "thinking", "thinking": "hm"}, TEXT, TEXT), "allall", "end"),
    ("anthropic", message(TEXT, stop="stop_sequence"), "all", "end"),
    ("anthropic", message(TEXT, stop="max_tokens"), "all", "length"),
    ("anthropic", message(TEXT, stop="model_context_window_exceeded"), "all", "length"),
    ("anthropic", message(TEXT, stop="refusal"), "all", "refusal"),
    ("anthropic", message(TEXT, {"type": "tool_use"}, stop="tool_use"), "all", "tool"),
    ("anthropic", message(TEXT, {"type": "tool_use"}, stop="end_turn"), "all", "tool"),
    ("anthropic", message(TEXT, {"type": "server_tool_use"}, stop="end_turn"), "all", "tool"),
    ("anthropic", message(TEXT, stop="pause_turn"), "all", "other"),
    ("anthropic", message(TEXT, stop=None), "all", "other"),
    ("openai_chat", choice(content="all", reasoning_content="hm"), "all", "end"),
    ("openai_chat", choice(content=[{"type": "thinking", "thinking": []}, TEXT]), "all", "end"),
    ("openai_chat", choice(content="<think>hm <summary>no</summary></think>\n\nall"), "all", "end"),
    ("openai_chat", choice("length", content="<think>hm"), "", "length"),
    ("openai_chat", choice("EOS", content="all"), "all", "end"),
    ("openai_chat", choice("length", content="all"), "all", "length"),
    ("openai_chat", choice("content_filter", content=None), "", "refusal"),
    ("openai_chat", choice(content=None, refusal="I can't."), "", "refusal"),
    ("openai_chat", choice("tool_calls", content=None, tool_calls=[{"id": "a"}]), "", "tool"),
    ("openai_chat", choice("stop", content="all", tool_calls=[{"id": "a"}]), "all", "tool"),
    ("openai_chat", choice("function_call", content=None, function_call={"name": "f"}), "", "tool"),
    ("openai_chat", choice(None, content="all"), "all", "other"),
    ("openai_responses", response({"type": "reasoning", "summary": []}, spoken("all")), "all", "end"),
    ("openai_responses", response(spoken("all"), status="incomplete", why="max_output_tokens"), "all", "length"),
    ("openai_responses", response(spoken("all"), status="incomplete", why="content_filter"), "all", "refusal"),
    ("openai_responses", response(spoken("no", "refusal")), "", "refusal"),
    ("openai_responses", response(spoken("all"), {"type": "function_call"}), "all", "tool"),
    ("openai_responses", response(spoken("all"), {"type": "web_search_call"}), "all", "tool"),
    ("openai_responses", response(spoken("all"), status="failed"), "all", "other"),
    ("gemini", candidate({"text": "hm", "thought": True}, WORDS, WORDS), "allall", "end"),
    ("gemini", candidate(WORDS, reason="MAX_TOKENS"), "all", "length"),
    ("gemini", candidate(reason="SAFETY"), "", "refusal"),
    ("gemini", candidate(reason="PROHIBITED_CONTENT"), "", "refusal"),
    ("gemini", {**candidate(reason=None), "candidates": [], "promptFeedback": {"blockReason": "OTHER"}}, "", "refusal"),
    ("gemini", candidate(WORDS, {"functionCall": {"name": "f"}}), "all", "tool"),
    ("gemini", candidate(reason="MALFORMED_FUNCTION_CALL"), "", "other"),
    ("gemini", candidate(WORDS, reason=None), "all", "other"),
    ("bedrock_converse", converse({"reasoningContent": {"reasoningText": {"text": "hm"}}}, WORDS, WORDS), "allall", "end"),
    ("bedrock_converse", converse(WORDS, reason="max_tokens"), "all", "length"),
    ("bedrock_converse", converse(WORDS, reason="model_context_window_exceeded"), "all", "length"),
    ("bedrock_converse", converse(WORDS, reason="guardrail_intervened"), "all", "refusal"),
    ("bedrock_converse", converse(reason="content_filtered"), "", "refusal"),
    ("bedrock_converse", converse(WORDS, {"toolUse": {"name": "f"}}, reason="tool_use"), "all", "tool"),
    ("bedrock_converse", converse(WORDS, {"toolUse": {"name": "f"}}), "all", "tool"),
    ("bedrock_converse", converse(WORDS, reason=None), "all", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer", "text", "stopped"), ANSWERS)
def test_an_answer_is_read_for_its_words_and_how_it_ended(name: str, answer: Body, text: str, stopped: str) -> None:
    found = read_answer(WIRES[name], answer)

    assert (found.text, found.stopped) == (text, stopped)
    assert found.usage is not None
    assert (found.usage.prompt, found.usage.output) == (7, 2)


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize(
    "answer", [{}, {"error": "x"}, {"choices": None, "content": 3, "output": [None, {"content": 1}]}]
)
def test_an_unusable_answer_gives_nothing(name: str, answer: Body) -> None:
    assert read_answer(WIRES[name], answer) == TextAnswer(text="", stopped="other", usage=None)
