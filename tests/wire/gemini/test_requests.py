"""Requests that we write for the Gemini API: paths, questions, limits and tools."""

from __future__ import annotations

import pytest

from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.wire import WIRES
from ebbtide.wire.recall_tools import with_recall_tools
from ebbtide.wire.requests import THINKING_ROOM

WIRE = WIRES["gemini"]
REQUESTS = WIRE.requests
GO = {"role": "user", "parts": [{"text": "go"}]}
READ = {"name": "read", "parameters": {"type": "object"}}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}, {"functionCall": {"name": "read"}}]}
ANSWER = {"functionResponse": {"name": "read", "response": {"output": "ok"}}}


@pytest.mark.parametrize(
    ("path", "model", "streams"),
    [
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", False),
        ("/v1beta/models/gemini-3-pro-preview:streamGenerateContent", "gemini-3-pro-preview", True),
        ("/v1/projects/p/locations/global/publishers/google/models/gemini-2.5-flash:streamGenerateContent", "gemini-2.5-flash", True),
        ("/v1beta/tunedModels/mine-1:generateContent", "mine-1", False),
    ],
)  # fmt: skip
def test_the_path_says_model_and_stream(path, model, streams):
    assert REQUESTS.model(path, {}) == model
    assert REQUESTS.wants_stream(path, {}) is streams
    assert path.endswith(tuple(REQUESTS.routes))


def test_a_question_asks_for_words():
    settings = {"responseMimeType": "application/json", "responseSchema": {}, "stopSequences": ["x"], "temperature": 1}
    body = {
        "contents": [GO],
        "generationConfig": settings,
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "tools": [{"functionDeclarations": [READ]}],
    }
    question = REQUESTS.prepare_question(body)

    assert question == {"contents": [GO], "generationConfig": {"temperature": 1}, "tools": body["tools"]}
    auto = {"contents": [GO], "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}
    assert REQUESTS.prepare_question(auto) == auto
    snake = {"contents": [GO], "config": {"tool_config": {"function_calling_config": {"mode": "ANY"}}, "seed": 1}}
    assert REQUESTS.prepare_question(snake) == {"contents": [GO], "config": {}}


def test_a_limit_is_written_where_the_request_has_its_settings():
    assert REQUESTS.limit_output({}, 9) == {"generationConfig": {"maxOutputTokens": 9}}
    camel = REQUESTS.limit_output({"generationConfig": {"maxOutputTokens": 1, "topK": 2}}, 9)
    assert camel == {"generationConfig": {"topK": 2, "maxOutputTokens": 9}}
    snake = REQUESTS.limit_output({"generation_config": {"max_output_tokens": 1}}, 9)
    assert snake == {"generation_config": {"max_output_tokens": 9}}
    assert REQUESTS.limit_output({"config": {"temperature": 1}}, 9) == {
        "config": {"temperature": 1, "max_output_tokens": 9}
    }


def test_thinking_has_room_unless_it_is_switched_off():
    assert REQUESTS.thinking_room({}) == THINKING_ROOM
    assert REQUESTS.thinking_room({"generationConfig": {"thinkingConfig": {"thinkingBudget": 512}}}) == 512
    assert REQUESTS.thinking_room({"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}) == 0
    assert REQUESTS.thinking_room({"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}) == THINKING_ROOM
    assert REQUESTS.thinking_room({"model": "gemini-2.0-flash"}) == 0


def test_user_text_comes_after_complete_answers_only():
    count = REQUESTS.count_before_user_text
    assert count([GO, CALL]) == 1
    assert count([GO, CALL, {"role": "user", "parts": [ANSWER]}]) == 1
    assert count([GO, CALL, {"role": "user", "parts": [ANSWER, ANSWER]}]) == 3
    assert count([GO]) == 1
    assert count([CALL]) == 0


def test_user_text_joins_the_users_last_content():
    answered = {"role": "function", "parts": [ANSWER]}
    assert REQUESTS.add_user_text({"contents": [GO, answered]}, "and?")[-1] == {
        "role": "user",
        "parts": [ANSWER, {"text": "and?"}],
    }
    said = {"role": "model", "parts": [{"text": "done"}]}
    assert REQUESTS.add_user_text({"contents": [GO, said]}, "and?") == [
        GO,
        said,
        {"role": "user", "parts": [{"text": "and?"}]},
    ]


@pytest.mark.parametrize("key", ["functionDeclarations", "function_declarations"])
def test_recall_tools_join_the_clients_own_functions(key):
    """The API takes one list of functions."""
    body = {"contents": [GO], "tools": [{"googleSearch": {}}, {key: [READ]}]}

    added = with_recall_tools(WIRE, body)

    assert [list(tool) for tool in added["tools"]] == [["googleSearch"], [key]]
    assert REQUESTS.tool_names(added["tools"]) == ["googleSearch", "read", *RECALL_TOOLS]
    assert "additionalProperties" not in str(added)
    assert body["tools"][1][key] == [READ]


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"googleSearch": {}}]},
        {"tools": [{"functionDeclarations": [READ]}], "cachedContent": "cachedContents/1"},
        {"tools": [{"functionDeclarations": [READ]}], "generationConfig": {"candidateCount": 2}},
        {"tools": []},
    ],
    ids=["no functions", "cached", "several answers", "no tools"],
)
def test_recall_tools_are_not_added_where_the_api_takes_none(body):
    assert with_recall_tools(WIRE, {"contents": [GO], **body}) is None
