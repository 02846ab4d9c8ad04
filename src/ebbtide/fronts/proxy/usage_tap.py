"""A copy of what streams by, read for what it cost. The client's bytes never wait for it, and it may fail alone.

Chunks are put aside and read together: a stream is mostly many small chunks, and each is a delay for the client.
"""

from __future__ import annotations

import json
import threading
from typing import NamedTuple

from ebbtide.fronts.proxy.encoding import Inflating
from ebbtide.wire import WIRES
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

_TOGETHER = 64 << 10
"""Bytes read at once: a millisecond, and what a stream may hold in memory unread."""
_MOST_BODY = 8 << 20
"""Bytes of an answer that is no stream. More is no answer of a model."""
_MOST_STREAM = 1 << 30
"""Bytes of a stream in the clear."""


class Heard(NamedTuple):
    """What an answer was."""

    response: dict[str, object]
    """Empty where nothing could be read."""
    whole: bool
    """All of it came; else only its usage says anything."""


class Copy:
    def __init__(self, wire: str, content_type: str, encoding: str) -> None:
        self._events = EventReader() if "event-stream" in content_type.lower() else None
        self._assembler = WIRES[wire].replies.stream_assembler()
        self._inflating = Inflating(encoding, _MOST_STREAM if self._events else _MOST_BODY)
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._body: list[bytes] = []
        self._heard: Heard | None = None
        self._lock = threading.Lock()

    def feed(self, chunk: bytes) -> None:
        self._waiting.append(chunk)
        self._bytes += len(chunk)
        if self._bytes >= _TOGETHER:
            self._read()

    def heard(self) -> Heard:
        """After the last chunk, or after what became the last. Never raises: what cannot be read is not known.

        Read once, whoever asks and however often.
        """
        with self._lock:
            self._heard = self._heard or self._ended()
            return self._heard

    def _ended(self) -> Heard:
        try:
            self._read()
            return self._stream() if self._events else self._answer()
        except Exception:  # noqa: BLE001 - a provider may send anything
            return Heard({}, False)

    def _read(self) -> None:
        chunk, self._waiting, self._bytes = b"".join(self._waiting), [], 0
        plain = self._inflating.feed(chunk)
        if self._events is None:
            self._body.append(plain)
            return
        for event in self._events.feed(plain):
            self._assembler.add(parse_event(event))

    def _stream(self) -> Heard:
        for event in self._events.close() if self._events else ():
            self._assembler.add(parse_event(event))
        return Heard(self._assembler.response(), self._assembler.is_complete)

    def _answer(self) -> Heard:
        if self._inflating.broken:
            return Heard({}, False)
        told = json.loads(b"".join(self._body))
        return Heard(told, "error" not in told or not told["error"]) if isinstance(told, dict) else Heard({}, False)
