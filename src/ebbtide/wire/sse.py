"""Read server-sent events from bytes that are cut anywhere. Lines may end in LF, CRLF or CR, and the last may not end.

Memory is bounded: an event that is larger than `MOST` is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MOST = 4 << 20
"""Bytes of one event. The largest that providers send, a whole response at the end of one, is below a megabyte."""
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    name: str
    """Empty where the stream gives none."""
    data: bytes


class EventReader:
    """Takes chunks and yields the events that they complete."""

    def __init__(self, max_bytes: int = MOST) -> None:
        self._most = max_bytes
        self._held = b""
        """The end of the last chunk, if it may be half of a CRLF or of a byte order mark."""
        self._pieces: list[bytes] = []
        """Of an event that has not ended; joined once, so that a long event costs its length and not its square."""
        self._bytes = 0
        self._has_begun = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        chunk = self._normalize(chunk)
        is_too_large = self._bytes > self._most
        ends_here = b"\n\n" in chunk or (chunk.startswith(b"\n") and self._pieces and self._pieces[-1].endswith(b"\n"))
        self._pieces += [chunk] if chunk else []
        self._bytes += len(chunk)
        if not ends_here:
            if self._bytes > self._most:
                self._pieces = self._pieces[-1:] and [self._pieces[-1][-1:]]
            return
        *blocks, rest = b"".join(self._pieces).split(b"\n\n")
        self._pieces, self._bytes = [rest] if rest else [], len(rest)
        for block in blocks[is_too_large:]:
            if len(block) <= self._most and (event := _parse(block)) is not None:
                yield event

    def close(self) -> Iterator[Event]:
        """Yield an event that no blank line ends. The grammar would drop it, but it may hold the usage."""
        event = _parse(b"".join(self._pieces)) if self._bytes <= self._most else None
        if event is not None:
            yield event

    def _normalize(self, chunk: bytes) -> bytes:
        """Return the chunk without a byte order mark, and with LF at the end of each line."""
        chunk, self._held = self._held + chunk, b""
        if not self._has_begun:
            if _BOM.startswith(chunk) and chunk != _BOM:
                self._held = chunk
                return b""
            self._has_begun, chunk = True, chunk.removeprefix(_BOM)
        if b"\r" not in chunk:
            return chunk
        if chunk.endswith(b"\r"):
            chunk, self._held = chunk[:-1], b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes) -> Event | None:
    """Return the event that these lines make; None if they have no data."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return Event("", block[6:])  # nearly all events of most providers
    name, data = "", list[bytes]()
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
    return Event(name, b"\n".join(data)) if data else None
