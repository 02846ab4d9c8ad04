"""Read an answer on its way to the client: its beginning for a refusal, and a copy of all of it for the log.

Of a stream only the first chunk is read before it is passed on; of an error, the few hundred bytes that it has. The
copy is parsed in batches, mostly after the answer's end: a stream is many small chunks, and work for each would delay
the client.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from contextlib import suppress
from typing import Any, NamedTuple

import aiohttp

from ebbtide.core.errors import BadRequest
from ebbtide.core.types import Usage
from ebbtide.fronts.proxy.encoding import Decompressor, decompress, is_identity
from ebbtide.wire import WIRES
from ebbtide.wire.amazon_stream import CONTENT_TYPE, read_events
from ebbtide.wire.overflow import find_overflow, refuses_cache_fields, refuses_signatures
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

_MAX_ERROR_BYTES = 256 << 10
"""Bytes of an error that are read. One that echoes the request is longer, but its beginning is enough."""
_FIRST_CHUNK_SECONDS = 1.0
"""Time to wait for the first chunk after the headers. A refusal comes at once; a model that thinks takes longer."""
_ERROR_START = re.compile(rb'\s*(?:\[\s*)?\{\s*"error"')
"""An error with status 200: an object, or the first of Gemini's list."""
_NEVER_ABOUT_SIZE = frozenset({401, 402, 403, 404, 429})
"""Statuses that are passed on without a look at the body."""


class ProviderRefusal(Exception):
    """The provider's error, in the form in which the engine looks for overflows."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(body[:2000])
        self.status_code, self.body = status, body


class AnswerStart(NamedTuple):
    chunks: list[bytes]
    """Read already, and not sent to the client yet."""
    refusal: ProviderRefusal | None
    is_empty: bool = False
    """Whether it is a stream that ended without an event."""


async def read_start(answer: aiohttp.ClientResponse) -> AnswerStart:
    """Read the beginning of an answer."""
    if answer.status in _NEVER_ABOUT_SIZE:
        return AnswerStart([], None)
    encoding, kind = answer.headers.get("content-encoding", ""), answer.headers.get("content-type", "")
    if 200 <= answer.status < 300:
        chunk = await _first_chunk(answer)
        if chunk is None:
            return AnswerStart([], None)
        if "event-stream" in kind:
            return _stream_start(chunk, encoding)
        if not _ERROR_START.match(chunk):
            return AnswerStart([chunk] if chunk else [], None)
        chunks = [chunk, *await _remaining_chunks(answer)]
    else:
        chunks = await _remaining_chunks(answer)
    text = _decompressed_text(b"".join(chunks), encoding)
    refusal = ProviderRefusal(answer.status, text)
    may_retry = text and (
        find_overflow(answer.status, text) or refuses_cache_fields(refusal) or refuses_signatures(refusal)
    )
    return AnswerStart(chunks, refusal if may_retry else None)


async def _first_chunk(answer: aiohttp.ClientResponse) -> bytes | None:
    """Return the first chunk; empty if the answer is empty, None if no chunk came in time."""
    try:
        async with asyncio.timeout(_FIRST_CHUNK_SECONDS):
            return await answer.content.readany()
    except (TimeoutError, aiohttp.ClientError):
        return None


async def _remaining_chunks(answer: aiohttp.ClientResponse) -> list[bytes]:
    chunks, size = list[bytes](), 0
    with suppress(aiohttp.ClientError):
        while size < _MAX_ERROR_BYTES and (chunk := await answer.content.readany()):
            chunks.append(chunk)
            size += len(chunk)
    return chunks


def _stream_start(chunk: bytes, encoding: str) -> AnswerStart:
    if not chunk:
        return AnswerStart([], None, is_empty=True)
    if not is_identity(encoding) or b"error" not in chunk[:4096]:
        return AnswerStart([chunk], None)
    events = [*EventReader().feed(chunk[:_MAX_ERROR_BYTES])]
    first = events[0].data.decode("utf-8", "replace") if events else ""
    return AnswerStart([chunk], ProviderRefusal(400, first) if first and find_overflow(200, first) else None)


def _decompressed_text(raw: bytes, encoding: str) -> str:
    try:
        return decompress(raw, encoding, 8 * _MAX_ERROR_BYTES).decode("utf-8", "replace")
    except BadRequest:
        return ""


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
    rb'(?m)^((?:event: [^\n]*\n)?data: \{(?>[^\n]*?"delta": ?\{)(?:"(?:role|type)": ?"\w+", ?)?'
    rb'"(?:content|reasoning_content|text|thinking|partial_json)": ?")'
    + _STRING.pattern
    + rb'("(?:, ?"\w+": ?null)*\}(?>[^\n]*)(?<=\})\n\n)'
)
"""An event that adds one text to the answer: what is before the text, and what is after it. Atomic groups keep the
search linear: a hostile line may name "delta" a thousand times."""
_FILLER = re.compile(rb'(?:,"obfuscation":"\w*"|(?<! ) +)\}\n\n')
"""What OpenAI and Anthropic add to events so that their length does not betray the text."""


class ObservedResponse(NamedTuple):
    response: dict[str, object]
    """Empty if nothing could be read."""
    is_complete: bool
    """If not, only the usage can be trusted."""
    usage: Usage | None = None
    is_list: bool = False
    """Whether it came as a JSON list of its parts."""


_UNREADABLE = ObservedResponse({}, False)


class ResponseCopy:
    def __init__(self, wire: str, content_type: str, encoding: str) -> None:
        self._events = EventReader() if "event-stream" in content_type.lower() else None
        self._is_amazons = CONTENT_TYPE in content_type.lower()
        self._replies = WIRES[wire].replies
        self._assembler = self._replies.stream_assembler()
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
                    observed = self._finish_stream(self._events) if self._events else self._finish_body()
                    self._observed = observed._replace(usage=self._replies.usage(observed.response))
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
        if self._is_amazons:
            for event in read_events(b"".join(self._body)):
                self._assembler.add(event)
            return ObservedResponse(self._assembler.response(), self._assembler.is_complete)
        body = None if self._decompressor.is_broken else json.loads(b"".join(self._body))
        if isinstance(body, list):
            # Gemini's stream, if the client did not ask for events.
            for event in body:
                self._assembler.add(event)
            return ObservedResponse(self._assembler.response(), self._assembler.is_complete, is_list=True)
        return ObservedResponse(body, not body.get("error")) if isinstance(body, dict) else _UNREADABLE


def _join_text_events(raw: bytes) -> bytes:
    """Join neighbouring events that differ only in their text into one: most of a stream, and slow to parse singly."""
    joined, match = list[bytes](), _TEXT_EVENT.search(raw)
    if match is not None and _FILLER.search(match[2]):
        raw = _FILLER.sub(b"}\n\n", raw)
    while match := _TEXT_EVENT.search(raw):
        before, after = match[1], match[2]
        run = raw[match.start() : raw.rfind(after + before) + len(after)]
        line, start, end = before.count(b"\n"), len(before) - 1 - before.rfind(b"\n"), 2 - len(after)
        texts = [text[start:end] for text in run[:-1].split(b"\n")[line :: line + 2]]
        text = b"".join(texts)
        is_uniform = run == before + (after + before).join(texts) + after
        if not is_uniform or not _STRING.fullmatch(text):
            break  # a single one, or one has more fields than the first
        joined += [raw[: match.start()], before, text, after]
        raw = raw[match.start() + len(run) :]
    return b"".join([*joined, raw])


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
