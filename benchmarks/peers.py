"""What other packages do before a model call, in their own message classes, called as their documentation says.

A subject is a generator: it yields a function to time and is sent the result. Everything else, such as growing the
conversation and checking that the turn was idle or acted, is not timed.
"""

# ruff: noqa: PLC0415 - a peer that is not installed must not be imported
from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from itertools import islice
from typing import Any

from conversation import TASK, Step, steps

Turns = Generator[Callable[[], Any], Any, None]
Subject = Callable[[int, bool], Turns]
"""Takes the number of messages, and whether each turn must act; yields turns."""

ENDLESS = 10**9
"""A window that is never reached."""
KEPT = 3
"""Newest results that are never cleared: the default of both LangChain and the harness."""


def _half(messages: int) -> int:
    """About half of what this many messages take, in tokens of four characters: all subjects act above it."""
    return messages * 190 // 2


def _billed(step: Step) -> int:
    """What a provider would have billed: a quarter of the characters, including arguments and framing."""
    return (len(step.result) + len(step.said) + 140) // 4


# --- LangChain -------------------------------------------------------------------------------------------------------


def _langchain_pair(step: Step) -> list[Any]:
    from langchain_core.messages import AIMessage, ToolMessage

    call = {"name": step.tool, "args": step.arguments, "id": step.id}
    return [AIMessage(content=step.said, tool_calls=[call]), ToolMessage(step.result, tool_call_id=step.id)]


def _langchain_talk(messages: int) -> tuple[list[Any], Any]:
    from langchain_core.messages import HumanMessage

    more = steps()
    talk: list[Any] = [HumanMessage(TASK)]
    for step in islice(more, messages // 2):
        talk += _langchain_pair(step)
    return talk, more


def trim_messages(messages: int, acting: bool) -> Turns:
    from langchain_core.messages import trim_messages as trim

    talk, more = _langchain_talk(messages)
    limit = _half(messages) if acting else ENDLESS
    while True:
        out = yield partial(trim, talk, max_tokens=limit, token_counter="approximate", strategy="last")
        assert (len(out) < len(talk)) == acting
        talk += _langchain_pair(next(more))


def context_editing(messages: int, acting: bool) -> Turns:
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    talk, more = _langchain_talk(messages)
    trigger = _half(messages) if acting else ENDLESS
    middleware: Any = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=trigger, keep=KEPT)])
    model = FakeListChatModel(responses=[""])
    while True:
        request = ModelRequest(model=model, messages=list(talk))
        out = yield partial(middleware.wrap_model_call, request, lambda edited: edited)
        assert (out.messages[2].content == "[cleared]") == acting
        talk += _langchain_pair(next(more))


# --- Pydantic AI -----------------------------------------------------------------------------------------------------


def _pydantic_pair(step: Step, tokens: int) -> list[Any]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.usage import RequestUsage

    call = ToolCallPart(step.tool, step.arguments, tool_call_id=step.id)
    usage = RequestUsage(input_tokens=tokens, output_tokens=60 if tokens else 0)
    reply = ModelResponse(parts=[TextPart(step.said), call], usage=usage)
    return [reply, ModelRequest(parts=[ToolReturnPart(step.tool, step.result, tool_call_id=step.id)])]


def _harness(messages: int, acting: bool, *, usage: bool) -> Turns:
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RunUsage
    from pydantic_ai_harness.compaction import ClearToolResults

    more, talk, tokens = steps(), [ModelRequest(parts=[UserPromptPart(TASK)])], 0

    def grow(step: Step) -> None:
        nonlocal tokens
        talk.extend(_pydantic_pair(step, tokens if usage else 0))
        tokens += _billed(step)

    for step in islice(more, messages // 2):
        grow(step)
    clear: Any = ClearToolResults(max_tokens=_half(messages) if acting else ENDLESS, keep_pairs=KEPT)
    model = TestModel()
    while True:
        # It clears permanently, so an acting turn begins with the whole conversation again.
        ctx = RunContext(deps=None, model=model, usage=RunUsage(), messages=list(talk))
        asked = ModelRequestContext(
            model=model, messages=ctx.messages, model_settings=None, model_request_parameters=ModelRequestParameters()
        )
        out = yield partial(_run, clear.before_model_request, ctx, asked)
        assert (out.messages[2].parts[0].content == clear.placeholder) == acting
        grow(next(more))


def _run(hook: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> Any:
    """Run a coroutine that never waits, without an event loop."""
    try:
        hook(*given).send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the hook waited")


harness = partial(_harness, usage=True)
harness_unbilled = partial(_harness, usage=False)


# --- Haystack --------------------------------------------------------------------------------------------------------


def _haystack_pair(step: Step) -> list[Any]:
    from haystack.dataclasses import ChatMessage, ToolCall

    call = ToolCall(step.tool, step.arguments, id=step.id)
    return [ChatMessage.from_assistant(step.said, tool_calls=[call]), ChatMessage.from_tool(step.result, origin=call)]


def _haystack(messages: int, acting: bool, *, usage: bool) -> Turns:
    from haystack.components.agents.state.state import State
    from haystack.dataclasses import ChatMessage
    from haystack.hooks.compaction import CompactionHook, ToolResultPruningCompactor

    more, talk, tokens = steps(), [ChatMessage.from_user(TASK)], 0
    for step in islice(more, messages // 2):
        talk += _haystack_pair(step)
        tokens += _billed(step)
    window = _half(messages) if acting else ENDLESS
    hook: Any = CompactionHook(ToolResultPruningCompactor(), context_window=window, compact_at=0.8, compact_to=0.5)
    schema = {"messages": {"type": list[ChatMessage]}, "context_tokens": {"type": int}}
    while True:
        # The agent's own list, which the hook may rewrite: an acting turn begins with the whole conversation again.
        state = State(schema=schema, data={})
        state.data.update(messages=list(talk), context_tokens=tokens if usage else 0)
        yield partial(hook.run, state)
        assert ("compaction" in str(state.data["messages"][2].meta)) == acting
        step = next(more)
        talk += _haystack_pair(step)
        tokens += _billed(step)


haystack = partial(_haystack, usage=True)
haystack_unbilled = partial(_haystack, usage=False)

PEERS: dict[str, tuple[str, Subject]] = {
    "langchain trim_messages": ("langchain", trim_messages),
    "langchain ContextEditingMiddleware": ("langchain", context_editing),
    "harness ClearToolResults": ("pydantic-ai-harness", harness),
    "harness, no usage reported": ("pydantic-ai-harness", harness_unbilled),
    "haystack CompactionHook": ("haystack-ai", haystack),
    "haystack, no usage reported": ("haystack-ai", haystack_unbilled),
}


def installed() -> tuple[dict[str, Subject], dict[str, str]]:
    """Return the installed peers and the version of each distribution; missing ones are marked."""
    versions: dict[str, str] = {}
    for name in dict.fromkeys(name for name, _ in PEERS.values()):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed: skipped"
    there = {label: subject for label, (name, subject) in PEERS.items() if "skipped" not in versions[name]}
    return there, versions
