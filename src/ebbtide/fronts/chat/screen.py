"""The terminal: an input line that is always there, and above it what happens.

Two threads: this one reads keys, the other drives the agent. What the agent says is printed above the input; what it
asks is answered there. Nothing but this module knows of keys and threads.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from rich.console import Console, RenderableType

from ebbtide.core.errors import EbbtideError
from ebbtide.core.text.pluralize import pluralize
from ebbtide.core.types import Usage
from ebbtide.display import make_visible, one_line
from ebbtide.fronts.chat import render
from ebbtide.fronts.chat.commands import COMMANDS, Leave, obey, only_looks
from ebbtide.fronts.chat.context_usage import last_words, weigh
from ebbtide.fronts.chat.error_messages import told
from ebbtide.fronts.chat.events import Answered, Calling, Event, Failed, Heard, Returned, Said, Sending, Stopped
from ebbtide.fronts.chat.permission import Question, Verdict
from ebbtide.fronts.chat.session import Chat, Setup, open_chat
from ebbtide.fronts.chat.tools.bash import stop_all
from ebbtide.runtime.report import Event as EngineEvent

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.12  # seconds between frames
_GUARD = 0.4  # seconds in which a key cannot answer a question that has just come up: it was meant for the input
_LARGE = 2_000  # characters of a paste that is shown as a name: longer ones hide the input
_LIVE = 3  # lines of a half-finished paragraph that are shown
_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse #888888",
        "spinner": "#5f87d7",
        "live": "#888888",
        "ask": "bold #d7af5f",
        "subject": "bold",
        "key": "reverse",
        "prompt": "bold #5f87d7",
    }
)


@dataclass(slots=True)
class _Asked:
    """A question that waits for a key."""

    shown: StyleAndTextTuples
    keys: str
    at: float
    answer: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)


class Screen:
    """One person at one terminal."""

    def __init__(self, history: Path, change_model: Callable[[Setup, str], Setup]) -> None:
        self._chat: Chat | None = None
        self._change_model = change_model
        self._busy = False
        self._looking = False
        """A command is answered while another thread has the session."""
        self._doing, self._since = "", 0.0
        self._asked: _Asked | None = None
        self._block = ""
        """The paragraph that the model is in the middle of."""
        self._pastes: dict[str, str] = {}
        self._last: Usage | None = None
        self._left, self._window = 1.0, 0
        self._lock = threading.Lock()
        self._leaving = False
        self._owed = False
        """Whether there is something to go on with: an answer that did not come."""
        self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        history.touch(mode=0o600)
        self._session: PromptSession[str] = PromptSession(
            input=_raw_input(),
            message=self._message,
            bottom_toolbar=self._footer,
            multiline=True,
            history=FileHistory(str(history)),
            key_bindings=self._keys(),
            completer=WordCompleter([f"/{name}" for name in COMMANDS], sentence=True),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            style=_STYLE,
            erase_when_done=True,
            prompt_continuation="  ",
        )
        # One prompt for the whole conversation: while none runs, keys are lost, and so is what is printed just then.
        self._session.default_buffer.accept_handler = self._entered
        # An escape begins longer keys: so long is waited for the rest.
        self._session.app.ttimeoutlen = 0.05
        self._session.app.timeoutlen = 0.2

    # --- the room that commands are said in --------------------------------------------------------------------------

    @property
    def chat(self) -> Chat:
        assert self._chat is not None, "a session is open while the screen runs"
        return self._chat

    @property
    def last(self) -> Usage | None:
        return self._last

    @property
    def working(self) -> bool:
        return self._looking

    def show(self, what: RenderableType) -> None:
        self._console.print(what)

    def confirm(self, asked: str) -> bool:
        shown: StyleAndTextTuples = [("class:ask", f"\n {make_visible(asked)}\n"), ("class:key", " y "), ("", "yes   ")]
        return self._choice([*shown, ("class:key", " n "), ("", "no\n")], "yn") == "y"

    def provider(self, model: str) -> Setup:
        return self._change_model(self.chat.setup, model)

    def reopen(self, setup: Setup, session: str) -> None:
        chat = open_chat(setup, session)
        if self._chat is not None:
            stop_all(self._chat.agent.desk)
        self._chat, self._last = chat, chat.bill.calls[-1][1] if chat.bill.calls else None
        self._owed = chat.waiting
        weighed = weigh(chat, self._last, chat.agent.context.edits())
        self._window, self._left = weighed.size, weighed.context_left
        if chat.notebook.messages:
            self._greet_again(chat)
        for source, why in chat.skipped:
            self.show(render.notice(f"not read: {source}: {why}", "dim"))

    def _greet_again(self, chat: Chat) -> None:
        self.show(
            render.notice(f"Resumed {chat.session}: {pluralize(len(chat.notebook.messages), 'message')}.", "cyan")
        )
        said, answered = last_words(chat)
        if said:
            self.show(render.echo(said))
        if answered:
            self.show(render.words(answered))
        if chat.waiting:
            self.show(render.notice("It was in the middle of its work. Enter on an empty line goes on.", "cyan"))

    # --- from the agent's thread -------------------------------------------------------------------------------------

    def ask(self, question: Question) -> Verdict:
        said = self._choice(render.question(question), "yan")
        if said in ("y", "a"):
            return Verdict(allowed=True, remember=said == "a")
        return Verdict(allowed=False, words="" if said == "n" else said)

    def listen(self, event: EngineEvent) -> None:
        words, doing = render.engine(event)
        if event.kind == "fold_failed" and self.chat.agent.desk.stop.is_set():
            return  # Who did not wait for the summary knows why there is none.
        if words:
            self._flush()
            self.show(render.notice(words))
        self._do(doing or ("Thinking..." if event.kind == "folded" else self._doing))

    def _choice(self, shown: StyleAndTextTuples, keys: str) -> str:
        """One of the keys, or words in their place. Whoever stops the agent says no."""
        asked = _Asked(shown, keys, time.monotonic())
        self._asked = asked
        self._redraw()
        try:
            return asked.answer.get()
        finally:
            self._asked = None
            self._redraw()

    def _work(self, words: str) -> None:
        """Until nothing more is to do; what was said meanwhile begins another turn."""
        more: str | None = words
        while more is not None:
            self._attempt(more)
            with self._lock:
                more = self._next()
                self._busy = more is not None
        self._redraw()
        # The prompt that is yet to come asks itself, and what is not its own thread does not wake it.
        if (loop := self._session.app.loop) is not None:
            loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        app = self._session.app
        if self._leaving and app.is_running and not app.is_done:
            app.exit(exception=EOFError)

    def _next(self) -> str | None:
        try:
            return self.chat.agent.inbox.get_nowait()
        except queue.Empty:
            return None

    def _attempt(self, words: str) -> None:
        try:
            if words.startswith("/"):
                self.chat.agent.desk.stop.clear()
                obey(self, words)
                self.show("")
            else:
                self._turn(words)
        except Leave:
            self._leaving = True
        except Exception as failed:  # noqa: BLE001  # The screen must outlive what it shows.
            self._complain(failed)

    def _complain(self, failed: Exception) -> None:
        ours = "" if isinstance(failed, EbbtideError) else "a fault of ours: "
        self.show(render.notice(f"{ours}{told(failed)}", "red"))

    def _turn(self, words: str) -> None:
        self._owed = False
        for event in self.chat.agent.turn(words):
            self._shown(event)
            self._owed = isinstance(event, Stopped | Failed)
        self._flush()

    def _shown(self, event: Event) -> None:
        match event:
            case Sending(report=report):
                self._left, self._window = report.context_left, self.chat.agent.context.window
                self._do("Thinking...")
            case Said(text=text):
                self._say(text)
            case Answered(usage=usage, cut=cut):
                self._flush()
                self._last = usage if usage.total else self._last
                if cut:
                    self.show(render.notice("The reply was cut at its largest length."))
            case Calling(call=call):
                self._flush()
                self.show(render.call(call))
                self._do(f"{call.name}...")
            case Returned(call=call, outcome=outcome):
                self.show(render.outcome(outcome, call.name))
            case Heard(text=text):
                self.show(render.echo(text))
            case Stopped():
                self._flush()
                self.show(render.notice("Interrupted. Say what to do instead, or Enter on an empty line to go on."))
            case Failed(error=error):
                self._flush()
                self.show(render.notice(f"{told(error)}. Enter on an empty line tries again.", "red"))

    def _say(self, text: str) -> None:
        """Whole paragraphs are printed; the one that is being written is shown above the input."""
        self._block += text
        while (end := _paragraph(self._block)) > 0:
            block, self._block = self._block[:end], self._block[end:]
            if block.strip():
                self.show(render.words(block.strip("\n")))
        self._redraw()

    def _flush(self) -> None:
        block, self._block = self._block, ""
        if block.strip():
            self.show(render.words(block.strip("\n")))

    def _do(self, doing: str) -> None:
        self._doing = doing
        self._redraw()

    def _redraw(self) -> None:
        self._session.app.invalidate()

    # --- from the keyboard -------------------------------------------------------------------------------------------

    def run(self, setup: Setup, session: str, words: str) -> int:
        with patch_stdout(raw=True):
            self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, force_terminal=True)
            self.show(render.greeting(setup.provider.model, setup.root))
            self.reopen(setup, session)
            if words:
                self._begin(words)
            with self._ticking(), suppress(EOFError):
                self._session.prompt(pre_run=self._leave)
            self._end()
        print(f"To go on: ebb chat --resume {self.chat.session}")
        return 0

    def _entered(self, buffer: Buffer) -> bool:
        """Says that the input need not be kept."""
        self._said(self._expanded(buffer.text).strip())
        return False

    def _said(self, words: str) -> None:
        with self._lock:
            if self._asked is not None and words:
                self._asked.answer.put(words)
                return
            looking = self._busy and words.startswith("/") and only_looks(words)
            if self._busy and words.startswith("/") and not looking:
                name = words.partition(" ")[0]
                self.show(render.notice(f"{name} waits until the agent is done; Esc stops it.", "dim"))
                return
            if self._busy and not looking:
                if words:
                    self.chat.agent.inbox.put(words)
                    self.show(render.notice(f"queued: {one_line(words, 200)}", "dim"))
                return
        if looking:
            self._look(words)
        elif words or self._owed:
            self._begin(words)

    def _look(self, words: str) -> None:
        """Here, while the agent goes on in its thread: what it reads are the log and values that are replaced whole."""
        self.show(render.echo(words))
        self._looking = True
        try:
            obey(self, words)
        except Exception as failed:  # noqa: BLE001  # The screen must outlive what it shows.
            self._complain(failed)
        finally:
            self._looking = False

    def _begin(self, words: str) -> None:
        if words:
            self.show(render.echo(words))
        self._busy, self._since, self._doing = True, time.monotonic(), "Thinking..."
        threading.Thread(target=self._work, args=(words,), daemon=True).start()

    def _stop(self) -> None:
        self.chat.agent.interrupt()
        if self._asked is not None:
            self._asked.answer.put("n")

    def _end(self) -> None:
        """Give the agent a moment to write down what it was at."""
        self._stop()
        deadline = time.monotonic() + 5
        while self._busy and time.monotonic() < deadline:
            time.sleep(0.05)
        stop_all(self.chat.agent.desk)

    def _expanded(self, said: str) -> str:
        for name, text in self._pastes.items():
            said = said.replace(name, text)
        self._pastes.clear()
        return said

    @contextmanager
    def _ticking(self) -> Iterator[None]:
        """Redraws while somebody watches a spinner."""
        done = threading.Event()

        def tick() -> None:
            while not done.wait(_TICK):
                if self._busy:
                    self._redraw()

        threading.Thread(target=tick, daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _message(self) -> StyleAndTextTuples:
        shown: StyleAndTextTuples = []
        if self._block.strip():
            tail = make_visible(self._block.strip("\n")).splitlines()[-_LIVE:]
            shown.append(("class:live", "\n".join(row[-200:] for row in tail) + "\n"))
        if self._asked is not None:
            shown += self._asked.shown
        elif self._busy:
            passed = time.monotonic() - self._since
            frame = _FRAMES[int(passed / _TICK) % len(_FRAMES)]
            shown.append(("class:spinner", f"{frame} {self._doing} {passed:.0f} s · Esc to interrupt\n"))
        return [*shown, ("class:prompt", "> ")]

    def _footer(self) -> str:
        if self._chat is None:
            return ""
        chat = self._chat
        tokens = self._last.total if self._last is not None else 0
        mode, hits = chat.agent.permits.mode, chat.agent.context.health().hit_rate
        columns, model = self._session.app.output.get_size().columns, chat.setup.provider.model
        return render.footer(model, mode, tokens, self._window, self._left, chat.bill, hits, columns)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        quick = Condition(lambda: self._asked is not None and not self._session.default_buffer.text)

        def answer(event: KeyPressEvent) -> None:
            asked = self._asked
            if asked is not None and event.data in asked.keys and time.monotonic() - asked.at > _GUARD:
                asked.answer.put(event.data)
            elif asked is None or event.data not in asked.keys:
                event.current_buffer.insert_text(event.data)

        for key in "yan":
            keys.add(key, filter=quick)(answer)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("escape")
        def _(event: KeyPressEvent) -> None:
            if self._busy:
                self._stop()
            else:
                event.current_buffer.reset()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.reset()
            if self._busy:
                self._stop()
            else:
                self.show(render.notice("Ctrl-D leaves.", "dim"))

        @keys.add("s-tab")
        def _(_event: KeyPressEvent) -> None:
            permits = self.chat.agent.permits
            permits.mode = "build" if permits.mode == "plan" else "plan"

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(text) <= _LARGE:
                event.current_buffer.insert_text(text)
                return
            name = f"[paste {len(self._pastes) + 1}: {pluralize(text.count(chr(10)) + 1, 'line')}]"
            self._pastes[name] = text
            event.current_buffer.insert_text(name)

        return keys


def _raw_input() -> Input:
    """Keys that stay raw while something is printed: else Return becomes a line break then, and Ctrl-D is lost."""
    keys = create_input()
    keys.cooked_mode = keys.raw_mode  # type: ignore[method-assign]
    return keys


def _paragraph(text: str) -> int:
    """Where the first whole paragraph ends; 0 where none does. A blank line inside a fence ends nothing."""
    fenced, at = False, 0
    for row in text.splitlines(keepends=True):
        if not row.endswith("\n"):
            return 0
        at += len(row)
        if row.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            if not fenced:
                return at
        elif not row.strip() and not fenced and text[: at - len(row)].strip():
            return at
    return 0
