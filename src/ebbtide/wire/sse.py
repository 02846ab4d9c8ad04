"""Server-sent events from bytes as they come: cut anywhere, ended by LF, CRLF or CR, with or without a last blank line.

Memory is bounded. An event that is larger than `MOST` is passed over whole: nobody needs it to know what a stream cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST = 4 << 20
"""Bytes of one event. The largest that providers send, a whole response at the end of one, is below a megabyte."""
_BOM = b"\xef\xbb\xbf"
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
        chunk, self._rest = self._rest + chunk, b""
        if not self._begun:
            if _BOM.startswith(chunk) and chunk != _BOM:
                # Perhaps the beginning of a mark that says nothing: what follows tells.
                self._rest = chunk
                return
            self._begun, chunk = True, chunk.removeprefix(_BOM)
        if chunk.endswith(b"\r"):
            # Perhaps half of a CRLF: what follows tells.
            chunk, self._rest = chunk[:-1], b"\r"
        # Nearly all streams end their lines in LF, and `split` is ten times as fast as a pattern.
        *lines, last = chunk.split(b"\n") if b"\r" not in chunk else _LINE_END.split(chunk)
        for line in lines:
            self._keep(line)
            if self._line_bytes:
                self._line()
            elif (event := self._event()) is not None:
                yield event
        self._keep(last)

    def close(self) -> Iterator[Event]:
        """What stands at the end without a blank line. The grammar would throw it away; a bill may be in it."""
        self._line()
        if (event := self._event()) is not None:
            yield event

    def _keep(self, piece: bytes) -> None:
        self._line_bytes += len(piece)
        self._event_bytes += len(piece)
        if self._event_bytes > self._most:
            self._pieces, self._data = [], []
        elif piece:
            self._pieces.append(piece)

    def _line(self) -> None:
        pieces = self._pieces
        line = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces, self._line_bytes = [], 0
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _event(self) -> Event | None:
        name, data, too_large = self._name, self._data, self._event_bytes > self._most
        self._name, self._data, self._event_bytes = "", [], 0
        if not data or too_large:
            return None
        return Event(name, data[0] if len(data) == 1 else b"\n".join(data))
