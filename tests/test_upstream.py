"""The scripted upstream over a real socket: every wire, streaming and not, refusing and failing as providers do."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from upstream.check import RULES, refusals_bytes
from upstream.encoding import LARGEST_BODY
from upstream.finding import Body, Json
from upstream.script import Cut, Failure, Part, Say, Think, Turn, Use
from upstream.server import PATIENCE, Upstream

PATHS = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions", "openai_responses": "/v1/responses"}
GEMINI = "/v1beta/models/gemini-3-pro-preview:{method}"
SAID = "I'll read it: 文件。" * 9
TURN: list[Part] = [
    Think("先想一想 🙂"),
    Say(SAID),
    Use("Read", {"path": "src/表格.ts", "n": [1, 2]}),
    Use("Bash", {}),
]


def ask(wire: str, words: str = "go", **more: Json) -> Body:
    if wire == "openai_responses":
        return {"model": "gpt-5", "input": [{"type": "message", "role": "user", "content": words}], **more}
    model = "claude-opus-5-5" if wire == "anthropic" else "deepseek-reasoner"
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": words}], **more}


@contextmanager
def connected(upstream: Upstream) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=120)
    try:
        yield connection
    finally:
        connection.close()


def post(upstream: Upstream, path: str, body: Body | bytes, **headers: str) -> tuple[int, bytes]:
    with connected(upstream) as connection:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, raw, {"content-type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read()


def posted(upstream: Upstream, path: str, body: Body | bytes, **headers: str) -> tuple[int, Body]:
    status, raw = post(upstream, path, body, **headers)
    return status, json.loads(raw)


def events(raw: bytes) -> list[Json]:
    """`data:` of each event, as the grammar has it; the terminal `[DONE]` stays a string."""
    data = [event.split(b"data: ", 1)[1].decode() for event in raw.split(b"\n\n") if event]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


@pytest.mark.parametrize("wire", PATHS)
def test_a_scripted_turn_is_answered_and_remembered(wire: str) -> None:
    with Upstream([TURN]) as upstream:
        status, answer = posted(upstream, PATHS[wire], ask(wire))
        again = posted(upstream, PATHS[wire], ask(wire))[1]

    assert status == 200
    assert "先想一想" not in json.dumps(again, ensure_ascii=False)
    assert upstream.requests[0].response == answer
    assert upstream.requests[0].raw == json.dumps(ask(wire)).encode()
    assert upstream.requests[0].parsed == ask(wire)
    usage = upstream.requests[0].usage
    assert usage is not None
    assert usage.prompt == answer["usage"].get("prompt_tokens", answer["usage"].get("input_tokens")) > 0


def test_anthropics_stream_adds_up_to_its_answer() -> None:
    with Upstream([TURN, TURN]) as upstream:
        seen = events(post(upstream, "/v1/messages", ask("anthropic", stream=True))[1])
    answer, blocks = upstream.requests[0].response, list[Body]()
    for event in seen:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
            name = field.get(delta["type"], "json")
            blocks[event["index"]][name] += delta.get(name, delta.get("partial_json"))
    for block in blocks:
        spelled = block.pop("json")
        block.update({"input": json.loads(spelled)} if spelled else {})

    assert blocks == answer["content"]
    assert [seen[0]["type"], seen[-2]["type"], seen[-1]["type"]] == ["message_start", "message_delta", "message_stop"]
    assert seen[-2]["usage"] == answer["usage"]
    assert seen[-2]["delta"]["stop_reason"] == "tool_use"


def test_chats_stream_adds_up_to_its_answer_and_names_a_call_once() -> None:
    options: Body = {"stream": True, "stream_options": {"include_usage": True}}
    with Upstream([TURN]) as upstream:
        *chunks, done = events(post(upstream, "/v1/chat/completions", ask("openai_chat", **options))[1])
    message = upstream.requests[0].response["choices"][0]["message"]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]

    assert done == "[DONE]"
    assert "".join(delta.get("content") or "" for delta in deltas) == message["content"]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == message["reasoning_content"]
    assert [call["id"] for call in calls if "id" in call] == [call["id"] for call in message["tool_calls"]]
    for at, whole in enumerate(message["tool_calls"]):
        spelled = "".join(call["function"]["arguments"] for call in calls if call["index"] == at)
        assert spelled == whole["function"]["arguments"]
    assert chunks[-1] == {**chunks[-1], "choices": [], "usage": upstream.requests[0].response["usage"]}


def test_responses_stream_is_numbered_and_ends_once() -> None:
    turn: list[Part] = [*TURN, Use("apply_patch", "*** Begin Patch")]
    with Upstream([turn]) as upstream:
        seen = events(post(upstream, "/v1/responses", ask("openai_responses", stream=True))[1])
    answer = upstream.requests[0].response
    done = [event["item"] for event in seen if event["type"] == "response.output_item.done"]
    spelled = [event["delta"] for event in seen if event["type"].endswith(".delta")]

    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert seen[-1] == {"type": "response.completed", "response": answer, "sequence_number": len(seen) - 1}
    assert done == answer["output"]
    assert [item["type"] for item in done] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "custom_tool_call",
    ]
    assert "".join(spelled).startswith(SAID)
    assert "".join(spelled).endswith("*** Begin Patch")


@pytest.mark.parametrize(
    ("wire", "body", "text", "code"),
    [
        ("anthropic", ask("anthropic", ""), "messages.0: all messages must have non-empty content", None),
        ("openai_chat", {"model": "m", "messages": [{"role": "assistant", "tool_calls": []}]}, "", "empty_array"),
        (
            "openai_responses",
            {"model": "m", "input": [{"type": "function_call", "call_id": "c" * 65}]},
            "No tool",
            None,
        ),
    ],
)
def test_a_refusal_has_the_providers_envelope(wire: str, body: Body, text: str, code: str | None) -> None:
    with Upstream(["never said"]) as upstream:
        status, answer = posted(upstream, PATHS[wire], body)
        kept = posted(upstream, PATHS[wire], ask(wire))[1]

    assert status == 400
    assert text in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer.get("type") == ("error" if wire == "anthropic" else None)
    assert answer["error"].get("code") == code
    assert upstream.requests[0].refused[0].rule in RULES[wire]  # type: ignore[index]
    assert upstream.requests[0].usage is None
    assert "never said" in json.dumps(kept), "a refused request must not use up the script"


OVERFLOW = [
    ("anthropic", "prompt is too long: {} tokens > 100 maximum", None),
    (
        "openai_chat",
        "This model's maximum context length is 100 tokens. However, your messages resulted in {} tokens. "
        "Please reduce the length of the messages.",
        "context_length_exceeded",
    ),
    (
        "openai_responses",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "context_length_exceeded",
    ),
]


@pytest.mark.parametrize(("wire", "text", "code"), OVERFLOW)
def test_a_request_that_does_not_fit_is_refused_in_that_providers_words(wire: str, text: str, code: str | None) -> None:
    """Thirty characters of frame on Anthropic's wire, 28 on Chat's: 330 letters are 120 and 119 tokens."""
    tokens = {"anthropic": 120, "openai_chat": 119}.get(wire)
    with Upstream(window=100) as upstream:
        status, answer = posted(upstream, PATHS[wire], ask(wire, "a" * 330))
        assert posted(upstream, PATHS[wire], ask(wire, "a"))[0] == 200

    assert status == 400
    assert answer["error"]["message"] == text.format(tokens)
    assert answer["error"].get("code") == code


def test_an_older_model_also_counts_the_answer_it_was_promised() -> None:
    with Upstream(window=100) as upstream:
        status, answer = posted(upstream, "/v1/messages", {**ask("anthropic", "a" * 120), "model": "claude-sonnet-4-5"})

    assert status == 400
    assert answer["error"]["message"] == (
        "input length and `max_tokens` exceed context limit: 50 + 64 > 100, "
        "decrease input length or `max_tokens` and try again"
    )


def test_counting_neither_bills_nor_plays_nor_overflows() -> None:
    with Upstream(["said"], window=10) as upstream:
        counted = posted(upstream, "/v1/messages/count_tokens?beta=true", ask("anthropic", "a" * 330))

    assert counted == (200, {"input_tokens": 120})
    assert upstream.requests[0].usage is None


def test_the_second_request_of_a_marked_session_reads_what_the_first_wrote() -> None:
    """4096 tokens is the minimum of a model nobody documented: 12288 characters, 30 of them frame."""
    block = {"type": "text", "text": "a" * 12258, "cache_control": {"type": "ephemeral"}}
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
    now = [0.0]
    with Upstream(clock=lambda: now[0]) as upstream:
        usages = [posted(upstream, "/v1/messages", body)[1]["usage"] for now[0] in (0.0, 299.0, 700.0)]

    assert [usage["cache_creation_input_tokens"] for usage in usages] == [4096, 0, 4096]
    assert [usage["cache_read_input_tokens"] for usage in usages] == [0, 4096, 0]
    assert usages[0]["cache_creation"] == {"ephemeral_5m_input_tokens": 4096, "ephemeral_1h_input_tokens": 0}


def test_a_stored_response_can_be_continued_and_an_unknown_one_cannot() -> None:
    with Upstream([[Use("shell", {})]]) as upstream:
        first = posted(upstream, "/v1/responses", ask("openai_responses", "a" * 60))[1]
        output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "ok"}
        going_on = {"model": "gpt-5", "input": [output], "previous_response_id": first["id"]}
        status, second = posted(upstream, "/v1/responses", going_on)
        refused = posted(upstream, "/v1/responses", {**going_on, "previous_response_id": "resp_x"})

    assert status == 200
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert refused[0] == 400
    assert refused[1]["error"]["message"] == "Previous response with id 'resp_x' not found."


@pytest.mark.parametrize("query", ["?alt=sse", "?key=k"], ids=["events", "array"])
def test_geminis_stream_adds_up_to_its_answer(query: str) -> None:
    """As events, or as one JSON array."""
    body = {"contents": [{"role": "user", "parts": [{"text": "go"}]}]}
    with Upstream([TURN, TURN]) as upstream:
        status, raw = post(upstream, GEMINI.format(method="streamGenerateContent") + query, body)
        whole = posted(upstream, GEMINI.format(method="generateContent"), body)[1]
    answer = upstream.requests[0].response
    chunks = events(raw) if query == "?alt=sse" else json.loads(raw)
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]

    assert status == 200
    assert upstream.requests[0].parsed["model"] == "gemini-3-pro-preview", "the path says it"
    assert "".join(part["text"] for part in parts if "text" in part) == SAID
    calls = [part for part in parts if "functionCall" in part]
    assert calls == [part for part in answer["candidates"][0]["content"]["parts"] if "functionCall" in part]
    assert ["thoughtSignature" in part for part in calls] == [True, False]
    assert chunks[-1]["usageMetadata"] == answer["usageMetadata"]
    assert [chunk["candidates"][0].get("finishReason") for chunk in chunks][-2:] == [None, "STOP"]
    assert whole.keys() == answer.keys()


def test_gemini_refuses_and_counts_in_googles_form() -> None:
    body = {"contents": [{"role": "model", "parts": [{"text": "hi"}]}]}
    with Upstream(window=50) as upstream:
        status, refused = posted(upstream, GEMINI.format(method="generateContent"), body)
        long = {"contents": [{"role": "user", "parts": [{"text": "go " * 100}]}]}
        too_long = posted(upstream, GEMINI.format(method="generateContent"), long)
        counted = posted(upstream, GEMINI.format(method="countTokens"), long)

    assert (status, refused["error"]["code"], refused["error"]["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert "exceeds the maximum number of tokens allowed (50)." in too_long[1]["error"]["message"]
    assert counted[0] == 200
    assert counted[1]["totalTokens"] > 50


@pytest.mark.parametrize("wire", PATHS)
def test_the_script_may_fail_and_cut_streams(wire: str) -> None:
    script: list[Turn] = [
        Failure(status=529),
        Failure(in_stream=True, message="mid", code="x"),
        Cut([Say("a" * 99)], 4),
    ]
    with Upstream(script) as upstream:
        overloaded = post(upstream, PATHS[wire], ask(wire))[0]
        broken = post(upstream, PATHS[wire], ask(wire, stream=True))
        cut = events(post(upstream, PATHS[wire], ask(wire, stream=True))[1])

    assert overloaded == 529
    assert broken[0] == 200
    assert "mid" in json.dumps(events(broken[1])[-1])
    assert len(cut) == 4
    assert "[DONE]" not in cut
    assert {"message_stop", "response.completed"}.isdisjoint(event.get("type") for event in cut)


def test_a_script_may_be_a_function_of_the_request() -> None:
    with Upstream(lambda body: body["messages"][-1]["content"].upper()) as upstream:
        answer = posted(upstream, "/v1/messages", ask("anthropic", "echo"))[1]

    assert answer["content"] == [{"type": "text", "text": "ECHO"}]


def test_the_beta_header_is_read() -> None:
    body = ask("anthropic", context_management={"edits": []})
    with Upstream() as upstream:
        assert posted(upstream, "/v1/messages", body)[0] == 400
        header = {"anthropic-beta": "other-1, context-management-2025-06-27"}
        assert posted(upstream, "/v1/messages", body, **header)[0] == 200


def test_unknown_paths_and_bodies_without_length_are_refused() -> None:
    with Upstream() as upstream:
        assert post(upstream, "/v2/none", b"{}")[0] == 404
        with connected(upstream) as connection:
            connection.request("POST", "/v1/messages", iter([b"{}"]), {"transfer-encoding": "chunked"})
            assert connection.getresponse().status == 411


def test_no_thread_is_left_behind_by_idle_or_vanished_clients() -> None:
    before = set(threading.enumerate())  # others of this process may end meanwhile
    upstream = Upstream([[Say("a" * 200_000)]] * 3).__enter__()
    with connected(upstream) as idle:
        idle.request("POST", "/v1/messages", json.dumps(ask("anthropic")))
        assert idle.getresponse().read()
        with socket.create_connection(("127.0.0.1", upstream.port)) as silent:
            silent.sendall(b"POST /v1/messages HTTP/1.1\r\ncontent-length: 9\r\n\r\n")
        with connected(upstream) as leaving:
            leaving.request("POST", "/v1/messages", json.dumps(ask("anthropic", stream=True)))
            leaving.getresponse().read(10)
        closing = threading.Thread(target=upstream.__exit__, args=(None, None, None))
        closing.start()
        # Well below what a silent client may hold a thread for: it is hung up on, not waited for.
        closing.join(PATIENCE / 3)
        assert not closing.is_alive()

    assert not set(threading.enumerate()) - before - {closing}
    with pytest.raises(OSError), connected(upstream) as late:
        late.request("GET", "/")


@pytest.mark.parametrize("wire", PATHS)
def test_the_same_turn_sent_twice_has_new_ids(wire: str) -> None:
    with Upstream([TURN, TURN]) as upstream:
        answers = [json.dumps(posted(upstream, PATHS[wire], ask(wire))[1]) for _ in range(2)]
    ids = [set(re.findall(r'"(?:call_)?id": "([^"]+)"', answer)) for answer in answers]

    assert len(ids[0]) >= 3
    assert ids[0].isdisjoint(ids[1])


UTF8 = "The request body is not valid JSON: str is not valid UTF-8: surrogates not allowed: line 1 column 1 (char 0)"
LONE = "The request body is not valid JSON: no low surrogate in string: line 1 column {} (char {})"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"{", "The request body is not valid JSON: "),
        (b"[]", "The request body is not valid JSON: "),
        (b'{"a": "\xed\xa0\xbd"}', UTF8),
        (b'{"a": "\xff"}', UTF8),
        (b'{"a": "\\ud83d"}', LONE.format(8, 7)),
        (b'{"a": "\\ud83dx\\ude00"}', LONE.format(8, 7)),
        (b'{"a": "\\ud83d\\ud83d\\ude00"}', LONE.format(8, 7)),
        (b'{"a": "x\\ude00"}', LONE.format(9, 8)),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bytes_that_are_not_json_are_refused_before_anything_else(raw: bytes, text: str) -> None:
    for wire in PATHS:
        refusals_found = refusals_bytes(wire, raw)
        assert [each.rule for each in refusals_found] == ["A11"]
        assert text in refusals_found[0].message


def test_paired_and_escaped_surrogates_are_fine() -> None:
    for words in (r"\ud83d\ude00", r"\\ud83d", "🙂", r"\n\"\ud83d\ude00\\"):
        raw = f'{{"model": "m", "messages": [{{"role": "user", "content": "{words}"}}]}}'.encode()
        assert refusals_bytes("anthropic", raw) == []


def test_anthropic_refuses_a_body_over_32_megabytes_with_413() -> None:
    frame = json.dumps(ask("anthropic", "")).encode()
    fits = frame.replace(b'""', b'"' + b"a" * (LARGEST_BODY - len(frame)) + b'"')
    with Upstream() as upstream:
        status, answer = posted(upstream, "/v1/messages", fits.replace(b'"aa', b'"aaa'))

    assert (status, answer["error"]["type"]) == (413, "request_too_large")
    assert refusals_bytes("anthropic", fits) == []
    assert refusals_bytes("openai_chat", fits.replace(b'"aa', b'"aaa')) == []
