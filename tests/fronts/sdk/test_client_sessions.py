"""`client.ebbtide`, `session=` as a function, `parent=`, and `wrap` of a wrapped client: what adapters build on."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

import ebbtide
from ebbtide.store import MemoryStore
from ebbtide.wire import WIRES as ALL_WIRES
from fronts.sdk.agents import Talk, anthropic_create, anthropic_request, script
from fronts.sdk.clients import WINDOW, client
from upstream.server import Upstream

CHAT = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello."}]}
MESSAGES = {"model": "claude-sonnet-5", "max_tokens": 500, "messages": [{"role": "user", "content": "Hello."}]}
RESPONSES = {"model": "gpt-5", "input": "Hello."}
CONTENTS = {"model": "gemini-2.5-pro", "contents": "Hello."}
CONVERSE = {"modelId": "us.amazon.nova-pro-v1:0", "messages": [{"role": "user", "content": [{"text": "Hello."}]}]}


def gemini_create(c, *, stream=False):
    return (c.models.generate_content_stream if stream else c.models.generate_content)(**CONTENTS)


def bedrock_create(c, *, stream=False):
    return c.converse_stream(**CONVERSE)["stream"] if stream else c.converse(**CONVERSE)


CREATE = {
    "anthropic": lambda c, **more: c.messages.create(**{**MESSAGES, **more}),
    "chat": lambda c, **more: c.chat.completions.create(**{**CHAT, **more}),
    "responses": lambda c, **more: c.responses.create(**{**RESPONSES, **more}),
    "gemini": gemini_create,
    "bedrock": bedrock_create,
}
WIRES = pytest.mark.parametrize("wire", CREATE)
AWAITED = pytest.mark.parametrize("wire", [wire for wire in CREATE if wire != "bedrock"])  # boto3 awaits nothing


def copied(wrapped):
    """A copy with another setting. Google's and Amazon's clients have none."""
    return wrapped.with_options(timeout=60) if hasattr(wrapped, "with_options") else wrapped


# --- session= as a function -------------------------------------------------------------------------------------------


@WIRES
def test_a_function_names_the_session_of_each_call(wire):
    names, seen = iter(["one", "two", "one"]), []
    with Upstream() as upstream:
        listen = lambda session, report: seen.append(session)  # noqa: E731
        wrapped = ebbtide.wrap(client(wire, upstream), session=lambda: next(names), on_report=listen)
        CREATE[wire](wrapped)
        list(CREATE[wire](wrapped, stream=True))
        with ebbtide.session("inner"):
            CREATE[wire](wrapped)
        CREATE[wire](copied(wrapped))

    assert seen == ["one", "two", "inner", "one"]


@AWAITED
async def test_a_function_is_asked_where_a_variable_of_another_task_is_not_seen(wire):
    """A framework may run its streams in a task that it started before the name was set."""
    seen, variable, current = [], ContextVar("name", default="unset"), {"name": "unset"}
    with Upstream() as upstream:
        listen = lambda session, report: seen.append((session, variable.get()))  # noqa: E731
        async with ebbtide.wrap(
            client(wire, upstream, is_async=True), session=lambda: current["name"], on_report=listen
        ) as wrapped:
            is_named = asyncio.Event()

            async def stream() -> None:
                await is_named.wait()
                async for _ in await CREATE[wire](wrapped, stream=True):
                    pass

            task = asyncio.create_task(stream())
            variable.set("nightly")
            current["name"] = "nightly"
            is_named.set()
            await task

    assert seen == [("nightly", "unset")]


@pytest.mark.parametrize(("value", "what"), [(None, "NoneType"), ("", "''"), (7, "int")])
@WIRES
def test_a_function_that_names_no_session_is_an_error_of_the_caller(wire, value, what):
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream), session=lambda: value)
        with pytest.raises(ebbtide.BadConfig, match=f"session= must return a name.*{what}"):
            CREATE[wire](wrapped)

    assert upstream.requests == []


# --- client.ebbtide ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [None, MemoryStore(), "directory"], ids=["none", "memory", "directory"])
def test_the_sessions_of_a_client_are_within_reach(store, tmp_path):
    store = tmp_path if store == "directory" else store
    with Upstream(script("anthropic"), window=WINDOW) as upstream:
        talk = Talk("anthropic")
        wrapped = ebbtide.wrap(client("anthropic", upstream), window=WINDOW, store=store, durable=False)
        with ebbtide.session("nightly"):
            for _ in talk.turns(14):
                talk.took(*anthropic_create(wrapped, talk))
        sessions = wrapped.ebbtide

        assert sessions.names() == ("nightly",)
        assert sessions.report(session="nightly") is talk.reports[-1]
        edits = sessions.edits()  # the only session needs no name
        hit = sessions.recall("src/f0_0.py")[0]
        assert "src/f0_0.py" in sessions.read(hit.handle).text
        undone = sessions.undo(session="nightly")
        assert undone
        assert len(sessions.edits()) == len(edits) - len(undone)
        assert sessions.context("nightly").edits() == sessions.edits()
        with pytest.raises(ebbtide.BadRequest, match="no session called 'other'"):
            sessions.recall("gauge", session="other")


def test_the_current_session_is_the_one_that_a_call_would_belong_to():
    with Upstream() as upstream:
        name = "b"
        wrapped = ebbtide.wrap(client("chat", upstream), session=lambda: name)
        for name in ("a", "b"):  # noqa: B007 - the function reads it
            wrapped.chat.completions.create(**CHAT)
        assert "session='b'" in repr(wrapped.ebbtide.context())
        with ebbtide.session("a"):
            assert "session='a'" in repr(wrapped.ebbtide.context())
        unnamed = ebbtide.wrap(client("chat", upstream))
        for text in ("One.", "Two."):
            unnamed.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": text}])
        with pytest.raises(ebbtide.BadRequest, match="2 sessions: say which"):
            unnamed.ebbtide.edits()


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_a_session_without_a_name_is_out_of_reach_for_another_credential(wire):
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream))
        CREATE[wire](wrapped)
        (name,) = wrapped.ebbtide.names()
        other = wrapped.with_options(api_key="another-key")

        assert other.ebbtide.names() == ()
        with pytest.raises(ebbtide.BadRequest, match="no session called"):
            other.ebbtide.recall("Hello", session=name)
        assert wrapped.with_options(timeout=60).ebbtide.names() == (name,)


async def test_a_session_that_is_being_prepared_is_busy_and_nothing_waits_for_ever():
    """A lock that an awaited call holds is not waited for in its own event loop."""
    with Upstream() as upstream:
        async with ebbtide.wrap(client("chat", upstream, is_async=True), session="one") as wrapped:
            await wrapped.chat.completions.create(**CHAT)
            (session,) = wrapped.ebbtide._visible()
            with session.lock, pytest.raises(ebbtide.Busy, match="being prepared"):
                wrapped.ebbtide.edits()
            assert wrapped.ebbtide.edits() == ()


# --- parent= ----------------------------------------------------------------------------------------------------------


def test_a_sub_agent_reports_to_its_parent():
    with Upstream(script("anthropic"), window=WINDOW) as upstream:
        wrapped, talk = ebbtide.wrap(client("anthropic", upstream), window=WINDOW), Talk("anthropic")
        for n in talk.turns(24):
            if n == 8:
                with Upstream(["Read."]) as other, ebbtide.session("main.scout", parent="main"):
                    wrapped.with_options(base_url=other.url).messages.create(**MESSAGES)
                    wrapped.ebbtide.finish("The gauge of Brest stands at 7.43.")
                    wrapped.ebbtide.finish("A second result is not recorded.")
            with ebbtide.session("main"):
                if n == 16:
                    assert wrapped.ebbtide.context().compact(anthropic_request(talk)).applied
                talk.took(*anthropic_create(wrapped, talk))

    last = upstream.requests[-1].raw.decode()
    assert "stands at 7.43" in last
    assert "A second result" not in last


def test_a_session_without_a_parent_finishes_nothing():
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(client("chat", upstream), session="main")
        wrapped.chat.completions.create(**CHAT)
        with pytest.raises(ebbtide.BadRequest, match="no parent"):
            wrapped.ebbtide.finish("Done.")
        with pytest.raises(ValueError, match="another session"), ebbtide.session("main", parent="main"):
            pass


def test_functions_name_the_parent_of_each_call_too():
    names = {"session": "main.scout", "parent": "main"}
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(
            client("chat", upstream), session=lambda: names["session"], parent=lambda: names["parent"]
        )
        wrapped.chat.completions.create(**CHAT)
        wrapped.ebbtide.finish("Found it.")

        assert wrapped.ebbtide.names() == ("main", "main.scout")


# --- wrap of a wrapped client -----------------------------------------------------------------------------------------


@WIRES
def test_wrap_returns_a_wrapped_client_as_it_is(wire, tmp_path):
    with Upstream() as upstream:
        wrapped = ebbtide.wrap(client(wire, upstream), window=9_000, store=str(tmp_path), durable=False)

        assert ebbtide.wrap(wrapped) is wrapped
        assert ebbtide.wrap(wrapped, window=9_000, store=tmp_path) is wrapped
        copy = copied(wrapped)
        assert ebbtide.wrap(copy) is copy
        for name, value in {"window": 8_000, "session": "mine", "marks": True}.items():
            with pytest.raises(ebbtide.BadConfig, match=f"wrapped already, with another value of '{name}'"):
                ebbtide.wrap(wrapped, **{name: value})


def test_both_sides_of_googles_client_are_wrapped_and_have_its_sessions():
    with Upstream() as upstream:
        for raw in (client("gemini", upstream), client("gemini", upstream, is_async=True)):
            wrapped = ebbtide.wrap(raw, session="one")
            for side in (wrapped, getattr(wrapped, "aio", wrapped)):
                assert ebbtide.wrap(side) is side
                assert side.ebbtide.names() == ()
                with pytest.raises(ebbtide.BadConfig, match="wrapped already"):
                    ebbtide.wrap(side, session="two")


@pytest.mark.parametrize("wire", ALL_WIRES)
def test_the_recall_tools_of_a_wire_are_public(wire):
    context = ebbtide.Context(recall="tool", wire=wire)

    assert ebbtide.recall_tools(wire) == context.recall_tools(wire)
    with pytest.raises(ebbtide.BadRequest, match="no wire is called"):
        ebbtide.recall_tools("smoke")
