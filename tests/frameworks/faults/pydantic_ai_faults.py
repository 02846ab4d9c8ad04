"""What Pydantic AI does with our capability if something is wrong."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.openai import OpenAICompaction
from pydantic_ai.models.test import TestModel

from ebbtide.adapters.pydantic_ai import Ebbtide
from frameworks.loops.pydantic_ai_loop import model_of, read_file


def _agent(url: str, ours: object, *more: object, tools: tuple = (read_file,)) -> Agent:
    return Agent(model_of("anthropic", url), tools=list(tools), capabilities=[ours, *more])


def unknown_client(url: str, options: dict) -> str:
    return Agent(TestModel(), capabilities=[Ebbtide(**options)]).run_sync("Hello").output


def orphan_result(url: str, options: dict) -> str:
    lost = ModelRequest(parts=[ToolReturnPart("read_file", "lost", tool_call_id="call_gone")])
    history = [ModelRequest(parts=[UserPromptPart("Hello")]), lost]
    return _agent(url, Ebbtide(**options)).run_sync("Go on.", message_history=history).output


def two_compactors(url: str, options: dict) -> str:
    return _agent(url, Ebbtide(**options), OpenAICompaction()).run_sync("Hello").output


def dying_helper(url: str, options: dict) -> str:
    ours = Ebbtide(**options)

    async def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        try:
            return (await _agent(url, ours).run(task)).output
        except Exception as problem:  # the agent hears of it
            return f"The helper failed: {problem}"

    return _agent(url, ours, tools=(read_file, ask_helper)).run_sync("Read it.").output
