"""`wrap(google.genai.Client())`: Google's own client before the scripted Gemini server, in a window that is too small."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from functools import partial

import pytest

import ebbtide
from ebbtide.store import MemoryStore
from fronts.sdk.clients import client as sdk_client
from fronts.sdk.test_loops import usage_in
from upstream.prefix import units
from upstream.script import Failure, Say, Think, Use
from upstream.server import Upstream

genai = pytest.importorskip("google.genai")
types = genai.types

WINDOW = 12_000
MODEL = "gemini-3-pro-preview"
SYSTEM = "You are a careful engineer. Read before you write. " * 20
CALLS = 44
RECALL = Use("ebb_recall", {"query": "old server port"})
SECRET = "the port of the old server was 8123"


def read(path: str) -> str:
    """Read a file."""
    return f"{path}: def step(queue, lock): return queue.take()\n" * 40


client = partial(sdk_client, "gemini")


def vertex(upstream):
    from google.oauth2.credentials import Credentials

    return client(
        upstream, api_key=None, vertexai=True, project="p1", location="r1", credentials=Credentials("a-token")
    )


def script(count: int = CALLS):
    turns = [[Think(f"thought {n}"), Say(f"step {n}"), Use("read", {"path": f"src/f{n}.py"})] for n in range(count)]
    return [*turns, "Done."]


def config(**more):
    no_afc = types.AutomaticFunctionCallingConfig(disable=True)
    return types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[read], max_output_tokens=2_000, automatic_function_calling=no_afc, **more
    )


def user(text: str):
    return types.Content(role="user", parts=[types.Part(text=text)])


def results(content) -> list:
    """The contents that follow an answer: the results of its calls."""
    calls = [part.function_call for part in content.parts or [] if part.function_call]
    parts = [
        types.Part(
            function_response=types.FunctionResponse(id=call.id, name=call.name, response={"out": read(**call.args)})
        )
        for call in calls
    ]
    return [types.Content(role="user", parts=parts)] if parts else []


def joined(chunks) -> object:
    """The content of a stream, as an agent puts it together."""
    parts = [part for chunk in chunks for part in (chunk.candidates[0].content.parts or [])] if chunks else []
    return types.Content(role="model", parts=[part for part in parts if part.text != "" or part.function_call])


def whole(wrapped, history):
    response = wrapped.models.generate_content(model=MODEL, contents=history, config=config())
    return response.candidates[0].content, response._ebbtide


def stream(wrapped, history):
    chunks = list(wrapped.models.generate_content_stream(model=MODEL, contents=history, config=config()))
    return joined(chunks), chunks[-1]._ebbtide


async def awaited(wrapped, history):
    response = await wrapped.aio.models.generate_content(model=MODEL, contents=history, config=config())
    return response.candidates[0].content, response._ebbtide


async def awaited_stream(wrapped, history):
    stream = await wrapped.aio.models.generate_content_stream(model=MODEL, contents=history, config=config())
    chunks = [chunk async for chunk in stream]
    return joined(chunks), chunks[-1]._ebbtide


WAYS = pytest.mark.parametrize("way", [whole, stream, awaited, awaited_stream], ids=lambda way: way.__name__)


async def ask(way, wrapped, history):
    result = way(wrapped, history)
    content, report = await result if asyncio.iscoroutine(result) else result
    history += [content, *results(content)]
    return report


def check(upstream, reports) -> None:
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    assert sum(bool(report.edits) for report in reports) >= 2, "the window was passed only once"
    sent = [[unit.text for unit in units("gemini", exchange.parsed)] for exchange in upstream.requests]
    assert len(sent) == len(reports)
    for n in range(1, len(sent)):
        if not reports[n].edits:
            assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} does not extend the one before"


@pytest.mark.parametrize("make", [client, vertex], ids=["gemini", "vertex"])
@WAYS
async def test_a_long_loop_is_never_refused(way, make, tmp_path):
    reports, history = [], [user("Read them all.")]
    with Upstream(script(), window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(make(upstream), window=WINDOW, store=tmp_path, durable=False)
        for _ in range(CALLS + 1):
            reports.append(await ask(way, wrapped, history))

    check(upstream, reports)
    assert history[-1].parts[-1].text == "Done."
    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
def test_a_chat_that_calls_functions_by_itself_is_never_refused(streams):
    """Automatic function calling: the SDK runs the function and asks again."""
    reports = []
    more = {"automatic_function_calling": types.AutomaticFunctionCallingConfig(maximum_remote_calls=60)}
    with Upstream(script(), window=WINDOW) as upstream:
        listen = lambda session, report: reports.append(report)  # noqa: E731
        wrapped = ebbtide.wrap(client(upstream), window=WINDOW, on_report=listen)
        chat = wrapped.chats.create(
            model=MODEL, config=types.GenerateContentConfig(system_instruction=SYSTEM, tools=[read], **more)
        )
        if streams:
            text = "".join(chunk.text or "" for chunk in chat.send_message_stream("Read them all."))
        else:
            text = chat.send_message("Read them all.").text
        assert text.endswith("Done.")
        assert chat.send_message("Thanks.").text

    check(upstream, reports)


async def test_so_is_an_awaited_chat():
    reports = []
    more = {"automatic_function_calling": types.AutomaticFunctionCallingConfig(maximum_remote_calls=60)}
    with Upstream(script(), window=WINDOW) as upstream:
        listen = lambda session, report: reports.append(report)  # noqa: E731
        wrapped = ebbtide.wrap(client(upstream), window=WINDOW, on_report=listen)
        chat = wrapped.aio.chats.create(
            model=MODEL, config=types.GenerateContentConfig(system_instruction=SYSTEM, tools=[read], **more)
        )
        assert (await chat.send_message("Read them all.")).text == "Done."

    check(upstream, reports)


@WAYS
async def test_the_caller_gets_one_answer_without_the_recall(way, tmp_path):
    turns = [[Think("Hm."), Say("Let me see."), RECALL], [Think("Ah."), Say("It was 8123.")], "Bye."]
    history = [user(f"Remember: {SECRET}. Then look.")]
    with Upstream(turns) as upstream:
        wrapped = ebbtide.wrap(client(upstream), recall="tool", store=tmp_path, durable=False, session="one")
        await ask(way, wrapped, history)
        history.append(user("Thanks."))
        await ask(way, wrapped, history)

    answer = history[1].model_dump_json()
    assert "Let me see." in answer
    assert "It was 8123." in answer
    assert "ebb_recall" not in answer
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    first, second, third = [[unit.text for unit in units("gemini", one.parsed)] for one in upstream.requests]
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]


@WAYS
async def test_calls_of_the_callers_own_functions_come_first(way):
    turns = [[Think("Hm."), Say("Both."), RECALL, Use("read", {"path": "src/a.py"})], "It was 8123."]
    history = [user(f"Remember: {SECRET}. Then look.")]
    with Upstream(turns) as upstream:
        wrapped = ebbtide.wrap(client(upstream), recall="tool")
        await ask(way, wrapped, history)
        assert len(upstream.requests) == 1
        await ask(way, wrapped, history)

    assert "ebb_recall" not in history[1].model_dump_json()
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    last = upstream.requests[-1].raw.decode()
    assert "recalled" in last
    assert "def step" in last


@WAYS
async def test_errors_reach_the_caller_as_the_sdks_own(way):
    with Upstream([Failure(status=503), Failure(status=429), "Well."]) as upstream:
        wrapped, history = ebbtide.wrap(client(upstream)), [user("Hello.")]
        for code in (503, 429):
            with pytest.raises(genai.errors.APIError) as caught:
                await ask(way, wrapped, history)
            assert caught.value.code == code
        await ask(way, wrapped, history)

    assert history[-1].parts[0].text == "Well."


def test_a_window_that_is_smaller_than_it_seemed_is_learned():
    yes = types.Content(role="model", parts=[types.Part(text="Yes.")])
    history = []
    for n in range(3):
        history += [user(f"{n}: Mind the gauge of Brest, and leave the offset alone. " * 60), yes]
    with Upstream(["Well."], window=2_000) as upstream:
        wrapped = ebbtide.wrap(client(upstream), window=1_000_000, session="one")
        content, _ = whole(wrapped, [*history, user("Go on.")])
        window = wrapped.ebbtide.context().window

    assert content.parts[0].text == "Well."
    assert [exchange.status for exchange in upstream.requests] == [400, 200]
    assert window == 2_000


def test_a_request_that_fits_and_every_other_method_is_sent_as_it_is():
    with Upstream(["Well.", "Well."]) as upstream:
        raw = client(upstream)
        wrapped = ebbtide.wrap(raw)
        for one in (raw, wrapped):
            one.models.generate_content(model=MODEL, contents="Schöne Grüße 🙂", config={"temperature": 0.5})
        tokens = wrapped.models.count_tokens(model=MODEL, contents="Hello.").total_tokens

    assert tokens
    assert upstream.requests[0].raw == upstream.requests[1].raw


def test_the_wrapped_client_keeps_its_type_and_its_sessions():
    names = []
    with Upstream(["Well."] * 4) as upstream:
        raw = client(upstream)
        wrapped = ebbtide.wrap(raw, on_report=lambda session, report: names.append(session))

        assert isinstance(wrapped, genai.Client)
        assert type(wrapped).__name__ == "Client"
        assert ebbtide.wrap(wrapped) is wrapped
        assert wrapped.vertexai == raw.vertexai
        del raw  # the connections stay open
        with ebbtide.session("nightly"):
            wrapped.models.generate_content(model=MODEL, contents="Hello.")
        wrapped.models.generate_content(model=MODEL, contents="Hello.")
        other = ebbtide.wrap(
            client(upstream, api_key="another"), on_report=lambda session, report: names.append(session)
        )
        other.models.generate_content(model=MODEL, contents="Hello.")

    assert names[0] == "nightly"
    assert names[1] != names[2], "another key is another session"
    assert wrapped.ebbtide.names() == tuple(names[:2])
    assert wrapped.ebbtide.report(session="nightly") is not None


def test_a_model_named_as_summarizer_is_asked_through_the_same_client():
    def said(body):
        if body["model"] == "gemini-2.5-flash":
            return "<summary>\n## Intent\n- The user wants the gauge of Brest minded.\n</summary>"
        return "Well."

    line = "Mind the gauge of Brest, and leave the offset alone. " * 20
    roles = ("user", "model")
    history = [types.Content(role=roles[n % 2], parts=[types.Part(text=f"{n}: {line}")]) for n in range(41)]
    with Upstream(said, window=8_000) as upstream:
        wrapped = ebbtide.wrap(client(upstream), window=8_000, summarizer="gemini-2.5-flash")
        _, report = whole(wrapped, history)

    *questions, request = upstream.requests
    assert questions
    assert {question.parsed["model"] for question in questions} == {"gemini-2.5-flash"}
    assert request.status == 200
    assert "wants the gauge of Brest minded" in json.dumps(request.parsed)
    assert any(edit.by == "summarize" for edit in report.edits)


@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize("keeps_files", [False, True], ids=["memory", "directory"])
async def test_what_left_is_found_read_and_taken_back_through_the_client(is_awaited, keeps_files, tmp_path):
    """With a store in memory too, and through both sides of Google's client."""
    history, way = [user("Read them all.")], awaited if is_awaited else whole
    store = tmp_path if keeps_files else MemoryStore()
    with Upstream(script(), window=WINDOW) as upstream:
        wrapped = ebbtide.wrap(client(upstream), window=WINDOW, store=store, durable=False)
        for _ in range(20):
            last = await ask(way, wrapped, history)
        sessions = (wrapped.aio if is_awaited else wrapped).ebbtide

        assert sessions.report() is last
        edits = sessions.edits()
        hit = sessions.recall("src/f0.py")[0]
        assert "src/f0.py" in sessions.read(hit.handle).text
        undone = sessions.undo()
        assert undone
        assert len(sessions.edits()) == len(edits) - len(undone)
        await ask(way, wrapped, history)

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []


@WAYS
async def test_a_session_that_moves_to_another_host_leaves_its_signatures_behind(way, tmp_path):
    """Vertex refuses what AI Studio signed: once, and the session goes on with signatures of its own (G6)."""
    history, store = [user("Read them all.")], MemoryStore()
    refusal = Failure(status=400, message="Corrupted thought signature.")
    with Upstream(script(4)) as studio, Upstream([refusal, *script(9)[5:]]) as other:
        first, second = (
            ebbtide.wrap(made, session="one", store=store, window=100_000) for made in (client(studio), vertex(other))
        )
        for _ in range(3):
            await ask(way, first, history)
        foreign = signatures(history)
        for _ in range(4):
            await ask(way, second, history)

    assert foreign
    assert [exchange.status for exchange in other.requests] == [400, 200, 200, 200, 200]
    assert [exchange.refused for exchange in other.requests[1:] if exchange.refused] == []
    sent = [[unit.text for unit in units("gemini", exchange.parsed)] for exchange in other.requests[1:]]
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before
    kept = set(re.findall(r'"thoughtSignature": ?"([^"]+)"', other.requests[-1].raw.decode()))
    assert not kept & foreign
    assert "skip_thought_signature_validator" in kept
    assert len(kept) > 1, "what this host signed stays"


def signatures(history) -> set[str]:
    """As the SDK writes them."""
    whole = "".join(content.model_dump_json(by_alias=True) for content in history)
    return set(re.findall(r'"thoughtSignature":"([^"]+)"', whole))
