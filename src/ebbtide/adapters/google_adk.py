"""Google ADK: a plugin that keeps the requests of all agents of an app inside the window.

    app = App(name="tides", root_agent=agent, plugins=[EbbtidePlugin(store="agents")])

The plugin gives each agent a Gemini model with a wrapped client. The session service keeps all events.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, Gemini
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import Client
from pydantic import PrivateAttr

import ebbtide

_SESSION: ContextVar[str] = ContextVar("ebbtide_adk_session", default="")


class EbbtidePlugin(BasePlugin):
    """Keeps all model calls inside the window.

    The options are those of `ebbtide.wrap`. App, user, session and agent name Ebbtide's session. Leave out ADK's own
    compaction (`events_compaction_config`) and `ContextFilterPlugin`. The model reads removed text back with tools that
    are answered here, so the agents do not see them.
    """

    def __init__(self, *, recall: Any = "tool", **options: Any) -> None:
        super().__init__(name="ebbtide")
        self._options = {"session": _SESSION.get, **options, "recall": recall}

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
