"""The agent: words in, events out. It knows no terminal.

One turn is the person's words and all that follows from them: a request, the reply, its calls carried out, and again,
until the model calls nothing more. The engine stands between the conversation and the provider and nowhere else:
`prepare` before a request, `record` after it. A turn that breaks leaves a conversation that can go on.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ebbtide.assembly import Conversation, mid_run, mode_reminder
from ebbtide.core.errors import EbbtideError
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Usage
from ebbtide.fronts.chat.attachments import attach, news, reminders
from ebbtide.fronts.chat.events import Answered, Calling, Event, Failed, Heard, Returned, Said, Sending, Stopped
from ebbtide.fronts.chat.permission import Mode, Permits
from ebbtide.fronts.chat.providers import Body, BrokenOff, Call, Finished, Interrupted, Provider, Reply, watched
from ebbtide.fronts.chat.tools import RECALL_TOOLS, Desk, Need, Outcome, Refused, Tool, recalled, refuse_odd_text
from ebbtide.runtime.context import Context, Ready

STEPS = 250
"""Requests in one turn: who needs more goes in circles."""
NOT_RUN = "[Not run: the user interrupted before it began.]"


@dataclass(slots=True)
class Agent:
    provider: Provider
    context: Context
    talk: Conversation
    desk: Desk
    permits: Permits
    tools: Mapping[str, Tool]
    steps: int = STEPS
    keep: Callable[[Call, Outcome], None] = field(default=lambda _call, _outcome: None)
    """Told of each result as it is there: the log has it with the next request, and a crash may come before."""
    opening: Callable[[], None] | None = None
    """Done once, before the first request: a session in which nothing was said leaves no trace."""
    billed: Callable[[Usage], None] = field(default=lambda _usage: None)
    inbox: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    """Words that the person sends while it works."""
    _mode: Mode = "build"
    _said: str = ""

    def turn(self, words: str = "") -> Iterator[Event]:
        """Go on until the model has nothing more to do. Without words: where it was interrupted."""
        self.desk.stop.clear()
        opening, self.opening = self.opening, None
        if opening is not None:
            opening()
        attach(self.talk, reminders(self.desk))
        self.talk.inject("mode", mode_reminder(self._mode, self.permits.mode))
        self._mode = self.permits.mode
        self.talk.user(words)
        try:
            yield from self._steps()
        except Interrupted:
            self._note_interruption()
            yield Stopped()
        except Exception as failed:  # noqa: BLE001  # SDKs raise what they like; the person is told, and goes on.
            self._note_interruption()
            yield Failed(error=failed)

    def interrupt(self) -> None:
        """From any thread."""
        self.desk.stop.set()

    def _steps(self) -> Iterator[Event]:
        for _ in range(self.steps):
            reply = yield from self._exchange()
            for call in reply.calls:
                yield from self._carried_out(call)
            if self.desk.stop.is_set():
                raise Interrupted
            heard = yield from self._heard(mid_run if reply.calls else str)
            if not reply.calls and not heard:
                return
            attach(self.talk, news(self.desk))
        raise RuntimeError(f"stopped after {pluralize(self.steps, 'request')} in one turn; say how to go on")

    def _exchange(self) -> Generator[Event, None, Reply]:
        """One request and its reply."""
        ready = self.context.prepare(self.provider.body(self.talk.request()))
        yield Sending(report=ready.report)
        for path in ready.report.forgotten:
            self.desk.seen.pop(str(self.desk.place({"path": path})), None)
        try:
            response = yield from self._streamed(ready)
        except Exception as refused:
            if isinstance(refused, Interrupted | BrokenOff | EbbtideError):
                raise
            # Raises what is no overflow again; after an overflow the request has been folded, and fits.
            ready = self.context.overflowed(refused)
            yield Sending(report=ready.report)
            response = yield from self._streamed(ready)
        ready.record(response)
        self.talk.assistant(response)
        self._said = ""
        reply = self.provider.read(response)
        self.billed(reply.usage)
        yield Answered(text=reply.text, usage=reply.usage, cut=reply.cut)
        return reply

    def _streamed(self, ready: Ready) -> Generator[Event, None, Body]:
        self._said = ""
        for piece in watched(partial(self.provider.stream, ready.body), self.desk.stop):
            if isinstance(piece, Finished):
                return piece.response
            self._said += piece
            yield Said(text=piece)
        raise BrokenOff

    def _carried_out(self, call: Call) -> Iterator[Event]:
        yield Calling(call=call)
        outcome = Outcome(text=NOT_RUN, failed=True) if self.desk.stop.is_set() else self._run(call)
        self.keep(call, outcome)
        self.talk.tool_result(call.id, outcome.text, is_error=outcome.failed)
        yield Returned(call=call, outcome=outcome)

    def _run(self, call: Call) -> Outcome:
        """Whatever a call does wrong becomes a result: the model reads it and goes on."""
        tool = self.tools.get(call.name)
        if call.given is None:
            return Outcome(text="The arguments are not a JSON object. Nothing was done.", failed=True)
        try:
            refuse_odd_text(call.given)
            if call.name in RECALL_TOOLS:
                return recalled(self.desk, call.name, call.given)
            if tool is None:
                raise Refused(f"there is no tool {call.name!r}; there are {', '.join(self.tools)}")
            if why := self._refusal(tool.need(self.desk, call.given)):
                raise Refused(why)
            return tool.run(self.desk, call.given)
        except Interrupted:
            raise
        except (Refused, OSError, EbbtideError) as failed:
            return Outcome(text=str(failed), failed=True)
        except Exception as failed:  # noqa: BLE001  # A call without a result would end the conversation.
            return Outcome(text=f"{call.name} failed: {type(failed).__name__}: {failed}", failed=True)

    def _refusal(self, need: Need) -> str:
        why = self.permits.refusal(need)
        # Who interrupts while being asked has answered.
        return NOT_RUN if why and self.desk.stop.is_set() else why

    def _heard(self, worded: Callable[[str], str]) -> Generator[Event, None, bool]:
        """What the person sent meanwhile goes with the next request. Returns whether there was anything."""
        heard = False
        while True:
            try:
                words = self.inbox.get_nowait()
            except queue.Empty:
                return heard
            self.talk.user(worded(words))
            yield Heard(text=words)
            heard = True

    def _note_interruption(self) -> None:
        """The model must know that its last words did not arrive whole."""
        if self._said.strip():
            told = f"Your last reply was interrupted and is not in the conversation. It began:\n{self._said}"
            self.talk.inject("reminder", told)
        self._said = ""


def final_words(events: Iterator[Event]) -> str:
    """What a turn comes to, for those who only want the answer. A failure is raised."""
    said = ""
    for event in events:
        if isinstance(event, Answered):
            said = event.text
        elif isinstance(event, Failed):
            raise event.error
        elif isinstance(event, Stopped):
            raise Interrupted
    return said
