"""Compressed bodies, read beside their way: they go on as they came, and what we cannot read we do not edit.

Nothing is taken out of a stream without a limit: a few kilobytes may say gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from ebbtide.core.errors import BadRequest

_PIECE = 1 << 20


class _Inflater(Protocol):
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


_INFLATERS: dict[str, Callable[[], _Inflater]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "x-gzip": lambda: zlib.decompressobj(31),
    "deflate": lambda: zlib.decompressobj(15),
}


def readable(encoding: str) -> bool:
    """Whether a body with this `Content-Encoding` can be read here; one coding at most."""
    return encoding.strip().lower() in ("", "identity", *_INFLATERS)


class Inflating:
    """A body as it comes, in the clear. After damage, or past the limit, it gives nothing more and says so."""

    def __init__(self, encoding: str, most: int) -> None:
        make = _INFLATERS.get(encoding.strip().lower())
        self._inflater = make() if make else None
        self._left = most
        self.broken = not readable(encoding)

    def feed(self, chunk: bytes) -> bytes:
        if self.broken or self._inflater is None:
            return b"" if self.broken else self._counted(chunk)
        pieces = []
        try:
            while chunk and not self.broken and not self._inflater.eof:
                pieces.append(self._counted(self._inflater.decompress(chunk, _PIECE)))
                chunk = self._inflater.unconsumed_tail
        except zlib.error:
            self.broken = True
        return b"".join(pieces)

    @property
    def whole(self) -> bool:
        return not self.broken and (self._inflater is None or self._inflater.eof)

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            self.broken = True
            return b""
        return piece


def inflated(raw: bytes, encoding: str, most: int) -> bytes:
    """A whole body in the clear."""
    if encoding.strip().lower() in ("", "identity"):
        return raw
    reading = Inflating(encoding, most)
    plain = reading.feed(raw)
    if not reading.whole:
        raise BadRequest(f"the body cannot be read as {encoding[:40]!r}, or is larger than {most} bytes")
    return plain
