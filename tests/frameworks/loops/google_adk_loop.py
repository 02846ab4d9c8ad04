"""An agent of Google ADK on Gemini, with a sub-agent as a tool; plain and streamed."""

from __future__ import annotations

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.models import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from frameworks.scenario import SYSTEM, WINDOW, read_page, task


def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def ask_helper_tool(model: Gemini) -> AgentTool:
    helper = LlmAgent(
        name="ask_helper", model=model, description="Does a task.", instruction="You help.", tools=[read_file]
    )
    return AgentTool(agent=helper)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str, *, own: bool = False) -> None:
    plugins = []
    if options is not None:
        from ebbtide.adapters.google_adk import EbbtidePlugin

        plugins = [EbbtidePlugin(window=WINDOW, **options)]
    model = Gemini(model="gemini-2.5-flash", base_url=url, client_kwargs={"api_key": "k"})
    agent = LlmAgent(name="mender", model=model, instruction=SYSTEM, tools=[read_file, ask_helper_tool(model)])
    config = RunConfig(max_llm_calls=400, streaming_mode=StreamingMode.SSE if mode == "stream" else StreamingMode.NONE)

    async def talk() -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="tides", user_id="ada", session_id="brest")
        for text in (task(conversation), "Go on."):
            compaction = EventsCompactionConfig(token_threshold=WINDOW * 4 // 5, event_retention_size=10)
            more = {"events_compaction_config": compaction} if own else {}
            runner = Runner(app=App(name="tides", root_agent=agent, plugins=plugins, **more), session_service=service)
            said = types.Content(role="user", parts=[types.Part(text=text)])
            async for _ in runner.run_async(user_id="ada", session_id="brest", new_message=said, run_config=config):
                pass

    asyncio.run(talk())
