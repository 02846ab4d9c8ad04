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
from ebbtide.fronts.chat import events
from ebbtide.fronts.chat.permission import Mode, Permissions
from ebbtide.fronts.chat.providers import (
    Body,
    IncompleteReply,
    Interruption,
    Provider,
    Reply,
    ToolCall,
    stream_until_stopped,
)
from ebbtide.fronts.chat.tools import Arguments, Tool, ToolError, ToolResult, ToolState
from ebbtide.fronts.chat.tools.bash import report_ended_commands
from ebbtide.fronts.chat.tools.files import list_changed_files
from ebbtide.fronts.chat.tools.tasks import remind_of_todos
from ebbtide.runtime.context import Context
from ebbtide.runtime.ready import Ready
from ebbtide.workspace import gather_attachments

MAX_REQUESTS = 250
"""In one turn. A turn that needs more is going in circles."""
NOT_RUN = "[Not run: the user interrupted before this call started.]"


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

    def run_turn(self, message: str = "") -> Iterator[events.AgentEvent]:
        """Run until the model calls no more tools. Without a message: continue an interrupted turn."""
        self.state.stop.clear()
        on_first_turn, self.on_first_turn = self.on_first_turn, None
        if on_first_turn is not None:
            on_first_turn()
        # The model may have lost sight of its list.
        self._attach_changes({"todo": remind_of_todos})
        self.conversation.inject("mode", mode_reminder(self._announced_mode, self.permissions.mode))
        self._announced_mode = self.permissions.mode
        self.conversation.user(message)
        try:
            yield from self._run_requests()
        except Interruption:
            self._note_interruption()
            yield events.TurnInterrupt()
        except Exception as error:  # noqa: BLE001  # SDKs raise anything; the user sees it and can go on.
            self._note_interruption()
            yield events.TurnFailure(error=error)

    def interrupt(self) -> None:
        """May be called from any thread."""
        self.state.stop.set()

    def _run_requests(self) -> Iterator[events.AgentEvent]:
        for _ in range(self.max_requests):
            reply = yield from self._send_request()
            for call in reply.calls:
                yield from self._call_tool(call)
            if self.state.stop.is_set():
                raise Interruption
            has_messages = yield from self._take_queued_messages(mid_run if reply.calls else str)
            if not reply.calls and not has_messages:
                return
            self._attach_changes({})
        raise RuntimeError(
            f"stopped after {pluralize(self.max_requests, 'request')} in one turn; send a message to continue"
        )

    def _send_request(self) -> Generator[events.AgentEvent, None, Reply]:
        ready = self.context.prepare(self.provider.build_body(self.conversation.request()))
        yield events.RequestStart(report=ready.report)
        for path in ready.report.forgotten:
            self.state.known_files.pop(str(self.state.resolve_path(Arguments(path=path))), None)
        try:
            response = yield from self._stream_reply(ready)
        except Exception as error:
            if isinstance(error, Interruption | IncompleteReply | EbbtideError):
                raise
            # Raises any other error again; after an overflow it returns the request compacted, so that it fits.
            ready = self.context.overflowed(error)
            yield events.RequestStart(report=ready.report)
            response = yield from self._stream_reply(ready)
        ready.record(response)
        self.conversation.assistant(response)
        self._partial_reply = ""
        reply = self.provider.read(response)
        self.on_usage(reply.usage)
        yield events.ReplyEnd(reply=reply)
        return reply

    def _stream_reply(self, ready: Ready) -> Generator[events.AgentEvent, None, Body]:
        self._partial_reply = ""
        for piece in stream_until_stopped(partial(self.provider.stream, ready.body), self.state.stop):
            if not isinstance(piece, str):
                return piece
            self._partial_reply += piece
            yield events.TextDelta(text=piece)
        raise IncompleteReply

    def _call_tool(self, call: ToolCall) -> Iterator[events.AgentEvent]:
        yield events.ToolStart(call=call)
        result = ToolResult(text=NOT_RUN, is_error=True) if self.state.stop.is_set() else self._run_tool(call)
        self.on_result(call, result)
        self.conversation.tool_result(call.id, result.text, is_error=result.is_error)
        yield events.ToolEnd(call=call, result=result)

    def _run_tool(self, call: ToolCall) -> ToolResult:
        """Run one call. Errors become results, which the model reads."""
        tool = self.tools.get(call.name)
        if call.arguments is None:
            return ToolResult(text="Nothing was done: the arguments are not a JSON object.", is_error=True)
        try:
            call.arguments.reject_invalid_text()
            if call.name in RECALL_TOOLS:
                return self.state.run_recall(call.name, call.arguments)
            if tool is None:
                raise ToolError(f"there is no tool {call.name!r}. The tools are: {', '.join(self.tools)}")
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

    def _take_queued_messages(self, frame: Callable[[str], str]) -> Generator[events.AgentEvent, None, bool]:
        """Add the messages that the user sent meanwhile to the next request. Return whether there were any."""
        has_messages = False
        while True:
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                return has_messages
            self.conversation.user(frame(message))
            yield events.QueuedMessage(text=message)
            has_messages = True

    def _attach_changes(self, more: Mapping[str, Callable[[ToolState], str]]) -> None:
        """Tell the model what changed since its last request, each change once (R085)."""
        sources = {"changed-files": list_changed_files, "background": report_ended_commands, **more}
        for source, text in gather_attachments({name: partial(read, self.state) for name, read in sources.items()}):
            self.conversation.inject(source, text)

    def _note_interruption(self) -> None:
        """Tell the model that its last reply is incomplete."""
        if self._partial_reply.strip():
            note = f"Your last reply was interrupted and is not in the conversation. It began:\n{self._partial_reply}"
            self.conversation.inject("reminder", note)
        self._partial_reply = ""


def final_reply(turn: Iterator[events.AgentEvent]) -> str:
    """Run a turn and return the text of its last reply. Raises the error of a failed turn."""
    text = ""
    for event in turn:
        if isinstance(event, events.ReplyEnd):
            text = event.reply.text
        elif isinstance(event, events.TurnFailure):
            raise event.error
        elif isinstance(event, events.TurnInterrupt):
            raise Interruption
    return text
