"""Server-sent events from bytes as they come: cut anywhere, ended by LF, CRLF or CR, with or without a last blank line.

Memory is bounded. An event that is larger than `MOST` is passed over whole: nobody needs it to know what a stream cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST = 4 << 20
"""Bytes of one event. The largest that providers send, a whole response at the end of one, is below a megabyte."""
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    name: str
    """Empty where the stream gives none."""
    data: bytes


class EventReader:
    """Fed with chunks, gives events."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._rest = b""
        self._pieces: list[bytes] = []
        """Of a line that has not ended; joined once, so that a long line costs its length and not its square."""
        self._line_bytes = self._event_bytes = 0
        self._name, self._data = "", list[bytes]()
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that this chunk ends."""
        if not self._begun and chunk:
            self._begun, chunk = True, chunk.removeprefix(b"\xef\xbb\xbf")
        chunk, self._rest = self._rest + chunk, b""
        if chunk.endswith(b"\r"):
            # Perhaps half of a CRLF: what follows tells.
            chunk, self._rest = chunk[:-1], b"\r"
        at = 0
        for end in _LINE_END.finditer(chunk):
            self._keep(chunk[at : end.start()])
            at = end.end()
            yield from self._line()
        if at < len(chunk):
            self._keep(chunk[at:])

    def close(self) -> Iterator[Event]:
        """What stands at the end without a blank line. The grammar would throw it away; a bill may be in it."""
        yield from self._line()
        yield from self._event()

    def _keep(self, piece: bytes) -> None:
        self._line_bytes += len(piece)
        self._event_bytes += len(piece)
        if self._event_bytes > self._most:
            self._pieces, self._data = [], []
        elif piece:
            self._pieces.append(piece)

    def _line(self) -> Iterator[Event]:
        line, blank = b"".join(self._pieces), not self._line_bytes
        self._pieces, self._line_bytes = [], 0
        if blank:
            yield from self._event()
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")

    def _event(self) -> Iterator[Event]:
        name, data, too_large = self._name, self._data, self._event_bytes > self._most
        self._name, self._data, self._event_bytes = "", [], 0
        if data and not too_large:
            yield Event(name, b"\n".join(data))
