"""Google ADK: a plugin that keeps the requests of all agents of an app inside the window.

    app = App(name="tides", root_agent=agent, plugins=[EbbtidePlugin(store="agents")])

The plugin gives each agent a Gemini model with a wrapped client. The session service keeps all events.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from . import require

require("google-adk", "2.10")

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, Gemini
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.genai import Client
from pydantic import PrivateAttr

import ebbtide

_SESSION: ContextVar[str] = ContextVar("ebbtide_adk_session", default="")


class EbbtidePlugin(BasePlugin):
    """Keeps all model calls inside the window.

    The options are those of `ebbtide.wrap`. App, user, session and agent name Ebbtide's session. Beside ADK's own
    compaction (`events_compaction_config`) or `ContextFilterPlugin` the plugin refuses to start a run. The model reads
    removed text back with tools that are answered here, so the agents do not see them.
    """

    def __init__(self, *, recall: Any = "tool", **options: Any) -> None:
        super().__init__(name="ebbtide")
        self._options = {"session": _SESSION.get, **options, "recall": recall}

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        if invocation_context.events_compaction_config is not None:
            raise ValueError(
                "this app has an events_compaction_config, and two cannot compact the same conversation: leave it out"
            )
        if any(isinstance(plugin, ContextFilterPlugin) for plugin in invocation_context.plugin_manager.plugins):
            raise ValueError(
                "this app has a ContextFilterPlugin, and two cannot shorten the same conversation: leave it out"
            )

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        if isinstance(agent, LlmAgent) and not isinstance(agent.canonical_model, EbbtideGemini):
            agent.model = wrap_model(agent.canonical_model, **self._options)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        session = callback_context.session
        _SESSION.set(f"{session.app_name}.{session.user_id}.{session.id}.{callback_context.agent_name}")


class EbbtideGemini(Gemini):
    """A Gemini model that sends its requests by a wrapped client."""

    _options: dict[str, Any] = PrivateAttr(default_factory=dict)
    _wrapped: dict[int, tuple[Client, Client]] = PrivateAttr(default_factory=dict)

    @property
    def api_client(self) -> Client:
        client = super().api_client  # ADK has one for each event loop
        if id(client) not in self._wrapped:
            self._wrapped[id(client)] = (client, ebbtide.wrap(client, **self._options))
        return self._wrapped[id(client)][1]


def wrap_model(model: BaseLlm, **options: Any) -> EbbtideGemini:
    """Return a model like this one whose requests fit the window. The options are those of `ebbtide.wrap`."""
    if not isinstance(model, Gemini):
        raise TypeError(
            f"{type(model).__name__} has no google-genai client that could be wrapped: use Gemini, "
            "or let it talk to `ebb proxy`"
        )
    wrapped = EbbtideGemini(**{name: getattr(model, name) for name in Gemini.model_fields})
    wrapped._options = options
    return wrapped
