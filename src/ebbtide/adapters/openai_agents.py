"""OpenAI Agents SDK: a model provider that keeps the requests of all agents of a run inside the window.

provider = EbbtideProvider(store="agents")
with ebbtide.session("chat-42"):
    await Runner.run(agent, "Hello", run_config=RunConfig(model_provider=provider))
"""

from __future__ import annotations

from typing import Any

from . import require

require("openai-agents", "0.24")

import openai
from agents.models.openai_provider import OpenAIProvider

import ebbtide


class EbbtideProvider(OpenAIProvider):
    """Looks up models like `OpenAIProvider`. Their requests fit the window.

    The options are those of `ebbtide.wrap`. Without `with ebbtide.session(...)` around the run, a session is found by
    how its conversation begins, so agents that hand over to each other have one each. The model reads removed text back
    with tools that are answered here, so the agents do not see them. Requests go over HTTP, never over a websocket.
    Leave out `ToolOutputTrimmer` and `OpenAIResponsesCompactionSession`: a provider cannot see them, and they compact
    first.
    """

    def __init__(
        self,
        openai_client: openai.AsyncOpenAI | None = None,
        *,
        use_responses: bool | None = None,
        recall: Any = "tool",
        **options: Any,
    ) -> None:
        client = ebbtide.wrap(openai_client or openai.AsyncOpenAI(), recall=recall, **options)
        super().__init__(openai_client=client, use_responses=use_responses, use_responses_websocket=False)
