"""An agent of deepagents with two sub-agents at once. Ours takes the place of its summarizer."""

from __future__ import annotations

from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver

from frameworks.loops.langchain_loop import LIMITS, chat_model, read_file
from frameworks.scenario import SYSTEM, task

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
    for text in (task(conversation), "Go on."):
        agent = create_deep_agent(
            model, [read_file], system_prompt=SYSTEM, middleware=middleware, checkpointer=checkpoints
        )
        said = {"messages": [{"role": "user", "content": text}]}
        agent.invoke(said, {"configurable": {"thread_id": "brest"}, **LIMITS})
