"""An agent of the OpenAI Agents SDK: sync, async and streamed, resumed from a session in a file."""

from __future__ import annotations

import asyncio
import tempfile

import openai
from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.extensions import ToolOutputTrimmer
from agents.models.openai_provider import OpenAIProvider

from frameworks.scenario import SYSTEM, WINDOW, read_page, task

set_tracing_disabled(True)
TURNS = 400


@function_tool
def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str, *, own: bool = False) -> None:
    is_responses = wire == "openai_responses"

    def new_provider():
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        if options is None:
            return OpenAIProvider(openai_client=client, use_responses=is_responses)
        from ebbtide.adapters.openai_agents import EbbtideProvider

        return EbbtideProvider(client, use_responses=is_responses, window=WINDOW, **options)

    model = "gpt-5" if is_responses else "gpt-4.1"

    @function_tool
    async def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        helper = Agent(name="helper", instructions="You help.", model=model, tools=[read_file])
        result = await Runner.run(helper, task, run_config=RunConfig(model_provider=new_provider()), max_turns=TURNS)
        return result.final_output

    agent = Agent(name="mender", instructions=SYSTEM, model=model, tools=[read_file, ask_helper])

    def place(file: str) -> dict:
        """A new session and a new provider each time, as after a restart."""
        trimmer = {"call_model_input_filter": ToolOutputTrimmer(recent_turns=1)} if own else {}
        config = RunConfig(model_provider=new_provider(), **trimmer)
        return {"session": SQLiteSession("brest", file), "max_turns": TURNS, "run_config": config}

    async def talk(file: str) -> None:
        for text in (task(conversation), "Go on."):
            if mode == "stream":
                async for _ in Runner.run_streamed(agent, text, **place(file)).stream_events():
                    pass
            else:
                await Runner.run(agent, text, **place(file))

    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/sessions.db"
        if mode == "sync":
            for text in (task(conversation), "Go on."):
                Runner.run_sync(agent, text, **place(file))
        else:
            asyncio.run(talk(file))
