"""Every way that the SDKs have of asking a model goes through the gate, and every other call goes by it."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest

import ebbtide
from fronts.sdk.agents import FUNCTION, MODELS, READ, SYSTEM, TOOL
from fronts.sdk.clients import WINDOW, client
from upstream.script import Say, Use
from upstream.server import Upstream

LONG = "a line of the log that nobody needs any more\n" * 2_000
"""About 25,000 tokens, as this provider counts them: more than the window."""


def history(wire: str):
    """A conversation that does not fit, most of it one old result."""
    asked, ended = {"role": "user", "content": "Read the log."}, {"role": "user", "content": "And now?"}
    if wire == "anthropic":
        use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": LONG}
        message = {"role": "assistant", "content": "It is long."}
        return [asked, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}, message, ended]
    if wire == "chat":
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        called = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "c1", "content": LONG}
        return [asked, called, result, {"role": "assistant", "content": "It is long."}, ended]
    if wire == "gemini":
        called = {"role": "model", "parts": [{"function_call": {"name": "read", "args": {}}}]}
        response = {"name": "read", "response": {"output": LONG}}
        result = {"role": "user", "parts": [{"function_response": response}]}
        texts = [("user", "Read the log."), ("model", "It is long."), ("user", "And now?")]
        asked, message, ended = ({"role": role, "parts": [{"text": text}]} for role, text in texts)
        return [asked, called, result, message, ended]
    if wire == "bedrock":
        use = {"toolUse": {"toolUseId": "toolu_1", "name": "read", "input": {}}}
        result = {"toolResult": {"toolUseId": "toolu_1", "content": [{"text": LONG}]}}
        texts = [("user", "Read the log."), ("assistant", "It is long."), ("user", "And now?")]
        asked, message, ended = ({"role": role, "content": [{"text": text}]} for role, text in texts)
        return [asked, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}, message, ended]
    call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": LONG}
    return [asked, call, result, {"role": "assistant", "content": "It is long."}, ended]


MESSAGES = {"model": "claude-sonnet-5", "max_tokens": 500, "system": SYSTEM, "tools": [TOOL]}
MESSAGES["messages"] = history("anthropic")
CHAT = {"model": MODELS["chat"], "messages": history("chat"), "tools": [FUNCTION]}
RESPONSES = {"model": MODELS["responses"], "input": history("responses"), "tools": [READ], "store": False}
DECLARED = [{"function_declarations": [{"name": "read", "parameters": {"type": "OBJECT"}}]}]
GENERATE = {"model": "gemini-2.5-pro", "contents": history("gemini")}
GENERATE["config"] = {"tools": DECLARED, "system_instruction": SYSTEM, "max_output_tokens": 500}
CONVERSE = {"modelId": "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "messages": history("bedrock")}
CONVERSE["toolConfig"] = {"tools": [{"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}]}


def chat_of(c):
    """Google's chat, with all but the last message said before."""
    *earlier, _ = GENERATE["contents"]
    return c.chats.create(model=GENERATE["model"], config=GENERATE["config"], history=earlier)


def helped(stream, final):
    with stream as events:
        return final(events)


def streamed_answer(raw):
    with raw as response:
        return response.parse()


SYNC = {
    "anthropic create": lambda c: c.messages.create(**MESSAGES),
    "anthropic events": lambda c: list(c.messages.create(**MESSAGES, stream=True)),
    "anthropic stream": lambda c: helped(c.messages.stream(**MESSAGES), lambda s: s.get_final_text()),
    "anthropic raw": lambda c: c.messages.with_raw_response.create(**MESSAGES).parse(),
    "anthropic raw events": lambda c: list(c.messages.with_raw_response.create(**MESSAGES, stream=True).parse()),
    "anthropic streamed": lambda c: streamed_answer(c.messages.with_streaming_response.create(**MESSAGES)),
    "anthropic beta": lambda c: c.beta.messages.create(**MESSAGES, betas=["fine-grained-tool-streaming-2025-05-14"]),
    "anthropic extra body": lambda c: c.messages.create(**MESSAGES, extra_body={"metadata": {"user_id": "u"}}),
    "anthropic options": lambda c: c.with_options(timeout=99).messages.create(**MESSAGES),
    "anthropic copy": lambda c: c.copy().copy(max_retries=1).messages.create(**MESSAGES),
    "anthropic post": lambda c: c.post("/v1/messages", cast_to=object, body=MESSAGES),
    "chat create": lambda c: c.chat.completions.create(**CHAT),
    "chat events": lambda c: list(c.chat.completions.create(**CHAT, stream=True)),
    "chat stream": lambda c: helped(c.chat.completions.stream(**CHAT), lambda s: s.get_final_completion()),
    "chat parse": lambda c: c.chat.completions.parse(**CHAT),
    "chat raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT).parse(),
    "chat raw events": lambda c: list(c.chat.completions.with_raw_response.create(**CHAT, stream=True).parse()),
    "chat streamed": lambda c: streamed_answer(c.chat.completions.with_streaming_response.create(**CHAT)),
    "chat extra body": lambda c: c.chat.completions.create(**CHAT, extra_body={"top_k": 4}),
    "chat options": lambda c: c.with_options(timeout=99).chat.completions.create(**CHAT),
    "chat copy": lambda c: c.copy().copy(max_retries=1).chat.completions.create(**CHAT),
    "responses create": lambda c: c.responses.create(**RESPONSES),
    "responses events": lambda c: list(c.responses.create(**RESPONSES, stream=True)),
    "responses stream": lambda c: helped(c.responses.stream(**RESPONSES), lambda s: s.get_final_response()),
    "responses parse": lambda c: c.responses.parse(**RESPONSES),
    "responses raw": lambda c: c.responses.with_raw_response.create(**RESPONSES).parse(),
    "gemini create": lambda c: c.models.generate_content(**GENERATE),
    "gemini events": lambda c: list(c.models.generate_content_stream(**GENERATE)),
    "gemini chat": lambda c: chat_of(c).send_message("And now?"),
    "gemini chat events": lambda c: list(chat_of(c).send_message_stream("And now?")),
    "bedrock create": lambda c: c.converse(**CONVERSE),
    "bedrock events": lambda c: list(c.converse_stream(**CONVERSE)["stream"]),
}


@pytest.mark.parametrize("way", SYNC)
def test_every_method_that_calls_a_model_fits_the_window_and_is_reported(way):
    told = []
    with Upstream(["Well."], window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(
            client(way.partition(" ")[0], upstream),
            window=WINDOW,
            on_report=lambda session, report: told.append((session, report)),
        )
        assert SYNC[way](wrapped)

    (exchange,) = upstream.requests
    ((session, report),) = told
    assert exchange.status == 200, exchange.refused
    assert report.edits
    assert session.startswith("lane-")
    assert LONG not in exchange.raw.decode()


async def _events(stream):
    return [event async for event in await stream]


async def _helped(stream, final):
    async with stream as events:
        return await final(events)


ASYNC = {
    "anthropic create": lambda c: c.messages.create(**MESSAGES),
    "anthropic events": lambda c: _events(c.messages.create(**MESSAGES, stream=True)),
    "anthropic stream": lambda c: _helped(c.messages.stream(**MESSAGES), lambda s: s.get_final_text()),
    "anthropic raw": lambda c: c.messages.with_raw_response.create(**MESSAGES),
    "anthropic options": lambda c: c.with_options(timeout=99).messages.create(**MESSAGES),
    "chat create": lambda c: c.chat.completions.create(**CHAT),
    "chat events": lambda c: _events(c.chat.completions.create(**CHAT, stream=True)),
    "chat raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT),
    "chat copy": lambda c: c.copy().chat.completions.create(**CHAT),
    "responses create": lambda c: c.responses.create(**RESPONSES),
    "responses events": lambda c: _events(c.responses.create(**RESPONSES, stream=True)),
    "responses parse": lambda c: c.responses.parse(**RESPONSES),
    "gemini create": lambda c: c.models.generate_content(**GENERATE),
    "gemini events": lambda c: _events(c.models.generate_content_stream(**GENERATE)),
    "gemini chat": lambda c: chat_of(c).send_message("And now?"),
}


@pytest.mark.parametrize("way", ASYNC)
async def test_so_is_every_awaited_call(way):
    told = []
    with Upstream(["Well."], window=WINDOW) as upstream:
        async with ebbtide.wrap(
            client(way.partition(" ")[0], upstream, is_async=True),
            window=WINDOW,
            on_report=lambda session, report: told.append(report),
        ) as wrapped:
            assert await ASYNC[way](wrapped)

    (exchange,) = upstream.requests
    assert exchange.status == 200, exchange.refused
    assert told[0].edits
    assert LONG not in exchange.raw.decode()


CARRIES = {
    "anthropic create": lambda c: c.messages.create(**MESSAGES),
    "anthropic events": lambda c: c.messages.create(**MESSAGES, stream=True),
    "anthropic raw": lambda c: c.messages.with_raw_response.create(**MESSAGES).http_response,
    "chat create": lambda c: c.chat.completions.create(**CHAT),
    "chat events": lambda c: c.chat.completions.create(**CHAT, stream=True),
    "chat raw": lambda c: c.chat.completions.with_raw_response.create(**CHAT),
    "responses create": lambda c: c.responses.create(**RESPONSES),
    "responses raw": lambda c: c.responses.with_raw_response.create(**RESPONSES).http_response,
    "gemini create": lambda c: c.models.generate_content(**GENERATE),
    "gemini events": lambda c: next(iter(c.models.generate_content_stream(**GENERATE))),
    "gemini chat": lambda c: chat_of(c).send_message("And now?"),
}


@pytest.mark.parametrize("way", CARRIES)
def test_the_answer_of_a_call_carries_its_report_and_is_not_changed_by_it(way):
    with Upstream(["Well."], window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(client(way.partition(" ")[0], upstream), window=WINDOW)
        answer = CARRIES[way](wrapped)
        assert answer._ebbtide.saved > 0
        assert "_ebbtide" not in json.dumps(answer.model_dump() if hasattr(answer, "model_dump") else {})


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_wrapped_client_keeps_its_type_and_the_original_is_unchanged(wire, is_async):
    with Upstream() as upstream:
        raw = client(wire, upstream, is_async=is_async)
        kind = type(raw)
        wrapped = ebbtide.wrap(raw)

        assert isinstance(wrapped, kind)
        assert type(wrapped).__name__ == kind.__name__
        assert type(raw) is kind
        assert wrapped is not raw
        assert wrapped.base_url == raw.base_url
        assert wrapped.api_key == raw.api_key


def test_the_client_it_was_made_from_sends_as_before():
    with Upstream(["Well."], window=WINDOW) as upstream:
        raw = client("anthropic", upstream)
        ebbtide.wrap(raw, window=WINDOW)
        with pytest.raises(Exception, match="too long"):
            raw.messages.create(**MESSAGES)


def test_a_body_that_fits_is_sent_with_the_clients_own_bytes():
    small = {"model": "gpt-5", "messages": [{"role": "user", "content": "Schöne Grüße 🙂"}], "seed": 4}
    with Upstream(["Well.", "Well."]) as upstream:
        raw = client("chat", upstream)
        raw.chat.completions.create(**small)
        ebbtide.wrap(raw).chat.completions.create(**small)

    assert upstream.requests[0].raw == upstream.requests[1].raw


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_extra_body_fields_are_sent_with_an_edited_body(wire):
    with Upstream(["Well."], window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream), window=WINDOW)
        ask = wrapped.messages.create if wire == "anthropic" else wrapped.chat.completions.create
        body = MESSAGES if wire == "anthropic" else CHAT
        ask(**body, extra_body={"metadata": {"user_id": "u"}}, extra_headers={"x-mine": "yes"}, extra_query={"q": "1"})

    (exchange,) = upstream.requests
    assert LONG not in exchange.raw.decode()
    assert exchange.parsed["metadata"] == {"user_id": "u"}
    assert exchange.headers["x-mine"] == "yes"


def test_other_endpoints_are_left_alone():
    told = []
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(
            client("anthropic", upstream), window=WINDOW, on_report=lambda session, report: told.append(report)
        )
        counted = {name: value for name, value in MESSAGES.items() if name != "max_tokens"}
        tokens = wrapped.messages.count_tokens(**counted).input_tokens
        with pytest.raises(Exception, match="404"):
            wrapped.messages.batches.create(requests=[{"custom_id": "one", "params": MESSAGES}])

    assert tokens > WINDOW
    assert not told


def test_a_server_side_thread_passes_unchanged():
    with Upstream(["One.", "Two."]) as upstream:
        wrapped = ebbtide.wrap(client("responses", upstream), window=WINDOW)
        first = wrapped.responses.create(model="gpt-5", input="Hello.")
        wrapped.responses.create(model="gpt-5", input="More.", previous_response_id=first.id)

    assert upstream.requests[1].parsed == {"model": "gpt-5", "input": "More.", "previous_response_id": first.id}


def reader(sdk):
    if not hasattr(sdk, "beta_tool"):
        pytest.skip("this version has no tool runner")

    @sdk.beta_tool
    def read(path: str) -> str:
        """Read a file."""
        return f"{path}: def step(queue, lock): return queue.take()\n" * 60

    return read


READING = [[Say(f"step {n}"), Use("read", {"path": f"src/f{n}.py"})] for n in range(40)]


def test_the_tool_runner_runs_forty_tools_in_a_small_window():
    sdk = pytest.importorskip("anthropic")
    reports, read = [], reader(sdk)
    with Upstream([*READING, "Done."], window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(
            client("anthropic", upstream), window=WINDOW, on_report=lambda session, report: reports.append(report)
        )
        run = wrapped.beta.messages.tool_runner
        whole = {"thread": False} if "thread" in inspect.signature(run).parameters else {}
        question = {"role": "user", "content": "Read them all."}
        final = run(model="claude-sonnet-5", max_tokens=1_000, tools=[read], messages=[question], **whole).until_done()

    assert final.content[0].text == "Done."
    assert [exchange.status for exchange in upstream.requests] == [200] * 41
    assert sum(bool(report.edits) for report in reports) >= 2


def test_a_thread_that_the_server_keeps_passes_unchanged():
    """Results stand alone there: their calls are on the server. Taken for a whole conversation they would be broken."""
    part = {"model": "claude-sonnet-5", "max_tokens": 9, "thread": {"type": "continue", "previous_message_id": "msg_1"}}
    part["messages"] = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]}]
    with Upstream(["Well."]) as upstream:
        wrapped = ebbtide.wrap(client("anthropic", upstream))
        with pytest.raises(Exception, match="tool_use"):
            wrapped.post("/v1/messages", cast_to=object, body=part)

    assert upstream.requests[0].parsed == part


@pytest.mark.parametrize("way", ["anthropic create", "chat create", "gemini create"])
def test_answers_of_a_wrapped_client_can_be_copied_and_pickled_as_before(way):
    """Programs keep answers in caches, and send them to other processes."""
    with Upstream(["Well."], window=WINDOW) as upstream:
        got = SYNC[way](ebbtide.wrap(client(way.partition(" ")[0], upstream), window=WINDOW))

    for again in (copy.deepcopy(got), pickle.loads(pickle.dumps(got))):
        assert again == got
        assert again._ebbtide.as_dict() == got._ebbtide.as_dict()


@pytest.mark.parametrize(
    "option", [{"window": "32k"}, {"store": 3}, {"session": 3}, {"recall": "yes"}, {"policy": "nobody"}], ids=str
)
def test_a_wrong_value_is_reported_when_the_client_is_wrapped(option):
    """At the first call nothing of ours may fail: it would pass by untouched, and nobody would know."""
    with Upstream([]) as upstream, pytest.raises(ebbtide.BadConfig):
        ebbtide.wrap(client("anthropic", upstream), **option)
