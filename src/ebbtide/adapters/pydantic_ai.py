"""Pydantic AI: a capability that keeps an agent's requests inside the window.

    agent = Agent("anthropic:claude-sonnet-5", capabilities=[Ebbtide(store="agents")])

The capability wraps the SDK client of the model that a run uses. `message_history` stays whole.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from . import describe_failure, require

require("pydantic-ai-slim", "2.60")

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel

import ebbtide

_CONVERSATION: ContextVar[str] = ContextVar("ebbtide_conversation", default="")
"""The conversation whose tools run now: an agent that a tool starts works for it."""


class Ebbtide(AbstractCapability[Any]):
    """Keeps all model requests of an agent inside the window.

    The options are those of `ebbtide.wrap`. Each `conversation_id` is a session. An agent that a tool of another agent
    runs has a session of its own, with the other one as its parent if both have this capability. The model reads
    removed text back with tools that are answered here, so the agent does not see them. Beside another capability that
    compacts, a run does not start.
    """

    def __init__(self, *, recall: Any = "tool", **options: Any) -> None:
        self._options = {**options, "recall": recall}
        self._models: dict[int, tuple[Model, Model]] = {}
        """By the id of the agent's model: that model, which keeps its id taken, and the wrapped copy."""
        self._parents: dict[str, str] = {}

    def get_wrapper_model(self, model: Model) -> Model:
        if id(model) not in self._models:
            self._models[id(model)] = (model, _NamedModel(_wrap_model(model, self._options), self._parents))
        return self._models[id(model)][1]

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[Any]]) -> Any:
        _refuse_other_compactors(ctx.root_capability)
        name, parent = ctx.conversation_id or "", _CONVERSATION.get()
        if name and parent and parent != name:
            self._parents[name] = parent
        token = _CONVERSATION.set(name)
        try:
            result = await handler()
        except Exception as error:
            if name in self._parents:
                self._finish(name, describe_failure(error))
            raise
        finally:
            _CONVERSATION.reset(token)
        if name in self._parents:
            self._finish(name, str(result.output))
        return result

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, handler: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        with _named_session(ctx.conversation_id, self._parents):
            return await handler(request_context)

    def _finish(self, name: str, result: str) -> None:
        """Record a sub-agent's result in its parent's session."""
        for _, model in self._models.values():
            with suppress(ebbtide.BadRequest):  # another model served this conversation
                model.wrapped.client.ebbtide.finish(result, session=name)


def _refuse_other_compactors(capability: Any) -> None:
    """Raise ValueError if a capability of the same agent compacts: OpenAI's, Anthropic's or one of the harness."""
    if isinstance(capability, CombinedCapability):
        for part in capability.capabilities:
            _refuse_other_compactors(part)
    elif "compaction" in f"{type(capability).__module__}.{type(capability).__name__}".lower():
        raise ValueError(
            f"this agent has {type(capability).__name__}, and two cannot compact the same conversation: leave it out"
        )


def _wrap_model(model: Model, options: dict[str, Any]) -> Model:
    """Return a copy of a model that sends its requests by a wrapped client."""
    provider = getattr(model, "_provider", None)
    client = getattr(provider, "_client", None)
    try:
        wrapped_client = ebbtide.wrap(client, **options)
    except TypeError as problem:
        raise TypeError(
            f"{type(model).__name__} has no client of the anthropic, openai or google-genai SDK that could be wrapped: "
            "use a model of these providers, or let it talk to `ebb proxy`"
        ) from problem
    wrapped = copy.copy(model)
    # Public names lead here and cannot be set: `model.client` is `model._provider.client`, which is `_client`.
    wrapped._provider = copy.copy(provider)
    wrapped._provider._client = wrapped_client
    return wrapped


class _NamedModel(WrapperModel):
    """Says which session a streamed request belongs to: a stream is opened in another task than the one of the run."""

    def __init__(self, wrapped: Model, parents: dict[str, str]) -> None:
        super().__init__(wrapped)
        self._parents = parents

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[Any, None]:
        with _named_session(run_context.conversation_id if run_context else None, self._parents):
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                yield stream


@contextmanager
def _named_session(name: str | None, parents: dict[str, str]) -> Iterator[None]:
    if not name:
        yield
        return
    with ebbtide.session(name, parent=parents.get(name, "")):
        yield
