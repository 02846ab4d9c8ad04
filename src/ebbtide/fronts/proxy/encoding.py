"""Decompress copies of bodies. The bodies themselves are passed on compressed; one that we cannot read is not edited.

Output is limited: a few kilobytes may decompress to gigabytes.
"""

from __future__ import annotations

import zlib

from ebbtide.core.errors import BadRequest

_PIECE_BYTES = 1 << 20
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib calls each `Content-Encoding`."""


def is_readable(encoding: str) -> bool:
    """Whether a body with this `Content-Encoding` can be read here; one coding at most."""
    return is_identity(encoding) or encoding.strip().lower() in _WINDOW_BITS


def is_identity(encoding: str) -> bool:
    return encoding.strip().lower() in ("", "identity")


class Decompressor:
    """Decompresses a body chunk by chunk. After damage or past the limit, it is broken and returns nothing."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        bits = _WINDOW_BITS.get(encoding.strip().lower())
        self._zlib = zlib.decompressobj(bits) if bits else None
        self._bytes_left = max_bytes
        self.is_broken = not is_readable(encoding)

    def feed(self, chunk: bytes) -> bytes:
        if self.is_broken or self._zlib is None:
            return b"" if self.is_broken else self._limit(chunk)
        pieces = []
        try:
            while chunk and not self.is_broken and not self._zlib.eof:
                pieces.append(self._limit(self._zlib.decompress(chunk, _PIECE_BYTES)))
                chunk = self._zlib.unconsumed_tail
        except zlib.error:
            self.is_broken = True
        return b"".join(pieces)

    @property
    def is_complete(self) -> bool:
        return not self.is_broken and (self._zlib is None or self._zlib.eof)

    def _limit(self, piece: bytes) -> bytes:
        self._bytes_left -= len(piece)
        self.is_broken = self._bytes_left < 0
        return b"" if self.is_broken else piece


def decompress(raw: bytes, encoding: str, max_bytes: int) -> bytes:
    """Decompress a whole body."""
    if is_identity(encoding):
        return raw
    decompressor = Decompressor(encoding, max_bytes)
    plain = decompressor.feed(raw)
    if not decompressor.is_complete:
        raise BadRequest(f"the body cannot be read as {encoding[:40]!r}, or is larger than {max_bytes} bytes")
    return plain
