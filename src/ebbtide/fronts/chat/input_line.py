"""The input line at the bottom of the terminal: keys, pastes, the spinner, and questions that a key answers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

from ebbtide.core.text.preview import pluralize
from ebbtide.display import make_visible
from ebbtide.fronts.chat.commands import COMMANDS

KEY_GUARD = 0.4
"""Seconds after a question appears in which a key does not answer it: the user was still typing."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.12  # seconds between frames
_MAX_PASTE = 2_000  # characters: a longer paste would hide the input, so a name is shown instead
_LIVE_LINES = 3  # of a paragraph that is not complete yet
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


class InputHandler(Protocol):
    """Receives what the user does at the input line."""

    def submit(self, text: str) -> None: ...

    def stop(self) -> None:
        """Interrupt the agent."""
        ...

    def toggle_plan_mode(self) -> None: ...

    def show_hint(self, text: str) -> None: ...

    def footer(self, columns: int) -> str: ...


@dataclass(slots=True)
class _Question:
    prompt: StyleAndTextTuples
    keys: str
    asked_at: float
    answer: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)


class InputLine:
    """One prompt for the whole conversation: without one, keys and printed text would be lost between two prompts."""

    def __init__(self, history: Path, handler: InputHandler) -> None:
        self.is_busy = False
        self.is_closing = False
        self.partial_text = ""
        """The paragraph that the model is writing."""
        self._handler = handler
        self._activity, self._busy_since = "", 0.0
        self._question: _Question | None = None
        self._pastes: dict[str, str] = {}
        history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        history.touch(mode=0o600)
        self._session: PromptSession[str] = PromptSession(
            input=_raw_input(),
            message=self._message,
            bottom_toolbar=lambda: handler.footer(self._session.app.output.get_size().columns),
            multiline=True,
            history=FileHistory(str(history)),
            key_bindings=self._key_bindings(),
            completer=WordCompleter([f"/{name}" for name in COMMANDS], sentence=True),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            style=_STYLE,
            erase_when_done=True,
            prompt_continuation="  ",
        )
        self._session.default_buffer.accept_handler = self._accept
        # Longer key sequences begin with an escape: wait this many seconds for the rest.
        self._session.app.ttimeoutlen = 0.05
        self._session.app.timeoutlen = 0.2

    def run(self) -> None:
        """Read input until the user leaves."""
        with self._spinner(), suppress(EOFError):
            self._session.prompt(pre_run=self._exit_if_closing)

    def start_work(self) -> None:
        self.is_busy, self._busy_since, self._activity = True, time.monotonic(), "Thinking..."

    def end_work(self) -> None:
        self.redraw()
        # Exiting from another thread does not wake the prompt. A prompt that has not started yet checks `pre_run`.
        if (loop := self._session.app.loop) is not None:
            loop.call_soon_threadsafe(self._exit_if_closing)

    def set_activity(self, activity: str) -> None:
        self._activity = activity or self._activity
        self.redraw()

    def redraw(self) -> None:
        self._session.app.invalidate()

    def ask(self, prompt: StyleAndTextTuples, keys: str) -> str:
        """Wait for one of the keys, or for text that the user enters instead. Called from the agent's thread."""
        question = self._question = _Question(prompt, keys, time.monotonic())
        self.redraw()
        try:
            return question.answer.get()
        finally:
            self._question = None
            self.redraw()

    def answer(self, text: str) -> bool:
        """Answer the open question. Return False if there is none."""
        if (question := self._question) is None:
            return False
        question.answer.put(text)
        return True

    def _exit_if_closing(self) -> None:
        app = self._session.app
        if self.is_closing and app.is_running and not app.is_done:
            app.exit(exception=EOFError)

    def _accept(self, buffer: Buffer) -> bool:
        text = buffer.text
        for name, paste in self._pastes.items():
            text = text.replace(name, paste)
        self._pastes.clear()
        self._handler.submit(text.strip())
        return False  # Clear the input.

    @contextmanager
    def _spinner(self) -> Iterator[None]:
        done = threading.Event()

        def tick() -> None:
            while not done.wait(_TICK):
                if self.is_busy:
                    self.redraw()

        threading.Thread(target=tick, daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _message(self) -> StyleAndTextTuples:
        parts: StyleAndTextTuples = []
        if self.partial_text.strip():
            tail = make_visible(self.partial_text.strip("\n")).splitlines()[-_LIVE_LINES:]
            parts.append(("class:live", "\n".join(row[-200:] for row in tail) + "\n"))
        if self._question is not None:
            parts += self._question.prompt
        elif self.is_busy:
            seconds = time.monotonic() - self._busy_since
            frame = _FRAMES[int(seconds / _TICK) % len(_FRAMES)]
            parts.append(("class:spinner", f"{frame} {self._activity} {seconds:.0f} s · Esc to interrupt\n"))
        return [*parts, ("class:prompt", "> ")]

    def _key_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        is_question_open = Condition(lambda: self._question is not None and not self._session.default_buffer.text)

        def answer(event: KeyPressEvent) -> None:
            question = self._question
            if question is None or event.data not in question.keys:
                event.current_buffer.insert_text(event.data)
            elif time.monotonic() - question.asked_at > KEY_GUARD:
                question.answer.put(event.data)

        for key in "yan":
            keys.add(key, filter=is_question_open)(answer)

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("escape")
        def _(event: KeyPressEvent) -> None:
            if self.is_busy:
                self._handler.stop()
            else:
                event.current_buffer.reset()

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.reset()
            if self.is_busy:
                self._handler.stop()
            else:
                self._handler.show_hint("Press Ctrl-D to leave.")

        @keys.add("s-tab")
        def _(_event: KeyPressEvent) -> None:
            self._handler.toggle_plan_mode()

        @keys.add(Keys.BracketedPaste)
        def _(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if len(text) > _MAX_PASTE:
                name = f"[paste {len(self._pastes) + 1}: {pluralize(text.count(chr(10)) + 1, 'line')}]"
                self._pastes[name] = text
                text = name
            event.current_buffer.insert_text(text)

        return keys


def _raw_input() -> Input:
    """Keep raw mode while text is printed. In cooked mode Return becomes a line break and Ctrl-D is lost."""
    keys = create_input()
    keys.cooked_mode = keys.raw_mode  # type: ignore[method-assign]
    return keys
