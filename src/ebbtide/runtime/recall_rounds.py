"""Answers the model's calls of the recall tools, and shows the client the model's answers as one.

What comes before such a call is shown unchanged. From the call on the answer is held back: it is read to its end, the
calls are answered and recorded, and the model is asked to go on. If the answer also has calls of the client's tools,
the client gets them first, and the recall results are added to its next request. Sends nothing itself: the proxy and
the SDK wrapper do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.core.texts import RECALL_LIMIT
from ebbtide.recall.inject import RecallExchange
from ebbtide.runtime.context import Context
from ebbtide.wire.amazon_stream import read_events, split_messages, write_event
from ebbtide.wire.protocol import RecallBatch, Wire
from ebbtide.wire.replies import parse_event
from ebbtide.wire.sse import EventReader

MAX_ROUNDS = 4
"""Answers with recall calls that are answered for one request. A model that needs more searches for the wrong words."""
_MAX_EVENT_BYTES = 8 << 20
"""Bytes of one event. More is passed on unread."""
_FRAME_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCalls:
    """Calls of the recall tools in one answer."""

    batches: list[RecallBatch]
    assistant_text: str
    """What the model wrote besides the calls."""
    visible: list[object]
    """What the client has of the answers so far, as messages of its next request."""
    client_goes_first: bool
    """Whether there are calls of the client's tools, which it answers first."""
    refusal: str = ""
    """The answer to every call, if they are not to be answered."""


def insert_answers(context: Context, calls: RecallCalls) -> None:
    """Answer the calls, and add calls and answers to every request from now on."""
    for batch in calls.batches:
        exchanges = []
        for call in batch.calls:
            result = calls.refusal or context.recall_answer(call.name, call.arguments)
            exchanges.append(RecallExchange(call.id, call.name, call.arguments, result, call.raw))
        context.insert_recalled(exchanges, batch.visible, calls.assistant_text)


class RecallRounds:
    """One answer to one client, made of one or more answers of the model."""

    def __init__(self, wire: Wire, *, has_amazons_frames: bool = False) -> None:
        self._merger = wire.replies.response_merger()
        self._frames: _TextFrames | _AmazonsFrames = _AmazonsFrames() if has_amazons_frames else _TextFrames()
        self._answers: list[Mapping[str, object]] = []
        self._held_frames: list[tuple[bool, bytes]] = []
        """What follows a recall call, each with whether it belongs to the end of the answer."""

    def feed(self, chunk: bytes) -> bytes:
        """Take a part of the model's stream. Return what the client may see now."""
        return b"".join(map(self._frame_to_show, self._frames.split(chunk)))

    def flush(self) -> bytes:
        """The model's stream has ended: return what was left of an event."""
        return b"".join(map(self._frame_to_show, self._frames.rest()))

    def is_shown_whole(self, response: Mapping[str, object]) -> bool:
        """Tell whether the client gets the current answer unchanged. Ask before `next_calls`."""
        is_hiding = self._merger.is_hiding or bool(self._merger.read(response).recalls)
        return not self._answers and not is_hiding

    def next_calls(self, response: Mapping[str, object], *, is_complete: bool) -> RecallCalls | None:
        """Take the current answer, whole. Return the calls to answer; None if the client's answer is complete."""
        if response:
            self._answers.append(response)
        if not is_complete:
            return None
        content = self._merger.read(response)
        if not content.recalls or len(self._answers) > MAX_ROUNDS + 1:
            return None
        return RecallCalls(
            batches=content.recalls,
            assistant_text=content.hidden_text,
            visible=self._merger.visible(self._answers),
            client_goes_first=content.has_client_calls,
            refusal=RECALL_LIMIT if len(self._answers) > MAX_ROUNDS else "",
        )

    def held_frames(self, *, is_last: bool) -> bytes:
        """Return the events that were held back, now that the answer has ended; of all but the last without the end."""
        frames = [frame for is_end, frame in self._held_frames if is_last or not is_end]
        if not is_last:
            self._merger.start_next()
            self._held_frames = []
        return b"".join(frames)

    def merge(self) -> bytes:
        """Return all answers as one, if they were no streams."""
        return to_json(self._merger.merge(self._answers))

    def _frame_to_show(self, frame: bytes) -> bytes:
        """Return the frame as the client may see it now; empty if it is held back or dropped."""
        original = self._frames.read(frame)
        if original is None:
            return self._show_or_hold(frame, False)
        rewritten = self._merger.convert(original)
        if rewritten is None:
            return b""
        if rewritten is not original:
            frame = self._frames.write(rewritten)
        return self._show_or_hold(frame, self._merger.is_end(original))

    def _show_or_hold(self, frame: bytes, is_end: bool) -> bytes:
        if not self._merger.is_hiding:
            return frame
        self._held_frames.append((is_end, frame))
        return b""


class _TextFrames:
    """Server-sent events, each with its blank line."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        """Of the event that was read last."""

    def read(self, frame: bytes) -> dict[str, Any] | None:
        event = next(iter(EventReader(_MAX_EVENT_BYTES).feed(frame)), None)
        if event is None:
            return None
        self._name = event.name
        return parse_event(event)

    def write(self, event: Mapping[str, object]) -> bytes:
        """Write what became of the event that was read last."""
        return event_frame(self._name, event)

    def split(self, chunk: bytes) -> list[bytes]:
        search_from, self._rest = max(0, len(self._rest) - 3), self._rest + chunk
        frames, start = list[bytes](), 0
        for end in _FRAME_END.finditer(self._rest, search_from):
            frames.append(self._rest[start : end.end()])
            start = end.end()
        self._rest = self._rest[start:]
        if len(self._rest) > _MAX_EVENT_BYTES:
            frames.append(self._rest)
            self._rest = b""
        return frames

    def rest(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class _AmazonsFrames:
    """Messages of an Amazon event stream."""

    def __init__(self) -> None:
        self._rest = b""

    def read(self, frame: bytes) -> dict[str, Any] | None:
        return next(read_events(frame), None)

    def write(self, event: Mapping[str, object]) -> bytes:
        return write_event(event)

    def split(self, chunk: bytes) -> list[bytes]:
        frames, self._rest = split_messages(self._rest + chunk)
        if len(self._rest) > _MAX_EVENT_BYTES:
            frames, self._rest = [*frames, self._rest], b""
        return frames

    def rest(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def event_frame(name: str, event: object) -> bytes:
    """Write an event of a stream."""
    first_line = f"event: {name}\n".encode() if name else b""
    return first_line + b"data: " + to_json(event) + b"\n\n"


def to_json(value: object) -> bytes:
    # As escapes: half a surrogate pair, which the next event completes, cannot be written otherwise.
    return json.dumps(value).encode()
