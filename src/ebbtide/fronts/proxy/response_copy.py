"""A copy of an answer that is being relayed, read for its usage and content. The client never waits for it.

Chunks are collected and parsed together, most of them after the answer's end: a stream is mostly many small chunks, and
work for each would delay the client.
"""

from __future__ import annotations

import json
import re
import threading
from itertools import groupby
from typing import Any, NamedTuple

from ebbtide.fronts.proxy.encoding import Decompressor
from ebbtide.wire import WIRES
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

_BATCH_BYTES = 64 << 10
"""Bytes parsed at once: about a millisecond, and the most that a stream holds in memory unread."""
_MAX_BODY_BYTES = 8 << 20
"""Bytes of an answer that is no stream. More is no answer of a model."""
_MAX_STREAM_BYTES = 1 << 30
"""Bytes of a stream, decompressed."""
_PLAIN_EVENT = re.compile(rb"(?m)^(?:event: [^\n]*\n)?data: (\{[^\n]*\}|\[DONE\])\n\n")
"""An event as nearly all providers write it."""
_STRING = re.compile(rb'[^"\\\n]*(?:\\.[^"\\\n]*)*')
"""A JSON string between its quotes."""
_TEXT_EVENT = re.compile(
    rb'(?m)^((?:event: [^\n]*\n)?data: \{[^\n]*?"delta": ?\{(?:"(?:role|type)": ?"\w+", ?)?'
    rb'"(?:content|reasoning_content|text|thinking|partial_json)": ?")'
    + _STRING.pattern
    + rb'("(?:, ?"\w+": ?null)*\}[^\n]*\}\n\n)'
)
"""An event that adds one text to the answer: what is before the text, and what is after it."""
_FILLER = re.compile(rb'(?:,"obfuscation":"\w*"| +)\}\n\n')
"""What OpenAI and Anthropic add to events so that their length does not betray the text."""


class ObservedResponse(NamedTuple):
    response: dict[str, object]
    """Empty if nothing could be read."""
    is_complete: bool
    """If not, only the usage can be trusted."""


_UNREADABLE = ObservedResponse({}, False)


class ResponseCopy:
    def __init__(self, wire: str, content_type: str, encoding: str) -> None:
        self._events = EventReader() if "event-stream" in content_type.lower() else None
        self._assembler = WIRES[wire].replies.stream_assembler()
        self._decompressor = Decompressor(encoding, _MAX_STREAM_BYTES if self._events else _MAX_BODY_BYTES)
        self._is_plain = True
        self._chunks: list[bytes] = []
        self._chunk_bytes = 0
        self._body: list[bytes] = []
        self._observed: ObservedResponse | None = None
        self._lock = threading.Lock()

    def feed(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._chunk_bytes += len(chunk)
        if self._chunk_bytes >= _BATCH_BYTES:
            self._parse_chunks()

    def read(self) -> ObservedResponse:
        """Return what the answer was, once there are no more chunks. Never raises; may be called again."""
        with self._lock:
            if self._observed is None:
                try:
                    self._parse_chunks()
                    self._observed = self._finish_stream(self._events) if self._events else self._finish_body()
                except Exception:  # noqa: BLE001 - a provider may send anything
                    self._observed = _UNREADABLE
            return self._observed

    def _parse_chunks(self) -> None:
        plain = self._decompressor.feed(b"".join(self._chunks))
        self._chunks, self._chunk_bytes = [], 0
        if self._events is None:
            self._body.append(plain)
            return
        objects = _parse_plain_events(plain) if self._is_plain else None
        self._is_plain = objects is not None  # if not, the reader may hold the beginning of an event
        for event in (parse_event(event) for event in self._events.feed(plain)) if objects is None else objects:
            self._assembler.add(event)

    def _finish_stream(self, events: EventReader) -> ObservedResponse:
        for event in events.close():
            self._assembler.add(parse_event(event))
        return ObservedResponse(self._assembler.response(), self._assembler.is_complete)

    def _finish_body(self) -> ObservedResponse:
        body = None if self._decompressor.is_broken else json.loads(b"".join(self._body))
        return ObservedResponse(body, not body.get("error")) if isinstance(body, dict) else _UNREADABLE


def _join_text_events(raw: bytes) -> bytes:
    """Join neighbouring events that differ only in their text into one: most of a stream, and slow to parse singly."""
    match = _TEXT_EVENT.search(raw)
    if match is not None and _FILLER.search(match[2]):
        raw = _FILLER.sub(b"}\n\n", raw)
        match = _TEXT_EVENT.search(raw)
    if match is None:
        return raw
    before, after = match[1], match[2].removesuffix(b"\n\n")
    joined = list[bytes]()
    for is_text, events in groupby(
        raw.split(b"\n\n"), lambda event: event.startswith(before) and event.endswith(after)
    ):
        if not is_text:
            joined += events
            continue
        text = b"".join(event[len(before) : -len(after)] for event in events)
        if not _STRING.fullmatch(text):
            return raw  # one of them has more fields than the first
        joined.append(before + text + after)
    return b"\n\n".join(joined)


def _parse_plain_events(raw: bytes) -> list[dict[str, Any]] | None:
    """Parse many events in half the time; None if one is cut or unusual: `EventReader` reads those."""
    raw = _join_text_events(raw)
    if _PLAIN_EVENT.sub(b"", raw):
        return None
    try:
        objects = json.loads(b"[" + b",".join(data for data in _PLAIN_EVENT.findall(raw) if data != b"[DONE]") + b"]")
    except (ValueError, RecursionError):
        return None
    return objects if all(isinstance(value, dict) for value in objects) else None
