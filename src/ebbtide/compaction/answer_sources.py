"""Answers the questions of a compaction: asks the summarizer, or reads files. No lock is held, and time is limited.

A summarizer may be slow, broken or hostile. Its failure is part of the answer and never an exception, so that the
compaction can go on with less.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ebbtide.core.text.redact import redact
from ebbtide.core.types import Question
from ebbtide.effects import AskModel, RawAnswer
from ebbtide.wire.overflow import find_overflow_in_error

SummarizeFunction = Callable[[dict[str, Any]], object]
"""Takes a request in the session's own form and returns the response (dict, SDK object or text), or an awaitable."""

LiveReader = Callable[[list[str]], str]
"""Takes the paths of recently read files, newest first; returns a JSON list of `{"source", "text"}`."""

TIMEOUT = 120.0
"""Seconds. A summary of 4,000 tokens takes a slow model about a minute."""


@dataclass(frozen=True, slots=True)
class Summarizer:
    """A function that writes summaries, and how it is asked."""

    ask: SummarizeFunction
    model: str = field(default="", kw_only=True)
    """The model to put into the summary request; '' for the conversation's own."""
    timeout: float = field(default=TIMEOUT, kw_only=True)
    """Seconds to wait for a summary."""
    background: bool = field(default=False, kw_only=True)
    """Ask from the `soft` threshold on while the conversation goes on, and compact in a later request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSources:
    """The summarizer and the reader of live files that a session can ask."""

    summarizer: SummarizeFunction | None = None
    live: LiveReader | None = None
    timeout: float = TIMEOUT

    def ask(self, question: AskModel) -> RawAnswer:
        """Ask in a thread and wait until the timeout. A thread that never ends is abandoned: Python cannot stop it."""
        answers: list[RawAnswer] = []
        worker = threading.Thread(target=lambda: answers.append(self._answer(question)), daemon=True, name="ebb-ask")
        worker.start()
        worker.join(self.timeout)
        return answers[0] if answers else RawAnswer(failure="time-out")

    async def aask(self, question: AskModel) -> RawAnswer:
        """As `ask`, on an event loop: cancelled with the task that waits for it."""
        import asyncio  # noqa: PLC0415 - see `arun`

        if question.question.answer_mode == "live" or not inspect.iscoroutinefunction(self.summarizer):
            return await asyncio.to_thread(self.ask, question)
        try:
            return RawAnswer(response=await asyncio.wait_for(self.summarizer(question.body), self.timeout))
        except TimeoutError:
            return RawAnswer(failure="time-out")
        except Exception as error:  # noqa: BLE001 - whatever a summarizer raises is a failed answer
            return _failed_answer(error)

    def _answer(self, question: AskModel) -> RawAnswer:
        try:
            return RawAnswer(response=self._get_response(question))
        except Exception as error:  # noqa: BLE001 - whatever a summarizer raises is a failed answer
            return _failed_answer(error)

    def _get_response(self, question: AskModel) -> object:
        if question.question.answer_mode == "live":
            return self.live(_read_paths(question.question)) if self.live else "[]"
        assert self.summarizer is not None, "questions are asked only if there is a summarizer"
        response = self.summarizer(question.body)
        return _run_awaitable(response) if inspect.isawaitable(response) else response


class BackgroundQuestions:
    """Questions that are asked in a thread while the conversation goes on."""

    def __init__(self, sources: AnswerSources, questions: Sequence[AskModel]) -> None:
        self.answers: list[tuple[AskModel, RawAnswer]] = []

        def ask() -> None:
            self.answers.extend([(question, sources.ask(question)) for question in questions])

        self._worker = threading.Thread(target=ask, daemon=True, name="ebb-ahead")
        self._worker.start()

    @property
    def is_done(self) -> bool:
        return not self._worker.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        self._worker.join(seconds)


def _read_paths(question: Question) -> list[str]:
    return [str(path) for path in json.loads(question.prompt)]


def _run_awaitable(response: Awaitable[object]) -> object:
    import asyncio  # noqa: PLC0415

    async def wait() -> object:
        return await response

    return asyncio.run(wait())


def _failed_answer(error: Exception) -> RawAnswer:
    if find_overflow_in_error(error) is not None:
        return RawAnswer(failure="overflow")
    message, _ = redact(f"{type(error).__name__}: {error}")
    return RawAnswer(failure=message[:200])


def response_content(response: object) -> Mapping[str, Any] | str:
    """Return a response as a mapping or a text; an empty text if it is neither."""
    if isinstance(response, str | Mapping):
        return response
    dump = getattr(response, "model_dump", None)
    if dump is None:
        return ""
    content: Mapping[str, Any] = dump(mode="json", exclude_unset=True, by_alias=True)
    return content
