"""LangChain, LangGraph and deepagents: a middleware that keeps an agent's requests inside the window.

    agent = create_agent("anthropic:claude-sonnet-5", tools, middleware=[EbbtideMiddleware(store="agents")])
    agent = create_deep_agent(model, tools, middleware=[DeepAgentsMiddleware(store="agents")])

The middleware wraps the SDK client inside the chat model and says which conversation a call belongs to. Messages are
not converted, and LangGraph's state keeps the whole history.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from . import describe_failure, require

require("langchain", "1.4")

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.language_models import BaseChatModel

import ebbtide

_CLIENTS = ("_client", "_async_client", "root_client", "root_async_client", "client")
"""Where chat models keep a client of an SDK: ChatAnthropic, ChatOpenAI and its kin, ChatGoogleGenerativeAI."""


def wrap_model(model: BaseChatModel, **options: Any) -> BaseChatModel:
    """Return a copy of a chat model whose requests fit the window. The options are those of `ebbtide.wrap`."""
    copy = model.model_copy()
    for name in _clients_of(copy):
        # A model may be frozen, and two of the clients are cached properties: both live in the object's dict.
        copy.__dict__[name] = ebbtide.wrap(getattr(copy, name), **options)
    if "root_client" in copy.__dict__:
        copy.__dict__["client"] = copy.__dict__["root_client"].chat.completions
        copy.__dict__["async_client"] = copy.__dict__["root_async_client"].chat.completions
    return copy


def _clients_of(model: BaseChatModel) -> list[str]:
    names = [name for name in _CLIENTS if getattr(model, name, None) is not None]
    if "root_client" in names and "client" in names:
        names.remove("client")  # of ChatOpenAI it is the `chat.completions` of its root client
    if not names:
        raise TypeError(
            f"{type(model).__name__} has no client of the anthropic, openai or google-genai SDK that could be wrapped. "
            "Use ChatAnthropic, ChatOpenAI, AzureChatOpenAI or ChatGoogleGenerativeAI, or let it talk to `ebb proxy`"
        )
    return names


class EbbtideMiddleware(AgentMiddleware):
    """Keeps all model calls of an agent inside the window.

    The options are those of `ebbtide.wrap`. Each thread of LangGraph is a session of its own, and so is each sub-graph
    in it, with the thread as its parent. Without a thread a session is found by how its conversation begins. The model
    reads removed text back with tools that are answered here, so the agent does not see them. Do not add LangChain's
    `SummarizationMiddleware` or `ContextEditingMiddleware` to the same agent: you get a warning if they changed what
    arrives here.
    """

    def __init__(self, *, recall: Any = "tool", **options: Any) -> None:
        super().__init__()
        self._options = {**options, "recall": recall}
        self._models: dict[int, tuple[BaseChatModel, BaseChatModel]] = {}
        """By the id of the agent's model: that model, which keeps its id taken, and the wrapped copy."""
        self._has_warned = False

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        self._warn_of_other_compactors(request)
        with self._named_session(request.runtime):
            return handler(request.override(model=self._wrapped(request.model)))

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        self._warn_of_other_compactors(request)
        with self._named_session(request.runtime):
            return await handler(request.override(model=self._wrapped(request.model)))

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Record a sub-agent's answer in its parent's session."""
        answer = state["messages"][-1].text if state.get("messages") else ""
        if answer:
            self._finish(*name_session(runtime), str(answer))

    def _finish(self, name: str, parent: str, result: str) -> None:
        for _, model in self._models.values() if parent else ():
            for client in _clients_of(model):
                with suppress(ebbtide.BadRequest), ebbtide.session(name, parent=parent):  # another client has it
                    getattr(model, client).ebbtide.finish(result, session=name)

    @contextmanager
    def _named_session(self, runtime: Any) -> Iterator[None]:
        """Name the session of a call. If a sub-agent's call fails, its parent learns why there is no answer."""
        name, parent = name_session(runtime)
        if not name:
            yield
            return
        with ebbtide.session(name, parent=parent):
            try:
                yield
            except Exception as error:
                self._finish(name, parent, describe_failure(error))
                raise

    def _warn_of_other_compactors(self, request: ModelRequest) -> None:
        compactor = _other_compactor(request.messages)
        if compactor and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{compactor} has shortened this conversation before Ebbtide saw it, and two cannot compact the same "
                "one: leave it out (in deepagents, use DeepAgentsMiddleware)",
                stacklevel=2,
            )

    def _wrapped(self, model: BaseChatModel) -> BaseChatModel:
        if id(model) not in self._models:
            self._models[id(model)] = (model, wrap_model(model, **self._options))
        return self._models[id(model)][1]


class DeepAgentsMiddleware(EbbtideMiddleware):
    """Takes the place of deepagents' own summarizer, which deepagents finds by its name."""

    name = "SummarizationMiddleware"


def name_session(runtime: Any) -> tuple[str, str]:
    """Return the names of the session of this call and of its parent. Both are empty without a thread."""
    info = runtime.execution_info
    thread = (info.thread_id or info.run_id or "") if info else ""
    if not thread:
        return "", ""
    # "tools:1f|model:2e": the last part is the node that runs now, which is another one on each call.
    graphs = info.checkpoint_ns.split("|")[:-1]
    names = [".".join((thread, *graphs[:depth])).replace(":", "-") for depth in range(len(graphs) + 1)]
    return names[-1], names[-2] if graphs else ""


def _other_compactor(messages: Sequence[Any]) -> str:
    """Return what else has shortened a conversation, by the marks that it leaves; '' if nothing has."""
    for message in messages:
        if message.additional_kwargs.get("lc_source") == "summarization":
            return "SummarizationMiddleware"  # of LangChain or of deepagents
        if "context_editing" in message.response_metadata:
            return "ContextEditingMiddleware"
    return ""
