"""An agent of smolagents with a wrapped client."""

from __future__ import annotations

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

import ebbtide
from frameworks.scenario import WINDOW, read_page, task


@tool
def read_file(path: str) -> str:
    """Reads a file.

    Args:
        path: where it is
    """
    return read_page(path)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    model = OpenAIServerModel(
        model_id="gpt-4.1", api_base=f"{url}/v1", api_key="k", client_kwargs={"max_retries": 0}, retry=False
    )
    if options is not None:
        model.client = ebbtide.wrap(model.client, window=WINDOW, recall="tool", session="brest", **options)
    agent = ToolCallingAgent(tools=[read_file], model=model, max_steps=80, verbosity_level=0)
    agent.run(task(conversation))
    agent.run("Go on.", reset=False)
