"""Strands Agents: a plugin that keeps an agent's requests inside the window.

    agent = Agent(model=AnthropicModel(...), tools=tools, plugins=[Ebbtide(store="agents")])

The plugin gives the agent a copy of its model with a wrapped SDK client. `agent.messages` stays whole.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from . import require

require("strands-agents", "1.60")

from strands.agent import Agent
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from strands.plugins import Plugin

import ebbtide


class Ebbtide(Plugin):
    """Keeps all model calls of an agent inside the window.

    The options are those of `ebbtide.wrap`. The session is the agent's session id and its own id. Strands' sliding
    window, which it uses by default, is switched off; with another conversation manager or a context manager the
    plugin refuses to start. The model reads removed text back with tools that are answered here, so the agent does
    not see them.
    """

    name = "ebbtide"

    def __init__(self, *, recall: Any = "tool", **options: Any) -> None:
        super().__init__()
        self._options = {**options, "recall": recall}

    def init_agent(self, agent: Agent) -> None:
        _refuse_other_compactors(agent)
        agent.conversation_manager = NullConversationManager()
        session = f"{agent.session_id}.{agent.agent_id}"
        agent.model = _wrap_model(agent.model, {"session": session, **self._options})


def _refuse_other_compactors(agent: Agent) -> None:
    manager = agent.conversation_manager
    is_default = type(manager) is SlidingWindowConversationManager and not manager.per_turn
    if agent.context_manager is not None:
        raise ValueError(
            "this agent has a context manager, and two cannot compact the same conversation: leave out context_manager="
        )
    if not is_default and not isinstance(manager, NullConversationManager):
        raise ValueError(
            f"this agent has a {type(manager).__name__}, and two cannot compact the same conversation: "
            "leave out conversation_manager="
        )


def _wrap_model(model: Any, options: dict[str, Any]) -> Any:
    """Return a copy of a model that sends its requests by a wrapped client."""
    wrapped = copy.copy(model)
    module = type(model).__module__.rpartition(".")[2]
    if getattr(model, "_custom_client", None) is not None:
        wrapped._custom_client = ebbtide.wrap(model._custom_client, **options)
    elif getattr(model, "client", None) is not None:  # AnthropicModel and BedrockModel
        wrapped.client = ebbtide.wrap(model.client, **options)
    elif module == "gemini":  # GeminiModel opens its client on each request
        wrapped._custom_client = ebbtide.wrap(model._get_client(), **options)
    elif module == "openai":
        wrapped._get_client = partial(_open_client, _new_openai_client(model, options))
    else:
        raise TypeError(
            f"{type(model).__name__} has no client that could be wrapped: use AnthropicModel, BedrockModel, "
            "GeminiModel or OpenAIModel, or let it talk to `ebb proxy`"
        )
    return wrapped


def _new_openai_client(model: Any, options: dict[str, Any]) -> Any:
    import openai  # noqa: PLC0415 - only users of OpenAI's models have it

    return ebbtide.wrap(openai.AsyncOpenAI(**model._resolve_client_args()), **options)


@asynccontextmanager
async def _open_client(client: Any) -> AsyncGenerator[Any, None]:
    """Give each request connections of its own: Strands runs each in an event loop of its own.

    Copies of a wrapped client share its sessions.
    """
    import openai  # noqa: PLC0415

    async with openai.DefaultAsyncHttpxClient() as http_client:
        yield client.copy(http_client=http_client)
