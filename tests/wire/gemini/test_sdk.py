"""Real types and the real client of `google-genai`. Skipped where it is not installed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ebbtide
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES
from ebbtide.wire.validity import violations
from runtime.sessions import Clock
from upstream.script import Part, Say, Use
from upstream.server import Upstream

types = pytest.importorskip("google.genai.types")
genai = pytest.importorskip("google.genai")

MODEL = "gemini-3-pro-preview"
LARGE = "the gauge reads 7 over datum\n" * 12_000


def reply(signature: str = "c2lnbmVkK3BhcnQv") -> Any:
    """As the API spells it: a signature in the standard alphabet of base64."""
    parts = [
        {"text": "I look."},
        {"functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}}, "thoughtSignature": signature},
        {"functionCall": {"id": "c2", "name": "read", "args": {"path": "b"}}},
    ]
    counts = {"promptTokenCount": 40, "candidatesTokenCount": 9, "thoughtsTokenCount": 100, "totalTokenCount": 149}
    response = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return types.GenerateContentResponse.model_validate({**response, "usageMetadata": counts})


def responses(*texts: str) -> Any:
    parts = [types.Part.from_function_response(name="read", response={"output": text}) for text in texts]
    return types.Content(role="user", parts=parts)


def test_contents_are_read_and_returned_as_themselves():
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="read")])],
        max_output_tokens=500,
    )
    context = ebbtide.Context(window=60_000)
    first = types.Content(role="user", parts=[types.Part(text="hi")])
    body = {"model": MODEL, "contents": [first], "config": config}
    assert context.prepare(body).body is body
    answer = reply()
    context.record(answer)
    said = answer.candidates[0].content

    ready = context.prepare({**body, "contents": [first, said, responses(LARGE, "small")]})

    assert ready.report.edits
    assert ready.report.repairs == ()
    contents = ready.body["contents"]
    assert contents[0] is first
    assert contents[1] is said
    assert ready.body["config"] is config
    cleared = [types.Part.model_validate(part) for part in contents[2]["parts"]]
    assert "ebb:" in cleared[0].function_response.response["output"]
    assert cleared[1].function_response.response == {"output": "small"}


def test_the_reply_in_the_log_is_the_one_that_the_client_sends_back():
    """The SDK writes signatures in the other alphabet of base64: the items are the same."""
    store = MemoryStore()
    context = ebbtide.Context(window=60_000, store=store)
    body = {"model": MODEL, "contents": [types.Content(role="user", parts=[types.Part(text="hi")])]}
    context.prepare(body)
    answer = reply("ab+/cd+/ab+/")
    context.record(json.loads(answer.model_dump_json(by_alias=True, exclude_unset=True)))
    rows = [record for record in store.peek("default").read().records if record.get("ebbids")]

    context.prepare({**body, "contents": [*body["contents"], answer.candidates[0].content, responses("x", "y")]})

    after = [record for record in store.peek("default").read().records if record.get("ebbids")]
    assert len(after) == len(rows) + 1, "only the responses are new"


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_the_real_client_works_forty_steps_in_a_small_window(streams: bool) -> None:
    """It keeps its own history of objects. Every request is checked by the provider's own reading of the rules."""
    steps = iter(range(100))

    def script(_: Any) -> list[Part]:
        n = next(steps)
        if n >= 44:
            return [Say("Done.")]
        return [Say(f"step {n}"), *(Use("read", {"path": f"src/f{n}_{at}.py"}) for at in range(1 + (n % 4 == 0)))]

    edited = []
    with Upstream(script, window=16_000, clock=Clock()) as upstream:
        client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=upstream.url))
        context = ebbtide.Context(window=16_000, model=MODEL)
        read = types.FunctionDeclaration(name="read", parameters_json_schema={"type": "object"})
        config = types.GenerateContentConfig(
            system_instruction="You are careful.", tools=[types.Tool(function_declarations=[read])]
        )
        contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Read all the files.")])]
        while True:
            ready = context.prepare({"model": MODEL, "contents": list(contents), "config": config})
            edited.append(bool(ready.report.edits))
            if streams:
                chunks = list(client.models.generate_content_stream(**ready.body))
                parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
                said = types.Content(role="model", parts=[part for part in parts if part.text != ""])
                ready.record_usage(chunks[-1])
            else:
                answer = client.models.generate_content(**ready.body)
                said = answer.candidates[0].content
                ready.record(answer)
            contents.append(said)
            calls = [part.function_call for part in said.parts if part.function_call]
            if not calls:
                break
            results = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=call.id, name=call.name, response={"result": f"{call.args['path']}: def f(): ...\n" * 60}
                    )
                )
                for call in calls
            ]
            contents.append(types.Content(role="user", parts=results))

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    assert len(upstream.requests) == 45
    assert any(edited)
    sent = [exchange.parsed["contents"] for exchange in upstream.requests]
    for n in range(1, len(sent)):
        assert edited[n] or sent[n][: len(sent[n - 1])] == sent[n - 1], "the prefix moved without an edit"
        assert violations(WIRES["gemini"], upstream.requests[n].parsed) == []
