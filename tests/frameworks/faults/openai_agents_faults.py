"""What the OpenAI Agents SDK does with our provider if something is wrong."""

from __future__ import annotations

import openai
from agents import Agent, RunConfig, Runner, function_tool

import ebbtide
from ebbtide.adapters.openai_agents import EbbtideProvider
from frameworks.loops.openai_agents_loop import read_file


def _config(url: str, options: dict) -> RunConfig:
    client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
    return RunConfig(model_provider=EbbtideProvider(client, use_responses=False, **options))


def unknown_client(url: str, options: dict) -> str:
    return str(EbbtideProvider(object(), **options))


def orphan_result(url: str, options: dict) -> str:
    agent = Agent(name="mender", model="gpt-4.1", tools=[read_file])
    lost = {"type": "function_call_output", "call_id": "call_gone", "output": "lost"}
    items = [{"role": "user", "content": "Hello"}, lost, {"role": "user", "content": "Go on."}]
    return Runner.run_sync(agent, items, run_config=_config(url, options)).final_output


def dying_helper(url: str, options: dict) -> str:
    config = _config(url, options)

    @function_tool
    async def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        helper = Agent(name="helper", model="gpt-4.1", tools=[read_file])
        try:
            with ebbtide.session("helper", parent="brest"):
                return (await Runner.run(helper, task, run_config=config)).final_output
        except Exception as problem:  # the agent hears of it
            return f"The helper failed: {problem}"

    agent = Agent(name="mender", model="gpt-4.1", tools=[read_file, ask_helper])
    with ebbtide.session("brest"):
        return Runner.run_sync(agent, "Read it.", run_config=config).final_output
