"""An agent of Strands: sync, async and streamed, resumed from a session on disk."""

from __future__ import annotations

import asyncio
import tempfile

from strands import Agent, tool
from strands.session.file_session_manager import FileSessionManager

from frameworks.scenario import SYSTEM, WINDOW, read_page, task


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


async def ask(agent: Agent, text: str, mode: str) -> None:
    if mode == "async":
        await agent.invoke_async(text)
    else:
        async for _ in agent.stream_async(text):
            pass


def model_of(wire: str, url: str):
    if wire == "anthropic":
        from strands.models.anthropic import AnthropicModel

        client = {"api_key": "k", "base_url": url, "max_retries": 0}
        return AnthropicModel(client_args=client, model_id="claude-sonnet-5", max_tokens=1024)
    client = {"api_key": "k", "base_url": f"{url}/v1", "max_retries": 0}
    if wire == "openai_responses":
        from strands.models.openai_responses import OpenAIResponsesModel

        return OpenAIResponsesModel(client_args=client, model_id="gpt-5")
    from strands.models.openai import OpenAIModel

    return OpenAIModel(client_args=client, model_id="gpt-4.1")


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str, *, own: bool = False) -> None:
    plugins = []
    if options is not None:
        from ebbtide.adapters.strands import Ebbtide

        plugins = [Ebbtide(window=WINDOW, **options)]

    @tool
    def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        helper = Agent(
            model=model_of(wire, url), tools=[read_file], agent_id="helper", plugins=plugins, callback_handler=None
        )
        return str(helper(task))

    with tempfile.TemporaryDirectory() as folder:
        for text in (task(conversation), "Go on."):
            # A new agent each time, as after a restart: all it has is the session on disk.
            agent = Agent(
                model=model_of(wire, url),
                tools=[read_file, ask_helper],
                system_prompt=SYSTEM,
                agent_id="mender",
                plugins=plugins,
                session_manager=FileSessionManager("brest", storage_dir=folder),
                callback_handler=None,
                **({"context_manager": "auto"} if own else {}),
            )
            if mode == "sync":
                agent(text)
            else:
                asyncio.run(ask(agent, text, mode))
