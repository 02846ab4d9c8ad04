"""An agent of LangChain: sync, async and streamed, resumed from a checkpoint."""

from __future__ import annotations

import asyncio

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from frameworks.scenario import SYSTEM, WINDOW, read_page, task

LIMITS = {"recursion_limit": 400}


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return read_page(path)


def chat_model(wire: str, url: str):
    if wire == "anthropic":
        from langchain_anthropic import ChatAnthropic

        thinking = {"type": "adaptive"}
        return ChatAnthropic(
            model="claude-sonnet-5", api_key="k", base_url=url, max_tokens=1024, max_retries=0, thinking=thinking
        )
    from langchain_openai import ChatOpenAI

    name, responses = ("gpt-5", True) if wire == "openai_responses" else ("gpt-4.1", False)
    return ChatOpenAI(model=name, api_key="k", base_url=f"{url}/v1", max_retries=0, use_responses_api=responses)


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str, *, own: bool = False) -> None:
    middleware = []
    if own:
        model = chat_model(wire, url)
        middleware = [SummarizationMiddleware(model, trigger=("tokens", WINDOW * 4 // 5))]
    if options is not None:
        from ebbtide.adapters.langchain import EbbtideMiddleware

        middleware = [EbbtideMiddleware(window=WINDOW, **options)]
    checkpoints = InMemorySaver()
    place = {"configurable": {"thread_id": "brest"}, **LIMITS}

    def new_agent():
        """As after a restart: all it has is the checkpoint."""
        return create_agent(
            chat_model(wire, url), [read_file], system_prompt=SYSTEM, middleware=middleware, checkpointer=checkpoints
        )

    talk(new_agent, mode, conversation, place)


def talk(new_agent, mode: str, conversation: str, place: dict) -> None:
    says = [{"messages": [{"role": "user", "content": text}]} for text in (task(conversation), "Go on.")]
    if mode == "async":

        async def talk_async() -> None:
            for said in says:
                await new_agent().ainvoke(said, place)

        asyncio.run(talk_async())
        return
    for said in says:
        if mode == "stream":
            for _ in new_agent().stream(said, place, stream_mode="messages"):
                pass
        else:
            new_agent().invoke(said, place)
