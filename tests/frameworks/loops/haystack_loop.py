"""An agent of Haystack with a wrapped client."""

from __future__ import annotations

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

import ebbtide
from frameworks.scenario import SYSTEM, WINDOW, read_page, task


def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    generator = OpenAIChatGenerator(
        model="gpt-4.1", api_key=Secret.from_token("k"), api_base_url=f"{url}/v1", max_retries=0
    )
    generator.warm_up()
    if options is not None:
        generator.client = ebbtide.wrap(generator.client, window=WINDOW, recall="tool", session="brest", **options)
    agent = Agent(
        chat_generator=generator,
        tools=[create_tool_from_function(read_file)],
        system_prompt=SYSTEM,
        max_agent_steps=200,
    )
    messages = []
    for text in (task(conversation), "Go on."):
        messages = agent.run(messages=[*messages, ChatMessage.from_user(text)])["messages"]
