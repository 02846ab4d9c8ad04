"""An agent of deepagents with two sub-agents at once: sync, async and streamed. Ours takes the place of its summarizer."""

from __future__ import annotations

from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver

from frameworks.loops.langchain_loop import LIMITS, chat_model, read_file, talk
from frameworks.scenario import SYSTEM

WINDOW = 30_000
"""Its prompts and tools alone take 8,000 tokens."""


def run(url: str, wire: str, mode: str, options: dict | None, conversation: str) -> None:
    middleware = []
    if options is not None:
        from ebbtide.adapters.langchain import DeepAgentsMiddleware

        middleware = [DeepAgentsMiddleware(window=WINDOW, **options)]
    model = chat_model(wire, url)
    model.profile = {**(model.profile or {}), "max_input_tokens": WINDOW}
    checkpoints = InMemorySaver()

    def new_agent():
        return create_deep_agent(
            model, [read_file], system_prompt=SYSTEM, middleware=middleware, checkpointer=checkpoints
        )

    talk(new_agent, mode, conversation, {"configurable": {"thread_id": "brest"}, **LIMITS})
