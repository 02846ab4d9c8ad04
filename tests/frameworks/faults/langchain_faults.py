"""What LangChain and deepagents do with our middleware if something is wrong."""

from __future__ import annotations

import warnings

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide.adapters.langchain import EbbtideMiddleware
from frameworks.loops.langchain_loop import chat_model, read_file

PLACE = {"configurable": {"thread_id": "brest"}}


def unknown_client(url: str, options: dict) -> str:
    agent = create_agent(FakeListChatModel(responses=["Hello"]), middleware=[EbbtideMiddleware(**options)])
    return str(agent.invoke({"messages": [("user", "Hello")]}, PLACE))


def orphan_result(url: str, options: dict) -> str:
    agent = create_agent(chat_model("anthropic", url), [read_file], middleware=[EbbtideMiddleware(**options)])
    messages = [HumanMessage("Hello"), ToolMessage("lost", tool_call_id="call_gone"), HumanMessage("Go on.")]
    return agent.invoke({"messages": messages}, PLACE)["messages"][-1].text


def _warnings_of(agent, url: str) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            agent.invoke({"messages": [("user", "Read some files.")]}, PLACE)
    return " ".join({str(one.message) for one in caught if "compact" in str(one.message)})


def two_compactors(url: str, options: dict) -> str:
    model = chat_model("anthropic", url)
    summarizer = SummarizationMiddleware(model, trigger=("messages", 3), keep=("messages", 1))
    agent = create_agent(model, [read_file], middleware=[summarizer, EbbtideMiddleware(**options)])
    return _warnings_of(agent, url)


def two_editors(url: str, options: dict) -> str:
    editor = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=100, keep=0)])
    model = chat_model("anthropic", url)
    return _warnings_of(create_agent(model, [read_file], middleware=[editor, EbbtideMiddleware(**options)]), url)


def two_in_deepagents(url: str, options: dict) -> str:
    model = chat_model("anthropic", url)
    model.profile = {**(model.profile or {}), "max_input_tokens": 7_000}
    ours = EbbtideMiddleware(**options)
    return _warnings_of(create_deep_agent(model, [read_file], middleware=[ours], checkpointer=InMemorySaver()), url)


def dying_helper(url: str, options: dict) -> str:
    ours = EbbtideMiddleware(**options)
    helper = create_agent(chat_model("anthropic", url), [read_file], middleware=[ours])

    @tool
    def ask_helper(task: str) -> str:
        """Asks a sub-agent to do a task."""
        try:
            return helper.invoke({"messages": [("user", task)]})["messages"][-1].text
        except Exception as problem:  # the agent hears of it
            return f"The helper failed: {problem}"

    agent = create_agent(chat_model("anthropic", url), [read_file, ask_helper], middleware=[ours])
    return agent.invoke({"messages": [("user", "Read it.")]}, PLACE)["messages"][-1].text
