"""The terminal chat: an input line at the bottom, and above it the conversation.

Two threads: the main one reads keys, the other runs the agent. What the agent prints appears above the input line.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console, RenderableType

from ebbtide.core.errors import EbbtideError
from ebbtide.core.text.preview import pluralize
from ebbtide.core.types import Usage
from ebbtide.display import make_visible, one_line
from ebbtide.fronts.chat import events, render
from ebbtide.fronts.chat.chat_records import last_exchange
from ebbtide.fronts.chat.commands import ExitChat, is_read_only, run_command
from ebbtide.fronts.chat.error_messages import explain_error
from ebbtide.fronts.chat.input_line import InputLine
from ebbtide.fronts.chat.permission import PermissionAnswer, PermissionQuestion
from ebbtide.fronts.chat.session import Chat, Setup, open_chat
from ebbtide.fronts.chat.tools.bash import stop_all
from ebbtide.runtime.report import Event as EngineEvent


class EventPrinter:
    """Prints what the agent and the engine do. Complete paragraphs are printed; the last one shows above the input."""

    def __init__(self, input_line: InputLine) -> None:
        self._input = input_line
        self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, force_terminal=True)

    def show(self, content: RenderableType) -> None:
        self._console.print(content)

    def notice(self, text: str, style: str = "yellow") -> None:
        self.show(render.notice(text, style))

    def show_resumed(self, chat: Chat) -> None:
        self.notice(f"Resumed {chat.session}: {pluralize(len(chat.records.messages), 'message')}.", "cyan")
        message, answer = last_exchange(chat.records, chat.setup.provider.wire)
        if message:
            self.show(render.user_message(message))
        if answer:
            self.show(render.reply(answer))
        if chat.is_waiting:
            self.notice("The last turn is not finished. Press Enter to continue it.", "cyan")

    def show_event(self, event: events.AgentEvent) -> None:
        if not isinstance(event, events.TextDelta | events.QueuedMessage | events.ToolEnd | events.RequestStart):
            self.flush()
        match event:
            case events.RequestStart():
                self._input.set_activity("Thinking...")
            case events.TextDelta(text=text):
                self._add_text(text)
            case events.ReplyEnd(reply=reply) if reply.is_truncated:
                self.notice("The reply was cut off at the output limit.")
            case events.ToolStart(call=call):
                self.show(render.tool_call(call))
                self._input.set_activity(f"{call.name}...")
            case events.ToolEnd(call=call, result=result):
                self.show(render.tool_result(result, call.name))
            case events.QueuedMessage(text=text):
                self.show(render.user_message(text))
            case events.TurnInterrupt():
                self.notice("Interrupted. Type what to do instead, or press Enter to continue.")
            case events.TurnFailure(error=error):
                self.notice(f"{explain_error(error)}. Press Enter to try again.", "red")

    def show_engine_event(self, event: EngineEvent) -> None:
        text, activity = render.engine_event(event)
        if text:
            self.flush()
            self.notice(text)
        self._input.set_activity(activity or ("Thinking..." if event.kind == "folded" else ""))

    def _add_text(self, text: str) -> None:
        pending = self._input.partial_text + text
        while (end := paragraph_end(pending)) > 0:
            self._print_paragraph(pending[:end])
            pending = pending[end:]
        self._input.partial_text = pending
        self._input.redraw()

    def flush(self) -> None:
        """Print the last paragraph."""
        text, self._input.partial_text = self._input.partial_text, ""
        self._print_paragraph(text)

    def _print_paragraph(self, text: str) -> None:
        if text.strip():
            self.show(render.reply(text.strip("\n")))


class Screen:
    """One user at one terminal."""

    def __init__(self, history: Path, change_model: Callable[[Setup, str], Setup]) -> None:
        self.last_usage: Usage | None = None
        self.is_agent_working = False
        """Whether a read-only command runs in the main thread while the agent works in the other."""
        self._chat: Chat | None = None
        self._change_model = change_model
        self._context_left, self._window = 1.0, 0
        self._can_continue = False
        """Whether Enter on an empty line continues: the last turn has no answer yet."""
        self._lock = threading.Lock()
        self._input = InputLine(history, self)
        self._printer = EventPrinter(self._input)

    # --- for commands ------------------------------------------------------------------------------------------------

    @property
    def chat(self) -> Chat:
        assert self._chat is not None, "a session is open while the screen runs"
        return self._chat

    def show(self, content: RenderableType) -> None:
        self._printer.show(content)

    def confirm(self, question: str) -> bool:
        prompt: StyleAndTextTuples = [("class:ask", f"\n {make_visible(question)}\n")]
        keys: StyleAndTextTuples = [("class:key", " y "), ("", "yes   "), ("class:key", " n "), ("", "no\n")]
        return self._input.ask([*prompt, *keys], "yn") == "y"

    def setup_for_model(self, model: str) -> Setup:
        return self._change_model(self.chat.setup, model)

    def reopen(self, setup: Setup, session: str) -> None:
        chat = open_chat(setup, session)
        if self._chat is not None:
            stop_all(self._chat.agent.state)
        self._chat, self.last_usage = chat, chat.bill.calls[-1][1] if chat.bill.calls else None
        self._can_continue = chat.is_waiting
        usage = chat.measure_window(self.last_usage, chat.agent.context.edits())
        self._window, self._context_left = usage.size, usage.context_left
        if chat.records.messages:
            self._printer.show_resumed(chat)
        for source, reason in chat.skipped:
            self._printer.notice(f"Not read: {source}: {reason}", "dim")

    # --- from the agent's thread -------------------------------------------------------------------------------------

    def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        answer = self._input.ask(render.permission_question(question), "yan")
        if answer in ("y", "a"):
            return PermissionAnswer(allowed=True, remember=answer == "a")
        return PermissionAnswer(allowed=False, instruction="" if answer == "n" else answer)

    def on_engine_event(self, event: EngineEvent) -> None:
        # A user who did not wait for the summary knows why there is none.
        if event.kind != "fold_failed" or not self.chat.agent.state.stop.is_set():
            self._printer.show_engine_event(event)

    def _work(self, text: str) -> None:
        """Run a turn or a command, and then the messages that were queued meanwhile."""
        while True:
            self._try(self._run_turn if not text.startswith("/") else self._run_command, text)
            with self._lock:
                try:
                    text = self.chat.agent.inbox.get_nowait()
                except queue.Empty:
                    self._input.is_busy = False
                    break
        self._input.end_work()

    def _try(self, work: Callable[[str], None], text: str) -> None:
        try:
            work(text)
        except ExitChat:
            self._input.is_closing = True
        except Exception as error:  # noqa: BLE001  # The chat must survive any error that it shows.
            prefix = "" if isinstance(error, EbbtideError) else "internal error: "
            self._printer.notice(f"{prefix}{explain_error(error)}", "red")

    def _run_command(self, text: str) -> None:
        self.chat.agent.state.stop.clear()
        run_command(self, text)
        self.show("")

    def _run_turn(self, message: str) -> None:
        self._can_continue = False
        for event in self.chat.agent.run_turn(message):
            self._printer.show_event(event)
            if isinstance(event, events.RequestStart):
                self._context_left, self._window = event.report.context_left, self.chat.agent.context.window
            if isinstance(event, events.ReplyEnd) and event.reply.usage.total:
                self.last_usage = event.reply.usage
            self._can_continue = isinstance(event, events.TurnInterrupt | events.TurnFailure)
        self._printer.flush()

    # --- from the keyboard -------------------------------------------------------------------------------------------

    def run(self, setup: Setup, session: str, message: str) -> int:
        with patch_stdout(raw=True):
            self._printer = EventPrinter(self._input)  # Its console must print to the patched stdout.
            self.show(render.greeting(setup.provider.model, setup.root))
            self.reopen(setup, session)
            if message:
                self._start(message)
            self._input.run()
            self.stop()
            # Give the agent a moment to write its last records.
            deadline = time.monotonic() + 5
            while self._input.is_busy and time.monotonic() < deadline:
                time.sleep(0.05)
            stop_all(self.chat.agent.state)
        print(f"To continue: ebb chat --resume {self.chat.session}")
        return 0

    def submit(self, text: str) -> None:
        with self._lock:
            if text and self._input.answer(text):
                return
            is_busy, is_command = self._input.is_busy, text.startswith("/")
            if is_busy and text and not is_command:
                self.chat.agent.inbox.put(text)
        if is_busy and is_command and is_read_only(text):
            self._run_while_busy(text)
        elif is_busy and is_command:
            self.show_hint(f"{text.partition(' ')[0]} must wait until the agent is done; Esc stops it.")
        elif is_busy and text:
            self.show_hint(f"queued: {one_line(text, 200)}")
        elif not is_busy and (text or self._can_continue):
            self._start(text)

    def _run_while_busy(self, text: str) -> None:
        """Safe while the agent works: read-only commands read the log and values that are replaced, never changed."""
        self.show(render.user_message(text))
        self.is_agent_working = True
        self._try(lambda command: run_command(self, command), text)
        self.is_agent_working = False

    def _start(self, text: str) -> None:
        if text:
            self.show(render.user_message(text))
        self._input.start_work()
        threading.Thread(target=self._work, args=(text,), daemon=True).start()

    def stop(self) -> None:
        self.chat.agent.interrupt()
        self._input.answer("n")

    def show_hint(self, text: str) -> None:
        self._printer.notice(text, "dim")

    def toggle_plan_mode(self) -> None:
        self.chat.agent.permissions.toggle_mode()

    def footer(self, columns: int) -> str:
        if self._chat is None:
            return ""
        return render.footer(
            model=self._chat.setup.provider.model,
            mode=self._chat.agent.permissions.mode,
            tokens=self.last_usage.total if self.last_usage is not None else 0,
            window=self._window,
            context_left=self._context_left,
            bill=self._chat.bill,
            hit_rate=self._chat.agent.context.health().hit_rate,
            columns=columns,
        )


def paragraph_end(text: str) -> int:
    """Return where the first complete paragraph ends, or 0. A blank line in a code fence ends no paragraph."""
    is_fenced, end = False, 0
    for row in text.splitlines(keepends=True):
        if not row.endswith("\n"):
            return 0
        end += len(row)
        if row.lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
            if not is_fenced:
                return end
        elif not row.strip() and not is_fenced and text[: end - len(row)].strip():
            return end
    return 0
