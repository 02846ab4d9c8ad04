"""pydantic-ai-harness's tiered compaction as an arm, through the hook that Pydantic AI calls before each request.

Its edits are permanent: they are made in the run's own messages. Its summarizer is the run's model, asked through the
agent that the harness creates for it. Here that model is a fake that answers with the substitute summary.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from peers_wire import Changed, Out, Piece, Thread, Writer, Written, answers, summary
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters, _conversation_summary_text
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage

from ebbtide.core.types import Usage
from ebbtide.replay.contenders import ContenderRequest as Sent
from ebbtide.replay.contenders import SideCall
from ebbtide.replay.session import ReplayCall, ReplaySession

_SPOKEN = re.compile(r'<message role="assistant">\n(.*?)\n</message>', re.DOTALL)
"""Matches the agent's text in the transcript that the summarizer gets; the harness escapes such tags in the text."""


def file_key(call: ToolCallPart) -> str | None:
    """Tells the harness which reads are of the same file, as its user must. A part of a file is not the whole file."""
    if call.tool_name.lower() not in ("read", "read_file"):
        return None
    given = call.args_as_dict()
    path = given.get("file_path") or given.get("path")
    return f"{path}:{given.get('offset')}:{given.get('limit')}" if path else None


class Tiered:
    """`TieredCompaction.before_model_request`, with the run's messages kept between calls."""

    def __init__(self, tape: ReplaySession, window: int, made: Callable[[int], Any]) -> None:
        self._tape = tape
        self._wire = tape.wire.name
        self._thread = Thread(tape.wire.list_key)
        self._writer = Writer(self._wire)
        self._pieces: dict[int, tuple[Any, Piece]] = {}
        """By the identity of the part; the part is kept, so that its identity is not reused."""
        self._results: dict[str, Piece] = {}
        self._names: dict[str, str] = {}
        self._asked: list[SideCall] = []
        self._model = FunctionModel(self._summary, model_name=tape.calls[0].model)
        self._capability: Any = made(window)
        self._loop = asyncio.new_event_loop()

    def __del__(self) -> None:
        self._loop.close()

    def send(self, take: ReplayCall) -> Sent:
        self._asked.clear()
        self._hear(take)
        # The same list: what the capability changes in the run's messages stays changed.
        ctx: Any = RunContext(deps=None, model=self._model, usage=RunUsage(), messages=self._thread.state)
        request = ModelRequestContext(
            model=self._model,
            messages=list(self._thread.state),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        out = self._loop.run_until_complete(self._capability.before_model_request(ctx, request))
        self._thread.keep()
        run = (one for message in out.messages for one in self._written(message))
        messages = [*self._thread.prompt, *self._writer.messages(run)]
        return Sent(body={**take.raw, self._thread.key: messages}, side_calls=tuple(self._asked))

    def record_usage(self, call: ReplayCall, usage: Usage) -> None:
        del call
        self._thread.usage = usage

    def recall(self, name: str) -> str | None:
        del name
        return None

    def _hear(self, take: ReplayCall) -> None:
        """Join everything between two answers to one request, as the agent's graph does."""
        new, usage = self._thread.new(take)
        state: list[ModelMessage] = self._thread.state
        joined: ModelRequest | None = None
        for role, run in answers(self._wire, new):
            if role == "assistant":
                billed = RequestUsage(
                    input_tokens=usage.prompt if usage else 0, output_tokens=usage.output if usage else 0
                )
                state.append(ModelResponse([self._said(one) for one in run], usage=billed, model_name=take.model))
                usage, joined = None, None
            elif joined is not None:
                joined.parts = [*joined.parts, *(self._heard(role, one) for one in run)]
            else:
                joined = ModelRequest([self._heard(role, one) for one in run])
                state.append(joined)

    def _said(self, one: Piece) -> Any:
        if one.kind == "call":
            self._names[one.call_id] = one.name
            return self._known(ToolCallPart(one.name, one.text, tool_call_id=one.call_id), one)
        if one.kind == "thinking":
            return self._known(ThinkingPart(one.text), one)
        return self._known(TextPart(one.text), one)

    def _heard(self, role: str, one: Piece) -> Any:
        if one.kind == "result":
            self._results[one.call_id] = one
            name = self._names.get(one.call_id, "")
            return self._known(ToolReturnPart(name, one.text, tool_call_id=one.call_id), one)
        if role == "system":
            return self._known(SystemPromptPart(one.text), one)
        return self._known(UserPromptPart(one.text), one)

    def _known(self, part: Any, one: Piece) -> Any:
        self._pieces[id(part)] = (part, one)
        return part

    def _written(self, message: ModelMessage) -> Iterator[Out]:
        for part in message.parts:
            known = self._pieces.get(id(part))
            if known is not None:
                yield known[1]
            elif isinstance(part, ToolReturnPart):
                yield Changed(self._results[part.tool_call_id], str(part.content))
            elif isinstance(part, CompactionPart):
                # The text in which Pydantic AI's adapters send a summary.
                yield Written(_conversation_summary_text(part.content))
            else:
                raise AssertionError(f"an unknown {type(part).__name__}")

    async def _summary(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = "\n".join(_texts(messages, info))
        told, asked = summary(self._tape, prompt, _SPOKEN.findall(prompt))
        self._asked.append(asked)
        return ModelResponse([TextPart(told)])


def _texts(messages: Sequence[ModelMessage], info: AgentInfo) -> Iterator[str]:
    if info.instructions:
        yield info.instructions
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart | SystemPromptPart) and isinstance(part.content, str):
                yield part.content
