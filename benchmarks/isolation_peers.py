"""LangChain's and deepagents' middleware as subjects of `isolation.py`: a process in a separate environment.

    python isolation_peers.py NAME WINDOW

It reads lines with `{"thread", "body"}` or `{"read"}` from stdin and writes `{"body"}`, `{"refused"}` or `{"text"}`. It
keeps a state for each thread, as LangGraph does, goes back to an earlier one if the client changed its history, and
writes messages with LangChain's own adapter for Anthropic. It imports nothing of Ebbtide.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import create_summarization_middleware
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_anthropic.chat_models import _format_messages
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph.message import add_messages

Body = dict[str, Any]
State = dict[str, Any]
Acts = Callable[[State, Body], tuple[State, list[Any]]]
"""Takes a thread's state and the request; returns the next state and the messages for the model."""
_WORD = re.compile(r"\S{4,40}")
_WORDS = 150


class Model(FakeListChatModel):
    """Never called. It has what the middleware reads from a chat model: type, provider, window."""

    responses: list[str] = [""]  # noqa: RUF012 - a pydantic field

    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"

    def _get_ls_params(self, stop: list[str] | None = None, **given: Any) -> Any:
        return {**super()._get_ls_params(stop, **given), "ls_provider": "anthropic"}


def summary(messages: Sequence[Any]) -> str:
    """Instead of a model: repeats words of its input, from the beginning."""
    words = dict.fromkeys(word for message in messages for word in _WORD.findall(str(message.content)))
    return "Seen so far: " + " ".join(itertools.islice(words, _WORDS))


def told(messages: Sequence[Body], number: Callable[[], str]) -> list[Any]:
    """Convert Anthropic messages to LangChain's classes."""
    found: list[Any] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block for block in blocks if block["type"] == "text"]
        if message["role"] == "assistant":
            uses = [block for block in blocks if block["type"] == "tool_use"]
            calls = [{"name": use["name"], "args": use["input"], "id": use["id"]} for use in uses]
            found.append(AIMessage(list(blocks), tool_calls=calls, id=number()))
            continue
        results = [block for block in blocks if block["type"] == "tool_result"]
        found += [ToolMessage(one["content"], tool_call_id=one["tool_use_id"], id=number()) for one in results]
        found += [HumanMessage([block], id=number()) for block in texts]
    return found


class Threads:
    """The state of each thread after each call, by how many of the client's messages it has seen."""

    def __init__(self, act: Acts) -> None:
        self._act = act
        self._seen: dict[str, list[str]] = {}
        self._states: dict[str, list[tuple[int, State]]] = {}
        self._count = itertools.count()

    def send(self, thread: str, body: Body) -> Body:
        spelled = [json.dumps(message, sort_keys=True) for message in body["messages"]]
        before, states = self._seen.get(thread, []), self._states.setdefault(thread, [(0, {"messages": []})])
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, spelled, strict=False)))
        while states[-1][0] > same:
            states.pop()
        known, state = states[-1]
        new = told(body["messages"][known:], lambda: f"m{next(self._count)}")
        state, messages = self._act({**state, "messages": [*state["messages"], *new]}, body)
        states.append((len(spelled), state))
        self._seen[thread] = spelled
        return {**body, "messages": _format_messages(messages, model=body["model"])[1]}


def clearing(window: int) -> Acts:
    middleware: Any = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=window * 4 // 5, keep=3)])
    model = Model(profile={"max_input_tokens": window})

    def act(state: State, _: Body) -> tuple[State, list[Any]]:
        request = ModelRequest(model=model, messages=list(state["messages"]))
        return state, middleware.wrap_model_call(request, lambda edited: edited).messages

    return act


def summarizing(window: int) -> Acts:
    model = Model(profile={"max_input_tokens": window})
    middleware: Any = SummarizationMiddleware(
        model, trigger=("fraction", 0.8), keep=("fraction", 0.3), trim_tokens_to_summarize=None, summarizer=summary
    )

    def act(state: State, _: Body) -> tuple[State, list[Any]]:
        update = middleware.before_model(state, None)
        messages = state["messages"] if update is None else list(add_messages(state["messages"], update["messages"]))
        return {**state, "messages": messages}, messages

    return act


def deep(window: int, backend: Any) -> Acts:
    middleware: Any = create_summarization_middleware(
        Model(profile={"max_input_tokens": window}), backend, summarizer=summary
    )

    def act(state: State, body: Body) -> tuple[State, list[Any]]:
        sent: list[Any] = []

        def answer(request: Any) -> Any:
            sent[:] = request.messages
            return ModelResponse(result=[AIMessage("")])

        request = ModelRequest(
            model=middleware.model,
            messages=list(state["messages"]),
            system_prompt=body["system"],
            tools=list(body["tools"]),
            state=state,  # type: ignore[arg-type]
        )
        response = middleware.wrap_model_call(request, answer)
        update = response.command.update if isinstance(response, ExtendedModelResponse) else {}
        kept = {name: value for name, value in update.items() if name != "messages"}
        messages = list(add_messages(state["messages"], update.get("messages", [])))
        return {**state, **kept, "messages": messages}, list(sent)

    return act


def main() -> None:
    warnings.simplefilter("ignore")
    name, window = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        backend = FilesystemBackend(root_dir=folder, virtual_mode=True)
        acts = {"clearing": clearing, "summarizing": summarizing, "deep": lambda size: deep(size, backend)}
        threads = Threads(acts[name](window))
        for line in sys.stdin:
            asked = json.loads(line)
            if "read" in asked:
                page = backend.read(asked["read"], limit=100_000)
                answer: Body = {"text": json.dumps(page, default=str)}
            else:
                try:
                    answer = {"body": threads.send(asked["thread"], asked["body"])}
                except Exception as error:  # noqa: BLE001 - a refusal is counted, whatever it is called
                    answer = {"refused": f"{type(error).__name__}: {error}"[:300]}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
