"""LangChain's middleware as arms, called with the state of its graph, through the hooks that its agent calls.

`SummarizationMiddleware` replaces messages in the state; `ContextEditingMiddleware` edits a copy on each call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from langchain.agents.middleware import ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import get_buffer_string
from langgraph.graph.message import add_messages
from peers_wire import Changed, Out, Piece, Thread, Writer, Written, answers, summary

from ebbtide.core.types import Usage
from ebbtide.replay.contenders import ContenderRequest as Sent
from ebbtide.replay.contenders import SideCall
from ebbtide.replay.session import ReplayCall, ReplaySession

_PROVIDERS = {"anthropic": "anthropic", "openai_chat": "openai", "openai_responses": "openai"}


class Model(FakeListChatModel):
    """Never called. It has what the middleware reads from a chat model: type, provider, window."""

    provider: str = "anthropic"
    responses: list[str] = [""]  # noqa: RUF012 - a pydantic field

    @property
    def _llm_type(self) -> str:
        # This makes the middleware count 3.3 characters per token for Claude.
        return f"{self.provider}-chat"

    def _get_ls_params(self, stop: list[str] | None = None, **given: Any) -> Any:
        return {**super()._get_ls_params(stop, **given), "ls_provider": self.provider}


class _Conversation:
    """The conversation in LangChain's classes. Each message is created once and found by its id."""

    def __init__(self, tape: ReplaySession) -> None:
        self.wire = tape.wire.name
        self.thread = Thread(tape.wire.list_key)
        self.model = tape.calls[0].model
        self._writer = Writer(self.wire)
        self._made: dict[str, tuple[AnyMessage, tuple[Piece, ...]]] = {}

    def hear(self, take: ReplayCall) -> None:
        new, usage = self.thread.new(take)
        for role, run in answers(self.wire, new):
            if role == "assistant":
                self.thread.state.append(self._answer(run, usage))
                usage = None
            else:
                self.thread.state.extend(self._heard(role, run))

    def body(self, take: ReplayCall, messages: Sequence[AnyMessage]) -> dict[str, Any]:
        run = (one for message in messages for one in self._written(message))
        return {**take.raw, self.thread.key: [*self.thread.prompt, *self._writer.messages(run)]}

    def _answer(self, run: Sequence[Piece], usage: Usage | None) -> AnyMessage:
        calls = [
            {"name": one.name, "args": _arguments(one.text), "id": one.call_id} for one in run if one.kind == "call"
        ]
        billed: dict[str, Any] = {}
        if usage is not None:
            tokens = {"input_tokens": usage.prompt, "output_tokens": usage.output}
            billed["usage_metadata"] = {**tokens, "total_tokens": usage.prompt + usage.output}
        about = {"model_provider": _PROVIDERS[self.wire], "model_name": self.model}
        content = self._content(run)
        return self._known(AIMessage(content, tool_calls=calls, response_metadata=about, **billed), run)

    def _content(self, run: Sequence[Piece]) -> Any:
        """As in its adapters: calls and thinking are blocks, in the Chat format separate; plain text is a string."""
        if self.wire == "openai_chat" or all(one.kind == "text" for one in run):
            texts = [one for one in run if one.kind == "text"]
            if len(texts) <= 1:
                return texts[0].text if texts else ""
        return [{"type": "text", "text": one.text} if one.kind == "text" else dict(one.block) for one in run]

    def _heard(self, role: str, run: Sequence[Piece]) -> Iterator[AnyMessage]:
        for is_result, group in groupby(run, key=lambda one: one.kind == "result"):
            parts = list(group)
            if is_result:
                for one in parts:
                    yield self._known(ToolMessage(self._result(one), tool_call_id=one.call_id), [one])
            else:
                kind = SystemMessage if role == "system" else HumanMessage
                yield self._known(kind(self._content(parts)), parts)

    def _result(self, one: Piece) -> Any:
        block = one.block
        content = (
            block if self.wire == "openai_chat" else block.get("content" if self.wire == "anthropic" else "output")
        )
        if isinstance(content, list) and all(isinstance(part, dict) for part in content):
            return content
        return one.text

    def _known(self, message: Any, run: Sequence[Piece]) -> AnyMessage:
        message.id = f"m{len(self._made)}"
        self._made[message.id] = (message, tuple(run))
        return message  # type: ignore[no-any-return]

    def _written(self, message: AnyMessage) -> Sequence[Out]:
        original, run = self._made.get(str(message.id), (None, ()))
        if original is None:
            return [Written(message.text)]
        if message is original or message.content == original.content:
            return run
        assert isinstance(message, ToolMessage), "only results are cleared"
        return [Changed(run[0], str(message.content))]

    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        del call
        self.thread.usage = usage

    def recall(self, name: str) -> str | None:
        del name
        return None


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"input": text}


class Summarization(_Conversation):
    """`SummarizationMiddleware.before_model`, with its update applied by the graph's own reducer.

    Its summarizer gets the messages that the middleware chose. The request that its model would have got is built with
    the middleware's own prompt, and charged.
    """

    def __init__(self, tape: ReplaySession, window: int, settings: dict[str, Any]) -> None:
        super().__init__(tape)
        self._tape = tape
        self._asked: list[SideCall] = []
        model = Model(provider=_PROVIDERS[self.wire], profile={"max_input_tokens": window})
        self._middleware: Any = SummarizationMiddleware(model, summarizer=self._summary, **settings)

    def send(self, take: ReplayCall) -> Sent:
        self._asked.clear()
        self.hear(take)
        update = self._middleware.before_model({"messages": self.thread.state}, None)
        if update is not None:
            self.thread.state = list(add_messages(self.thread.state, update["messages"]))  # type: ignore[arg-type]
        self.thread.keep()
        return Sent(body=self.body(take, self.thread.state), side_calls=tuple(self._asked))

    def _summary(self, messages: list[AnyMessage]) -> str:
        prompt = DEFAULT_SUMMARY_PROMPT.format(messages=get_buffer_string(messages, format="xml")).rstrip()
        told, asked = summary(self._tape, prompt, [text for one in messages for text in _words(one)])
        self._asked.append(asked)
        return told


def _words(message: AnyMessage) -> list[str]:
    if not isinstance(message, AIMessage):
        return []
    if isinstance(message.content, str):
        return [message.content]
    return [str(one["text"]) for one in message.content if isinstance(one, dict) and one.get("type") == "text"]


class Editing(_Conversation):
    """`ContextEditingMiddleware.wrap_model_call`: a copy of all messages is edited, and the state is not."""

    def __init__(self, tape: ReplaySession, window: int, edits: Callable[[int], list[Any]]) -> None:
        super().__init__(tape)
        self._middleware: Any = ContextEditingMiddleware(edits=edits(window))
        self._model = Model(provider=_PROVIDERS[self.wire], profile={"max_input_tokens": window})

    def send(self, take: ReplayCall) -> Sent:
        self.hear(take)
        self.thread.keep()
        request = ModelRequest(model=self._model, messages=list(self.thread.state))
        edited: Any = self._middleware.wrap_model_call(request, lambda given: given)
        return Sent(body=self.body(take, edited.messages))
