"""`wrap(recall="tool")`: the model looks up what left, and the caller gets one normal answer."""

from __future__ import annotations

import inspect
import json

import pytest

import ebbtide
from ebbtide.core.texts import RECALL_LIMIT
from fronts.sdk import agents
from fronts.sdk.agents import ASYNC, SYNC, Talk
from fronts.sdk.clients import client
from fronts.sdk.test_entry_points import READING, reader
from fronts.sdk.test_loops import WIRES, usage_in, wire_of
from upstream.prefix import units
from upstream.script import Failure, Say, Think, Use
from upstream.server import Upstream

SECRET = "the port of the old server was 8123"
RECALL = Use("ebb_recall", {"query": "old server port"})
READ = Use("read", {"path": "src/a.py"})
AGENTS = pytest.mark.parametrize("agent", [*SYNC, *ASYNC], ids=lambda agent: agent.__name__)


def thought(wire, text):
    return [] if wire == "chat" else [Think(text)]


def new_talk(wire) -> Talk:
    return Talk(wire, history=[{"role": "user", "content": f"Remember: {SECRET}. Then look."}])


async def ask(agent, wrapped, talk) -> list:
    """One call of an agent. Returns what it adds to the history, as plain data."""
    result = agent(wrapped, talk)
    entries, report = await result if inspect.isawaitable(result) else result
    talk.took(entries, report)
    return [entry if isinstance(entry, dict) else entry.model_dump(exclude_none=True) for entry in entries]


def plain(entries) -> str:
    return json.dumps(entries, default=lambda value: value.model_dump(exclude_none=True))


def wrap(agent, upstream, **options):
    raw = client(wire_of(agent), upstream, is_async=inspect.iscoroutinefunction(agent))
    return ebbtide.wrap(raw, recall="tool", **options)


def check(wire, upstream) -> list[str]:
    """Every rule is kept, and each request extends the one before."""
    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    sent = [[unit.text for unit in units(WIRES[wire], exchange.parsed)] for exchange in upstream.requests]
    for n in range(1, len(sent)):
        assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} breaks the prefix"
    return [exchange.raw.decode() for exchange in upstream.requests]


@AGENTS
async def test_the_caller_gets_one_answer_without_the_recall(agent, tmp_path):
    wire = wire_of(agent)
    script = [[*thought(wire, "Hm."), Say("Let me see."), RECALL], [*thought(wire, "Ah."), Say("It was 8123.")], "Bye."]
    with Upstream(script) as upstream:
        wrapped, talk = wrap(agent, upstream, store=tmp_path, durable=False, session="one"), new_talk(wire)
        entries = plain(await ask(agent, wrapped, talk))
        talk.history.append({"role": "user", "content": "Thanks."})
        await ask(agent, wrapped, talk)

    assert "Let me see." in entries
    assert "It was 8123." in entries
    assert "ebb_recall" not in entries
    first, second, third = check(wire, upstream)
    assert "ebb_recall" in first, "the tools were added"
    assert "8123" in second.replace(SECRET, "", 1), "the result came"
    assert "Thanks." in third
    assert usage_in(tmp_path) == [exchange.usage.prompt for exchange in upstream.requests]


@AGENTS
async def test_calls_of_the_callers_own_tools_come_first(agent):
    wire = wire_of(agent)
    script = [[*thought(wire, "Hm."), Say("Both."), RECALL, READ], "It was 8123.", "Bye."]
    with Upstream(script) as upstream:
        wrapped, talk = wrap(agent, upstream), new_talk(wire)
        entries = plain(await ask(agent, wrapped, talk))
        assert len(upstream.requests) == 1
        await ask(agent, wrapped, talk)
        talk.history.append({"role": "user", "content": "Thanks."})
        await ask(agent, wrapped, talk)

    assert "src/a.py" in entries
    assert "ebb_recall" not in entries
    _, second, third = check(wire, upstream)
    for text in (second, third):
        assert "recalled" in text, "the result of the recall"
        assert "def step" in text, "the result of the caller's own tool"


@AGENTS
async def test_the_usage_is_the_last_input_and_all_output(agent):
    wire = wire_of(agent)
    with Upstream([[Say("Let me see."), RECALL], [Say("It was 8123.")]]) as upstream:
        wrapped, talk = wrap(agent, upstream), new_talk(wire)
        seen = {}
        if agent.__name__ == "anthropic_create":
            seen = wrapped.messages.create(**agents.anthropic_request(talk)).usage
            outputs = [one.response["usage"]["output_tokens"] for one in upstream.requests]
            assert seen.output_tokens == sum(outputs)
        elif agent.__name__ == "chat_create":
            seen = wrapped.chat.completions.create(**agents.chat_request(talk)).usage
            outputs = [one.response["usage"]["completion_tokens"] for one in upstream.requests]
            assert seen.completion_tokens == sum(outputs)
            assert seen.prompt_tokens == upstream.requests[-1].usage.prompt
        else:
            await ask(agent, wrapped, talk)

    assert len(upstream.requests) == 2


@AGENTS
async def test_the_rounds_are_bounded(agent):
    with Upstream(lambda body: [Say("Again."), RECALL]) as upstream:
        wrapped, talk = wrap(agent, upstream), new_talk(wire_of(agent))
        entries = plain(await ask(agent, wrapped, talk))

    assert len(upstream.requests) == 6
    assert "ebb_recall" not in entries
    assert RECALL_LIMIT in upstream.requests[-1].raw.decode()


@AGENTS
async def test_a_failure_between_the_rounds_reaches_the_caller_as_the_sdks_error(agent):
    with Upstream([[Say("Let me see."), RECALL], Failure()]) as upstream:
        wrapped, talk = wrap(agent, upstream), new_talk(wire_of(agent))
        with pytest.raises(Exception, match="Overloaded"):
            await ask(agent, wrapped, talk)

    assert len(upstream.requests) == 2


@pytest.mark.parametrize("agent", [agents.anthropic_create, agents.chat_create], ids=lambda agent: agent.__name__)
def test_raw_and_unread_responses_hold_what_the_caller_gets(agent):
    wire = wire_of(agent)
    with Upstream([[Say("One."), RECALL], "Two.", [Say("Three."), RECALL], "Four."]) as upstream:
        wrapped, talk = wrap(agent, upstream), new_talk(wire)
        made = wrapped.messages if wire == "anthropic" else wrapped.chat.completions
        request = agents.anthropic_request(talk) if wire == "anthropic" else agents.chat_request(talk)
        raw = made.with_raw_response.create(**request)
        with made.with_streaming_response.create(**request) as unread:
            unread_text = unread.read().decode()

    assert "Two." in raw.http_response.text
    assert "ebb_recall" not in raw.http_response.text
    assert "Two." in raw.parse().model_dump_json()
    assert "Four." in unread_text
    assert "ebb_recall" not in unread_text


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_a_stream_that_the_caller_leaves_asks_for_nothing_more(wire):
    agent = agents.anthropic_create if wire == "anthropic" else agents.chat_create
    with Upstream([[Say("One."), RECALL], "Two.", "Three."]) as upstream:
        wrapped, talk = wrap(agent, upstream), new_talk(wire)
        made = wrapped.messages if wire == "anthropic" else wrapped.chat.completions
        request = agents.anthropic_request(talk) if wire == "anthropic" else agents.chat_request(talk)
        stream = made.create(**request, stream=True)
        next(iter(stream))
        stream.close()
        assert len(upstream.requests) == 1
        assert made.create(**request)

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []


@AGENTS
async def test_a_long_loop_with_recalls_is_never_refused(agent):
    """Every third answer recalls something, alone or beside the caller's call."""
    wire, count = wire_of(agent), iter(range(10**6))
    window = 10_000 if wire == "responses" else 16_000

    def script(body):
        n = next(count)
        parts = [*thought(wire, f"thought {n}"), Say(f"step {n}")]
        if n % 3 == 0:
            parts.append(Use("ebb_recall", {"query": f"src/f{n - 4}_0.py"}))
        return parts if n % 6 == 0 else [*parts, Use("read", {"path": f"src/f{n}_0.py"})]

    reports = []
    with Upstream(script, window=window) as upstream:
        listen = lambda session, report: reports.append(report)  # noqa: E731
        wrapped, talk = wrap(agent, upstream, window=window, on_report=listen), Talk(wire, ends=False)
        for _ in talk.turns(16):
            assert "ebb_recall" not in plain(await ask(agent, wrapped, talk))

    assert [exchange.refused for exchange in upstream.requests if exchange.refused] == []
    assert len(reports) == len(upstream.requests) > 16
    assert any(report.edits for report in reports)
    sent = [[unit.text for unit in units(WIRES[wire], exchange.parsed)] for exchange in upstream.requests]
    for n in range(1, len(sent)):
        if not reports[n].edits:
            assert sent[n][: len(sent[n - 1])] == sent[n - 1], f"request {n} breaks the prefix"


def test_the_tool_runner_never_sees_a_recall_call():
    sdk = pytest.importorskip("anthropic")
    read = reader(sdk)
    script = [*READING[:3], [Say("Hm."), RECALL], *READING[3:6], [Say("Both."), RECALL, READ], "Done."]
    with Upstream(script, window=16_000) as upstream:
        wrapped = wrap(agents.anthropic_create, upstream, window=16_000)
        run = wrapped.beta.messages.tool_runner
        whole = {"thread": False} if "thread" in inspect.signature(run).parameters else {}
        question = {"role": "user", "content": f"Remember: {SECRET}. Read them all."}
        final = run(model="claude-sonnet-5", max_tokens=1_000, tools=[read], messages=[question], **whole).until_done()

    assert final.content[-1].text == "Done."
    assert [exchange.status for exchange in upstream.requests] == [200] * 9


def test_recall_tools_that_the_caller_added_are_the_callers_to_answer():
    with Upstream([[Say("One."), RECALL], "Two."]) as upstream:
        wrapped = wrap(agents.chat_create, upstream, session="one")
        tools = ebbtide.recall_tools("openai_chat")
        told = wrapped.chat.completions.create(
            model="gpt-5", messages=[{"role": "user", "content": SECRET}], tools=tools
        ).choices[0]

    call = told.message.tool_calls[0].function
    assert call.name == "ebb_recall"
    assert "8123" in wrapped.ebbtide.context().recall_answer(call.name, call.arguments)


def test_a_request_without_tools_or_of_a_session_without_them_is_sent_as_it_is(tmp_path):
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello."}]}
    with Upstream() as upstream:
        raw = client("chat", upstream)
        kept = {"store": tmp_path, "durable": False, "session": "one"}
        raw.chat.completions.create(**body)
        wrap(agents.chat_create, upstream).chat.completions.create(**body)
        tools = {"tools": [agents.FUNCTION]}
        ebbtide.wrap(raw, **kept).chat.completions.create(**body, **tools)
        wrap(agents.chat_create, upstream, **kept).chat.completions.create(**body, **tools)

    sent = [exchange.raw for exchange in upstream.requests]
    assert sent[0] == sent[1]
    assert sent[2] == sent[3], "the session began without the tools"
