"""The agent loop: takes the user's message, yields events. It knows nothing of the terminal.

One turn is a user message and all that follows: a request, the reply, its tool calls, and again, until the model calls
no more tools. The engine sits between the conversation and the provider: `prepare` before a request, `record` after it.
A turn that fails leaves a conversation that can continue.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ebbtide.assembly import Conversation, mid_run, mode_reminder
from ebbtide.core.errors import EbbtideError
from ebbtide.core.text.preview import pluralize
from ebbtide.core.tool_calls import RECALL_TOOLS
from ebbtide.core.types import Usage
from ebbtide.fronts.chat.attachments import attach, changes, reminders
from ebbtide.fronts.chat.events import (
    AgentEvent,
    QueuedMessage,
    ReplyEnd,
    RequestStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnFailure,
    TurnInterrupt,
)
from ebbtide.fronts.chat.permission import Mode, Permissions
from ebbtide.fronts.chat.providers import (
    Body,
    FinalResponse,
    IncompleteReply,
    Interruption,
    Provider,
    Reply,
    ToolCall,
    stream_until_stopped,
)
from ebbtide.fronts.chat.tools import Arguments, Tool, ToolError, ToolResult, ToolState
from ebbtide.runtime.context import Context, Ready

MAX_REQUESTS = 250
"""In one turn. A turn that needs more is going in circles."""
NOT_RUN = "[Not run: the user interrupted before it began.]"


@dataclass(slots=True)
class Agent:
    provider: Provider
    context: Context
    conversation: Conversation
    state: ToolState
    permissions: Permissions
    tools: Mapping[str, Tool]
    max_requests: int = MAX_REQUESTS
    on_result: Callable[[ToolCall, ToolResult], None] = field(default=lambda _call, _result: None)
    """Called for each tool result at once: the engine logs it with the next request, and a crash may come first."""
    on_first_turn: Callable[[], None] | None = None
    """Called once, before the first request, so that a session without messages leaves no trace."""
    on_usage: Callable[[Usage], None] = field(default=lambda _usage: None)
    inbox: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    """Messages that the user sends during a turn."""
    _announced_mode: Mode = "build"
    _partial_reply: str = ""

    def run_turn(self, message: str = "") -> Iterator[AgentEvent]:
        """Run until the model calls no more tools. Without a message: continue an interrupted turn."""
        self.state.stop.clear()
        on_first_turn, self.on_first_turn = self.on_first_turn, None
        if on_first_turn is not None:
            on_first_turn()
        attach(self.conversation, reminders(self.state))
        self.conversation.inject("mode", mode_reminder(self._announced_mode, self.permissions.mode))
        self._announced_mode = self.permissions.mode
        self.conversation.user(message)
        try:
            yield from self._run_requests()
        except Interruption:
            self._note_interruption()
            yield TurnInterrupt()
        except Exception as error:  # noqa: BLE001  # SDKs raise anything; the user sees it and can go on.
            self._note_interruption()
            yield TurnFailure(error=error)

    def interrupt(self) -> None:
        """May be called from any thread."""
        self.state.stop.set()

    def _run_requests(self) -> Iterator[AgentEvent]:
        for _ in range(self.max_requests):
            reply = yield from self._send_request()
            for call in reply.calls:
                yield from self._call_tool(call)
            if self.state.stop.is_set():
                raise Interruption
            has_messages = yield from self._take_queued_messages(mid_run if reply.calls else str)
            if not reply.calls and not has_messages:
                return
            attach(self.conversation, changes(self.state))
        raise RuntimeError(
            f"stopped after {pluralize(self.max_requests, 'request')} in one turn; send a message to continue"
        )

    def _send_request(self) -> Generator[AgentEvent, None, Reply]:
        ready = self.context.prepare(self.provider.build_body(self.conversation.request()))
        yield RequestStart(report=ready.report)
        for path in ready.report.forgotten:
            self.state.known_files.pop(str(self.state.resolve_path(Arguments(path=path))), None)
        try:
            response = yield from self._stream_reply(ready)
        except Exception as error:
            if isinstance(error, Interruption | IncompleteReply | EbbtideError):
                raise
            # Raises any other error again; after an overflow it returns the request compacted, so that it fits.
            ready = self.context.overflowed(error)
            yield RequestStart(report=ready.report)
            response = yield from self._stream_reply(ready)
        ready.record(response)
        self.conversation.assistant(response)
        self._partial_reply = ""
        reply = self.provider.read(response)
        self.on_usage(reply.usage)
        yield ReplyEnd(reply=reply)
        return reply

    def _stream_reply(self, ready: Ready) -> Generator[AgentEvent, None, Body]:
        self._partial_reply = ""
        for piece in stream_until_stopped(partial(self.provider.stream, ready.body), self.state.stop):
            if isinstance(piece, FinalResponse):
                return piece.response
            self._partial_reply += piece
            yield TextDelta(text=piece)
        raise IncompleteReply

    def _call_tool(self, call: ToolCall) -> Iterator[AgentEvent]:
        yield ToolStart(call=call)
        result = ToolResult(text=NOT_RUN, is_error=True) if self.state.stop.is_set() else self._run_tool(call)
        self.on_result(call, result)
        self.conversation.tool_result(call.id, result.text, is_error=result.is_error)
        yield ToolEnd(call=call, result=result)

    def _run_tool(self, call: ToolCall) -> ToolResult:
        """Run one call. Errors become results, which the model reads."""
        tool = self.tools.get(call.name)
        if call.arguments is None:
            return ToolResult(text="The arguments are not a JSON object. Nothing was done.", is_error=True)
        try:
            call.arguments.reject_invalid_text()
            if call.name in RECALL_TOOLS:
                return self.state.run_recall(call.name, call.arguments)
            if tool is None:
                raise ToolError(f"there is no tool {call.name!r}; there are {', '.join(self.tools)}")
            reason = tool.action and self.permissions.refusal_reason(tool.action(self.state, call.arguments))
            if reason:
                # A user who interrupts instead of answering did not refuse.
                raise ToolError(NOT_RUN if self.state.stop.is_set() else reason)
            return tool.run(self.state, call.arguments)
        except Interruption:
            raise
        except (ToolError, OSError, EbbtideError) as error:
            return ToolResult(text=str(error), is_error=True)
        except Exception as error:  # noqa: BLE001  # A call without a result would end the conversation.
            return ToolResult(text=f"{call.name} failed: {type(error).__name__}: {error}", is_error=True)

    def _take_queued_messages(self, frame: Callable[[str], str]) -> Generator[AgentEvent, None, bool]:
        """Add the messages that the user sent meanwhile to the next request. Return whether there were any."""
        has_messages = False
        while True:
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                return has_messages
            self.conversation.user(frame(message))
            yield QueuedMessage(text=message)
            has_messages = True

    def _note_interruption(self) -> None:
        """Tell the model that its last reply is incomplete."""
        if self._partial_reply.strip():
            note = f"Your last reply was interrupted and is not in the conversation. It began:\n{self._partial_reply}"
            self.conversation.inject("reminder", note)
        self._partial_reply = ""


def final_reply(events: Iterator[AgentEvent]) -> str:
    """Run a turn and return the text of its last reply. Raises the error of a failed turn."""
    text = ""
    for event in events:
        if isinstance(event, ReplyEnd):
            text = event.reply.text
        elif isinstance(event, TurnFailure):
            raise event.error
        elif isinstance(event, TurnInterrupt):
            raise Interruption
    return text
