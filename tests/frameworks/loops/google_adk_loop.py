"""An agent of Google ADK on Gemini, with a sub-agent as a tool; plain and streamed."""

from __future__ import annotations

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from frameworks.scenario import SYSTEM, WINDOW, read_page, task


def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    plugins = []
    if options is not None:
        from ebbtide.adapters.google_adk import EbbtidePlugin

        plugins = [EbbtidePlugin(window=WINDOW, **options)]
    model = Gemini(model="gemini-2.5-flash", base_url=url, client_kwargs={"api_key": "k"})
    agent = LlmAgent(name="mender", model=model, instruction=SYSTEM, tools=[read_file])
    config = RunConfig(max_llm_calls=400, streaming_mode=StreamingMode.SSE if mode == "stream" else StreamingMode.NONE)

    async def talk() -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="tides", user_id="ada", session_id="brest")
        for text in (task(conversation), "Go on."):
            runner = Runner(app=App(name="tides", root_agent=agent, plugins=plugins), session_service=service)
            said = types.Content(role="user", parts=[types.Part(text=text)])
            async for _ in runner.run_async(user_id="ada", session_id="brest", new_message=said, run_config=config):
                pass

    asyncio.run(talk())
