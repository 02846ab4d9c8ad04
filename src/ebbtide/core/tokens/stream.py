"""Tokens of a stream while it runs. Characters add up, and are rounded once, when somebody asks (E8)."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ebbtide.core.tokens.estimator import DEFAULT, Estimator


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStats:
    input: int
    output: int

    @property
    def total(self) -> int:
        return self.input + self.output


class _Tally:
    """Keeps one character of what came: enough to know whether a piece continues a word or begins one."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator, self._tokens, self._last = estimator, 0.0, ""

    def add(self, text: str) -> None:
        if not text:
            return
        measure = self._estimator.measure
        self._tokens += measure(self._last + text) - (measure(self._last) if self._last else 0.0)
        self._last = text[-1]

    def tokens(self) -> int:
        return self._estimator.rounded(self._tokens)


class StreamingCounter:
    """May be fed and read from several threads. A hundred chunks of one character are 25 tokens, at 4 to a token."""

    def __init__(self, estimator: Estimator = DEFAULT) -> None:
        self._lock = threading.Lock()
        self._input, self._output = _Tally(estimator), _Tally(estimator)

    def record_input(self, text: str) -> None:
        with self._lock:
            self._input.add(text)

    def record_output(self, text: str) -> None:
        with self._lock:
            self._output.add(text)

    def stats(self) -> StreamStats:
        with self._lock:
            return StreamStats(input=self._input.tokens(), output=self._output.tokens())
