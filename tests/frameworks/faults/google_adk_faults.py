"""What Google ADK does with our plugin if something is wrong."""

from __future__ import annotations

import asyncio

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.events import Event
from google.adk.models import BaseLlm, Gemini
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from ebbtide.adapters.google_adk import EbbtidePlugin
from frameworks.loops.google_adk_loop import read_file


class Local(BaseLlm):
    """A model without a client."""

    async def generate_content_async(self, llm_request, stream=False):
        yield None


def _ask(agent: LlmAgent, plugins: list, *, events: tuple = (), **more: object) -> str:
    async def run() -> str:
        service = InMemorySessionService()
        session = await service.create_session(app_name="tides", user_id="ada", session_id="brest")
        for content in events:
            await service.append_event(session, Event(author=agent.name, invocation_id="one", content=content))
        app = App(name="tides", root_agent=agent, plugins=plugins, **more)
        runner = Runner(app=app, session_service=service)
        said, texts = types.Content(role="user", parts=[types.Part(text="Read it.")]), []
        async for event in runner.run_async(user_id="ada", session_id="brest", new_message=said):
            texts += [part.text or "" for part in (event.content.parts if event.content else ())]
        return "".join(texts)

    return asyncio.run(run())


def _agent(url: str, **more: object) -> LlmAgent:
    model = Gemini(model="gemini-2.5-flash", base_url=url, client_kwargs={"api_key": "k"}, retry_options=None)
    return LlmAgent(**{"name": "mender", "model": model, "tools": [read_file], **more})


def unknown_client(url: str, options: dict) -> str:
    return _ask(LlmAgent(name="mender", model=Local(model="local")), [EbbtidePlugin(**options)])


def orphan_result(url: str, options: dict) -> str:
    lost = types.Part(
        function_response=types.FunctionResponse(name="read_file", id="gone", response={"result": "lost"})
    )
    return _ask(_agent(url), [EbbtidePlugin(**options)], events=(types.Content(role="user", parts=[lost]),))


def two_compactors(url: str, options: dict) -> str:
    compaction = EventsCompactionConfig(token_threshold=1000, event_retention_size=2)
    return _ask(_agent(url), [EbbtidePlugin(**options)], events_compaction_config=compaction)


def two_with_a_filter(url: str, options: dict) -> str:
    return _ask(_agent(url), [EbbtidePlugin(**options), ContextFilterPlugin(num_invocations_to_keep=1)])


def dying_helper(url: str, options: dict) -> str:
    helper = AgentTool(agent=_agent(url, name="ask_helper", description="Does a task."))
    return _ask(_agent(url, tools=[read_file, helper]), [EbbtidePlugin(**options)])
