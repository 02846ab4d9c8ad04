"""An agent of Microsoft's agent-framework with a wrapped client, awaited and streamed."""

from __future__ import annotations

import asyncio

import anthropic
from agent_framework import Agent
from agent_framework.anthropic import AnthropicClient

import ebbtide
from frameworks.scenario import SYSTEM, WINDOW, read_page, task


def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    raw = anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
    client = raw if options is None else ebbtide.wrap(raw, window=WINDOW, recall="tool", session="brest", **options)
    chat = AnthropicClient(model="claude-sonnet-5", anthropic_client=client)
    chat.function_invocation_configuration["max_iterations"] = 100
    agent = Agent(client=chat, instructions=SYSTEM, tools=[read_file], default_options={"max_tokens": 1024})

    async def talk() -> None:
        session = agent.create_session()
        for text in (task(conversation), "Go on."):
            if mode == "stream":
                async for _ in agent.run(text, session=session, stream=True):
                    pass
            else:
                await agent.run(text, session=session)

    asyncio.run(talk())
