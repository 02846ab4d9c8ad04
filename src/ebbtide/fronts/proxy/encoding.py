"""Compressed bodies, read beside their way: they go on as they came, and what we cannot read we do not edit.

Nothing is taken out of a stream without a limit: a few kilobytes may say gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from ebbtide.core.errors import BadRequest

_PIECE_BYTES = 1 << 20


class _ZlibObject(Protocol):
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...


_DECOMPRESSORS: dict[str, Callable[[], _ZlibObject]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "x-gzip": lambda: zlib.decompressobj(31),
    "deflate": lambda: zlib.decompressobj(15),
}


def is_readable(encoding: str) -> bool:
    """Whether a body with this `Content-Encoding` can be read here; one coding at most."""
    return encoding.strip().lower() in ("", "identity", *_DECOMPRESSORS)


class Decompressor:
    """A body as it comes, in the clear. After damage, or past the limit, it gives nothing more and says so."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        make = _DECOMPRESSORS.get(encoding.strip().lower())
        self._decompressobj = make() if make else None
        self._bytes_left = max_bytes
        self.is_broken = not is_readable(encoding)

    def feed(self, chunk: bytes) -> bytes:
        if self.is_broken or self._decompressobj is None:
            return b"" if self.is_broken else self._count(chunk)
        pieces = []
        try:
            while chunk and not self.is_broken and not self._decompressobj.eof:
                pieces.append(self._count(self._decompressobj.decompress(chunk, _PIECE_BYTES)))
                chunk = self._decompressobj.unconsumed_tail
        except zlib.error:
            self.is_broken = True
        return b"".join(pieces)

    @property
    def is_complete(self) -> bool:
        return not self.is_broken and (self._decompressobj is None or self._decompressobj.eof)

    def _count(self, piece: bytes) -> bytes:
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            self.is_broken = True
            return b""
        return piece


def decompress(raw: bytes, encoding: str, max_bytes: int) -> bytes:
    """A whole body in the clear."""
    if encoding.strip().lower() in ("", "identity"):
        return raw
    decompressor = Decompressor(encoding, max_bytes)
    plain = decompressor.feed(raw)
    if not decompressor.is_complete:
        raise BadRequest(f"the body cannot be read as {encoding[:40]!r}, or is larger than {max_bytes} bytes")
    return plain
