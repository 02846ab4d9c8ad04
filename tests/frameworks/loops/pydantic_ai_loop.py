"""An agent of Pydantic AI: sync, async and streamed, resumed from its messages as JSON."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessagesTypeAdapter

from frameworks.scenario import SYSTEM, WINDOW, read_page, task

LIMITS = UsageLimits(request_limit=400)


def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def model_of(wire: str, url: str):
    if wire == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(api_key="k", base_url=url))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind, name = (OpenAIResponsesModel, "gpt-5") if wire == "openai_responses" else (OpenAIChatModel, "gpt-4.1")
    return kind(name, provider=OpenAIProvider(api_key="k", base_url=f"{url}/v1"))


def tiered_compaction():
    """Return the compaction of pydantic-ai-harness, as its README recommends for an explicit window."""
    from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction

    tiers = [
        ClearToolResults(max_tokens=1, keep_pairs=3),
        SummarizingCompaction(max_messages=1, keep_tokens=WINDOW // 10),
    ]
    return TieredCompaction(tiers=tiers, target_fraction=0.8, context_window=WINDOW)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str, *, own: bool = False) -> None:
    capabilities = [tiered_compaction()] if own else []
    if options is not None:
        from ebbtide.adapters.pydantic_ai import Ebbtide

        capabilities = [Ebbtide(window=WINDOW, **options)]

    def new_agent(instructions: str = SYSTEM, tools=(read_file,)):
        return Agent(
            model_of(wire, url),
            instructions=instructions,
            tools=list(tools),
            capabilities=capabilities,
            model_settings={"max_tokens": 1024},
        )

    async def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        return (await new_agent("You help.").run(task, usage_limits=LIMITS)).output

    def talk_sync() -> None:
        history = None
        for text in (task(conversation), "Go on."):
            name = {} if history else {"conversation_id": "brest"}
            agent = new_agent(tools=(read_file, ask_helper))
            result = agent.run_sync(text, message_history=history, usage_limits=LIMITS, **name)
            history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())

    async def drain(ctx, events) -> None:
        async for _ in events:
            pass

    async def talk() -> None:
        history = None
        for text in (task(conversation), "Go on."):
            streams = {"event_stream_handler": drain} if mode == "stream" else {}
            name = {} if history else {"conversation_id": "brest"}  # later it comes from the history
            agent = new_agent(tools=(read_file, ask_helper))
            result = await agent.run(text, message_history=history, usage_limits=LIMITS, **streams, **name)
            history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())

    if mode == "sync":
        talk_sync()
    else:
        asyncio.run(talk())
