"""Token counters for callers: exact ones, which need a vocabulary or the provider, and one for a running stream.

Nothing here is called while a request is prepared. If you want exact counts, pass in a `TokenCounter`.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebbtide.core.tokens.estimator import DEFAULT, Estimator

_PER_MESSAGE = 3
"""Start, role and end of an OpenAI chat message, as its cookbook counts them."""
_NOT_TEXT = frozenset({"data", "image_url", "signature", "encrypted_content", "file_data"})
"""Keys whose strings are bytes in disguise."""


class TokenCounter(Protocol):
    def count(self, body: Mapping[str, object]) -> int:
        """Tokens of the prompt that this request body is."""


class Encoding(Protocol):
    """What `tiktoken.Encoding` is to us."""

    def encode_ordinary(self, text: str) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A `TokenCounter` over an encoding: every string of the body that is text, and the framing of its messages."""

    encoding: Encoding

    def count(self, body: Mapping[str, object]) -> int:
        prompt = [body.get(key) for key in ("system", "instructions", "messages", "input")]
        texts = [text for part in prompt for text in _texts(part)]
        tools = body.get("tools")
        if tools:
            texts.append(json.dumps(tools, ensure_ascii=False, separators=(",", ":"), default=str))
        turns = body.get("messages") or body.get("input")
        messages = len(turns) if isinstance(turns, Sequence) and not isinstance(turns, str) else 1
        return sum(len(self.encoding.encode_ordinary(text)) for text in texts) + _PER_MESSAGE * messages


def _texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key not in _NOT_TEXT:
                yield from _texts(value)
    elif isinstance(part, Sequence) and not isinstance(part, (bytes, bytearray)):
        for value in part:
            yield from _texts(value)


def tiktoken_counter(encoding: str = "o200k_base") -> Vocabulary:
    """Loads a vocabulary, which `tiktoken` fetches on first use: call it at the edge, once."""
    try:
        library = importlib.import_module("tiktoken")
    except ImportError as missing:
        raise ImportError("exact counts need tiktoken: pip install 'ebbtide[tiktoken]'") from missing
    return Vocabulary(library.get_encoding(encoding))


def prime_tool_tokens(counter: TokenCounter, *, model: str, tools: Sequence[Mapping[str, object]]) -> int:
    """Tokens of a tool set, from one question with the shortest of messages (R040). Remember it by the set's hash."""
    return counter.count({"model": model, "messages": [{"role": "user", "content": "foo"}], "tools": list(tools)})


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
