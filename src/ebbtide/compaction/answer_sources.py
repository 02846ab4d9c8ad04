"""Where questions are answered: a model is asked, or files are read, with no lock held and never for ever.

Whoever answers may be slow, broken or hostile. A failure is a word in the answer, never an exception: the fold goes
down its ladder, and the session goes on.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ebbtide.core.text.redact import redact
from ebbtide.core.types import HistoryMark, Question
from ebbtide.wire.overflow import find_overflow_in_error

Summarizer = Callable[[dict[str, Any]], object]
"""Takes a request in the session's own form and returns the response (dict, SDK object or words), or an awaitable."""

LiveSource = Callable[[list[str]], str]
"""Takes the paths of files read lately, newest first; returns a JSON list of `{"source", "text"}`."""

TIMEOUT = 120.0
"""Seconds. A summary of 4,000 tokens takes a slow model about a minute."""


class Consult(NamedTuple):
    """Ask. The answer is `Heard`."""

    ask: Question
    body: dict[str, Any]
    """The request for a model; empty where files are asked for."""
    history: HistoryMark | None = None
    """The conversation that is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came back, as it came."""

    response: object = None
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisers:
    """Who can be asked."""

    summarizer: Summarizer | None = None
    live: LiveSource | None = None
    timeout: float = TIMEOUT

    def ask(self, question: Consult) -> Heard:
        """Wait, but not for ever. A thread that never comes back is left behind: nothing else can be done with it."""
        heard: list[Heard] = []
        worker = threading.Thread(target=lambda: heard.append(self._answered(question)), daemon=True, name="ebb-ask")
        worker.start()
        worker.join(self.timeout)
        return heard[0] if heard else Heard(failed="time-out")

    async def aask(self, question: Consult) -> Heard:
        """The same on an event loop: cancelled with the task that waits for it."""
        import asyncio  # noqa: PLC0415 - see `adrive`

        if question.ask.answer_mode == "live" or not inspect.iscoroutinefunction(self.summarizer):
            return await asyncio.to_thread(self.ask, question)
        try:
            return Heard(response=await asyncio.wait_for(self.summarizer(question.body), self.timeout))
        except TimeoutError:
            return Heard(failed="time-out")
        except Exception as failed:  # noqa: BLE001 - whatever a summarizer raises is a failed answer
            return _failure(failed)

    def _answered(self, question: Consult) -> Heard:
        try:
            return Heard(response=self._response(question))
        except Exception as failed:  # noqa: BLE001 - whatever a summarizer raises is a failed answer
            return _failure(failed)

    def _response(self, question: Consult) -> object:
        if question.ask.answer_mode == "live":
            return self.live(_paths(question.ask)) if self.live else "[]"
        assert self.summarizer is not None, "nobody is asked where there is nobody"
        response = self.summarizer(question.body)
        return _awaited(response) if inspect.isawaitable(response) else response


class Ahead:
    """Questions that are asked while the conversation goes on; answered or timed out, they are done."""

    def __init__(self, advisers: Advisers, questions: Sequence[Consult]) -> None:
        self.heard: list[tuple[Consult, Heard]] = []

        def ask() -> None:
            self.heard.extend([(question, advisers.ask(question)) for question in questions])

        self._worker = threading.Thread(target=ask, daemon=True, name="ebb-ahead")
        self._worker.start()

    @property
    def done(self) -> bool:
        return not self._worker.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        self._worker.join(seconds)


def _paths(ask: Question) -> list[str]:

    return [str(path) for path in json.loads(ask.prompt)]


def _awaited(response: Awaitable[object]) -> object:
    import asyncio  # noqa: PLC0415

    async def wait() -> object:
        return await response

    return asyncio.run(wait())


def _failure(failed: Exception) -> Heard:
    if find_overflow_in_error(failed) is not None:
        return Heard(failed="overflow")
    words, _ = redact(f"{type(failed).__name__}: {failed}")
    return Heard(failed=words[:200])


def told(response: object) -> Mapping[str, Any] | str:
    """A response as a mapping or as words; what is neither says nothing."""
    if isinstance(response, str | Mapping):
        return response
    dump = getattr(response, "model_dump", None)
    if dump is None:
        return ""
    plain: Mapping[str, Any] = dump(mode="json", exclude_unset=True, by_alias=True)
    return plain
